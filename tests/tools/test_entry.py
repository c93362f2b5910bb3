"""The command of an installation without the command line."""

import re
import subprocess
import sys

import pytest

from tests.house import project
from tests.machine import PATIENCE_S
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
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
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
began_s = time.process_time()
import triack
{first_use}
print(time.process_time() / began_s, *sys.modules)
"""
HEAVY = {
    *("pygments", "rich", "structlog", "click", "jinja2"),  # the command line and its pages
    *("matplotlib", "numpy", "pandas", "pyspark", "pytest"),  # extras, and what only tests need
    *("bz2", "lzma", "shutil", "tempfile", "difflib"),  # what only one path needs
}
FOR_A_NODE = {
    *("apsw", "asyncio", "asyncio_dgram", "concurrent", "cryptography", "dataclasses", "hashlib", "inspect"),
    *("ipaddress", "json", "logging", "pathlib", "random", "socket", "ssl", "subprocess", "threading", "urllib"),
    *(f"triack.{room}" for room in ("node", "ordering", "queues", "session", "store", "sync", "transport")),
}
STARTS = 5
"""Of the interpreter: the processor time that a script or a command of one line can bear, that start included."""


def loaded_by(first_use: str) -> tuple[float, set[str]]:
    """Processor time of a program that imports triack, in starts of the interpreter, and which modules it has then."""
    program = IMPORT.format(first_use=first_use)
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    spent, *loaded = done.stdout.split()
    return float(spent), set(loaded)


def test_the_import_is_light() -> None:
    """It takes little time, as nothing comes with it that only a node needs."""
    _, loaded = loaded_by(first_use="")
    assert not (HEAVY | FOR_A_NODE) & loaded
    assert min(loaded_by(first_use="")[0] for _ in range(3)) < STARTS


@pytest.mark.slow
def test_a_node_needs_no_library_of_the_command_line() -> None:
    """Nor anything that only one path needs."""
    for first_use in ("triack.open, triack.connect", "triack.sync.open, triack.sync.connect"):
        _, loaded = loaded_by(first_use)
        assert not HEAVY & loaded
        assert loaded > {"asyncio", "triack.node.node", "triack.node.client.client"}
