"""The command of an installation without the command line."""

import re
import subprocess
import sys

import pytest

from tests.house import project
from triack.tools.entry import HINT, LIBRARIES

WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
sys.argv = ["triack", "--version"]
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in {missing!r} else found(name)
from triack.tools.entry import main
main()
"""


def run(*missing: str) -> tuple[int, str, str]:
    """``triack --version`` where some libraries are not installed."""
    program = WITHOUT.format(missing=missing)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_plain_installation_says_in_one_line_what_the_command_needs() -> None:
    """Whichever of them is missing."""
    for name in LIBRARIES:
        assert run(name) == (1, "", HINT)
    code, said, complaints = run()
    assert (code, complaints) == (0, "")
    assert said.startswith("triack ")


def test_the_libraries_are_those_of_the_extra() -> None:
    extra = project()["project"]["optional-dependencies"]["cli"]
    assert tuple(re.split(r"\W", wanted)[0] for wanted in extra) == LIBRARIES
    assert "'triack[cli]'" in HINT


IMPORT = """
import sys
import time
import triack
print(time.process_time(), *sys.modules)
"""
HEAVY = {
    *("pygments", "rich", "structlog", "click", "jinja2"),  # the command line and its pages
    *("matplotlib", "numpy", "pandas", "pyspark", "pytest"),  # extras, and what only tests need
    *("bz2", "lzma", "shutil", "tempfile", "difflib"),  # what only one path needs
}
CPU_S = 1.5
"""Several times what it takes on the slowest machines of ours, so that only a new heavy library goes beyond it."""


def test_the_import_is_light() -> None:
    """No library of the command line comes with it, and nothing that only one path needs."""
    done = subprocess.run([sys.executable, "-I", "-c", IMPORT], capture_output=True, text=True, timeout=60, check=True)
    spent, *loaded = done.stdout.split()
    assert not HEAVY & set(loaded)
    assert float(spent) < CPU_S
