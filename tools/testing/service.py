"""Work that runs on a machine of a simulated world, and how it ended."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from triack.base.errors import UsageError
from triack.testing.errors import MachineCrashed
from triack.testing.process import SimProcess


class Work:
    """One coroutine that runs in a process.

    Attributes:
        outcome: how it ended, for code outside of the process.
        noticed: whether the test asked for the outcome.
    """

    def __init__(self, process: SimProcess, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        loop = process.machine.world.loop
        self.name = name
        self.noticed = False
        self.outcome: asyncio.Future[Any] = loop.create_future()
        context = process.context.copy()
        self.task = loop.create_task(coroutine, name=name, context=context)
        self.task.add_done_callback(self._end, context=process.machine.world.context)

    def _end(self, task: "asyncio.Task[Any]") -> None:
        if self.outcome.done():
            return
        if task.cancelled():
            self.outcome.cancel()
        elif (error := task.exception()) is not None:
            self._fail(error)
        else:
            self.outcome.set_result(task.result())

    def crash(self, error: MachineCrashed) -> None:
        """Its process has died."""
        if not self.outcome.done():
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.outcome.set_exception(error)
        # The world looks for unnoticed errors; asyncio need not.
        self.outcome.exception()

    @property
    def error(self) -> BaseException | None:
        """Its error, if it ended with one."""
        if not self.outcome.done() or self.outcome.cancelled():
            return None
        return self.outcome.exception()

    @property
    def died_unnoticed(self) -> bool:
        """Whether it ended with its own error, and the test did not look."""
        return not self.noticed and self.error is not None and not isinstance(self.error, MachineCrashed)


class Service:
    """A service of a machine: it starts with it, and ends when it crashes. Made by ``Machine.start``.

    ``await service`` waits until it ends and gives its result, or raises its error: MachineCrashed if the machine did.
    """

    def __init__(self, function: Callable[[], Coroutine[Any, Any, Any]], name: str, process: SimProcess) -> None:
        self.name = name
        self._function = function
        self.start(process)

    def start(self, process: SimProcess) -> Work:
        """Run it in a process. Returns its work there."""
        coroutine = self._function()
        if not isinstance(coroutine, Coroutine):
            raise UsageError(f"start {self.name}: it is no async function, as it gives {coroutine!r}")
        self.work = Work(process, coroutine, self.name)
        return self.work

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return not self.work.outcome.done()

    @property
    def error(self) -> BaseException | None:
        """Its error, or None; to look is to notice."""
        self.work.noticed = True
        return self.work.error

    def cancel(self) -> None:
        """Ask it to end, as asyncio does."""
        self.work.task.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        self.work.noticed = True
        return asyncio.shield(self.work.outcome).__await__()
