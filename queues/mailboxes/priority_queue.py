"""Packets of a queue that wait to be read, in order: the first of them in memory, the others on the disk.

A queue has a level for each priority. A reader gets packets of the highest level that has any ([MS-MQDMPR] 3.1.1.18).

Promise: the memory of the packets of a queue, and of all queues of a node, has a limit, however many there are. If
there is no room for a packet, it goes into the backlog, as do all after it in its level. It is fetched when its turn
comes.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import chain
from operator import attrgetter

from triack.base.errors import ProtocolError
from triack.queues.fetching import Fetch, arrived, fetch_packets
from triack.queues.mailboxes.disk_backlog import DiskBacklog
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.quotas import NO_LIMIT

CACHE_BYTES = 16 * 1024 * 1024
"""Default for the packets of one queue: a burst of about a second."""
CACHES = 4
"""The limit of all queues of a node, as a multiple of that of one: enough for four busy queues."""
PACKET_BYTES = 700
"""Memory of a packet without its body: some more than the measured 590."""


class Cache:
    """Memory of the packets in all queues of a node, and its limit.

    ``limit_bytes`` is for one queue. ``unfinished_bytes``: the part for durable pieces of incomplete messages.
    """

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.unfinished_bytes = 0


class Share:
    """One queue's part of the cache."""

    __slots__ = ("cache", "used_bytes")

    def __init__(self, cache: Cache) -> None:
        self.used_bytes = 0
        self.cache = cache

    @property
    def is_full(self) -> bool:
        """Whether no more packets that are on the disk should be kept in memory."""
        return self.would_be_full(0)

    def would_be_full(self, size_bytes: int) -> bool:
        """Whether that would be so with this much more."""
        cache, more_bytes = self.cache, self.cache.used_bytes + size_bytes
        return self.used_bytes + size_bytes > cache.limit_bytes or more_bytes > CACHES * cache.limit_bytes

    def count(self, size_bytes: int) -> None:
        """Add an amount, which may be negative, to the memory in use."""
        self.used_bytes += size_bytes
        self.cache.used_bytes += size_bytes


class Level:
    """The packets of one priority in a queue.

    Args:
        set_expiry: called with a packet and when it expires, in ms of the wall clock; for None, when the next packet
            expires that is only on the disk.

    Attributes:
        limit: the place of the last message that may be handed out, as ``first`` found it.
        share: the part of the cache that it counts for.
    """

    __slots__ = ("_backlog", "_ready", "_set_expiry", "limit", "priority", "share")

    def __init__(
        self, share: Share, set_expiry: Callable[[QueuedPacket | None, int | None], None], priority: int
    ) -> None:
        self.priority = priority
        self.limit = NO_LIMIT
        self.share = share
        self._set_expiry = set_expiry
        self._ready: OrderedDict[int, QueuedPacket] = OrderedDict()
        self._backlog = DiskBacklog()

    # ---- packets

    def append(self, packet: QueuedPacket) -> None:
        """Add a packet after all others: in memory if there is room, or if it is not on the disk."""
        if self._backlog.blocks or (packet.keys and self.share.is_full):
            self._backlog.add(packet)
            if packet.receive_by_ms:
                self._set_expiry(None, self._backlog.earliest_ms)
        else:
            self._enter(packet)

    def extend(self, packets: list[QueuedPacket]) -> None:
        """Add packets that come together."""
        size_bytes = sum([PACKET_BYTES + (packet.size_bytes if packet.pieces else 0) for packet in packets])
        if self._backlog.blocks or self.share.would_be_full(size_bytes) or any(map(_EXPIRY_OF, packets)):
            for packet in packets:
                self.append(packet)
            return
        self._ready.update([(packet.first_place, packet) for packet in packets])
        self.share.count(size_bytes)

    def _enter(self, packet: QueuedPacket) -> None:
        self._ready[packet.first_place] = packet
        self.share.count(memory_of(packet))
        if packet.receive_by_ms:
            self._set_expiry(packet, packet.receive_by_ms)

    def _take_down(self) -> list[QueuedPacket]:
        """Make objects of the next packets that are only on the disk."""
        packets = self._backlog.take_block()
        for packet in packets:
            self._enter(packet)
        self._set_expiry(None, self._backlog.earliest_ms)
        return packets

    def first(self) -> QueuedPacket | None:
        """The next packet, or None."""
        while not self._ready:
            if not self._backlog.blocks:
                return None
            self._take_down()
        for packet in self._ready.values():
            return packet
        return None

    def drop_first(self) -> None:
        """Drop the first packet after its last message was drawn: its leases keep it as long as needed."""
        self.share.count(-memory_of(self._ready.popitem(last=False)[1]))

    def take_whole(self, place: int, limit: int, most_bytes: int) -> tuple[list[QueuedPacket], int]:
        """Remove and return the next packets that need no inspection beyond their turn.

        They are in memory and can be read, no earlier process had them, they have no deadline, and represent no large
        body.

        Args:
            place: the first of them has this place, or a later one.
            limit: of their messages.
            most_bytes: once messages reach this size, no further one follows.

        Returns the packets, and what is left of ``most_bytes``: nothing if there are no others.
        """
        taken: list[QueuedPacket] = []
        for packet in self._ready.values():
            limit -= packet.count
            if limit < 0 or most_bytes <= 0 or packet.first_place < place:
                break
            if packet.restored or packet.receive_by_ms or packet.large or not packet.pieces:
                break
            try:
                content = packet.content or packet.open()
            except ProtocolError:
                break
            most_bytes -= packet.size_bytes if content.properties is not None else sum(map(len, content.bodies))
            taken.append(packet)
        if taken:
            for packet in taken:
                del self._ready[packet.first_place]
            # Each of them is in memory, see above.
            self.share.count(-sum([PACKET_BYTES + packet.size_bytes for packet in taken]))
        return taken, most_bytes if self._ready or self._backlog.blocks else 0

    def remove(self, packet: QueuedPacket) -> bool:
        """Remove a packet. Returns whether it was waiting."""
        if self._ready.pop(packet.first_place, None) is None:
            return self._backlog.remove(packet.first_place)
        self.share.count(-memory_of(packet))
        return True

    def supply(self, packet: QueuedPacket, pieces: Sequence[bytes]) -> bool:
        """Give its body to a packet of ``walk``. Returns whether the packet is in memory, and no temporary object."""
        is_ready = self._ready.get(packet.first_place) is packet
        if pieces and not packet.pieces:
            packet.pieces = pieces
            self.share.count(packet.size_bytes if is_ready else 0)
        return is_ready

    def walk(self, place: int) -> Iterator[QueuedPacket]:
        """Yield the packets that have a message at this place or later, read-only."""
        packets = chain(self._ready.values(), self._backlog.walk(place))
        return (packet for packet in packets if packet.last_place >= place)

    @property
    def next_expiry_ms(self) -> int | None:
        """When the next packet expires that is only on the disk, by the wall clock, or None."""
        return self._backlog.earliest_ms

    def poll_expired(self, now_ms: int, most: int) -> list[QueuedPacket]:
        """Expired packets that are only on the disk; the caller removes them. More may be due."""
        expired = self._backlog.expired(now_ms, most)
        self._set_expiry(None, self._backlog.earliest_ms)
        return expired

    # ---- bodies on the disk

    def poll_fetch(self, take: Callable[[dict[int, bytes]], None]) -> Fetch | None:
        """A fetch of the next bodies that are only on the disk, or None."""
        return fetch_packets(self._upcoming(), take)

    def _upcoming(self) -> Iterator[QueuedPacket]:
        yield from list(self._ready.values())
        while self._backlog.blocks:
            yield from self._take_down()

    def load(self, bodies: dict[int, bytes]) -> None:
        """Store the bodies that were fetched."""
        for waiting, pieces in arrived(self._ready.values(), bodies):
            waiting.pieces = pieces
            self.share.count(waiting.size_bytes)


