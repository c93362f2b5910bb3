"""Real processes that cost milliseconds: forked from a server that has loaded everything already.

A child reports in short lines over a pipe. A line reaches the pipe whole or not at all, whenever the child is killed,
and the pipe's content outlives it: whatever a child has reported, it has done.
"""

import asyncio
import multiprocessing
import signal
import sys
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection, wait
from typing import Any

from proof.real.nodes import HANG_S
from triack.base.errors import TriackError

Report = Callable[[str], None]
Work = Callable[[dict[str, Any], Report], Coroutine[Any, Any, None]]

if sys.platform == "win32":
    _CONTEXT = multiprocessing.get_context("spawn")
else:
    _CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["proof.real.ledger", "proof.real.workers"])


class Child:
    """A process that runs ``work(options, report)``; SIGTERM cancels it."""

    def __init__(self, work: Work, options: dict[str, Any]) -> None:
        self.pipe, reports = _CONTEXT.Pipe(duplex=False)
        self._process = _CONTEXT.Process(target=_run, args=(work, options, reports), daemon=True)
        self._process.start()
        reports.close()

    @property
    def pid(self) -> int:
        """The process id."""
        pid = self._process.pid
        assert pid is not None
        return pid

    def kill(self) -> None:
        """Kill it in the middle of its work."""
        self._process.kill()
        self._process.join(HANG_S)

    def ask_to_stop(self) -> None:
        """Let it end in good order."""
        self._process.terminate()

    def wait(self) -> int | None:
        """Wait until it has ended. Returns its exit code, None if it hangs."""
        self._process.join(HANG_S)
        code: int | None = self._process.exitcode
        return code

    def close(self) -> None:
        """Drop it; kill it if it still runs."""
        self.kill()
        self.pipe.close()


def read_reports(children: list[Child], timeout_s: float) -> list[tuple[Child, str]]:
    """Lines that children report within a time, returned at the first ones. A child that has ended says ``ended``."""
    by_pipe = {child.pipe: child for child in children}
    found: list[tuple[Child, str]] = []
    for pipe in wait(list(by_pipe), timeout_s):
        assert isinstance(pipe, Connection)
        try:
            found.append((by_pipe[pipe], pipe.recv_bytes().decode()))
            while pipe.poll():
                found.append((by_pipe[pipe], pipe.recv_bytes().decode()))
        except (EOFError, OSError):
            found.append((by_pipe[pipe], "ended"))
    return found


def _run(work: Work, options: dict[str, Any], reports: Connection) -> None:
    def report(line: str) -> None:
        reports.send_bytes(line.encode())

    async def until_stopped() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            await work(options, report)
        except asyncio.CancelledError:
            return

    report("began")
    try:
        asyncio.run(until_stopped())
    except TriackError as error:
        report(f"failed {type(error).__name__}: {error}")
        raise SystemExit(1) from error
