"""Events of a node in another process, and how a client fetches events of any kind.

Promise: the client fetches events only when its reader asks, so the node keeps, and bounds, those of a slow reader.
"""

import asyncio
import weakref
from abc import ABC, abstractmethod
from collections import deque
from functools import partial
from typing import Any, Generic, Self, TypeVar

from triack.base.news import NodeEvent
from triack.node.control.control_frames import Caller, Header
from triack.node.control.told import read_news
from triack.node.shell.event_loop import run_at_home

__all__ = ["ClientEvents", "Feed"]

E = TypeVar("E")


class Feed(ABC, Generic[E]):
    """An async iterator over the events that the node has under a number, until it is closed or the node ends.

    Args:
        client: the way to the node.
        watch: the number.
    """

    def __init__(self, client: Caller, watch: int) -> None:
        self._client = client
        self._watch = watch
        self._unread: deque[E] = deque()
        self._coming: asyncio.Task[tuple[Header, bytes]] | None = None
        self._ended = False
        forget = partial(client.post, "unwatch", watch=watch, forget=True)
        weakref.finalize(self, run_at_home, asyncio.get_running_loop(), forget).atexit = False

    @abstractmethod
    def _read(self, header: Header) -> list[E]:
        """The events in an answer; empty when there will be no more."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        while not self._unread:
            if self._ended:
                raise StopAsyncIteration
            await self._fetch()
        return self._unread.popleft()

    async def _fetch(self) -> None:
        """Wait for more. A cancelled call takes nothing along: its answer goes to the next call."""
        if self._coming is None:
            self._coming = asyncio.create_task(self._client.call("told", watch=self._watch), name="triack-told")
            self._coming.add_done_callback(_look_at)
        coming = self._coming
        await asyncio.wait([coming])
        if self._coming is coming:  # no other caller that waited for the same has taken it
            self._coming = None
            header, _ = coming.result()
            told = self._read(header)
            self._unread += told
            self._ended = not told

    def close(self) -> None:
        """Gather no more; unread events can still be read. A second call does nothing."""
        self._client.post("unwatch", watch=self._watch, forget=False)


class ClientEvents(Feed[NodeEvent]):
    """An async iterator over the events of the node; see ``Events``.

    It ends when it is closed; when the node ends, or its process is gone, it raises NodeClosed.

    Attributes:
        missed: the number of oldest events that the node had dropped, unread, at its last answer.
    """

    missed = 0

    def _read(self, header: Header) -> list[NodeEvent]:
        self.missed = int(header["missed"])
        return [read_news(said) for said in header["events"]]


def _look_at(task: asyncio.Task[Any]) -> None:
    """Take the error of a task: its waiter may have gone, and asyncio would report it."""
    if not task.cancelled():
        task.exception()
