"""The contents of a topic that subscriptions still want: the youngest in memory, those before them on the disk.

Promise: their memory has a limit, however far behind a subscription is; a content that is only on the disk costs a few
bytes. Fast subscriptions read the young contents, which are in memory once for all of them. A subscription that is
behind fetches what it reads, once for all that are as far behind.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from triack.queues.mailboxes.priority_queue import Cache, Level, PriorityQueue, Share, memory_of
from triack.queues.mailboxes.queued_packet import QueuedPacket

DEAD_MAX = 256
"""This many places of removed contents may stay in the list of all before it is made anew."""


class View(Level):
    """A level of which each packet is inspected for each reader."""

    __slots__ = ()

    def take_whole(self, place: int, limit: int, most_bytes: int) -> tuple[list[QueuedPacket], int]:  # noqa: ARG002 - a line looks at them
        """None: each is inspected, as it may not be for this reader."""
        return [], most_bytes


class Contents(View):
    """The contents of one topic, in the order of their places; to be inspected and to expire.

    Attributes:
        wanted: the number of subscriptions that still want a content in memory, and one more before its dispatch; by
            its first place.
    """

    __slots__ = ("_places", "_taken", "wanted")

    def __init__(self, cache: Cache, set_expiry: Callable[[QueuedPacket | None, int | None], None]) -> None:
        super().__init__(Share(cache), set_expiry, priority=0)
        # The first places of those in memory, ascending, and of some that were removed.
        self._places: list[int] = []
        # Those that subscriptions keep from the disk and have not passed yet, with the number of these subscriptions.
        self._taken: dict[int, tuple[QueuedPacket, int]] = {}
        self.wanted: dict[int, int] = {}

    def first(self) -> QueuedPacket | None:
        """None: no reader gets them from here."""
        return None

    def put(self, packet: QueuedPacket, wanted: int) -> None:
        """Add a content behind all others, with the number of subscriptions that want it."""
        if packet.keys and not packet.pieces and not self._ready:
            self._shelve(packet)
            return
        place = packet.first_place
        self._ready[place] = packet
        self._places.append(place)
        self.wanted[place] = wanted
        self.share.count(memory_of(packet))
        if packet.receive_by_ms:
            self._set_expiry(packet, packet.receive_by_ms)
        while self.share.used_bytes > self.share.cache.limit_bytes and len(self._ready) > 1:
            self._shelve(self._pop(next(iter(self._ready))))

    def _pop(self, place: int) -> QueuedPacket:
        packet = self._ready.pop(place)
        del self.wanted[place]
        self.share.count(-memory_of(packet))
        if packet.receive_by_ms:
            self._set_expiry(packet, None)
        if len(self._places) > 2 * len(self._ready) + DEAD_MAX:
            self._places = list(self._ready)
        return packet

    def _shelve(self, packet: QueuedPacket) -> None:
        self._backlog.add(replace(packet, content=None))  # a reader may have leased this one
        if packet.receive_by_ms:
            self._set_expiry(None, self._backlog.earliest_ms)

    def trim(self, most: int, last: int) -> None:
        """Keep the oldest contents only on the disk, up to a place, as long as at most that number wants each."""
        while self._ready:
            place, packet = next(iter(self._ready.items()))
            if self.wanted[place] > most or packet.last_place > last:
                return
            self._shelve(self._pop(place))

    def remove(self, packet: QueuedPacket) -> bool:
        """Remove a content. Returns whether it was stored."""
        place = packet.first_place
        if place in self._ready:
            self._pop(place)
            return True
        return self._backlog.remove(place)

    def walk(self, place: int) -> Iterator[QueuedPacket]:
        """Yield the contents that have a message at this place or later, in order. Some may be gone meanwhile.

        Each walk makes other objects of those that are only on the disk.
        """
        if self._backlog.blocks and not (self._ready and place >= next(iter(self._ready))):
            for packet in self._backlog.walk(place):
                if packet.last_place >= place:
                    yield packet
        places, ready = self._places, self._ready
        for first in islice(places, max(0, bisect_right(places, place) - 1), None):
            found = ready.get(first)
            if found is not None and found.last_place >= place:
                yield found

    def following(self, place: int) -> QueuedPacket | None:
        """The first content that has a message at this place or later."""
        return next(self.walk(place), None)

    def take(self, packet: QueuedPacket) -> QueuedPacket:
        """A subscription keeps a content that is only on the disk. Returns the object that others keep, or this one."""
        found, subscriptions = self._taken.get(packet.first_place, (packet, 0))
        self._taken[packet.first_place] = found, subscriptions + 1
        return found

    def let_go(self, packet: QueuedPacket) -> None:
        """A subscription no longer keeps a content."""
        found, subscriptions = self._taken.pop(packet.first_place)
        if subscriptions > 1:
            self._taken[packet.first_place] = found, subscriptions - 1

    def is_ready(self, packet: QueuedPacket) -> bool:
        """Whether this object is a content in memory, the same for all subscriptions."""
        return self._ready.get(packet.first_place) is packet


class OneLine(PriorityQueue):
    """A view in place of the levels of a queue: its messages come in the order of their arrival."""

    def __init__(self, line: View) -> None:
        self.by_rank = [line]

    def of(self, packet: QueuedPacket) -> Level:  # noqa: ARG002 - there is no other
        """See ``PriorityQueue``."""
        return self.by_rank[0]
