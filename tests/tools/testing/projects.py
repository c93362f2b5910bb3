"""Runs pytest as a user's project does: in a folder of its own, in a process of its own."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

_INSTALLED = any(entry.value == "triack.testing.plugin" for entry in metadata.entry_points(group="pytest11"))
_SETTINGS = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"


def run_pytest(folder: Path, *options: str) -> tuple[int, str]:
    """Returns the exit code and what was printed."""
    settings = folder / "pytest.ini"
    settings.write_text(_SETTINGS)
    plugin = [] if _INSTALLED else ["-p", "triack.testing.plugin"]
    command = [sys.executable, "-m", "pytest", "-c", str(settings), *plugin, "-p", "no:cacheprovider", "-W", "error"]
    done = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr
