"""The sending end of a stream: which packets are still wanted, and which acks free them.

Promise: a packet that was appended is offered for sending, in order, until the acknowledgement that frees its class
arrives (``base.delivery.FREED_BY``) or it is removed. Its number never changes and is never used twice.

    WAITING_TO_SEND --sent--> WAITING_SESSION_ACK --session ack--> WAITING_STORE_ACK | WAITING_ORDER_ACK
    any --the ack that frees the class | removed--> DONE
    any of these --session closed, but not as idle | resend tier | held back--> WAITING_TO_SEND
    WAITING_SESSION_ACK | WAITING_STORE_ACK --store ack over a synchronous link--> WAITING_ONWARD_ACK
    WAITING_TO_SEND --it waits at a relay--> WAITING_ORDER_ACK
    any --acknowledged, but not all of its message--> KEPT
    any --given up--> GIVEN_UP
    any --rejected by its destination--> REJECTED

The packets of a large message are freed together: its acknowledged packets stay, unsent, until all of them are
acknowledged. So if any packet of it is refused, or expires, the whole message is still here.

All moves are in ``TRANSITIONS``; the states are those of [MS-MQQB] 3.1.1.1.1.3-8. It knows neither sessions nor disks
nor the content of bodies.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

from triack.base.delivery import FREED_BY, SYNC_FREED_BY, Ack, Delivery, Role
from triack.base.ranges import Range, within
from triack.ordering.hold import Hold, HoldState
from triack.ordering.order_settings import OrderSettings
from triack.ordering.slow_start import SlowStart
from triack.ordering.tiers import ResendTimer

__all__ = [
    "TRANSITIONS",
    "LastOrderAck",
    "OutgoingSequence",
    "StreamPacket",
    "StreamPacketEvent",
    "StreamPacketState",
]


class StreamPacketState(IntEnum):
    """Where an outgoing packet is."""

    WAITING_TO_SEND = 0
    """It goes out as soon as a session takes it."""
    WAITING_SESSION_ACK = 1
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
    """It is no longer sent, and is removed as soon as its end is on disk, unless it is freed before."""
    REJECTED = 7
    """The same, and nothing frees it: its destination has refused its message for good."""
    DONE = 8
    """Freed or removed; nothing leaves this state."""


class StreamPacketEvent(IntEnum):
    """An event of an outgoing packet."""

    SENT = 0
    """A session took it."""
    RECEIVED_NOT_STORED = 1
    """A session ack covers it, and a store ack is to free it."""
    RECEIVED_NOT_ORDERED = 2
    """A session ack covers it, and an order ack is to free it."""
    SEND_AGAIN = 3
    """Its session closed, its resend tier ran out, it was held back, or the packet before it was removed."""
    ACKED = 4
    """The ack that frees its class covers it."""
    GIVEN_UP = 5
    """Its message will no longer be sent."""
    REJECTED = 6
    """Its destination will not take its message."""
    FREED = 7
    """All of its message is covered, or it was removed."""
    WAITS = 8
    """A relay has it on its disk, where it waits."""
    STORED_NOT_ONWARD = 9
    """A store ack covers it, and the word that it was passed on is to free it."""


_LATE = set(StreamPacketEvent) - {StreamPacketEvent.SENT}
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
    StreamPacketState.WAITING_TO_SEND: _row(
        StreamPacketState.WAITING_TO_SEND,
        SENT=StreamPacketState.WAITING_SESSION_ACK,
        WAITS=StreamPacketState.WAITING_ORDER_ACK,
    ),
    StreamPacketState.WAITING_SESSION_ACK: _row(
        StreamPacketState.WAITING_SESSION_ACK,
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
    StreamPacketState.GIVEN_UP: _row(StreamPacketState.GIVEN_UP, ACKED=StreamPacketState.GIVEN_UP),
    StreamPacketState.REJECTED: dict.fromkeys(_LATE, StreamPacketState.REJECTED)
    | {StreamPacketEvent.FREED: StreamPacketState.DONE},
    StreamPacketState.DONE: dict.fromkeys(_LATE, StreamPacketState.DONE),
}
"""The next state by state and event."""

AFTER_SESSION_ACK: dict[Ack, StreamPacketEvent] = {
    Ack.STORE: StreamPacketEvent.RECEIVED_NOT_STORED,
    Ack.ONWARD: StreamPacketEvent.RECEIVED_NOT_STORED,
    Ack.ORDER: StreamPacketEvent.RECEIVED_NOT_ORDERED,
}
"""The event of a session ack for a packet, by the ack that frees its class, unless the session ack itself frees it."""

# A look-up in an enumeration takes five times as long as a name of this module; members used for every packet have one.
_WAITING, _KEPT, _REJECTED, _GIVEN_UP = (
    StreamPacketState.WAITING_TO_SEND,
    StreamPacketState.KEPT,
    StreamPacketState.REJECTED,
    StreamPacketState.GIVEN_UP,
)
_SENT, _FREED, _ORDER = StreamPacketEvent.SENT, StreamPacketEvent.FREED, Ack.ORDER
_WAITING_FOR_ACKS = (
    StreamPacketState.WAITING_SESSION_ACK,
    StreamPacketState.WAITING_STORE_ACK,
    StreamPacketState.WAITING_ORDER_ACK,
)
_ENDED = (StreamPacketState.GIVEN_UP, StreamPacketState.REJECTED)
_COVERED = (StreamPacketState.DONE, StreamPacketState.KEPT, StreamPacketState.REJECTED)
DATED_MS = 1_000
"""Ages are told in seconds. A backlog of a day has 86,400 dates at most, 10 MB."""
_STALE_MIN = 64
"""How many packets that were given up before they were sent may be kept: a search costs more than they do."""


@dataclass(slots=True)
class StreamPacket:
    """An outgoing packet.

    Attributes:
        number: its place in the sequence.
        body: its content; None while only the disk has it.
        size_bytes: length of the body.
        messages: how many messages end in it: all of a batch, and one in the last fragment of a large message.
        first_ticket: count of messages of the stream that were submitted before those it holds, in this process.
        tickets: how many messages it is part of: those of a batch, and one for each fragment of a large message.
        reach_by_ms: wall clock time after which it is not worth sending, 0 for never.
        received, stored: whether the next hop has it, and has it on disk.
        onward: the same of the node behind that, over a synchronous link; over others as ``stored``.
        sends: how often it was handed to a session.
        packet: the number that the current session gave it; 0 when it has not been sent in it.
        stored_as: the same number, once a store ack of the current session covers it.
        whole: the large message that it is a fragment of, or None.
        ack_requested: whether the sender of a message in it wants its acknowledgements at once.
        cares: whether its messages want more than to be delivered, see ``base.commit.CARES``.
    """

    number: int
    body: bytes | None
    size_bytes: int
    messages: int
    first_ticket: int
    tickets: int
    reach_by_ms: int = 0
    state: StreamPacketState = StreamPacketState.WAITING_TO_SEND
    received: bool = False
    stored: bool = False
    sends: int = 0
    packet: int = 0
    stored_as: int = 0
    whole: "_Whole | None" = None
    ack_requested: bool = False
    onward: bool = False
    cares: bool = False

    @property
    def is_taken(self) -> bool:
        """Whether the next hop has stored it as it was sent last: perhaps one before had it, too."""
        return self.packet > 0 and self.stored_as == self.packet


@dataclass(slots=True)
class _Whole:
    """A large message: its packets, and the numbers of those that are not acknowledged yet."""

    entries: list[StreamPacket]
    unacked: set[int]


class LastOrderAck(NamedTuple):
    """The last order ack of a sequence, as MSMQ shows it to operators (EodLastAck, EodLastAckTime, EodLastAckCount).

    Attributes:
        number: the last packet that it covers.
        at_ns: when it came last, by the monotonic clock.
        times: how often it has come.
    """

    number: int
    at_ns: int
    times: int


class OutgoingSequence:
    """One stream's packets, from the one appended first to the one freed last.

    Args:
        delivery: class of the whole stream.
        sequence: id of the sequence; only grows.
        next_number: number of the next packet.
        settings: tiers and how often to ask for an order ack.
        role: the role of this node for the packets.

    Attributes:
        freed_by: the ack that lets this node forget a packet.
        last_ack: the last order ack in this process; None before the first.
        resends: packets that went out again for want of an order ack, in this process.
        sync: whether its link is synchronous now.
    """

    __slots__ = (
        "_ask_in",
        "_dates",
        "_ended",
        "_role",
        "_settings",
        "_tier_opens",
        "_to_send",
        "_waits_turn",
        "_waits_until",
        "_whole",
        "delivery",
        "entries",
        "freed_by",
        "hold",
        "last_ack",
        "next_number",
        "resends",
        "sequence",
        "start",
        "sync",
        "tier",
    )

    def __init__(
        self,
        delivery: Delivery,
        sequence: int,
        next_number: int,
        settings: OrderSettings,
        role: Role = Role.ORIGIN,
    ) -> None:
        self.delivery = delivery
        self._role = role
        self.sync = False
        self.freed_by = FREED_BY[delivery, role]
        self.sequence = sequence
        self.next_number = next_number
        # Ordered: taking the first of a plain dictionary looks at every one that was freed before it.
        self.entries: OrderedDict[int, StreamPacket] = OrderedDict()
        self.tier = ResendTimer(settings)
        self.hold = Hold()
        self.start = SlowStart()
        self._settings = settings
        self._to_send: deque[StreamPacket] = deque()
        # How many of them were given up or rejected: no tier waits for these.
        self._ended = 0
        self._ask_in = settings.order_ack_every
        # A relay answers for all packets up to this number, by its newest word; 0 for none.
        self._waits_until, self._waits_turn = 0, 0
        self._whole: _Whole | None = None
        # Whether a tier ran out after a session that ended as idle, and there is none since.
        self._tier_opens = False
        # The first packet here of each DATED_MS, and when it was sent.
        self._dates: deque[tuple[int, int]] = deque()
        self.last_ack: LastOrderAck | None = None
        self.resends = 0

    # ---- inputs

    def append(self, entries: Sequence[StreamPacket], sent_at_ms: int = 0) -> None:
        """Add the next packets; their numbers begin with ``next_number``, or come from the disk after a restart.

        ``sent_at_ms``: when the first of them was sent, by this node's wall clock.
        """
        dates = self._dates
        if not self.entries:
            dates.clear()
        if entries and (not dates or abs(sent_at_ms - dates[-1][1]) >= DATED_MS):
            self._dated().append((entries[0].number, sent_at_ms))
        for entry in entries:
            self.entries[entry.number] = entry
            # Only the last fragment of a large message has a message in it.
            if self._whole is not None or not entry.messages:
                self._add_fragment(entry)
        self._to_send += entries
        if entries:
            self.next_number = max(self.next_number, entries[-1].number + 1)

    def _dated(self) -> deque[tuple[int, int]]:
        """The dates of the packets that are here."""
        first, dates = next(iter(self.entries), None), self._dates
        if first is None:
            dates.clear()
        while first is not None and len(dates) > 1 and dates[1][0] <= first:
            dates.popleft()
        return dates

    @property
    def oldest_ms(self) -> int | None:
        """When the first packet was sent that is here; None when none is."""
        dates = self._dated()
        return dates[0][1] if dates else None

    def _add_fragment(self, entry: StreamPacket) -> None:
        whole = self._whole or _Whole([], set())
        whole.entries.append(entry)
        whole.unacked.add(entry.number)
        entry.whole = whole
        self._whole = None if entry.messages else whole

    def handle_sent(self, run: list[StreamPacket], now_ns: int, *, packet: int = 0) -> list[int]:
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
        self.hold.handle_sent(now_ns)
        self.start.handle_sent()
        if self.freed_by is Ack.ORDER:
            self.tier.handle_sent(now_ns)
        return before

    def handle_session_ack(self, entries: Iterable[StreamPacket]) -> list[StreamPacket]:
        """The next hop has these packets, or confirms that the rejection of one is known.

        Returns:
            The packets that this frees.
        """
        waits, frees = AFTER_SESSION_ACK.get(self.freed_by), self.freed_by is Ack.SESSION
        taken = [entry for entry in entries if entry.state is not _REJECTED]
        for entry in taken:
            entry.received = True
            if waits is not None:
                _move(entry, waits)
        return self._free(taken) if frees else []

    def handle_store_ack(self, entries: Iterable[StreamPacket]) -> list[StreamPacket]:
        """The next hop has these packets on disk, or passes one that it refused. Returns the freed packets."""
        stored = [entry for entry in entries if entry.state is not _REJECTED]
        self.start.handle_taken(sum([not entry.is_taken for entry in stored]))
        for entry in stored:
            entry.received = entry.stored = True
            entry.stored_as = entry.packet
            entry.onward = entry.onward or not self.sync
        if self.freed_by is Ack.ONWARD:
            for entry in stored:
                _move(entry, StreamPacketEvent.STORED_NOT_ONWARD)
            return self._free([entry for entry in stored if entry.onward])
        return self._free(stored) if self.freed_by is Ack.STORE else []

    def set_sync(self, sync: bool) -> list[StreamPacket]:
        """Its link is synchronous from now on, or no longer. Returns the packets that this frees."""
        if sync is self.sync:
            return []
        self.sync = sync
        self.freed_by = (SYNC_FREED_BY if sync else FREED_BY)[self.delivery, self._role]
        if sync:
            return []
        stored = [entry for entry in self.entries.values() if entry.stored and entry.state is not _REJECTED]
        for entry in stored:
            entry.onward = True
        return self._free(stored) if self.freed_by is Ack.STORE else []

    def handle_onward(self, ranges: Iterable[Range]) -> tuple[list[StreamPacket], list[StreamPacket]]:
        """A relay has passed packets on. Returns those that are here, and of these the ones that this frees.

        Others are freed by their store ack. Without it the word may be about another copy, in a circle of relays, and
        this one may be the only one.
        """
        covered = [self.entries[number] for number in within(ranges, self.entries)]
        covered = [entry for entry in covered if entry.state is not _REJECTED]
        for entry in covered:
            entry.onward = True
        freed = [entry for entry in covered if entry.stored] if self.freed_by is Ack.ONWARD else []
        return covered, self._free(freed)

    @property
    def awaits_onward(self) -> bool:
        """Whether packets wait for the word of the next hop that it has passed them on."""
        return self.freed_by is Ack.ONWARD and any(entry.stored for entry in self.entries.values())

    def relay_answers(self, entries: list[StreamPacket]) -> bool:
        """Whether the next hop answers for all of these packets; they are here only until it has passed them on."""
        return self.freed_by is Ack.ONWARD and all(entry.stored for entry in entries)

    def handle_order_ack(self, sequence: int, number: int, now_ns: int) -> list[StreamPacket]:
        """The destination has everything up to ``number``. Returns the freed packets, in order."""
        if sequence != self.sequence or self.freed_by is not Ack.ORDER or number >= self.next_number:
            return []
        before = self.last_ack
        times = before.times + 1 if before is not None and before.number == number else 1
        if before is None or number >= before.number:
            self.last_ack = LastOrderAck(number, now_ns, times)
        covered: list[StreamPacket] = []
        for candidate in self.entries.values():
            if candidate.number > number:
                break
            # The destination itself goes past no rejection that it has sent; it knows nothing of those of a relay.
            if candidate.state not in (_KEPT, _REJECTED):
                covered.append(candidate)
        # Each such ack covers a packet of a message that was given up again, until it covers the whole message.
        progress = any(entry.state is not _GIVEN_UP for entry in covered)
        for entry in covered:
            entry.received = entry.stored = True
        freed = self._free(covered)
        if progress:
            self.tier.handle_progress(now_ns, outstanding=self._is_outstanding)
        return freed

    def handle_flow_control(self, turn: int, now_ns: int, *, stop: bool, crowded: bool = False) -> list[int]:
        """The next hop has no room for this stream, or has some again; it took no packet that no store ack covers.

        Args:
            turn: the turn of the hold.
            now_ns: the clock.
            stop: whether there is no room.
            crowded: whether the reason is that the destination does not know the stream, and had no place for one more.

        Returns:
            The session's numbers of the packets that go out again: acks of those sendings no longer count.
        """
        # Express packets that were in flight are taken, unless there was no place for their stream.
        keeps = self.freed_by is Ack.SESSION and not crowded
        if not self.start.handle_flow_control(self.hold, turn, now_ns, stop=stop, keeps=keeps):
            return []
        # What the next hop has on its disk, it has taken.
        refused = [entry for entry in self.entries.values() if not entry.is_taken]
        again = [entry for entry in refused if entry.state in _WAITING_FOR_ACKS]
        # An ack of what was given up after it had left would free it, and its dead letter would never be made.
        withdrawn = again + [entry for entry in refused if entry.state is _GIVEN_UP]
        numbers = [entry.packet for entry in withdrawn if entry.packet]
        for entry in withdrawn:
            entry.packet = 0
        self._send_again(again, StreamPacketEvent.SEND_AGAIN)
        return numbers

    def handle_waits(self, turn: int, until: int, now_ns: int) -> bool:
        """A relay has all packets up to a number, and they wait there: no tier sends these again.

        Args:
            turn: the turn of the word; an older one than the last does not count.
            until: the number; 0: nothing waits there any more, so that the first tier begins.
            now_ns: the clock.

        Returns:
            Whether the word counts.
        """
        if turn < self._waits_turn or self.freed_by is not Ack.ORDER:
            return False
        self._waits_turn = turn
        ends = self._waits_until > 0 and not until
        self._waits_until = until
        for entry in self.entries.values():
            if entry.number > until:
                break
            # Its store ack may have been lost with a session.
            entry.received = entry.stored = True
            _move(entry, StreamPacketEvent.WAITS)
        if ends:
            self.tier.handle_progress(now_ns, outstanding=self._is_outstanding)
        return True

    def ask_for_room(self) -> bool:
        """Whether the stream is held back and has a packet to ask with, which may leave now."""
        return self.hold.hasten() and self.peek() is not None

    def handle_session_opened(self, now_ns: int) -> None:
        """A new session begins: all that was sent before goes out again, from the first tier on ([MS-MQQB] 3.1.3.2).

        If the last one ended as idle and a tier has run out since, that tier has opened this session, and continues.
        """
        if self._tier_opens:
            self._tier_opens = False
            return
        again = [it for it in self._waiting(StreamPacketState.WAITING_ORDER_ACK) if not it.packet]
        self.start.handle_resend(len(again))
        self._send_again(again, StreamPacketEvent.SEND_AGAIN)
        self.tier.handle_progress(now_ns, outstanding=self.tier.deadline_ns is not None)

    def handle_session_closed(self, *, idle: bool = False, not_stored: bool = False) -> None:
        """The session is gone: everything that is not freed goes out again on the next one, in order.

        Args:
            idle: it ended because nothing was to be sent. Nothing has failed, so packets on the next hop's disk open no
                session before their resend tier runs out.
            not_stored: it ended because arrived packets were not stored: there may be no room.
        """
        self.hold.handle_session_closed()
        # No tier runs for what waits at a relay, whose word ends here.
        idle = idle and not self._waits_until
        self._waits_until = self._waits_turn = 0
        self._tier_opens = self._tier_opens and idle
        self.start.handle_session_closed(not_stored=not_stored)
        for entry in self.entries.values():
            entry.packet = entry.stored_as = 0
            if not (idle and entry.stored and entry.state is StreamPacketState.WAITING_ORDER_ACK):
                _move(entry, StreamPacketEvent.SEND_AGAIN)
        self._to_send = deque(self._waiting(StreamPacketState.WAITING_TO_SEND))

    def handle_timer(self, now_ns: int) -> list[StreamPacket]:
        """A resend tier may have run out. Returns the packets that go out again; those in their session stay there."""
        if not self.tier.is_due(now_ns):
            return []
        sent = [it for it in self.entries.values() if it.state in _WAITING_FOR_ACKS and it.number > self._waits_until]
        if not sent:
            # Until something is sent, or a relay takes its word back, there is nothing to wait for.
            self.tier.handle_rest(is_answered=self._waits_until > 0)
            return []
        again = [entry for entry in sent if entry.state is StreamPacketState.WAITING_ORDER_ACK]
        self.tier.handle_expired(now_ns, resends=bool(again))
        if again:
            self._tier_opens = not again[0].packet
            self.resends += len(again)
            self.start.handle_resend(len(again))
            self._send_again(again, StreamPacketEvent.SEND_AGAIN)
        return again

    def unconfirmed(self) -> list[StreamPacket]:
        """Packets that this session got, and that the next hop may not have for good."""
        waiting = (entry for entry in self.entries.values() if entry.state in _WAITING_FOR_ACKS)
        return [entry for entry in waiting if entry.packet and not entry.stored]

    def message_of(self, entry: StreamPacket) -> list[StreamPacket]:
        """The packets of the large message that ``entry`` is a fragment of; else itself."""
        return [entry] if entry.whole is None else list(entry.whole.entries)

    def give_up(self, entries: list[StreamPacket]) -> None:
        """Stop sending these packets; ``remove`` follows, unless they are freed before."""
        self._end(entries, StreamPacketEvent.GIVEN_UP)

    def reject(self, entries: list[StreamPacket]) -> None:
        """The destination has refused these packets, all of one message, for good; ``remove`` follows."""
        self._end(entries, StreamPacketEvent.REJECTED)

    def remove(self, entry: StreamPacket) -> None:
        """Give a packet up. The one after it goes out again, as its ``previous`` has changed."""
        if entry.number not in self.entries:
            return
        self._drop(entry)
        self._forget_stale()
        self.start.handle_taken()
        ordered = self.freed_by is Ack.ORDER
        # The receiver holds the one after it until a packet comes that will never come.
        following = self._following(entry.number) if ordered else None
        if following is not None and following.state in _WAITING_FOR_ACKS:
            self._send_again([following], StreamPacketEvent.SEND_AGAIN)
        self._rest()

    # ---- outputs

    def peek(self) -> StreamPacket | None:
        """The packet that goes next, or None."""
        probing = self.hold.state is HoldState.PROBING
        if self.hold.stops or (self.start.credit == 0 and not probing):
            return None
        to_send = self._to_send
        while to_send and to_send[0].state is not StreamPacketState.WAITING_TO_SEND:
            to_send.popleft()
        return to_send[0] if to_send else None

    def peek_run(self, limit: int) -> list[StreamPacket]:
        """The packet that goes next, and those that follow it with any outcome of it: at most ``most`` in all.

        Their numbers follow each other, and the bodies of all but perhaps the first are here.
        """
        first = self.peek()
        if first is None:
            return []
        run = [first]
        if self.hold.state is not HoldState.GOING or self.start.credit is not None:
            return run
        for entry in islice(self._to_send, 1, limit):
            follows = entry.number == run[-1].number + 1 and entry.state is _WAITING
            if not follows or entry.body is None:
                break
            run.append(entry)
        return run

    def upcoming(self, limit: int) -> list[StreamPacket]:
        """The next ``most`` packets that wait to be sent, for a caller that fetches bodies from the disk."""
        waiting = (entry for entry in self._to_send if entry.state is StreamPacketState.WAITING_TO_SEND)
        return list(islice(waiting, limit))

    def previous_of(self, entry: StreamPacket) -> int:
        """The ``previous`` field of a packet that leaves now ([MS-MQMQ] 2.2.20.5)."""
        if self.freed_by is not Ack.ORDER:
            # Everything up to it was freed or given up, so that the receiver may forget those packets.
            return next(iter(self.entries)) - 1
        if entry.number - 1 in self.entries:
            return entry.number - 1
        if next(iter(self.entries)) == entry.number:
            # Nothing before it is still to come. With 0 it begins a sequence that the receiver has not seen, and
            # follows any position of one that it knows.
            return 0
        # Those between them were given up: the receiver is to pass over their numbers.
        return max((number for number in self.entries if number < entry.number), default=0)

    def previous_of_run(self, run: list[StreamPacket]) -> list[int]:
        """The same of packets whose numbers follow each other."""
        first = self.previous_of(run[0])
        if self.freed_by is not Ack.ORDER:
            return [first] * len(run)
        return [first, *range(run[0].number, run[-1].number)]

    def poll_ask(self, entry: StreamPacket) -> bool:
        """Whether a packet that leaves now should ask for an order ack."""
        if self.freed_by is not _ORDER:
            return False
        self._ask_in -= 1
        # A resent packet may have been accepted long ago, and acks show room: only an order ack can tell.
        if self._ask_in > 0 and entry.sends == 0 and self.start.credit is None:
            return False
        self._ask_in = self._settings.order_ack_every
        return True

    @property
    def waits_at_relay(self) -> bool:
        """Whether a relay answers for packets, as long as its session lasts."""
        return self._waits_until > 0

    @property
    def relay_has(self) -> int:
        """The last packet for which a relay answers; 0 for none."""
        return self._waits_until

    @property
    def awaits_order_ack(self) -> bool:
        """Whether a resend tier that ran out would send anything again, or would if a relay had not said that it waits.

        Its owner makes sure that the next hop is still there.
        """
        if self._waits_until:
            return True
        if self.tier.deadline_ns is not None:
            for entry in self.entries.values():
                if entry.state is StreamPacketState.WAITING_ORDER_ACK:
                    return True
                if entry.state is StreamPacketState.WAITING_TO_SEND and not entry.sends:
                    # Nor has any behind it been sent.
                    return False
        return False

    # ---- helpers

    def _following(self, number: int) -> StreamPacket | None:
        if number + 1 in self.entries:
            return self.entries[number + 1]
        return next((entry for entry in self.entries.values() if entry.number > number), None)

    def _free(self, entries: list[StreamPacket]) -> list[StreamPacket]:
        """The ack that frees their class covers packets. Returns the freed ones: all packets of a message, or none."""
        taken, freed = 0, []
        for entry in entries:
            # A packet that was sent twice in one session may be covered twice by one ack.
            if entry.state in _COVERED:
                continue
            # It has left room for others when it was stored.
            taken += not entry.is_taken
            whole = entry.whole
            if whole is None:
                self._drop(entry)
                freed.append(entry)
                continue
            whole.unacked.discard(entry.number)
            if whole.unacked:
                _move(entry, StreamPacketEvent.ACKED)
                continue
            for part in whole.entries:
                self._drop(part)
            freed += whole.entries
        self._forget_stale()
        self.start.handle_taken(taken)
        return freed

    def _end(self, entries: list[StreamPacket], event: StreamPacketEvent) -> None:
        for entry in entries:
            self._ended -= entry.state in _ENDED
            _move(entry, event)
            self._ended += entry.state in _ENDED
        self._rest()

    def _drop(self, entry: StreamPacket) -> None:
        self._ended -= entry.state in _ENDED
        entry.state = TRANSITIONS[entry.state][_FREED]
        del self.entries[entry.number]

    def _forget_stale(self) -> None:
        """Packets that have been dropped need not be looked at to be sent."""
        if len(self._to_send) > _STALE_MIN + 2 * len(self.entries):
            self._to_send = deque(it for it in self._to_send if it.state is StreamPacketState.WAITING_TO_SEND)

    @property
    def _is_outstanding(self) -> bool:
        """Whether an order ack is awaited. Of each kept message some packet is neither acknowledged nor given up."""
        return len(self.entries) > self._ended

    def _rest(self) -> None:
        """Stop the tier if nothing is left that it may send again."""
        if not self._is_outstanding:
            self.tier.handle_progress(0, outstanding=False)

    def _waiting(self, state: StreamPacketState) -> list[StreamPacket]:
        return [entry for entry in self.entries.values() if entry.state is state]

    def _send_again(self, entries: list[StreamPacket], why: StreamPacketEvent) -> None:
        if not entries:
            return
        for entry in reversed(entries):
            _move(entry, why)
            self._to_send.appendleft(entry)
        # Usually they go before all that waits; when not, the order of numbers is made again.
        first_waiting = len(entries)
        if first_waiting < len(self._to_send) and entries[-1].number > self._to_send[first_waiting].number:
            merged = {entry.number: entry for entry in self._to_send}
            self._to_send = deque(merged[number] for number in sorted(merged))


def _move(entry: StreamPacket, event: StreamPacketEvent) -> None:
    entry.state = TRANSITIONS[entry.state][event]
