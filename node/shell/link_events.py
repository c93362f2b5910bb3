"""Events of a node and its links, for the program that it is part of."""

import asyncio
import weakref
from abc import ABC, abstractmethod
from collections import deque
from typing import Generic, Self, TypeVar

from triack.base.news import NodeEvent

E = TypeVar("E")

EVENTS_MAX = 1_000
"""The most events that wait for one reader: minutes of a bad network. A slower reader loses the oldest and sees it."""


class Reader(ABC, Generic[E]):
    """An async iterator over events, until it is closed or the node ends."""

    def __init__(self) -> None:
        self._arrived = asyncio.Event()
        self._has_ended = False  # nothing more comes

    @abstractmethod
    def _take(self, most: int) -> list[E]:
        """Take the events that have come."""

    @abstractmethod
    def close(self) -> None:
        """Gather no more; unread events can still be read. A second call does nothing."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        events = await self.get_many(1)
        if not events:
            raise StopAsyncIteration
        return events[0]

    async def get_many(self, most: int = EVENTS_MAX) -> list[E]:
        """The next events, in order.

        Args:
            most: the most events, from 1.

        Returns:
            All that have come, once there is one; empty: there will be no more.
        """
        while not (told := self._take(most)) and not self._has_ended:
            await self._wait()
        return told

    async def _wait(self) -> None:
        self._arrived.clear()
        await self._arrived.wait()


class Events(Reader[NodeEvent]):
    """An async iterator over the events of a node, from the moment it was made to the end of the node.

    Attributes:
        missed: the number of oldest events that were dropped unread.
    """

    def __init__(self, *, ended: bool) -> None:
        super().__init__()
        self.missed = 0
        self._waiting: deque[NodeEvent] = deque()
        self._has_ended = ended

    def _take(self, most: int) -> list[NodeEvent]:
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def close(self) -> None:
        """Gather no more; unread events can still be read. A second call does nothing."""
        self._has_ended = True
        self._arrived.set()

    def _put(self, event: NodeEvent) -> None:
        if self._has_ended:
            return
        if len(self._waiting) == EVENTS_MAX:
            self._waiting.popleft()
            self.missed += 1
        self._waiting.append(event)
        self._arrived.set()


class EventFeed:
    """Gives each event to every reader; a reader that is dropped gets no more."""

    def __init__(self) -> None:
        self._readers: weakref.WeakSet[Events] = weakref.WeakSet()
        self._ended = False

    def read(self) -> Events:
        """A new reader, which gets the events from now on."""
        reader = Events(ended=self._ended)
        self._readers.add(reader)
        return reader

    def put(self, event: NodeEvent) -> None:
        """Something has happened."""
        for reader in list(self._readers):
            reader._put(event)  # noqa: SLF001 - its other half

    def end(self) -> None:
        """Nothing happens any more."""
        self._ended = True
        for reader in list(self._readers):
            reader.close()
