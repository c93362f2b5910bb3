"""Real processes for the tests of the command line, every one of them bounded in time."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.machine import PATIENCE_S
from tests.tools.forkserver import Forked
from triack.node.control.handover import Served, retract
from triack.node.files.notes import read_note
from triack.tools.ports import free_port

TRIACK = (sys.executable, "-m", "triack")
SECONDS = PATIENCE_S
PIPE_BYTES = 4_096
"""Any pipe takes so much at once."""

Finished = subprocess.CompletedProcess[bytes]


def triack(*arguments: str | Path, stdin: bytes = b"", seconds: float = SECONDS) -> Finished:
    """Run a command to its end. Its input, as far as a pipe takes it, is there before it begins to read."""
    if len(stdin) <= PIPE_BYTES:
        reading, writing = os.pipe()
        os.write(writing, stdin)
        os.close(writing)
        process = start(*arguments, stdin=reading)
        os.close(reading)
    else:
        process = start(*arguments, stdin=subprocess.PIPE)
    output, complaints = process.communicate(stdin, seconds)
    return Finished(arguments, process.wait(), output, complaints)


def start(*arguments: str | Path, stdin: int | None = subprocess.DEVNULL) -> Forked:
    return Forked([*map(str, arguments)], stdin)


def message_of(finished: Finished) -> str:
    """The one line that a failed command prints."""
    lines = finished.stderr.decode().splitlines()
    assert len(lines) == 1, finished.stderr.decode()
    assert lines[0].startswith("triack: ")
    return lines[0].removeprefix("triack: ")


def numbered(count: int) -> list[bytes]:
    return [b"line %d" % number for number in range(count)]


def text(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def wait_until(holds: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.01)


class Server:
    """A ``triack serve`` process that can be killed and comes back at the same place."""

    def __init__(
        self, data: Path, *options: str | Path, listen: str = "udp://127.0.0.1:0", insecure: bool = True
    ) -> None:
        self.data = data
        self.address = listen.replace(":0", f":{free_port()}")
        self._options = (*options, "--insecure") if insecure else options
        self._process: Forked | None = None
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        place = ("--listen", self.address, "--data", self.data)
        self._process = start("serve", "--name", self.data.name, *place, *self._options)
        ready, _, _ = select.select([self._process.stdout], [], [], SECONDS)
        line = self._process.stdout.readline().decode() if ready else ""
        if not line.startswith("listening "):
            self._process.kill()
            _, complaints = self._process.communicate()
            raise AssertionError(f"serve said {line!r} and {complaints.decode()!r}")
        self.address = line.split()[1]

    def wait(self) -> tuple[int, str]:
        """Wait until it ends by itself. Returns its exit code and what it complained about."""
        assert self._process is not None
        _, complaints = self._process.communicate(timeout=SECONDS)
        return self._process.wait(), complaints.decode()

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it in good order. Returns its exit code."""
        return self._end(signal.SIGTERM)

    def restart(self, pause_s: float = 0) -> None:
        self.kill()
        time.sleep(pause_s)
        self.start()

    def _end(self, number: int) -> int:
        process = self._process
        assert process is not None
        process.send_signal(number)
        process.communicate(timeout=SECONDS)
        return process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        left = read_note(self.data, Served)
        if left is not None:  # what a killed server cannot clear away itself
            retract(self.data, left)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
