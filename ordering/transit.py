"""One stream of another node that passes through this one: its packets that are here, and which acks free them.

Promise: a packet that was taken is offered to the next hop until the acknowledgement that frees its class in transit
arrives (``base.delivery.FREED_BY``) or it is removed. Each packet is freed by itself, and nothing is remembered of
those that have left: the destination recognises duplicates. A relay that remembered them could acknowledge, in a loop
of relays, a packet of which it has no copy any more.

    ARRIVED --stored--> WAITING --sent--> SENT --the ack that frees the class | removed--> DONE
    SENT --session closed | held back | its previous has changed--> WAITING
    WAITING | SENT --given up--> DEAD --removed--> DONE
    DEAD --it goes on after all--> WAITING

All moves are in ``TRANSITIONS``. ``previous`` on the way out: of a transactional packet it is the smallest that came
with its number, as the origin may have given up packets before it meanwhile. Of others it is 0. Numbers that the origin
has freed, as they were stored at a relay, may still be on another way than a packet that comes later; a destination
that was told to forget them would take them for duplicates.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import islice
from operator import attrgetter

from triack.base.delivery import FREED_BY, SYNC_FREED_BY, Ack, Delivery, Role
from triack.base.ranges import Range
from triack.ordering.hold import Hold, HoldState
from triack.ordering.slow_start import SlowStart

__all__ = ["LACKING_MAX", "TRANSITIONS", "Taken", "TransitEvent", "TransitPacket", "TransitSequence", "TransitState"]


class TransitState(IntEnum):
    """Where a packet in transit is."""

    ARRIVED = 0
    """In memory; the commit that holds it has not returned."""
    WAITING = 1
    """It goes out as soon as a session takes it."""
    SENT = 2
    """A session with the next hop has it."""
    DEAD = 3
    """It is not sent any more, and is removed as soon as its dead letter is on the disk."""
    DONE = 4
    """It is not here any more; nothing leaves this state."""


class TransitEvent(IntEnum):
    """An event of a packet in transit."""

    STORED = 0
    """The commit that holds it has returned; of express, it is in memory."""
    SENT = 1
    """A session took it."""
    SEND_AGAIN = 2
    """Its session closed, it was held back, or its ``previous`` has changed."""
    GIVEN_UP = 3
    """The next hop has refused it for good, its time has run out, or it was purged."""
    REMOVED = 4
    """It was freed, or it is on the disk as a dead letter, or its origin answers for it."""
    GOES_ON = 5
    """It is part of a large message of which others have left, so that it must not end here."""


def _row(state: TransitState, **moves: TransitState) -> dict[TransitEvent, TransitState]:
    named = {TransitEvent[name]: after for name, after in moves.items()}
    return {TransitEvent.SEND_AGAIN: state, TransitEvent.REMOVED: TransitState.DONE} | named


TRANSITIONS: dict[TransitState, dict[TransitEvent, TransitState]] = {
    TransitState.ARRIVED: _row(TransitState.ARRIVED, STORED=TransitState.WAITING),
    TransitState.WAITING: _row(TransitState.WAITING, SENT=TransitState.SENT, GIVEN_UP=TransitState.DEAD),
    TransitState.SENT: _row(TransitState.SENT, SEND_AGAIN=TransitState.WAITING, GIVEN_UP=TransitState.DEAD),
    TransitState.DEAD: _row(TransitState.DEAD, GIVEN_UP=TransitState.DEAD, GOES_ON=TransitState.WAITING),
    TransitState.DONE: dict.fromkeys(TransitEvent, TransitState.DONE),
}
"""The next state by state and event."""

# A look-up in an enumeration takes five times as long as a name of this module; members used for every packet have one.
_WAITING, _SENT, _DEAD, _DONE = TransitState.WAITING, TransitState.SENT, TransitState.DEAD, TransitState.DONE
_NUMBER_OF = attrgetter("number")
LACKING_MAX = 4_096
"""As many as a destination holds by default: of more, the greatest are forgotten."""
_STALE_MIN = 64
"""How many packets that were removed before they were sent may be kept: a search costs more than they do."""


class Taken(Enum):
    """What became of a packet that has arrived."""

    FRESH = "fresh"
    """It is here from now on."""
    DUPLICATE = "duplicate"
    """It is here already, and has passed at least as many relays."""
    OTHER_WAY = "other-way"
    """A copy that has passed fewer relays, or an older sequence, is here and must leave first: it is not taken now."""
    STALE = "stale-sequence"
    """Its origin has begun a newer sequence, with nothing of this one left."""


@dataclass(slots=True)
class TransitPacket:
    """A packet in transit.

    Attributes:
        number: its place in its sequence.
        body: its content; None while only the disk has it.
        size_bytes: length of the body.
        messages: how many messages end in it.
        previous: the smallest that came with it; see above.
        hops: how many relays it had passed when it came.
        place: its place among all packets of its stream that were here: of one number there may be two in a row.
        left_by_ms: this node's wall clock time at which its time runs out, 0 for never.
        via: the neighbour that it came by, by name.
        came_ns: when it came, or when this node started.
        ack_requested: whether it asks for an order ack.
        sends: how often it was handed to a session.
        packet: the number that the current session gave it; 0 when it has not been sent in it.
        stored: over a synchronous link: whether the next hop has it on its disk, by a store ack of this session.
        stored_before: the same, of an earlier session.
        passed: over a synchronous link: whether the next hop has had it, and has said in this session that it has
            passed on a packet of that number.
    """

    number: int
    body: bytes | None
    size_bytes: int
    messages: int
    previous: int
    hops: int
    left_by_ms: int
    via: str
    came_ns: int
    place: int = 0
    ack_requested: bool = False
    sends: int = 0
    packet: int = 0
    state: TransitState = TransitState.ARRIVED
    stored: bool = False
    stored_before: bool = False
    passed: bool = False


class TransitSequence:
    """The packets of one stream that are here.

    Args:
        delivery: class of the stream.
        sequence: id of its sequence.

    Attributes:
        freed_by: the ack that lets this node forget a packet.
        entries: the packets that are here, by number, as they came.
        highest: the greatest number that was here in this sequence, since the start of this node.
        sync: whether the link to the next hop is synchronous now.
    """

    __slots__ = (
        "_lacking",
        "_next_place",
        "_to_send",
        "delivery",
        "entries",
        "freed_by",
        "highest",
        "hold",
        "sequence",
        "start",
        "sync",
    )

    awaits_order_ack = False
    """A relay sends nothing again for want of an order ack: its origin does."""

    def __init__(self, delivery: Delivery, sequence: int) -> None:
        self.delivery = delivery
        self.freed_by = FREED_BY[delivery, Role.TRANSIT]
        self.sync = False
        self.sequence = sequence
        self.entries: dict[int, TransitPacket] = {}
        self.highest = 0
        # The packets that were here, or were held back, and that the origin has to send again; at most LACKING_MAX.
        self._lacking: set[int] = set()
        self.hold = Hold()
        self.start = SlowStart()
        self._to_send: deque[TransitPacket] = deque()
        self._next_place = 1

    @property
    def ordered(self) -> bool:
        """Whether packets leave in the order of their numbers."""
        return self.delivery is Delivery.TRANSACTIONAL

    # ---- arrivals

    def judge(self, sequence: int, number: int, hops: int) -> Taken:
        """What would become of a packet; nothing changes.

        Args:
            sequence: its sequence.
            number: its number.
            hops: how many relays it has passed. The copy that is here may answer for one that has passed as many, or
                fewer: on its way it passes more. If it answered for one that has passed more, that might be the only
                copy that answers for it, in a circle of relays.
        """
        if sequence < self.sequence:
            return Taken.OTHER_WAY if self.entries else Taken.STALE
        if sequence > self.sequence:
            return Taken.OTHER_WAY if self.entries and self.freed_by is not Ack.SESSION else Taken.FRESH
        known = self.entries.get(number)
        if known is None:
            return Taken.FRESH
        return Taken.DUPLICATE if hops <= known.hops else Taken.OTHER_WAY

    def begin(self, sequence: int) -> None:
        """A newer sequence begins; nothing of the older one is here any more."""
        assert not self.entries
        self.sequence, self.highest = sequence, 0
        self._lacking.clear()

    def add(self, entries: Iterable[TransitPacket]) -> None:
        """Take fresh packets of this sequence; ``handle_stored`` follows."""
        for entry in entries:
            self.entries[entry.number] = entry
            entry.place = self._next_place
            self._next_place += 1
            self.highest = max(self.highest, entry.number)
            self._lacking.discard(entry.number)
            if self._lacking and entry.previous < entry.number - 1:
                # Those in between were given up.
                self._lacking = {it for it in self._lacking if not entry.previous < it < entry.number}

    def handle_let_go(self, entries: Iterable[TransitPacket]) -> None:
        """The next hop gave packets back, and their origin is to send them again."""
        self._lack([entry.number for entry in entries])

    def handle_held_back(self, sequence: int, number: int) -> bool:
        """There was no room for a packet, and its origin is to send it again.

        Returns:
            Whether that is news, and packets behind it have come here.
        """
        if sequence != self.sequence or number in self.entries or number in self._lacking:
            return False
        self._lack([number])
        return number < self.highest

    def lacks_before(self, number: int) -> bool:
        """Whether the origin has to send one of the packets up to a number again: then not all of these wait here."""
        return any(it <= number for it in self._lacking)

    def _lack(self, numbers: Iterable[int]) -> None:
        self._lacking.update(numbers)
        while len(self._lacking) > LACKING_MAX:
            self._lacking.remove(max(self._lacking))

    def handle_order_ack(self, number: int) -> None:
        """The destination has everything up to a number."""
        if self._lacking:
            self._lacking = {it for it in self._lacking if it > number}

    def handle_duplicate(self, number: int, previous: int, *, ack_requested: bool) -> bool:
        """A packet came again. Returns whether the packet here goes out again, with another ``previous``."""
        entry = self.entries[number]
        entry.ack_requested = entry.ack_requested or ack_requested
        if not self.ordered or previous >= entry.previous:
            return False
        entry.previous = previous
        sent = entry.state is _SENT
        if sent:
            # Behind a gap that is none any more, what has left makes no room for others.
            self.start.handle_resend(1)
            self._send_again([entry])
        return sent

    def move_behind(self, entry: TransitPacket) -> None:
        """Give a packet a place behind all others of its stream."""
        entry.place = self._next_place
        self._next_place += 1

    def handle_stored(self, entries: list[TransitPacket]) -> None:
        """Packets are on the disk, or need not be: they may leave."""
        stored = [entry for entry in entries if entry.state is TransitState.ARRIVED]
        for entry in stored:
            _move(entry, TransitEvent.STORED)
        self._enqueue(stored)

    # ---- the next hop

    def handle_sent(self, run: list[TransitPacket], now_ns: int, *, packet: int = 0) -> list[int]:
        """The entries that ``peek_run`` returned were handed to a session, which numbered them from ``packet`` on.

        Returns:
            The numbers that the session gave before to those of them that it had.
        """
        before = [entry.packet for entry in run if entry.packet]
        for number, entry in enumerate(run, packet):
            self._to_send.popleft()
            entry.state = _SENT  # the only state that follows for one that waits
            entry.sends += 1
            entry.packet = number
        self.hold.handle_sent(now_ns)
        self.start.handle_sent()
        return before

    def handle_ack(self, entries: Iterable[TransitPacket], ack: Ack) -> list[TransitPacket]:
        """The next hop acknowledges packets. Returns those that this frees."""
        if ack is Ack.STORE and self.freed_by is Ack.ONWARD:
            fresh = [entry for entry in entries if entry.state is _SENT and not entry.stored]
            self.start.handle_taken(len(fresh))
            for entry in fresh:
                entry.stored = True
            return self._free([entry for entry in fresh if entry.passed])
        if ack is not self.freed_by:
            return []
        return self._free(entries)

    def set_sync(self, sync: bool) -> list[TransitPacket]:
        """The link to the next hop is synchronous from now on, or no longer. Returns the packets that this frees."""
        self.sync = sync
        self.freed_by = (SYNC_FREED_BY if sync else FREED_BY)[self.delivery, Role.TRANSIT]
        return [] if sync else self._free([entry for entry in self.entries.values() if entry.stored])

    def handle_onward(self, ranges: Iterable[Range]) -> tuple[list[TransitPacket], list[TransitPacket]]:
        """The next hop has passed packets on. Returns those that stay here, and those that this frees.

        The former are freed by their store ack. Without it the word may be about another copy, in a circle of relays,
        and this one may be the only one. The word may come before that of a new session, if it had stored this one in
        an earlier session. While the link is asynchronous for now the word counts as well: the store ack may come when
        it is synchronous again.
        """
        entries, covered = self.entries, list[TransitPacket]()
        for first, last in ranges:
            numbers = range(first, last + 1) if last - first < len(entries) else entries
            covered += [entries[it] for it in numbers if it in entries and first <= it <= last]
        for entry in covered:
            entry.passed = entry.state is _SENT or entry.stored_before
        freed = self._free([entry for entry in covered if entry.stored])
        return [entry for entry in covered if not entry.stored], freed

    @property
    def awaits_onward(self) -> bool:
        """Whether packets wait for the word of the next hop that it has passed them on."""
        return self.freed_by is Ack.ONWARD and any(entry.stored for entry in self.entries.values())

    def _free(self, entries: Iterable[TransitPacket]) -> list[TransitPacket]:
        freed = [entry for entry in entries if entry.state is not _DONE and entry.state is not _DEAD]
        self.remove(freed)
        return freed

    def handle_flow_control(self, turn: int, now_ns: int, *, stop: bool, crowded: bool = False) -> list[int]:
        """The next hop has no room for this stream, or has some again; see ``OutgoingSequence.handle_flow_control``."""
        # Express packets that were in flight are taken, unless there was no place for their stream.
        keeps = self.freed_by is Ack.SESSION and not crowded
        if not self.start.handle_flow_control(self.hold, turn, now_ns, stop=stop, keeps=keeps):
            return []
        again = [entry for entry in self.entries.values() if entry.state is _SENT and not entry.stored]
        numbers = [entry.packet for entry in again if entry.packet]
        for entry in again:
            entry.packet = 0
        self._send_again(again)
        return numbers

    def handle_given_back(self, entry: TransitPacket) -> None:
        """The next hop has not kept a packet: it goes out again."""
        entry.packet, entry.stored_before = 0, False
        self.start.handle_resend(1)
        self._send_again([entry])

    def ask_for_room(self) -> bool:
        """Whether the stream is held back and has a packet to ask with, which may leave now."""
        return self.hold.hasten() and self.peek() is not None

    def handle_session_closed(self, *, not_stored: bool = False, rerouted: bool = False) -> None:
        """The session is gone: everything goes out again on the next session.

        Args:
            not_stored: it ended because arrived packets were not stored: there may be no room.
            rerouted: another neighbour is the next hop from now on.
        """
        self.hold.handle_session_closed()
        self.start.handle_session_closed(not_stored=not_stored)
        for entry in self.entries.values():
            entry.stored_before = (entry.stored or entry.stored_before) and not rerouted
            entry.packet, entry.stored, entry.passed = 0, False, False
        self._send_again([entry for entry in self.entries.values() if entry.state is _SENT])

    def give_up(self, entries: Iterable[TransitPacket]) -> None:
        """Send these no more; ``remove`` follows."""
        for entry in entries:
            _move(entry, TransitEvent.GIVEN_UP)

    def go_on(self, entries: list[TransitPacket]) -> None:
        """Send packets after all that were given up, whatever their time."""
        for entry in entries:
            _move(entry, TransitEvent.GOES_ON)
            entry.packet = entry.left_by_ms = 0
        # No ack of what had left of them makes room any more.
        self.start.handle_resend(len(entries))
        self._enqueue(entries)

    def remove(self, entries: Iterable[TransitPacket]) -> None:
        """Forget packets."""
        entries = [entry for entry in entries if entry.state is not _DONE]
        # Whatever has become of them, they leave room for others, as at the origin.
        self.start.handle_taken(sum(not entry.stored for entry in entries))
        for entry in entries:
            _move(entry, TransitEvent.REMOVED)
            if self.entries.get(entry.number) is entry:
                del self.entries[entry.number]
        if len(self._to_send) > _STALE_MIN + 2 * len(self.entries):
            self._to_send = deque(entry for entry in self._to_send if entry.state is _WAITING)

    # ---- outputs

    def peek(self) -> TransitPacket | None:
        """The packet that goes next, or None."""
        if self.hold.stops or (self.start.credit == 0 and self.hold.state is not HoldState.PROBING):
            return None
        to_send = self._to_send
        while to_send and to_send[0].state is not _WAITING:
            to_send.popleft()
        return to_send[0] if to_send else None

    def peek_run(self, limit: int) -> list[TransitPacket]:
        """The packets that go next, at most ``limit``; the bodies of all but perhaps the first are here."""
        first = self.peek()
        if first is None:
            return []
        run = [first]
        if self.hold.state is not HoldState.GOING or self.start.credit is not None:
            return run
        for entry in islice(self._to_send, 1, limit):
            if entry.state is not _WAITING or entry.body is None:
                break
            run.append(entry)
        return run

    def upcoming(self, limit: int) -> list[TransitPacket]:
        """The next packets that wait to be sent, for a caller that fetches bodies from the disk."""
        return list(islice((entry for entry in self._to_send if entry.state is _WAITING), limit))

    def previous_of(self, entry: TransitPacket) -> int:
        """The ``previous`` field of a packet that leaves now."""
        return entry.previous if self.ordered else 0

    def restore(self, entry: TransitPacket, place: int) -> None:
        """Take a packet from the store, where it had that place."""
        self._next_place = place
        self.add([entry])

    @property
    def here(self) -> int:
        """The number up to which everything that was not given up is on this disk, or has left it."""
        last = min(self.entries, default=1) - 1
        for number in sorted(self.entries):
            entry = self.entries[number]
            if entry.state is TransitState.ARRIVED or min(entry.previous, number - 1) > last:
                break
            last = number
        return last

    # ---- helpers

    def _enqueue(self, entries: list[TransitPacket]) -> None:
        to_send = self._to_send
        if self.ordered:
            entries.sort(key=_NUMBER_OF)
        in_order = not self.ordered or not to_send or not entries or to_send[-1].number < entries[0].number
        to_send += entries
        if not in_order:
            self._sort()

    def _send_again(self, entries: list[TransitPacket]) -> None:
        for entry in entries:
            _move(entry, TransitEvent.SEND_AGAIN)
        before = self._to_send
        self._to_send = deque([*entries, *before])
        if self.ordered and entries:
            self._sort()

    def _sort(self) -> None:
        waiting = {entry.number: entry for entry in self._to_send if entry.state is _WAITING}
        self._to_send = deque(waiting[number] for number in sorted(waiting))


def _move(entry: TransitPacket, event: TransitEvent) -> None:
    entry.state = TRANSITIONS[entry.state][event]
