"""A file that a node follows: read in a thread, used in the event loop, and again whenever it changes.

Promise: the content in use was in the file when the file had the stamp kept with it, or later. So no change is missed,
and the node does not read its own change twice. A file that cannot be read is tried again at each check; one with a
mistake in it waits for the next change. Until then the former content is in force.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from triack.base.errors import IdentityError
from triack.node.files import operator_log, private_files
from triack.node.files.private_files import Files

T = TypeVar("T")
R = TypeVar("R")


class Work(Protocol):
    """Runs a blocking job in a thread."""

    async def __call__(self, job: Callable[[], T], /) -> T:
        """Return and raise as the job does."""


class Followed(Generic[T]):
    """One file.

    Args:
        files: the place of the file.
        name: of the file.
        decode: decodes its content; None: there is no file. In any thread; raises IdentityError.
        use: puts the decoded content in force, in the event loop.
    """

    def __init__(self, files: Files, name: str, decode: Callable[[bytes | None], T], use: Callable[[T], None]) -> None:
        self._files = files
        self._name = name
        self._decode = decode
        self._use = use
        self._stamp: object = None
        self._loading = asyncio.Lock()

    def open(self) -> None:
        """Use the file for the first time, before the event loop does. Blocks; raises IdentityError."""
        self._act(self._read())

    async def load(self, work: Work, change: Callable[[], R]) -> R:
        """Make a change, and use the resulting file. Returns and raises as ``change`` does; IdentityError."""
        async with self._loading:
            changed, reading = await work(lambda: (change(), self._read()))
            self._act(reading)
        return changed

    async def watch(self, work: Work) -> None:
        """Use the file again whenever it changes, until cancelled.

        A file that cannot be used only leads to a line in the log: an operator must not lose all peers by a wrong
        comma.
        """
        stamp = self._stamp
        told: tuple[object, str] | None = None
        while True:
            seen = await self._files.changed(self._name, stamp)
            try:
                async with self._loading:
                    reading = await work(self._read) if seen != self._stamp else None
                    stamp = seen
                    if reading is not None:
                        self._act(reading)
            except IdentityError as error:
                if told != (seen, str(error)):
                    told = seen, str(error)
                    why = f"{self._name} not used, the one before is still in force: {error}"
                    operator_log.error(why, cause=str(error))
            if stamp != seen:  # it could not be read
                await asyncio.sleep(private_files.POLL_SECONDS)

    def _read(self) -> tuple[object, T | IdentityError]:
        """The decoded file, or the error of decoding it. Blocks; raises IdentityError if it cannot be read."""
        stamp = self._files.stamp(self._name)  # before the content: a change in between is then read again
        content = self._files.read(self._name)
        try:
            return stamp, self._decode(content)
        except IdentityError as error:
            return stamp, error

    def _act(self, reading: tuple[object, T | IdentityError]) -> None:
        stamp, found = reading
        if isinstance(found, IdentityError):
            raise found
        self._stamp = stamp
        self._use(found)
