"""Events of a node in another process, and how a client fetches events of any kind.

Promise: the client fetches events only when its reader asks, so the node keeps, and bounds, those of a slow reader.
After the loss of a connection the next events begin with a mark: some may be missing before it.
"""

import asyncio
import contextlib
import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from triack.base.errors import ConnectionLost, NodeClosed
from triack.base.news import EventsMissed, NodeEvent
from triack.node.control.codec import read_events, read_news
from triack.node.control.control_frames import Caller, Header
from triack.node.handles.acknowledgements import AckHandler, handle_each
from triack.node.shell.event_loop import when_dropped
from triack.node.shell.link_events import Reader
from triack.queues.streams.ack_events import AckEvent, AckKind

E = TypeVar("E")

Again = Callable[[], Awaitable[tuple[Header, bytes]]]


class Feed(Reader[E]):
    """An async iterator over the events that the node has under a number, until it is closed or the node ends."""

    def __init__(self, client: Caller, header: Header, again: Again) -> None:
        super().__init__()
        self._client = client
        self._again = again
        self._watch = header["watch"]
        self._epoch = header["epoch"]
        self._closed = False
        self._unread: deque[E] = deque()
        self._fetching = asyncio.Lock()
        self._coming: asyncio.Task[tuple[Header, bytes]] | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._forget_when_dropped()

    def _forget_when_dropped(self) -> None:
        if self._finalizer is not None:
            self._finalizer.detach()
        forget = partial(self._client.post, "unwatch", epoch=self._epoch, watch=self._watch, forget=True)
        self._finalizer = when_dropped(self, forget)

    @abstractmethod
    def _read(self, header: Header) -> list[E]:
        """The events in an answer; empty: there will be no more."""

    @abstractmethod
    def _gap(self) -> E:
        """The mark for events that may be missing."""

    def _take(self, most: int) -> list[E]:
        return [self._unread.popleft() for _ in range(min(most, len(self._unread)))]

    async def _wait(self) -> None:
        """Wait for more. A cancelled call takes nothing along: its answer goes to the next call."""
        async with self._fetching:  # of several callers one asks the node
            if self._unread or self._has_ended:
                return
            if self._coming is None:
                # This continues when its caller is cancelled. It does not hold the feed, which ends when it is dropped.
                asking = self._client.call("told", epoch=self._epoch, watch=self._watch)
                self._coming = asyncio.create_task(asking, name="triack-told")
                self._coming.add_done_callback(_look_at)
            await asyncio.wait([self._coming])
            coming, self._coming = self._coming, None
            await self._handle(coming)

    async def _handle(self, coming: "asyncio.Task[tuple[Header, bytes]]") -> None:
        """Take the next events; or begin anew if the node has ended."""
        try:
            told = self._read(coming.result()[0])
        except ConnectionLost:
            told = []
        else:
            if not told and not self._closed:
                await self._client.lost(self._epoch)  # the node has ended, and so will its process
        self._unread += told
        self._has_ended = not told and self._closed
        if told or self._has_ended:
            return
        header, _ = await self._again()
        self._watch, self._epoch = header["watch"], header["epoch"]
        self._forget_when_dropped()
        self._unread.append(self._gap())

    def close(self) -> None:
        """See ``Reader.close``."""
        self._closed = True
        self._client.post("unwatch", epoch=self._epoch, watch=self._watch, forget=False)


class ClientEvents(Feed[NodeEvent]):
    """An async iterator over the events of the node; see ``Events``.

    It ends when it is closed. When the process of the node ends, it waits for the next one; then an ``EventsMissed``
    comes, and the events from then on. It raises NodeClosed when the client is closed, or its patience has ended.

    Attributes:
        missed: how many of the oldest events the node had dropped, unread, at its last answer.
    """

    missed = 0

    def _gap(self) -> NodeEvent:
        return EventsMissed("the process of the node went away, and this client was without it for a while")

    def _read(self, header: Header) -> list[NodeEvent]:
        self.missed = int(header["missed"])
        return [read_news(said) for said in header["events"]]


def _look_at(task: asyncio.Task[Any]) -> None:
    """Take the error of a task, as asyncio would report it if its waiter has gone."""
    if not task.cancelled():
        task.exception()


class ClientAcknowledgements(Feed[AckEvent]):
    """An async iterator over the events of one outgoing queue of the node; see ``Acknowledgements``.

    When the process of the node ends, it waits for the next one. Then a ``GAP`` comes, and the outcomes of what that
    process has not settled. It raises NodeClosed when the client is closed, or its patience has ended.
    """

    def _gap(self) -> AckEvent:
        return AckEvent(AckKind.GAP, 1, 0, "the process of the node went away")

    def _read(self, header: Header) -> list[AckEvent]:
        return read_events(header)


async def handle(client: Caller, events: ClientAcknowledgements, destination: str, handler: AckHandler) -> None:
    """Call a handler with one event after the other, until the client is closed."""
    with contextlib.suppress(NodeClosed):
        while True:
            with contextlib.suppress(NodeClosed):
                await handle_each(events, destination, handler)
                return
            await client.connected(patient=True)
