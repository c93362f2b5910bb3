"""Prints the tests that ``make check`` runs: those of the core, and those of the rooms that have changed.

``python -m tests.changed`` asks git what differs from the last commit.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path

CORE = ("tests/base", "tests/session", "tests/ordering", "tests/store", "tests/transport", "tests/test_house.py")
"""They take some fifteen seconds, and each other room relies on what they test."""
ASKED = (["diff", "--name-only", "HEAD"], ["ls-files", "--others", "--exclude-standard"])


def folders_for(changed: Iterable[str]) -> list[str]:
    """Find the tests of the rooms of some files.

    They are in the folder of tests with the name of a file's folder, or of the nearest one above it.

    Args:
        changed: paths from the top of the repository.

    Returns:
        Files and folders for pytest.
    """
    found = set(CORE)
    for name in changed:
        folder = Path(name).parent
        room = folder if folder.parts[:1] == ("tests",) else Path("tests", folder)
        while not room.is_dir():
            room = room.parent
        if room != Path("tests"):
            found.add(str(room))
    return sorted(found)


if __name__ == "__main__":
    told = (subprocess.run(["git", *ask], capture_output=True, text=True, check=True).stdout for ask in ASKED)
    print(*folders_for(name for names in told for name in names.splitlines()))  # noqa: T201
