"""What happens at a node in another process, told as events; and how a client fetches whatever is told.

Promise: nothing comes before it is asked for, so that what a slow reader leaves is kept, and bounded, by the node.
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
    """An async iterator over what the node tells under a number, until it is closed or the node ends.

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
        """What an answer tells; nothing when there will be no more."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        while not self._unread:
            if self._ended:
                raise StopAsyncIteration
            await self._fetch()
        return self._unread.popleft()

    async def _fetch(self) -> None:
        """Wait for more. Who is cancelled takes nothing along: what then comes is for the next one who asks."""
        if self._coming is None:
            self._coming = asyncio.create_task(self._client.call("told", watch=self._watch), name="triack-told")
            self._coming.add_done_callback(_look_at)
        coming = self._coming
        await asyncio.wait([coming])
        if self._coming is coming:  # and not another one's, who waited for the same
            self._coming = None
            header, _ = coming.result()
            told = self._read(header)
            self._unread += told
            self._ended = not told

    def close(self) -> None:
        """Gather no more; what is unread can still be read. A second call does nothing."""
        self._client.post("unwatch", watch=self._watch, forget=False)


class ClientEvents(Feed[NodeEvent]):
    """An async iterator over the events of the node; see ``Events``.

    It ends when it is closed; when the node ends, or its process is gone, it raises NodeClosed.

    Attributes:
        missed: how many of the oldest the node had dropped, because nobody took them, when it was asked last.
    """

    missed = 0

    def _read(self, header: Header) -> list[NodeEvent]:
        self.missed = int(header["missed"])
        return [read_news(said) for said in header["events"]]


def _look_at(task: asyncio.Task[Any]) -> None:
    """Whoever waited may have gone: then nobody else looks at what it raised."""
    if not task.cancelled():
        task.exception()
