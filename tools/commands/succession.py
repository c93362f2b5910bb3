"""Who has a directory next, for a command that works through the process that serves it.

A server that went away is started again, and would not get a directory that somebody has opened meanwhile: it is waited
for. Another command that went away has done its work: if nobody serves the directory a moment later, the command opens
it, and goes on through its own control socket, as through that of any other process.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import triack
from triack.base.errors import StoreInUse, TriackError
from triack.node import operator_log
from triack.node.control import handover
from triack.node.control.frames import Header, Link
from triack.tools.commands.common import given_options

__all__ = ["Succession"]

SETTINGS = {"--log", "--name", "--suite", "--tls-ca"}
"""Options that are for a node of the command's own. Nobody expects of --insecure that it takes keys away."""


class Succession:
    """Finds the next one. What it opens is closed at the end of ``async with``.

    Args:
        data: the directory.
        open_node: opens it.
    """

    def __init__(self, data: Path, open_node: Callable[[], triack.Node]) -> None:
        self._data = data
        self._open = open_node
        self._own: triack.Node | None = None
        self._opened = AsyncExitStack()
        # One that ended before it said what it is was not seen working: as if the command began now.
        self._passing = True

    async def __aenter__(self) -> Self:
        if unused := SETTINGS.intersection(given_options()):
            why = f"another process serves {self._data}, with settings of its own"
            operator_log.warning(f"{' and '.join(sorted(unused))} without effect: {why}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opened.aclose()

    def handle_welcome(self, welcome: Header) -> None:
        """A process that serves the directory has said what it is."""
        self._passing = welcome.get("passing") is True

    async def next(self) -> Link:
        """The one that has the directory now went away: a connection to the next.

        Raises:
            TriackError: the directory cannot be opened, or the node that was opened here has failed.
        """
        if not self._passing:
            operator_log.warning(f"the node of {self._data} went away; waiting for it")
            return await handover.wait(self._data)
        while (link := await handover.find_soon(self._data)) is None:
            if self._own is not None:
                await self._own.flush()  # raises what it has failed of
                raise TriackError(f"go on with {self._data}: its node has no control socket")
            with suppress(StoreInUse):  # it is about to end, or another one about to begin
                self._own = await self._opened.enter_async_context(self._open())
                operator_log.info(f"nobody serves {self._data} any more; going on with a node of its own")
        return link
