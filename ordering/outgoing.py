"""A stream at its origin: it numbers packets, and keeps them until their destination, or the next hop, has them.

Promise: a packet that was appended is offered for sending, in order, until the acknowledgement that frees its class
arrives or it is removed. Its number never changes and is never used twice. The states are those of
``ordering.departing``.

The packets of a large message are freed together: its acknowledged packets stay, unsent, until all of them are
acknowledged. So if any packet of it is refused, or expires, the whole message is still here. It knows neither sessions
nor disks nor the content of bodies.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, NamedTuple

from triack.base.delivery import Ack, Delivery, Role
from triack.base.ranges import Range, within
from triack.ordering.departing import (
    ON_THEIR_WAY,
    TRANSITIONS,
    DepartingPacket,
    DepartingSequence,
    StreamPacketEvent,
    StreamPacketState,
    move,
)
from triack.ordering.order_settings import OrderSettings
from triack.ordering.tiers import ResendTimer

AFTER_ACK: dict[Ack, dict[Ack, StreamPacketEvent]] = {
    Ack.SESSION: {
        Ack.STORE: StreamPacketEvent.RECEIVED_NOT_STORED,
        Ack.ONWARD: StreamPacketEvent.RECEIVED_NOT_STORED,
        Ack.ORDER: StreamPacketEvent.RECEIVED_NOT_ORDERED,
    },
    Ack.STORE: {Ack.ONWARD: StreamPacketEvent.STORED_NOT_ONWARD},
}
"""The event of an ack for a packet that it does not free, by the ack that does. Without one nothing happens."""

# A look-up in an enumeration takes five times as long as a name of this module; members used for every packet have one.
_KEPT, _REJECTED, _GIVEN_UP = StreamPacketState.KEPT, StreamPacketState.REJECTED, StreamPacketState.GIVEN_UP
_FREED, _ORDER = StreamPacketEvent.FREED, Ack.ORDER
_COVERED = (StreamPacketState.DONE, StreamPacketState.KEPT, StreamPacketState.REJECTED)
ENDED = (StreamPacketState.GIVEN_UP, StreamPacketState.REJECTED)
"""The states of packets that leave no more."""
DATED_MS = 1_000
"""Ages are told in seconds. A backlog of a day has 86,400 dates at most, 10 MB."""


@dataclass(slots=True)
class StreamPacket(DepartingPacket):
    """A packet at its origin. ``onward`` of it: as ``stored``, over links that are not synchronous.

    Attributes:
        first_ticket: count of messages of the stream that were submitted before those it holds, in this process.
        tickets: how many messages it is part of: those of a batch, and one for each fragment of a large message.
        received: whether the next hop has it.
        whole: the large message that it is a fragment of, or None.
        cares: whether its messages want more than to be delivered, see ``base.commit.CARES``.
    """

    first_ticket: int
    tickets: int
    _: KW_ONLY
    received: bool = False
    whole: "_Whole | None" = None
    cares: bool = False


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


class OutgoingSequence(DepartingSequence[StreamPacket]):
    """One stream's packets, from the one appended first to the one freed last.

    Args:
        delivery: class of the whole stream.
        sequence: id of the sequence; only grows.
        next_number: number of the next packet.
        settings: tiers and how often to ask for an order ack.

    Attributes:
        last_ack: the last order ack in this process; None before the first.
        resends: packets that went out again for want of an order ack, in this process.
    """

    __slots__ = (
        "_ask_in",
        "_dates",
        "_ended",
        "_settings",
        "_tier_opens",
        "_whole",
        "last_ack",
        "next_number",
        "resends",
    )

    role: ClassVar[Role] = Role.ORIGIN
    tier: ResendTimer

    def __init__(self, delivery: Delivery, sequence: int, next_number: int, settings: OrderSettings) -> None:
        # Ordered: taking the first of a plain dictionary looks at every one that was freed before it.
        super().__init__(delivery, sequence, OrderedDict())
        self.next_number = next_number
        self.tier = ResendTimer(settings)
        self._settings = settings
        # How many of them were given up or rejected: no tier waits for these.
        self._ended = 0
        self._ask_in = settings.order_ack_every
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
        if dates and not self.entries:
            dates.clear()
        if entries and (not dates or abs(sent_at_ms - dates[-1][1]) >= DATED_MS):
            self._dated().append((entries[0].number, sent_at_ms))
        for entry in entries:
            self.entries[entry.number] = entry
            # Only the last fragment of a large message has a message in it.
            if self._whole is not None or not entry.messages:
                self._add_fragment(entry)
        self._to_send += entries
        if entries and entries[-1].number >= self.next_number:
            self.next_number = entries[-1].number + 1

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
        """As of any stream; a resend tier may begin."""
        if self.freed_by is Ack.ORDER:
            self.tier.handle_sent(now_ns)
        return super().handle_sent(run, now_ns, packet=packet)

    def handle_ack(self, entries: Iterable[StreamPacket], ack: Ack) -> list[StreamPacket]:
        """The next hop has these packets, or has them on disk; or it confirms that a rejection is known, or passes it.

        Returns:
            The packets that this frees.
        """
        taken = [entry for entry in entries if entry.state is not _REJECTED]
        if ack is Ack.STORE:
            self.start.handle_taken(sum([not entry.taken for entry in taken]))
            for entry in taken:
                entry.stored, entry.taken = True, entry.packet > 0
                entry.onward = entry.onward or not self.sync
        event = AFTER_ACK[ack].get(self.freed_by)
        for entry in taken:
            entry.received = True
            if event is not None:
                move(entry, event)
        if event is StreamPacketEvent.STORED_NOT_ONWARD:
            return self._free([entry for entry in taken if entry.onward])
        return self._free(taken) if ack is self.freed_by else []

    def _free_stored(self) -> list[StreamPacket]:
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

    def handle_waits(self, turn: int, until: int, now_ns: int) -> bool:
        """As of any stream; no tier sends again what waits there. If nothing does any more, the first tier begins."""
        ends = self.waits_until > 0 and not until
        if self.freed_by is not Ack.ORDER or not super().handle_waits(turn, until, now_ns):
            return False
        for entry in self.entries.values():
            if entry.number > until:
                break
            # Its store ack may have been lost with a session.
            entry.received = entry.stored = True
            move(entry, StreamPacketEvent.WAITS)
        # They wait to be sent no longer, and get new places if they go out again.
        while self._to_send and self._to_send[0].number <= until:
            self._to_send.popleft()
        if ends:
            self.tier.handle_progress(now_ns, outstanding=self._is_outstanding)
        return True

    def handle_session_opened(self, now_ns: int) -> None:
        """A new session begins: all that was sent before goes out again, from the first tier on ([MS-MQQB] 3.1.3.2).

        If the last one ended as idle and a tier has run out since, that tier has opened this session, and continues.
        """
        if self._tier_opens:
            self._tier_opens = False
            return
        waiting = (it for it in self.entries.values() if it.state is StreamPacketState.WAITING_ORDER_ACK)
        again = [entry for entry in waiting if not entry.packet]
        self.start.handle_resend(len(again))
        self._send_again(again)
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
        idle = not self.forget_waits() and idle
        self._tier_opens = self._tier_opens and idle
        self.start.handle_session_closed(not_stored=not_stored)
        for entry in self.entries.values():
            entry.packet, entry.taken = 0, False
            if not (idle and entry.stored and entry.state is StreamPacketState.WAITING_ORDER_ACK):
                move(entry, StreamPacketEvent.SEND_AGAIN)
        self._to_send.clear()
        self._to_send += [it for it in self.entries.values() if it.state is StreamPacketState.WAITING_TO_SEND]

    def handle_timer(self, now_ns: int) -> list[StreamPacket]:
        """A resend tier may have run out. Returns the packets that go out again; those in their session stay there."""
        if not self.tier.is_due(now_ns):
            return []
        sent = [it for it in self.entries.values() if it.state in ON_THEIR_WAY and it.number > self.waits_until]
        if not sent:
            # Until something is sent, or a relay takes its word back, there is nothing to wait for.
            self.tier.handle_rest(is_answered=self.waits_until > 0)
            return []
        again = [entry for entry in sent if entry.state is StreamPacketState.WAITING_ORDER_ACK]
        self.tier.handle_expired(now_ns, resends=bool(again))
        if again:
            self._tier_opens = not again[0].packet
            self.resends += len(again)
            self.start.handle_resend(len(again))
            self._send_again(again)
        return again

    def unconfirmed(self) -> list[StreamPacket]:
        """Packets that this session got, and that the next hop may not have for good."""
        waiting = (entry for entry in self.entries.values() if entry.state in ON_THEIR_WAY)
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
        self._sweep()
        self.start.handle_taken()
        ordered = self.freed_by is Ack.ORDER
        # The receiver holds the one after it until a packet comes that will never come.
        following = self._following(entry.number) if ordered else None
        if following is not None and following.state in ON_THEIR_WAY:
            self._send_again([following])
        self._rest()

    # ---- outputs

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
    def awaits_order_ack(self) -> bool:
        """Whether a resend tier that ran out would send anything again, or would if a relay had not said that it waits.

        Its owner makes sure that the next hop is still there.
        """
        if self.waits_until:
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
            taken += not entry.taken
            whole = entry.whole
            if whole is None:
                self._drop(entry)
                freed.append(entry)
                continue
            whole.unacked.discard(entry.number)
            if whole.unacked:
                move(entry, StreamPacketEvent.ACKED)
                continue
            for part in whole.entries:
                self._drop(part)
            freed += whole.entries
        self._sweep()
        self.start.handle_taken(taken)
        return freed

    def _end(self, entries: list[StreamPacket], event: StreamPacketEvent) -> None:
        for entry in entries:
            self._ended -= entry.state in ENDED
            move(entry, event)
            self._ended += entry.state in ENDED
        self._rest()

    def _drop(self, entry: StreamPacket) -> None:
        self._ended -= entry.state in ENDED
        entry.state = TRANSITIONS[entry.state][_FREED]
        del self.entries[entry.number]

    @property
    def _is_outstanding(self) -> bool:
        """Whether an order ack is awaited. Of each kept message some packet is neither acknowledged nor given up."""
        return len(self.entries) > self._ended

    def _rest(self) -> None:
        """Stop the tier if nothing is left that it may send again."""
        if not self._is_outstanding:
            self.tier.handle_progress(0, outstanding=False)
