"""A stream on its way out: the packets of it that are here, which of them may leave, and which acks free them.

One machine with two roles. At its origin a stream's packets are numbered here, and some wait for the order ack
(``ordering.outgoing``). At a relay they come with their numbers, and leave as soon as the next hop has them
(``ordering.transit``).

Promise: a packet is offered for sending until the acknowledgement that frees its class in that role arrives
(``base.delivery.FREED_BY``), or it is removed.

    ARRIVED --stored--> WAITING_TO_SEND --sent--> SENT --session ack--> WAITING_STORE_ACK | WAITING_ORDER_ACK
    any --the ack that frees the class | removed--> DONE
    any of these --session closed, but not as idle | resend tier | held back--> WAITING_TO_SEND
    SENT | WAITING_STORE_ACK --store ack over a synchronous link--> WAITING_ONWARD_ACK
    WAITING_TO_SEND --it waits at a relay--> WAITING_ORDER_ACK
    any --acknowledged, but not all of its message--> KEPT
    any --given up--> GIVEN_UP --it goes on after all--> WAITING_TO_SEND
    any --rejected by its destination--> REJECTED

All moves are in ``TRANSITIONS``; the states are those of [MS-MQQB] 3.1.1.1.1.3-8. A relay knows ARRIVED,
WAITING_TO_SEND, SENT, GIVEN_UP and DONE: a packet waits in SENT for the ack that frees it there. An origin begins with
WAITING_TO_SEND.
"""

from bisect import bisect_left
from collections import deque
from dataclasses import KW_ONLY, dataclass
from enum import IntEnum
from itertools import islice
from operator import attrgetter
from typing import ClassVar, Generic, TypeVar

from triack.base.delivery import FREED_BY, SYNC_FREED_BY, Ack, Delivery, Role
from triack.base.ranges import Range, as_ranges
from triack.ordering.hold import Hold, HoldState
from triack.ordering.slow_start import SlowStart
from triack.ordering.tiers import ResendTimer


class StreamPacketState(IntEnum):
    """Where a packet on its way out is."""

    WAITING_TO_SEND = 0
    """It goes out as soon as a session takes it."""
    SENT = 1
    """A session has it."""
    WAITING_STORE_ACK = 2
    """The next hop has it, perhaps in memory only."""
    WAITING_ORDER_ACK = 3
    """The next hop has it; the destination has not accepted it in order, as far as we know."""
    WAITING_ONWARD_ACK = 4
    """The next hop has it on its disk, and has not said that it has passed it on; of synchronous links."""
    KEPT = 5
    """The ack that frees its class covers it; it stays, unsent, until all of its message is covered."""
    GIVEN_UP = 6
    """It is no longer sent, and is removed as soon as its end is on disk, unless an origin frees it before."""
    REJECTED = 7
    """The same, and nothing frees it: its destination has refused its message for good."""
    DONE = 8
    """Freed or removed; nothing leaves this state."""
    ARRIVED = 9
    """In the memory of a relay; the commit that holds it has not returned."""


class StreamPacketEvent(IntEnum):
    """An event of a packet on its way out."""

    SENT = 0
    """A session took it."""
    RECEIVED_NOT_STORED = 1
    """A session ack covers it, and a store ack is to free it."""
    RECEIVED_NOT_ORDERED = 2
    """A session ack covers it, and an order ack is to free it."""
    SEND_AGAIN = 3
    """Its session closed, its resend tier ran out, it was held back, or its ``previous`` has changed."""
    ACKED = 4
    """The ack that frees its class covers it."""
    GIVEN_UP = 5
    """Its message will no longer be sent, as the next hop has refused it, its time has run out, or it was purged."""
    REJECTED = 6
    """Its destination will not take its message."""
    FREED = 7
    """All of its message is covered, or it was removed."""
    WAITS = 8
    """A relay has it on its disk, where it waits."""
    STORED_NOT_ONWARD = 9
    """A store ack covers it, and the word that it was passed on is to free it."""
    STORED = 10
    """The commit of this relay that holds it has returned; of express, it is in memory."""
    GOES_ON = 11
    """It is part of a large message of which others have left this relay, so that it must not end here."""


_LATE = set(StreamPacketEvent) - {StreamPacketEvent.SENT, StreamPacketEvent.STORED, StreamPacketEvent.GOES_ON}
"""Events of every state: acks may be late, and cover packets that are to be sent again, or are done."""


