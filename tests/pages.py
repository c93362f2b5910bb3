"""Pages of the documentation, typed as a reader would: programs are saved, commands run in one shell, output compared.

In a page, a block ``console`` has commands after ``$ `` and what they printed; ``...`` stands for what differs.
A block ``python`` or ``toml`` whose first line is ``# name.py`` or ``# name.toml`` is a file of that name.
"""

import os
import re
import select
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.machine import PATIENCE_S
from triack.tools.ports import free_port

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"^```(python|toml|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PORT = re.compile(r"\b78\d\d\b")
_MARK = "-- done --"


def read_blocks(page: Path) -> list[tuple[str, str]]:
    """Kind and text of the blocks of a page that a test can run."""
    return _BLOCK.findall(page.read_text())


def type_page(page: Path, folder: Path, path: str, environment: Mapping[str, str], shares: tuple[int, ...] = ()) -> int:
    """Do what a page says, in a folder, with the commands of the folders in ``path`` first; returns their number.

    The ports of the page, 7800 to 7899, are replaced by free ones. Open files that the commands need are shared.
    """
    ports: dict[str, str] = {}
    count = 0
    with _Shell(
        folder,
        # Lines come as to a terminal: one by one, those of both outputs in their order.
        {
            **os.environ,
            "PATH": f"{path}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONUNBUFFERED": "1",
            **environment,
        },
        shares,
    ) as shell:
        for kind, text in read_blocks(page):
            block = _PORT.sub(lambda found: ports.setdefault(found[0], str(free_port())), text)
            if kind in ("python", "toml"):
                name = re.match(rf"# (\w+\.{'py' if kind == 'python' else kind})\n", block)
                if name is not None:
                    (folder / name[1]).write_text(block)
                continue
            for command, expected in _commands(block):
                said = shell.run(command, expected)
                assert _fits(expected, said), f"{page.name}: $ {command}\n{said}\nbut the page says\n{expected}"
                count += 1
    return count


def _commands(block: str) -> list[tuple[str, str]]:
    """Each command of a block with what it prints."""
    found = re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    return [(command, expected) for command, expected in found]


def _fits(expected: str, said: str) -> bool:
    pattern = re.escape(expected.strip()).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, said.strip(), re.DOTALL) is not None


class _Shell:
    """One bash for all commands of a page; what it started in the background ends with it."""

    def __init__(self, folder: Path, environment: dict[str, str], shares: tuple[int, ...]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=environment,
            pass_fds=shares,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, command: str, expected: str) -> str:
        """Run a command; one in the background until it has printed what it should."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\necho; echo {_MARK}\n".encode())
        self._process.stdin.flush()
        said, end = "", time.monotonic() + PATIENCE_S
        while _MARK not in said or (command.endswith("&") and not _fits(expected, said.replace(_MARK, ""))):
            assert time.monotonic() < end, f"$ {command}\n{said}\nand nothing more in {PATIENCE_S} s"
            said += self._read(end)
        return said.replace(_MARK, "")

    def _read(self, end: float) -> str:
        output = self._process.stdout
        assert output is not None
        ready, _, _ = select.select([output], [], [], end - time.monotonic())
        read = os.read(output.fileno(), 65_536).decode() if ready else ""
        assert read or not ready, "the shell has ended"
        return read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"kill $(jobs -p) 2>/dev/null; wait; exit\n")
        try:
            self._process.communicate(timeout=PATIENCE_S)
        except BrokenPipeError:
            self._process.wait(PATIENCE_S)