class PriorityQueue:
    """The levels of one queue: the packets of a higher priority come first, those of one priority in their order.

    Attributes:
        by_rank: the levels that were ever needed, the highest priority first.
    """

    __slots__ = ("_by_priority", "_set_expiry", "_share", "by_rank")

    def __init__(self, share: Share, set_expiry: Callable[[QueuedPacket | None, int | None], None]) -> None:
        self.by_rank: list[Level] = []
        self._by_priority: dict[int, Level] = {}
        self._share = share
        self._set_expiry = set_expiry

    def of(self, packet: QueuedPacket) -> Level:
        """The level of a packet."""
        line = self._by_priority.get(packet.priority)
        return self._open(packet.priority) if line is None else line

    def _open(self, priority: int) -> Level:
        line = self._by_priority[priority] = Level(self._share, self._handle_expiry, priority)
        self.by_rank = sorted(self._by_priority.values(), key=_PRIORITY_OF, reverse=True)
        return line

    def _handle_expiry(self, packet: QueuedPacket | None, at_ms: int | None) -> None:
        if packet is None and len(self.by_rank) > 1:
            times_ms = (line.next_expiry_ms for line in self.by_rank)
            at_ms = min((time_ms for time_ms in times_ms if time_ms is not None), default=None)
        self._set_expiry(packet, at_ms)

    def poll_expired(self, now_ms: int, most: int) -> list[QueuedPacket]:
        """Expired packets that are only on the disk; the caller removes them. More may be due."""
        return [packet for line in self.by_rank for packet in line.poll_expired(now_ms, most)]

    def walk(self, place: int) -> Iterator[QueuedPacket]:
        """Yield the packets that have a message at this place or later, in the order of their places, read-only."""
        return merge(*(line.walk(place) for line in self.by_rank), key=_FIRST_PLACE_OF)

    def find(self, place: int) -> QueuedPacket | None:
        """The waiting packet that has that place. One that is only on the disk gets a temporary object."""
        packet = next(self.walk(place), None)
        return packet if packet is not None and place in packet.places else None

    @property
    def lacks_bodies(self) -> bool:
        """Whether the first packet of a level has its body only on the disk."""
        for line in self.by_rank:
            first = line.first()
            if first is not None and not first.pieces:
                return True
        return False

    def poll_fetch(self, take: Callable[[dict[int, bytes]], None]) -> Fetch | None:
        """A fetch of the next bodies, of the highest level that lacks one, or None."""
        return next((fetch for line in self.by_rank if (fetch := line.poll_fetch(take))), None)

    def load(self, bodies: dict[int, bytes]) -> None:
        """Store the bodies that were fetched."""
        for line in self.by_rank:
            line.load(bodies)


_PRIORITY_OF = attrgetter("priority")
_EXPIRY_OF = attrgetter("receive_by_ms")
_FIRST_PLACE_OF = attrgetter("first_place")


def memory_of(packet: QueuedPacket) -> int:
    """The memory that a packet takes, with its body if that is there."""
    return PACKET_BYTES + (packet.size_bytes if packet.pieces else 0)