def _row(state: StreamPacketState, **moves: StreamPacketState) -> dict[StreamPacketEvent, StreamPacketState]:
    ends = {
        StreamPacketEvent.ACKED: StreamPacketState.KEPT,
        StreamPacketEvent.GIVEN_UP: StreamPacketState.GIVEN_UP,
        StreamPacketEvent.REJECTED: StreamPacketState.REJECTED,
        StreamPacketEvent.FREED: StreamPacketState.DONE,
    }
    return dict.fromkeys(_LATE, state) | ends | {StreamPacketEvent[name]: after for name, after in moves.items()}


TRANSITIONS: dict[StreamPacketState, dict[StreamPacketEvent, StreamPacketState]] = {
    StreamPacketState.ARRIVED: _row(StreamPacketState.ARRIVED, STORED=StreamPacketState.WAITING_TO_SEND),
    StreamPacketState.WAITING_TO_SEND: _row(
        StreamPacketState.WAITING_TO_SEND, SENT=StreamPacketState.SENT, WAITS=StreamPacketState.WAITING_ORDER_ACK
    ),
    StreamPacketState.SENT: _row(
        StreamPacketState.SENT,
        RECEIVED_NOT_STORED=StreamPacketState.WAITING_STORE_ACK,
        RECEIVED_NOT_ORDERED=StreamPacketState.WAITING_ORDER_ACK,
        STORED_NOT_ONWARD=StreamPacketState.WAITING_ONWARD_ACK,
        SEND_AGAIN=StreamPacketState.WAITING_TO_SEND,
    ),
    StreamPacketState.WAITING_STORE_ACK: _row(
        StreamPacketState.WAITING_STORE_ACK,
        STORED_NOT_ONWARD=StreamPacketState.WAITING_ONWARD_ACK,
        SEND_AGAIN=StreamPacketState.WAITING_TO_SEND,
    ),
    StreamPacketState.WAITING_ONWARD_ACK: _row(
        StreamPacketState.WAITING_ONWARD_ACK, SEND_AGAIN=StreamPacketState.WAITING_TO_SEND
    ),
    StreamPacketState.WAITING_ORDER_ACK: _row(
        StreamPacketState.WAITING_ORDER_ACK, SEND_AGAIN=StreamPacketState.WAITING_TO_SEND
    ),
    StreamPacketState.KEPT: _row(StreamPacketState.KEPT),
    StreamPacketState.GIVEN_UP: _row(
        StreamPacketState.GIVEN_UP, ACKED=StreamPacketState.GIVEN_UP, GOES_ON=StreamPacketState.WAITING_TO_SEND
    ),
    StreamPacketState.REJECTED: dict.fromkeys(_LATE, StreamPacketState.REJECTED)
    | {StreamPacketEvent.FREED: StreamPacketState.DONE},
    StreamPacketState.DONE: dict.fromkeys(StreamPacketEvent, StreamPacketState.DONE),
}
"""The next state by state and event."""

# A look-up in an enumeration takes five times as long as a name of this module; members used for every packet have one.
_WAITING, _GIVEN_UP = StreamPacketState.WAITING_TO_SEND, StreamPacketState.GIVEN_UP
_SENT, _AGAIN = StreamPacketEvent.SENT, StreamPacketEvent.SEND_AGAIN
ON_THEIR_WAY = (StreamPacketState.SENT, StreamPacketState.WAITING_STORE_ACK, StreamPacketState.WAITING_ORDER_ACK)
"""The states of packets that the next hop may refuse still, or was sent for nothing."""
NUMBER_OF = attrgetter("number")
NO_BOUND = 1 << 64
"""More than any number."""
_FEW = 16
"""Up to this number, packets find their places among those that wait one by one. More are sorted with all others."""
STALE_MIN = 64
"""How many packets that are gone before they were sent may be kept: a search costs more than they do."""


@dataclass(slots=True)
class DepartingPacket:
    """A packet on its way out.

    Attributes:
        number: its place in the sequence.
        body: its content; None while only the disk has it.
        size_bytes: length of the body.
        messages: how many messages end in it: all of a batch, and one in the last fragment of a large message.
        reach_by_ms: this node's wall clock time after which it is not worth sending, 0 for never.
        ack_requested: whether its acknowledgements are wanted at once.
        sends: how often it was handed to a session.
        packet: the number that the current session gave it; 0 when it has not been sent in it.
        stored: whether the next hop has had it on its disk.
        taken: whether it has it there as it was sent last, by a store ack of this session.
        onward: whether the node behind that has it on its disk, over a synchronous link; see the roles.
    """

    number: int
    body: bytes | None
    size_bytes: int
    messages: int
    _: KW_ONLY
    reach_by_ms: int = 0
    ack_requested: bool = False
    state: StreamPacketState = StreamPacketState.WAITING_TO_SEND
    sends: int = 0
    packet: int = 0
    stored: bool = False
    taken: bool = False
    onward: bool = False


