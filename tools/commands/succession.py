"""Finds the process that has a directory, and the next one after it, for a command that works through that process.

Without such a process the command opens the directory and works through its own node in the same way. A server that
ends will be started again, and could not get a directory that another process has opened meanwhile: the command waits
for it. Another command that ends has finished: if no process serves the directory a moment later, this command opens
it. A server that starts while a command has the directory gets it, and the command continues through that server.
"""

import asyncio
import functools
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import triack
from triack.base.errors import StoreInUse
from triack.node.control import handover
from triack.node.control.control_frames import Header, Link, pair
from triack.node.control.server import converse
from triack.node.control.tasks import first_of
from triack.node.files import operator_log
from triack.node.files.access import DEFAULT_SUITE
from triack.tools.commands.common import given_options, log_for, name_for, read_tls

SETTINGS = {"--log", "--name", "--suite", "--tls-ca"}
"""Options that apply to the command's own node; not --insecure: no user expects it to remove keys."""


@dataclass(frozen=True, slots=True)
class OwnNode:
    """The node that a command opens when no other process serves the directory."""

    name: str
    data: Path
    log: Path | None = None
    insecure: bool = False
    suite: str = DEFAULT_SUITE
    tls: triack.Tls | None = None

    def open(self, listen: str | None = None) -> triack.Node:
        """Open it, with the log of its last start if it was given none."""
        return triack.open(
            self.name,
            data=self.data,
            listen=listen,
            log=log_for(self.log, self.data),
            insecure=self.insecure,
            suite=self.suite,
            tls=self.tls,
        )


def own_node(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command one argument, ``own``, in place of those that describe its own node."""

    @functools.wraps(command)
    def with_own(
        *, name: str | None, data: Path, log: Path | None, insecure: bool, suite: str, tls_ca: Path | None, **more: Any
    ) -> int:
        own = OwnNode(name_for(name, data), data, log, insecure, suite, read_tls(authority=tls_ca))
        return command(own=own, **more)

    return with_own


class Succession:
    """Finds the first such process, and each next one. A node that it opens is closed at the end of ``async with``."""

    def __init__(
        self, data: Path, open_node: Callable[[], triack.Node], *, passing: bool = True, gives_way: bool = True
    ) -> None:
        self._data = data
        self._open = open_node
        self._serves = not passing
        self._gives_way = gives_way
        self._opened = AsyncExitStack()
        self._giving_way: asyncio.Task[None] | None = None
        # A process that ended before it introduced itself was not seen working: as if the command began now.
        self._passing = True
        self.own: triack.Node | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._let_go()
        await self._opened.aclose()

    def handle_welcome(self, welcome: Header) -> None:
        """The process that has the directory has introduced itself."""
        self._passing = welcome.get("passing") is True

    async def first(self) -> Link:
        """A connection to the process that has the directory. Raises TriackError if none can have it."""
        link = None if self._serves else await handover.find(self._data)
        if link is None:
            try:
                return await self._open_own()
            except StoreInUse:
                # A process may begin to serve the directory now.
                link = await handover.find_soon(self._data)
                if link is None:
                    raise
        if unused := SETTINGS.intersection(given_options()):
            why = f"another process serves {self._data}, with settings of its own"
            operator_log.warning(f"{' and '.join(sorted(unused))} without effect: {why}")
        return link

    async def next(self) -> Link:
        """The process that had the directory has ended: return a connection to the next.

        Raises TriackError if the directory cannot be opened, or the node that was opened here has failed.
        """
        if await self._let_go():
            return await handover.wait(self._data)
        if self.own is not None:
            return await self.again()
        if not self._passing:
            operator_log.warning(f"the node of {self._data} went away; waiting for it")
            return await handover.wait(self._data)
        while (link := await handover.find_soon(self._data)) is None:
            with suppress(StoreInUse):  # it is about to end, or another one about to begin
                link = await self._open_own()
                operator_log.info(f"no process serves {self._data} any more; continuing with a node of its own")
                return link
        return link

    async def again(self) -> Link:
        """Another connection to the one that has the directory now. Raises TriackError if that has failed here."""
        if self.own is None:
            return await handover.find_soon(self._data) or await handover.wait(self._data)
        await self.check()
        return await self._talk(self.own)

    async def check(self) -> None:
        """Raises TriackError with the cause when the node that was opened here has failed."""
        if self.own is not None and self._giving_way is None:
            await self.own.flush()

    async def _open_own(self) -> Link:
        passing = handover.PASSING.set(None if self._serves else self._handle_claim)
        try:
            self.own = node = await self._opened.enter_async_context(self._open())
        finally:
            handover.PASSING.reset(passing)
        return await self._talk(node)

    async def _talk(self, node: triack.Node) -> Link:
        ours, its = await pair()
        give_way = None if self._serves else self._handle_claim
        conversation = asyncio.create_task(first_of(converse(node, its, give_way), node.failed()))

        async def hang_up() -> None:
            conversation.cancel()
            await asyncio.gather(conversation, return_exceptions=True)

        self._opened.push_async_callback(hang_up)
        return ours

    def _handle_claim(self) -> None:
        if self.own is not None and self._gives_way and self._giving_way is None:
            operator_log.info(f"{self._data} goes to the process that is to serve it")
            self._giving_way = asyncio.create_task(self._opened.aclose())

    async def _let_go(self) -> bool:
        """Whether the directory was claimed; it is free when this returns."""
        if self._giving_way is None:
            return False
        await asyncio.shield(self._giving_way)
        self._giving_way = self.own = None
        return True
