"""Finds messages of one queue by their ids and their correlation ids, without reading the queue each time.

Promise: what was added is found until it is done. The index needs some hundred bytes for each packet, and for each
message with a correlation id, up to ``ENTRIES_MAX`` of both. A queue has no index until an application asks for one.

Packets are added in the order of their places, up to ``indexed_to``. The caller adds those that came since before it
asks again, so that an arrival costs nothing.
"""

from bisect import bisect_right, insort
from collections.abc import Callable
from string import hexdigits
from typing import NamedTuple

from triack.base.errors import UsageError
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.packing import Unpacked

ENTRIES_MAX = 1_000_000
"""Some hundred megabytes at most. Packets beyond it are read at each search."""
_ID_BYTES = 16  # of a node's id
COMPACT_MIN = 4_096
"""Drop entries of done packets only from this many on: fewer need little memory."""


class Wanted(NamedTuple):
    """The message that is looked for: by its id, or the first with a correlation id.

    Attributes:
        origin: the node of the id; empty for a correlation id.
        correlation_id: empty when the id is given.
    """

    origin: bytes
    ordinal: int
    correlation_id: str = ""

    @classmethod
    def by_id(cls, id: object) -> "Wanted":  # noqa: A002 - as users name it
        """The message with an id. Raises UsageError for what is no id of a message."""
        origin, dash, ordinal = id.partition("-") if isinstance(id, str) else ("", "", "")
        if not dash or len(origin) != 2 * _ID_BYTES or not ordinal.isdecimal() or not set(origin) <= set(hexdigits):
            raise UsageError(f"receive by id: {id!r} is no id of a message; it is like {'0' * 2 * _ID_BYTES}-17")
        return cls(bytes.fromhex(origin), int(ordinal))

    @classmethod
    def by_correlation_id(cls, correlation_id: object) -> "Wanted":
        """The first message with a correlation id. Raises UsageError unless it is a string."""
        if not isinstance(correlation_id, str) or not correlation_id:
            raise UsageError(f"receive by correlation id: it must be text, not {correlation_id!r}")
        return cls(b"", 0, correlation_id)

    def __str__(self) -> str:
        if self.origin:
            return f"the id {self.origin.hex()}-{self.ordinal}"
        return f"the correlation id {self.correlation_id!r}"

    def places_in(self, packet: QueuedPacket, content: Unpacked) -> list[int]:
        """The places of such messages in a packet with that content."""
        if self.origin:
            index = self.ordinal - content.first_ordinal
            return [packet.first_place + index] if packet.origin == self.origin and 0 <= index < packet.count else []
        found = enumerate(content.properties or ())
        return [packet.first_place + index for index, its in found if its.get("correlation_id") == self.correlation_id]


class Lookup:
    """The index of one queue. ``indexed_to``: the place of the last message in it."""

    def __init__(self) -> None:
        self.indexed_to = 0
        # By origin: first ordinal, first place and count of each packet, ascending.
        self._by_id: dict[bytes, list[tuple[int, int, int]]] = {}
        self._by_correlation: dict[str, list[int]] = {}
        self._entries = 0
        self._compact_at = COMPACT_MIN

    @property
    def is_full(self) -> bool:
        """Whether further packets cannot be added."""
        return self._entries >= ENTRIES_MAX

    def add(self, packet: QueuedPacket, content: Unpacked | None) -> None:
        """Add a packet, with its messages; None if it cannot be read, or has left meanwhile."""
        self.indexed_to = packet.last_place
        if content is None:
            return
        insort(self._by_id.setdefault(packet.origin, []), (content.first_ordinal, packet.first_place, packet.count))
        self._entries += 1
        for place, its in enumerate(content.properties or (), packet.first_place):
            wanted = its.get("correlation_id")
            if isinstance(wanted, str):
                self._by_correlation.setdefault(wanted, []).append(place)
                self._entries += 1

    def find(self, wanted: Wanted) -> list[int]:
        """The places of such messages, ascending; some of them may have left the queue."""
        if not wanted.origin:
            return self._by_correlation.get(wanted.correlation_id, [])
        packets = self._by_id.get(wanted.origin, [])
        at = bisect_right(packets, wanted.ordinal, key=lambda packet: packet[0])
        # A message that was moved or sent back may be there twice, in packets that overlap.
        found: list[int] = []
        for first, place, count in reversed(packets[max(0, at - 2) : at]):
            if first <= wanted.ordinal < first + count:
                found.append(place + wanted.ordinal - first)
        return sorted(found)

    def compact(self, is_done: Callable[[int], bool]) -> None:
        """Drop the entries of done packets, now and then. ``is_done``: whether the message at a place is."""
        if self._entries < self._compact_at:
            return
        for origin, packets in list(self._by_id.items()):
            kept = [packet for packet in packets if not is_done(packet[1])]
            if kept:
                self._by_id[origin] = kept
            else:
                del self._by_id[origin]
        for wanted, places in list(self._by_correlation.items()):
            left = [place for place in places if not is_done(place)]
            if left:
                self._by_correlation[wanted] = left
            else:
                del self._by_correlation[wanted]
        self._entries = sum(map(len, self._by_id.values())) + sum(map(len, self._by_correlation.values()))
        self._compact_at = max(COMPACT_MIN, 2 * self._entries)
