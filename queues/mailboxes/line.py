"""Packets of a queue that wait to be read, in order: the first of them in memory, the others on the disk.

Promise: the memory of the packets of a queue, and of all queues of a node, has a limit, however many there are. A
packet for which there is no room goes on the shelf, as do all after it, and is fetched again when its turn comes.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.mailboxes.shelf import Shelf

__all__ = ["CACHE_BYTES", "PACKET_BYTES", "Cache", "Line"]

CACHE_BYTES = 16 * 1024 * 1024
"""Default for the packets of one queue: a burst of about a second."""
CACHES = 4
"""All queues of a node share this many times as much: enough for four busy queues."""
PACKET_BYTES = 700
"""Memory of a packet without its body: some more than the 590 that were measured."""
FETCH_AHEAD_BYTES = 2 * 1024 * 1024
"""Bodies fetched from the store at a time: enough that reading outweighs the request, and much less than the cache."""


class Cache:
    """Memory of the packets in all queues of a node, and its limit.

    Attributes:
        limit_bytes: for one queue; ``CACHES`` times as much is for all.
        used_bytes: of all queues.
        unfinished_bytes: the part of that for durable pieces of incomplete messages.
    """

    __slots__ = ("limit_bytes", "unfinished_bytes", "used_bytes")

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.unfinished_bytes = 0


class Line:
    """The line of one queue.

    Args:
        cache: of all queues of the node.
        set_expiry: called with a packet and when it expires, by the wall clock in milliseconds; with None for the
            packet, when the next packet expires that is only on the disk.

    Attributes:
        cached_bytes: this queue's part of the cache.
    """

    __slots__ = ("_cache", "_ready", "_set_expiry", "_shelf", "cached_bytes")

    def __init__(self, cache: Cache, set_expiry: Callable[[QueuedPacket | None, int | None], None]) -> None:
        self.cached_bytes = 0
        self._cache = cache
        self._set_expiry = set_expiry
        self._ready: OrderedDict[int, QueuedPacket] = OrderedDict()
        self._shelf = Shelf()

    # ---- memory

    @property
    def is_full(self) -> bool:
        """Whether no more packets that are on the disk should be kept in memory."""
        return self._would_be_full(0)

    def _would_be_full(self, size_bytes: int) -> bool:
        """Whether that would be so with this much more."""
        cache, more_bytes = self._cache, self._cache.used_bytes + size_bytes
        return self.cached_bytes + size_bytes > cache.limit_bytes or more_bytes > CACHES * cache.limit_bytes

    def count(self, size_bytes: int) -> None:
        """Add an amount, which may be negative, to the memory in use."""
        self.cached_bytes += size_bytes
        self._cache.used_bytes += size_bytes

    # ---- packets

    def append(self, packet: QueuedPacket) -> None:
        """Add a packet after all others: in memory if there is room, or if it is not on the disk."""
        if self._shelf or (packet.keys and self.is_full):
            self._shelf.add(packet)
            if packet.receive_by_ms:
                self._set_expiry(None, self._shelf.next_expiry_ms)
        else:
            self._enter(packet)

    def extend(self, packets: list[QueuedPacket]) -> None:
        """Add packets that come together."""
        size_bytes = sum(map(_memory_of, packets))
        if self._shelf or self._would_be_full(size_bytes) or any(packet.receive_by_ms for packet in packets):
            for packet in packets:
                self.append(packet)
            return
        self._ready.update([(packet.first_place, packet) for packet in packets])
        self.count(size_bytes)

    def _enter(self, packet: QueuedPacket) -> None:
        self._ready[packet.first_place] = packet
        self.count(_memory_of(packet))
        if packet.receive_by_ms:
            self._set_expiry(packet, packet.receive_by_ms)

    def _take_down(self) -> list[QueuedPacket]:
        """Make objects of the next packets that are only on the disk."""
        packets = self._shelf.take()
        for packet in packets:
            self._enter(packet)
        self._set_expiry(None, self._shelf.next_expiry_ms)
        return packets

    def first(self) -> QueuedPacket | None:
        """The next packet, or None."""
        while not self._ready and self._shelf:
            self._take_down()
        return next(iter(self._ready.values()), None)

    def drop_first(self) -> None:
        """Drop the first packet after its last message was drawn: its leases keep it as long as needed."""
        self.count(-_memory_of(self._ready.popitem(last=False)[1]))

    def remove(self, packet: QueuedPacket) -> bool:
        """Remove a packet. Returns whether it was waiting."""
        if self._ready.pop(packet.first_place, None) is None:
            return self._shelf.remove(packet.first_place)
        self.count(-_memory_of(packet))
        return True

    def find(self, place: int) -> QueuedPacket | None:
        """The packet that has that place, if it waits. One that is only on the disk gets a temporary object."""
        packet = next(self.walk(place), None)
        return packet if packet is not None and place in packet.places else None

    def supply(self, packet: QueuedPacket, pieces: Sequence[bytes]) -> bool:
        """Give a packet that ``find`` returned its body. Returns whether it is in memory, and no temporary object."""
        is_ready = self._ready.get(packet.first_place) is packet
        if pieces and not packet.pieces:
            packet.pieces = pieces
            self.count(packet.size_bytes if is_ready else 0)
        return is_ready

    def walk(self, place: int) -> Iterator[QueuedPacket]:
        """Yield the packets that have a message at this place or later, read-only."""
        packets = chain(self._ready.values(), self._shelf.walk(place))
        return (packet for packet in packets if packet.last_place >= place)

    def poll_expired(self, now_ms: int, most: int) -> list[QueuedPacket]:
        """Expired packets that are only on the disk; the caller removes them. More may be due at once."""
        expired = self._shelf.poll_expired(now_ms, most)
        self._set_expiry(None, self._shelf.next_expiry_ms)
        return expired

    # ---- bodies on the disk

    def missing(self) -> list[int]:
        """Keys of the bodies to fetch next, or nothing."""
        keys: list[int] = []
        size_bytes = 0
        for packet in self._upcoming():
            if packet.pieces or size_bytes > FETCH_AHEAD_BYTES:
                break
            keys.extend(packet.keys)
            size_bytes += packet.size_bytes
        return keys

    def _upcoming(self) -> Iterator[QueuedPacket]:
        yield from list(self._ready.values())
        while self._shelf:
            yield from self._take_down()

    def load(self, bodies: dict[int, bytes]) -> None:
        """Take bodies that were fetched from the store."""
        for waiting in self._ready.values():
            if waiting.keys and not waiting.pieces:
                if any(key not in bodies for key in waiting.keys):
                    break
                waiting.pieces = [bodies[key] for key in waiting.keys]
                self.count(waiting.size_bytes)


def _memory_of(packet: QueuedPacket) -> int:
    return PACKET_BYTES + (packet.size_bytes if packet.pieces else 0)
