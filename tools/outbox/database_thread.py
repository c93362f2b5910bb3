"""A thread that works on a database, which may never answer."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from triack.node.files import operator_log

T = TypeVar("T")


class DatabaseThread:
    """Works on one connection, a job at a time and in order.

    A program may end while a job waits for its database: Python does not wait for this thread.

    Args:
        connect: gives the connection; called in the thread, before its first job and after a failed call.
        of: what the connection is for, as the log names it.
    """

    def __init__(self, connect: Callable[[], Any], of: str) -> None:
        self._connect = connect
        self._of = of
        self._connection: Any = None
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._jobs: SimpleQueue[tuple[Callable[[Any], Any], asyncio.Future[Any]] | None] = SimpleQueue()
        Thread(target=self._run, name="outbox", daemon=True).start()

    @property
    def has_ended(self) -> bool:
        """Whether its last job has ended and its connection is closed."""
        return self._ended.done()

    async def work(self, job: Callable[[Any], T], late_s: float, lost_s: float, on_late: Callable[[], None]) -> T:
        """Do a job with the connection, and return its result.

        If it is not done after ``late_s`` seconds, ``on_late`` is called; ``lost_s`` seconds later TimeoutError is
        raised, and the job may still be done later. Raises what the job raises, or the call that connects.
        """
        done: asyncio.Future[tuple[Any, BaseException | None]] = self._loop.create_future()
        self._jobs.put((job, done))
        await asyncio.wait([done], timeout=late_s)
        if not done.done():
            on_late()
            await asyncio.wait([done], timeout=lost_s)
            if not done.done():
                raise TimeoutError(f"no answer of the database for {late_s + lost_s:g} s; its connection is given up")
        result, error = done.result()
        if error is not None:
            raise error
        found: T = result
        return found

    def end(self) -> None:
        """Close the connection and end, after the jobs that were begun."""
        self._jobs.put(None)

    async def wait_end(self, most_s: float) -> None:
        """Wait until it has ended, for this many seconds at most."""
        await asyncio.wait([self._ended], timeout=most_s)

    # ---- in the thread

    def _run(self) -> None:
        while (given := self._jobs.get()) is not None:
            job, done = given
            result, failure = None, None
            try:
                if self._connection is None:
                    self._connection = self._connect()
                result = job(self._connection)
            except BaseException as error:  # noqa: BLE001 - the waiting caller handles it
                failure = error
            self._tell(done, (result, failure))
            del given, job, done, result, failure
        self._disconnect()
        self._tell(self._ended, None)

    def _disconnect(self) -> None:
        if self._connection is not None:
            try:
                self._connection.close()
            except Exception as error:  # noqa: BLE001 - each driver has another one for a connection that is broken
                operator_log.debug(f"close a connection of {self._of}: {error}", of=self._of)

    def _tell(self, done: "asyncio.Future[Any]", said: object) -> None:
        def tell() -> None:
            if not done.done():  # its loop may be at its end
                done.set_result(said)

        with suppress(RuntimeError):  # the loop has ended, and no call waits any more
            self._loop.call_soon_threadsafe(tell)
