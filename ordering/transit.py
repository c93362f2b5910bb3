"""One stream of another node that passes through this one: its packets that are here, and which acks free them.

Promise: a packet that was taken is offered to the next hop until the acknowledgement that frees its class in transit
arrives (``base.delivery.FREED_BY``) or it is removed. Each packet is freed by itself, and nothing is remembered of
those that have left: the destination recognises duplicates. The states are those of ``ordering.departing``.

``previous`` on the way out: of a transactional packet it is the smallest that came
with its number, as the origin may have given up packets before it meanwhile. Of others it is 0. Numbers that the origin
has freed, as they were stored at a relay, may still be on another way than a packet that comes later; a destination
that was told to forget them would take them for duplicates.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from enum import Enum
from heapq import heappop, heappush, merge
from typing import ClassVar

from triack.base.delivery import Ack, Delivery, Role
from triack.base.ranges import Range, as_ranges, joined, within
from triack.ordering.departing import (
    NO_BOUND,
    NUMBER_OF,
    STALE_MIN,
    TRANSITIONS,
    DepartingSequence,
    StreamPacketEvent,
    StreamPacketState,
    move,
)
from triack.ordering.disk_backlog import DiskBacklog
from triack.ordering.transit_packet import TransitPacket

__all__ = ["LACKING_MAX", "ON_DISK", "Taken", "TransitPacket", "TransitSequence"]

# A look-up in an enumeration takes five times as long as a name of this module; members used for every packet have one.
_ARRIVED, _WAITING, _SENT, _DEAD, _DONE = (
    StreamPacketState.ARRIVED,
    StreamPacketState.WAITING_TO_SEND,
    StreamPacketState.SENT,
    StreamPacketState.GIVEN_UP,
    StreamPacketState.DONE,
)
_FREED = StreamPacketEvent.FREED
_AT_REST = (_ARRIVED, _WAITING)
ON_DISK = TransitPacket(0, None, 0, 0, 0, 0, state=_WAITING)
"""Stands for the packets that only the disk has."""
LACKING_MAX = 4_096
"""As many as a destination holds by default: of more, the greatest are forgotten."""


class Taken(Enum):
    """What became of a packet that has arrived."""

    FRESH = "fresh"
    """It is here from now on."""
    DUPLICATE = "duplicate"
    """It is here already."""
    OTHER_WAY = "other-way"
    """Packets that came by another way, or of an older sequence, are here and must leave first: it is not taken now."""
    STALE = "stale-sequence"
    """Its origin has begun a newer sequence, with nothing of this one left."""


class TransitSequence(DepartingSequence[TransitPacket]):
    """The packets of one stream that are here.

    Attributes:
        on_disk: those that wait to be sent, and only the disk has.
        highest: the greatest number that was here in this sequence, since the start of this node.
    """

    __slots__ = ("_lacking", "_linked", "_lowest", "_next_place", "_skips", "highest", "on_disk")

    role: ClassVar[Role] = Role.TRANSIT
    awaits_order_ack = False
    """A relay sends nothing again for want of an order ack: its origin does."""

    def __init__(self, delivery: Delivery, sequence: int) -> None:
        super().__init__(delivery, sequence, {})
        self.on_disk = DiskBacklog()
        self.highest = 0
        # The packets that were here, or were held back, and that the origin has to send again, ascending; at most
        # LACKING_MAX.
        self._lacking: list[int] = []
        # Of an ordered stream: a heap of the numbers in memory, and of some that are not there any more.
        self._lowest: list[int] = []
        # ``here`` as it was found last, or less; 0: not known.
        self._linked = 0
        # The numbers in memory that do not follow the number before them, and some that are gone, ascending.
        self._skips: list[int] = []
        self._next_place = 1

    @property
    def ordered(self) -> bool:
        """Whether packets leave in the order of their numbers."""
        return self.delivery is Delivery.TRANSACTIONAL

    # ---- arrivals

    def judge(self, sequence: int, number: int) -> Taken:
        """What would become of a packet that came the same way as those that are here; nothing changes."""
        if sequence < self.sequence:
            return Taken.STALE if self.is_empty else Taken.OTHER_WAY
        if sequence > self.sequence:
            return Taken.FRESH if self.is_empty or self.freed_by is Ack.SESSION else Taken.OTHER_WAY
        return Taken.FRESH if self.find(number) is None else Taken.DUPLICATE

    def begin(self, sequence: int) -> None:
        """A newer sequence begins; nothing of the older one is here any more."""
        assert self.is_empty
        self.sequence, self.highest = sequence, 0
        self._linked = 0
        for numbers in (self._lacking, self._lowest, self._skips):
            numbers.clear()

    def add(self, entries: Iterable[TransitPacket]) -> None:
        """Take fresh packets of this sequence; ``handle_stored`` follows."""
        for entry in entries:
            entry.place = self._next_place
            self._next_place += 1
            self.highest = max(self.highest, entry.number)
            self._linked = min(self._linked, entry.number - 1)
            self._enter(entry)
            if lacking := self._lacking:
                # Those in between were given up.
                del lacking[bisect_right(lacking, entry.before) : bisect_right(lacking, entry.number)]

    def handle_held_back(self, sequence: int, number: int) -> bool:
        """There was no room for a packet, and its origin is to send it again.

        Returns:
            Whether that is news, and packets behind it have come here.
        """
        at = bisect_left(self._lacking, number)
        if sequence != self.sequence or self._lacking[at : at + 1] == [number] or self.find(number) is not None:
            return False
        self.lack([number])
        return number < self.highest

    def lacks_before(self, number: int) -> bool:
        """Whether the origin has to send one of the packets up to a number again: then not all of these wait here."""
        return bool(self._lacking) and self._lacking[0] <= number

    def lack(self, numbers: Iterable[int]) -> None:
        """The next hop gave packets back, or there was no room for them: their origin is to send them again."""
        for number in numbers:
            _include(self._lacking, number)
        del self._lacking[LACKING_MAX:]

    def handle_order_ack(self, number: int) -> None:
        """The destination has everything up to a number."""
        del self._lacking[: bisect_right(self._lacking, number)]

    def handle_duplicate(self, entry: TransitPacket, previous: int, *, ack_requested: bool) -> bool:
        """A packet that is here, or only on the disk, came again. Returns whether it goes out again.

        With a lower ``previous`` it has a place behind all others of its stream: its row on the disk cannot be changed.
        """
        is_lower = self.ordered and previous < entry.previous
        if not is_lower and (entry.ack_requested or not ack_requested):
            return False
        entry.ack_requested = entry.ack_requested or ack_requested
        if is_lower:
            entry.previous, entry.place = previous, self._next_place
            self._next_place += 1
        if entry.number not in self.entries:
            self.on_disk.remove(entry.number)
            self.on_disk.add(entry)
        elif self.ordered and entry.before < entry.number - 1:
            _include(self._skips, entry.number)
        sent = is_lower and entry.state is _SENT
        if sent:
            # Behind a gap that is none any more, what has left makes no room for others.
            self.start.handle_resend(1)
            self._send_again([entry])
        return sent

    def handle_stored(self, entries: list[TransitPacket]) -> None:
        """Packets are on the disk, or need not be: they may leave."""
        stored = [entry for entry in entries if entry.state is _ARRIVED]
        for entry in stored:
            move(entry, StreamPacketEvent.STORED)
        self._enqueue(stored)

    # ---- packets that only the disk has

    def put_away(self, entries: Iterable[TransitPacket]) -> list[TransitPacket]:
        """Keep only a few bytes of packets that are on the disk, until ``bring_back``.

        Returns:
            Those of them that were put away; the others have left, are on their way, or were so in an earlier session.
        """
        away = [it for it in entries if it.state in _AT_REST and not it.packet and not it.stored]
        for entry in away:
            self.on_disk.add(entry)
            entry.state = TRANSITIONS[entry.state][_FREED]  # for all who still have this object
            del self.entries[entry.number]
        self._sweep()
        return away

    def bring_back(self, limit: int) -> list[TransitPacket]:
        """Bring the next packets back, until at least ``limit`` wait in memory or all are there. Returns them."""
        brought: list[TransitPacket] = []
        while self.on_disk and len(self.upcoming(limit)) < limit:
            brought += (entries := self.on_disk.take_block())
            self._come_back(entries)
        return brought

    def bring_back_expired(self, now_ms: int, limit: int) -> list[TransitPacket]:
        """Bring packets back whose time has run out."""
        expired = self.on_disk.take_expired(now_ms, limit)
        self._come_back(expired)
        return expired

    def _come_back(self, entries: list[TransitPacket]) -> None:
        for entry in entries:
            self._enter(entry)
        self._enqueue(list(entries))

    @property
    def _bound(self) -> int:
        # Packets in memory with greater numbers go after those that only the disk has.
        return self.on_disk.first if self.ordered and self.on_disk else NO_BOUND

    # ---- the next hop

    def handle_ack(self, entries: Iterable[TransitPacket], ack: Ack) -> list[TransitPacket]:
        """The next hop acknowledges packets. Returns those that this frees."""
        if ack is Ack.STORE and self.freed_by is Ack.ONWARD:
            fresh = [entry for entry in entries if entry.state is _SENT and not entry.taken]
            self.start.handle_taken(len(fresh))
            for entry in fresh:
                entry.stored = entry.taken = True
            return self._free([entry for entry in fresh if entry.onward])
        if ack is not self.freed_by:
            return []
        return self._free(entries)

    def _free_stored(self) -> list[TransitPacket]:
        return self._free([entry for entry in self.entries.values() if entry.taken])

    def handle_onward(self, ranges: list[Range]) -> tuple[list[Range], list[TransitPacket]]:
        """The next hop has passed packets on. Returns which of them stay here, and those that this frees.

        The former are freed by their store ack. Without it the word may be about another copy, in a circle of relays,
        and this one may be the only one. The word may come before that of a new session, if it had stored this one in
        an earlier session. While the link is asynchronous for now the word counts as well: the store ack may come when
        it is synchronous again.
        """
        covered = [self.entries[number] for number in within(ranges, self.entries)]
        for entry in covered:
            entry.onward = entry.state is _SENT or entry.stored
        left = as_ranges(sorted([entry.number for entry in covered if not entry.taken]))
        freed = self._free([entry for entry in covered if entry.taken])
        return joined([*left, *self.on_disk.ranges(joined(ranges))]) if self.on_disk else left, freed

    def _free(self, entries: Iterable[TransitPacket]) -> list[TransitPacket]:
        freed = [entry for entry in entries if entry.state is not _DONE and entry.state is not _DEAD]
        self.remove(freed)
        return freed

    def handle_given_back(self, entry: TransitPacket) -> None:
        """The next hop has not kept a packet: it goes out again."""
        entry.packet, entry.stored = 0, False
        self.start.handle_resend(1)
        self._send_again([entry])

    def handle_session_closed(self, *, not_stored: bool = False, rerouted: bool = False) -> None:
        """The session is gone: everything goes out again on the next session.

        Args:
            not_stored: it ended because arrived packets were not stored: there may be no room.
            rerouted: another neighbour is the next hop from now on.
        """
        self.hold.handle_session_closed()
        self.start.handle_session_closed(not_stored=not_stored)
        for entry in self.entries.values():
            entry.stored = entry.stored and not rerouted
            entry.packet, entry.taken, entry.onward = 0, False, False
        self._send_again([entry for entry in self.entries.values() if entry.state is _SENT])

    def give_up(self, entries: Iterable[TransitPacket]) -> None:
        """Send these no more; ``remove`` follows."""
        for entry in entries:
            move(entry, StreamPacketEvent.GIVEN_UP)

    def go_on(self, entries: list[TransitPacket]) -> None:
        """Send packets after all that were given up, whatever their time."""
        # Those that had not left have kept their places.
        self._forget_stale()
        for entry in entries:
            move(entry, StreamPacketEvent.GOES_ON)
            entry.packet = entry.reach_by_ms = 0
        # No ack of what had left of them makes room any more.
        self.start.handle_resend(len(entries))
        self._enqueue(entries)

    def remove(self, entries: Iterable[TransitPacket]) -> None:
        """Forget packets."""
        entries = [entry for entry in entries if entry.state is not _DONE]
        # Whatever has become of them, they leave room for others, as at the origin.
        self.start.handle_taken(sum(not entry.taken for entry in entries))
        for entry in entries:
            move(entry, StreamPacketEvent.FREED)
            if self.entries.get(entry.number) is entry:
                if entry.number <= self._linked and entry.number != self.lowest:
                    self._linked = entry.number - 1
                del self.entries[entry.number]
        self._sweep()

    def _sweep(self) -> None:
        # The lists of numbers in which most are not in memory any more are made again, too.
        super()._sweep()
        most = STALE_MIN + 2 * len(self.entries)
        if len(self._lowest) > most:
            self._lowest = sorted(self.entries)
        if len(self._skips) > most:
            self._skips = [number for number in self._skips if number in self.entries]

    # ---- outputs

    def peek(self) -> TransitPacket | None:
        """The packet that goes next, or None; ``ON_DISK`` if that is to be brought back first."""
        first = super().peek()
        if self.on_disk and not self._is_held and (first is None or first.number > self._bound):
            return ON_DISK
        return first

    def previous_of(self, entry: TransitPacket) -> int:
        """The ``previous`` field of a packet that leaves now."""
        return entry.previous if self.ordered else 0

    def restore(self, entry: TransitPacket, place: int) -> None:
        """Take a packet from the store, where it had that place."""
        self._next_place = place
        self.add([entry])

    # ---- what is here

    @property
    def is_empty(self) -> bool:
        """Whether no packet is here."""
        return not (self.entries or self.on_disk)

    def __len__(self) -> int:
        return len(self.entries) + len(self.on_disk)

    def find(self, number: int) -> TransitPacket | None:
        """The packet of that number, or None; a copy of it if only the disk has it."""
        found = self.entries.get(number)
        return self.on_disk.find(number) if found is None and self.on_disk else found

    def since(self, number: int) -> Iterator[TransitPacket]:
        """The packets here from that number on, in order; of those that only the disk has, copies."""
        entries = self.entries
        return merge(
            [entries[it] for it in sorted(it for it in entries if it >= number)],
            (it for it in self.on_disk.walk(number) if it.number >= number),
            key=NUMBER_OF,
        )

    @property
    def lowest(self) -> int:
        """The least number here, of an ordered stream; 0 if nothing is."""
        lowest, entries = self._lowest, self.entries
        while lowest and lowest[0] not in entries:
            heappop(lowest)
        first = self.on_disk.first if self.on_disk else 0
        return min(lowest[0], first or lowest[0]) if lowest else first

    @property
    def oldest_ns(self) -> int | None:
        """When the packet came that was here first; None if there is none, or it is not stored yet."""
        if self.on_disk:
            return self.on_disk.came_ns
        oldest = next(iter(self.entries.values()), None)
        return None if oldest is None or oldest.state is _ARRIVED else oldest.came_ns

    @property
    def came_ns(self) -> int | None:
        """When the first of the packets that are here came, or before; None for none."""
        oldest_ns = min((entry.came_ns for entry in self.entries.values()), default=None)
        if not self.on_disk or oldest_ns is None:
            return self.on_disk.came_ns if self.on_disk else oldest_ns
        return min(oldest_ns, self.on_disk.came_ns)

    def ranges(self, *, stored: bool = False) -> list[Range]:
        """The numbers of all packets that are here, or of those that are stored."""
        entries = self.entries.values()
        numbers = [it.number for it in entries if not (stored and it.state is _ARRIVED)]
        return joined([*as_ranges(sorted(numbers)), *self.on_disk.ranges()])

    @property
    def here(self) -> int:
        """The number up to which everything that was not given up is on this disk, or has left it.

        Of an ordered stream. The search continues from where it ended last.
        """
        last = max(self._linked, self.lowest - 1)
        while (entry := self._linked_to(last)) is not None or self.on_disk:
            further = self.on_disk.linked_after(last) if entry is None else entry.number
            if further == last:
                break
            last = further
        self._linked = last
        return last

    def _linked_to(self, last: int) -> TransitPacket | None:
        """The stored packet in memory that follows a number with nothing missing in between, or None."""
        entry, skips = self.entries.get(last + 1), self._skips
        if entry is None and skips:
            at = bisect_right(skips, last)
            while at < len(skips) and skips[at] not in self.entries:
                at += 1
            entry = self.entries[skips[at]] if at < len(skips) else None
        return entry if entry is not None and entry.before <= last and entry.state is not _ARRIVED else None

    # ---- helpers

    def _enter(self, entry: TransitPacket) -> None:
        self.entries[entry.number] = entry
        if self.ordered:
            heappush(self._lowest, entry.number)
            if entry.before < entry.number - 1:
                _include(self._skips, entry.number)

    def _enqueue(self, entries: list[TransitPacket]) -> None:
        to_send = self._to_send
        if self.ordered:
            entries.sort(key=NUMBER_OF)
            if to_send and entries and to_send[-1].number > entries[0].number:
                self._insert(entries)
                return
        to_send += entries


def _include(numbers: list[int], number: int) -> None:
    """Put a number into ascending ones, once."""
    at = bisect_left(numbers, number)
    if numbers[at : at + 1] != [number]:
        numbers.insert(at, number)