Packet = TypeVar("Packet", bound=DepartingPacket)


class DepartingSequence(Generic[Packet]):
    """The packets of one stream that are here.

    Args:
        delivery: class of the whole stream.
        sequence: id of the sequence; only grows.

    Attributes:
        role: the role of this node for the packets.
        freed_by: the ack that lets this node forget a packet.
        entries: the packets that are in memory, by number.
        sync: whether the link to the next hop is synchronous now.
        tier: when packets go out again for want of an order ack; None at a relay.
        waits_until: the next hop has everything up to this number on its disk, or has passed it on, and the rest waits
            there: by its word, as long as its session lasts. 0 if it has not said so.
    """

    __slots__ = (
        "_ascending",
        "_to_send",
        "_waits_turn",
        "delivery",
        "entries",
        "freed_by",
        "hold",
        "sequence",
        "start",
        "sync",
        "tier",
        "waits_until",
    )

    role: ClassVar[Role]

    def __init__(self, delivery: Delivery, sequence: int, entries: dict[int, Packet]) -> None:
        self.delivery = delivery
        self.freed_by = FREED_BY[delivery, self.role]
        self.sync = False
        self.sequence = sequence
        self.entries = entries
        self.hold = Hold()
        self.start = SlowStart()
        self.tier: ResendTimer | None = None
        self.waits_until = self._waits_turn = 0
        self._to_send: deque[Packet] = deque()
        # Whether packets leave by their numbers, and not as they came.
        self._ascending = self.role is Role.ORIGIN or delivery is Delivery.TRANSACTIONAL

    # ---- inputs

    def handle_sent(self, run: list[Packet], now_ns: int, *, packet: int = 0) -> list[int]:
        """The entries that ``peek_run`` returned were handed to a session, which numbered them from ``packet`` on.

        Returns:
            The numbers that the session gave before to those of them that it had: the destination may answer the new
                ones alone.
        """
        before = [entry.packet for entry in run if entry.packet]
        for number, entry in enumerate(run, packet):
            self._to_send.popleft()
            entry.state = TRANSITIONS[entry.state][_SENT]
            entry.sends += 1
            entry.packet = number
            entry.taken = False
        if self.hold.state is HoldState.PROBING:
            self.hold.handle_sent(now_ns)
        if self.start.credit:
            self.start.handle_sent()
        return before

    def set_sync(self, sync: bool) -> list[Packet]:
        """Its link is synchronous from now on, or no longer. Returns the packets that this frees."""
        if sync is self.sync:
            return []
        self.sync = sync
        self.freed_by = (SYNC_FREED_BY if sync else FREED_BY)[self.delivery, self.role]
        return [] if sync else self._free_stored()

    @property
    def awaits_onward(self) -> bool:
        """Whether packets wait for the word of the next hop that it has passed them on."""
        return self.freed_by is Ack.ONWARD and any(entry.stored for entry in self.entries.values())

    def handle_waits(self, turn: int, until: int, now_ns: int) -> bool:  # noqa: ARG002 - an origin has tiers
        """The next hop has packets up to a number, and they wait there; 0: nothing waits there any more.

        Returns:
            Whether the word counts, as its turn is greater than that of the last one in this session.
        """
        if turn <= self._waits_turn:
            return False
        self._waits_turn, self.waits_until = turn, until
        return True

    def forget_waits(self) -> bool:
        """Its session has ended, or packets go to another node now. Returns whether it had said that packets wait."""
        waited = self.waits_until > 0
        self.waits_until = self._waits_turn = 0
        return waited

    def handle_flow_control(self, turn: int, now_ns: int, *, stop: bool, crowded: bool = False) -> list[int]:
        """The next hop has no room for this stream, or has some again; it took no packet that no store ack covers.

        Args:
            turn: the turn of the hold.
            now_ns: the clock.
            stop: whether there is no room.
            crowded: whether the reason is that the next hop does not know the stream, and had no place for one more.

        Returns:
            The session's numbers of the packets that go out again: acks of those sendings no longer count.
        """
        hold, start = self.hold, self.start
        if hold.is_repeated(turn):
            # It may have left before the probe arrived that is under way, and says nothing about that.
            return []
        stopped = hold.stops
        hold.handle_flow_control(turn, now_ns, stop=stop)
        if self.freed_by is Ack.SESSION and not crowded:
            # Express packets that were in flight are taken, unless there was no place for their stream.
            if start.credit is not None and not hold.stops:
                start.handle_room()
            return []
        if not hold.stops:
            start.handle_room()
        elif not stopped:
            start.handle_refused()
        # What the next hop has on its disk, it has taken.
        refused = [entry for entry in self.entries.values() if not entry.taken]
        again = [entry for entry in refused if entry.state in ON_THEIR_WAY]
        # An ack of what was given up after it had left would free it, and its dead letter would never be made.
        withdrawn = again + [entry for entry in refused if entry.state is _GIVEN_UP]
        numbers = [entry.packet for entry in withdrawn if entry.packet]
        for entry in withdrawn:
            entry.packet = 0
        self._send_again(again)
        return numbers

    def ask_for_room(self) -> bool:
        """Whether the stream is held back and has a packet to ask with, which may leave now."""
        return self.hold.hasten() and self.peek() is not None

    # ---- outputs

    def peek(self) -> Packet | None:
        """The packet that goes next, or None."""
        if (self.hold.state is not HoldState.GOING or self.start.credit is not None) and self._is_held:
            return None
        to_send = self._to_send
        while to_send and to_send[0].state is not _WAITING:
            to_send.popleft()
        return to_send[0] if to_send else None

    def peek_run(self, limit: int) -> list[Packet]:
        """The packet that goes next, and those that follow it with any outcome of it: at most ``limit`` in all.

        The bodies of all but perhaps the first are here.
        """
        first = self.peek()
        if first is None:
            return []
        run = [first]
        if limit == 1 or self.hold.state is not HoldState.GOING or self.start.credit is not None:
            return run
        bound, in_a_row = self._bound, self.role is Role.ORIGIN
        for entry in islice(self._to_send, 1, limit):
            if entry.state is not _WAITING or entry.body is None or entry.number > bound:
                break
            # The header of an origin's run has the first number alone.
            if in_a_row and entry.number != run[-1].number + 1:
                break
            run.append(entry)
        return run

    def upcoming(self, limit: int) -> list[Packet]:
        """The next ``limit`` packets that wait in memory to be sent, for a caller that fetches bodies from the disk."""
        bound = self._bound
        return list(islice((it for it in self._to_send if it.state is _WAITING and it.number <= bound), limit))

    def ranges(self) -> list[Range]:
        """The numbers of all packets that are here."""
        return as_ranges(sorted(self.entries))

    # ---- helpers

    @property
    def _is_held(self) -> bool:
        """Whether nothing may leave, as the next hop has no room."""
        state = self.hold.state
        return state is HoldState.PAUSED or (self.start.credit == 0 and state is not HoldState.PROBING)

    @property
    def _bound(self) -> int:
        """Packets with greater numbers must not leave now."""
        return NO_BOUND

    def _free_stored(self) -> list[Packet]:
        """Store acks are enough from now on: free what they have covered."""
        return []

    def _send_again(self, entries: list[Packet]) -> None:
        """Let packets that have left go out again before those that wait, or in the order of numbers."""
        for entry in entries:
            move(entry, _AGAIN)
        to_send = self._to_send
        if self._ascending:
            entries.sort(key=NUMBER_OF)
            if to_send and entries and entries[-1].number > to_send[0].number:
                self._insert(entries)
                return
        to_send.extendleft(reversed(entries))

    def _insert(self, entries: list[Packet]) -> None:
        """Give packets that wait their places among the others, by their numbers."""
        to_send = self._to_send
        if len(entries) <= _FEW:
            for entry in entries:
                to_send.insert(bisect_left(to_send, entry.number, key=NUMBER_OF), entry)
            return
        waiting = {entry.number: entry for entry in (*to_send, *entries) if entry.state is _WAITING}
        self._to_send = deque(waiting[number] for number in sorted(waiting))

    def _sweep(self) -> None:
        """Packets that are gone need not be looked at to be sent."""
        if len(self._to_send) > STALE_MIN + 2 * len(self.entries):
            self._forget_stale()

    def _forget_stale(self) -> None:
        self._to_send = deque(entry for entry in self._to_send if entry.state is _WAITING)

    def check_invariants(self) -> None:
        """Assert that each packet that waits has one place, and none is here that is done."""
        if not self.entries and not self._to_send:
            return
        assert all(number == entry.number for number, entry in self.entries.items())
        assert all(entry.state is not StreamPacketState.DONE for entry in self.entries.values())
        waiting = [entry.number for entry in self._to_send if entry.state is _WAITING]
        here = [number for number, entry in self.entries.items() if entry.state is _WAITING]
        assert sorted(waiting) == sorted(here)
        assert not self._ascending or waiting == sorted(waiting)


def move(entry: DepartingPacket, event: StreamPacketEvent) -> None:
    """Let an event happen to a packet."""
    entry.state = TRANSITIONS[entry.state][event]
