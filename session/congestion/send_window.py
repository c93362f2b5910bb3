"""The sending half of a session: the window, and the repair of single losses inside it.

Promise: a packet handed over is sent, and resent under the same number, until it is session-acknowledged or the
session closes; never more than the window is unacknowledged.

    QUEUED --sent--> IN_FLIGHT --lost--> LOST --sent--> IN_FLIGHT        IN_FLIGHT --sent, as a probe--> IN_FLIGHT
    IN_FLIGHT | LOST --acked--> ACKED

Loss detection is RFC 9002 section 6: a packet is lost when three packets sent later were acknowledged, or 9/8 of a
round trip has passed since. A resend keeps its packet number, so the order of sendings is tracked apart from it. The
peer echoes the counter of the newest datagram that brought a packet, which identifies the sending that arrived.
"""

from collections.abc import Sequence
from enum import IntEnum
from heapq import nsmallest
from itertools import groupby, islice, takewhile
from operator import attrgetter

from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.ranges import NumberSet, Range
from triack.base.reasons import DropReason
from triack.session.congestion.auto_window import AutoWindow
from triack.session.congestion.congestion import Congestion
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.undecided import Undecided
from triack.session.protocol.packets import PacketState, SessionPacket

PACKET_THRESHOLD = 3
"""Acknowledged packets sent later that make one count as lost (RFC 9002 6.1.1)."""
SPAN_WINDOWS = 2
"""How many windows the highest number may be ahead of the lowest unacknowledged one: one lost packet does not stop the
others at once, and what a receiver must remember is bounded."""
SENDINGS_WINDOWS = 8
"""How many windows of sendings are remembered for their echo. An older echo gives no sample: several resends of the
same packet would have followed that sending."""


UNBOUNDED_BYTES = 1 << 62
"""More than any window holds."""


class PacketEvent(IntEnum):
    """The events of a packet."""

    SENT = 0
    LOST = 1
    ACKED = 2


# Enumerations that index the tables of busy machines are numbers or texts: their hash needs no call of Python code,
# which halves the cost of a transition.
TRANSITIONS: dict[PacketState, dict[PacketEvent, PacketState]] = {
    PacketState.QUEUED: {PacketEvent.SENT: PacketState.IN_FLIGHT},
    PacketState.IN_FLIGHT: {
        PacketEvent.SENT: PacketState.IN_FLIGHT,
        PacketEvent.LOST: PacketState.LOST,
        PacketEvent.ACKED: PacketState.ACKED,
    },
    PacketState.LOST: {PacketEvent.SENT: PacketState.IN_FLIGHT, PacketEvent.ACKED: PacketState.ACKED},
    PacketState.ACKED: {},
}
"""The next state by state and event. Missing pairs cannot occur: an ack of an unsent packet is rejected before it gets
here, and only packets in flight can be lost."""


class SendWindow:
    """The unacknowledged packets of one direction of one session.

    Args:
        window: in packets.
        rtt: of the session.
        congestion: the congestion controller; None where no network is shared.
        follows: whether the window follows the path, up to ``window`` (``auto_window``).

    Attributes:
        auto: how the window follows the path, or None.
        lost: packets to send again, and some that were meanwhile.
        most_bytes: what the peer has room for, by whatever transport (``path_size``). Queued packets count, too: they
            leave even if the peer says that it has no room.
        packet_bytes: the longest datagram in force.
        flying: the packets that are on the wire as far as we know, in the order in which they were sent.
        unsent_bytes: of the queued packets.
    """

    __slots__ = (
        "_acked",
        "_next_order",
        "_packets",
        "_rtt",
        "_sendings",
        "_told",
        "_trip_ns",
        "_window",
        "acked_order",
        "auto",
        "congestion",
        "cumulative",
        "flying",
        "highest_sent",
        "in_flight_bytes",
        "lost",
        "most_bytes",
        "next_number",
        "packet_bytes",
        "peer_window",
        "undecided",
        "unsent_bytes",
    )

    def __init__(self, window: int, rtt: RoundTrip, congestion: Congestion | None, *, follows: bool = False) -> None:
        self._window = window
        self.peer_window = window
        self.auto = AutoWindow() if follows else None
        self._told = 0
        # The round trip that the last ack shows, until its losses are known; 0: none, None: there is no such ack.
        self._trip_ns: int | None = None
        self._rtt = rtt
        self.congestion = congestion
        self._packets: dict[int, SessionPacket] = {}
        self._acked = NumberSet()
        self.lost: list[SessionPacket] = []
        self.flying: dict[int, SessionPacket] = {}
        self._next_order = 1
        self._sendings: dict[int, tuple[int, int]] = {}
        self.acked_order = 0
        self.cumulative = 0
        self.highest_sent = 0
        self.next_number = 1
        self.in_flight_bytes = 0
        self.most_bytes = UNBOUNDED_BYTES
        self.packet_bytes = 1
        self.unsent_bytes = 0
        self.undecided = Undecided[SessionPacket]()

    @property
    def unacked(self) -> int:
        """Packets that take room in the window."""
        return len(self._packets)

    @property
    def awaits_ack(self) -> bool:
        """Whether a packet that was sent is not acknowledged; queued packets do not count."""
        if self.flying or not self.lost:
            return bool(self.flying)
        following = self.peek()
        return following is not None and following.state is PacketState.LOST

    @property
    def resends(self) -> int:
        """The number of resends."""
        return self._next_order - 1 - self.highest_sent

    @property
    def in_flight(self) -> int:
        """Packets that are on the wire as far as we know."""
        return len(self.flying)

    @property
    def limit(self) -> int:
        """The wanted window: our own or the peer's, whichever is smaller; perhaps below both when it follows the path.

        A window that has shrunk is in force once no more packets than that are unacknowledged (``changes``).
        """
        auto, largest = self.auto, self._window
        if self.peer_window < largest:
            largest = self.peer_window
        return largest if auto is None else min(auto.packets, largest)

    @property
    def largest(self) -> int:
        """The largest window that there may be."""
        return min(self._window, self.peer_window)

    @property
    def room(self) -> int:
        """How many packets may be handed over now."""
        limit = self.limit
        room = limit - len(self._packets)
        span = self.cumulative + SPAN_WINDOWS * limit - (self.next_number - 1)
        if span < room:
            room = span
        left_bytes = self.most_bytes - self.in_flight_bytes - self.unsent_bytes
        if left_bytes < room * self.packet_bytes:
            room = left_bytes // self.packet_bytes
        return room if room > 0 else 0

    def push(
        self,
        delivery: Delivery,
        contents: Sequence[bytes],
        contexts: Sequence[object],
        ack_requested: Sequence[int],
        header_bytes: int,
    ) -> int:
        """Number packets and queue them. The caller has looked at ``room``. Returns the number of the first."""
        number = first = self.next_number
        for content, context, asked in zip(contents, contexts, ack_requested, strict=True):
            size_bytes = len(content) + header_bytes
            self._packets[number] = SessionPacket(number, delivery, content, context, asked, size_bytes)
            self.unsent_bytes += size_bytes
            number += 1
        self.next_number = number
        return first

    def handle_freed(self, numbers: list[int]) -> None:
        """The caller no longer needs store acks for these; queued ones are still sent, but wait for no store ack."""
        for number in numbers:
            if number > self.highest_sent:
                self._packets[number].is_freed = True

    def peek(self) -> SessionPacket | None:
        """The packet that goes next: lost ones first, or None."""
        while self.lost and self.lost[0].state is not PacketState.LOST:
            del self.lost[0]
        if self.lost:
            return self.lost[0]
        return self._packets.get(self.highest_sent + 1)

    def has_credit(self, sent: SessionPacket) -> bool:
        """Whether the congestion window lets this packet go."""
        congestion = self.congestion
        if congestion is None or not self.flying:
            return True
        return self.in_flight_bytes + sent.size_bytes <= min(congestion.window_bytes, self.most_bytes)

    @property
    def spare_bytes(self) -> int:
        """How much of the congestion window is left when nothing more is to be sent; nothing when something is."""
        congestion, spare_bytes = self.congestion, self.most_bytes
        if congestion is None or ((self.unsent_bytes or self.lost) and self.peek() is not None):
            return 0
        if congestion.window_bytes < spare_bytes:
            spare_bytes = congestion.window_bytes
        spare_bytes -= self.in_flight_bytes
        return spare_bytes if spare_bytes > 0 else 0

    def next_run(self, most_bytes: int, credit_bytes: int) -> list[SessionPacket]:
        """The packet that ``peek`` gives, and those behind it that may leave at once, all for the first time.

        Args:
            most_bytes: one more follows as long as those before it have fewer bytes.
            credit_bytes: the most that the run may have; the first packet may exceed it.
        """
        packets, number, congestion = self._packets, self.highest_sent + 1, self.congestion
        room_bytes = UNBOUNDED_BYTES
        if congestion is not None:
            room_bytes = min(congestion.window_bytes, self.most_bytes) - self.in_flight_bytes
        first_bytes = room_bytes if self.flying else UNBOUNDED_BYTES
        room_bytes = min(room_bytes, credit_bytes)
        run: list[SessionPacket] = []
        run_bytes = 0
        while run_bytes < most_bytes and (sent := packets.get(number)) is not None:
            run_bytes += sent.size_bytes
            if run_bytes > room_bytes and (run or run_bytes > first_bytes):
                break
            run.append(sent)
            number += 1
        return run

    def handle_sent(self, run: Sequence[SessionPacket], counter: int, now_ns: int) -> int:
        """The packets of ``next_run``, or the one that ``peek`` gave, or a probe, have left. Returns their bytes.

        They left in the datagrams from that counter on.
        """
        first, order = run[0], self._next_order
        run_bytes: int = sum(map(_size_of, run))
        if first.state is PacketState.QUEUED:
            self.highest_sent = run[-1].number
            self.unsent_bytes -= run_bytes
        elif first.state is PacketState.IN_FLIGHT:
            # It goes to the end, so that these are always in the order in which they were sent.
            del self.flying[first.number]
            self.in_flight_bytes -= first.size_bytes
        sending = None
        if self.congestion is not None:
            sending = self.congestion.handle_sent(run_bytes, self.in_flight_bytes, now_ns)
        for sent in run:
            sent.state = TRANSITIONS[sent.state][PacketEvent.SENT]
            sent.sending = sending
            sent.sends += 1
            # A resend keeps its number, so only ``order`` tells which packet was sent later.
            sent.order = order
            sent.sent_at_ns = now_ns
            self.flying[sent.number] = sent
            self._sendings[counter] = (order, now_ns)
            order += 1
            counter += 1
        self.in_flight_bytes += run_bytes
        self._next_order = order
        if len(self._sendings) > SENDINGS_WINDOWS:
            self._forget_sendings()
        return run_bytes

    def handle_pieces_sent(self, sent: SessionPacket, counters: range) -> None:
        """The packet that has just been sent left in several datagrams; these are the others."""
        for counter in counters:
            self._sendings[counter] = (sent.order, sent.sent_at_ns)
        self._forget_sendings()

    def _forget_sendings(self) -> None:
        excess = len(self._sendings) - SENDINGS_WINDOWS * self.limit
        if excess > 0:
            for counter in list(islice(self._sendings, excess)):
                del self._sendings[counter]

    def oldest_unacked(self, most: int) -> list[SessionPacket]:
        """The packets for probes: the lowest numbers in flight."""
        return nsmallest(most, self.flying.values(), key=_number_of)

    def handle_ack(
        self, cumulative: int, ranges: list[Range], echo: int, delay_ns: int, now_ns: int
    ) -> list[SessionPacket]:
        """Take a session ack. Returns the packets it newly acknowledges, ascending.

        Raises:
            ProtocolError: ``ack-of-unsent`` when it covers a number that was never sent.
        """
        highest = ranges[-1][1] if ranges else cumulative
        if highest > self.highest_sent:
            raise ProtocolError(DropReason.ACK_OF_UNSENT, f"{highest} of {self.highest_sent}")
        if self.auto is not None:
            full = not self.room and self.peek() is None and self.limit < self.largest
            self.auto.handle_ack(len(self.flying), highest, self.highest_sent, now_ns, stands_still=full)
        acked: list[SessionPacket] = []
        # Each number is looked at once, however often a peer acknowledges it.
        for first, last in ((1, cumulative), *ranges):
            for fresh in self._acked.take_run(first, last):
                acked += self._take(fresh)
        if cumulative > self.cumulative:
            self.cumulative = cumulative
        sampled = self._sample(echo, delay_ns, now_ns)
        if self.congestion is not None:
            self._trip_ns = self._rtt.latest_ns if sampled else 0
            for sending, together in groupby(acked, key=_sending_of):
                sizes_bytes = list(map(_size_of, together))
                self.congestion.handle_acked(len(sizes_bytes), sum(sizes_bytes), sending)
        return acked

    def changes(self) -> list[int]:
        """The window in force from now on, if it follows the path and differs from the last one reported."""
        if self.auto is None:
            return []
        limit = self.limit
        if limit == (self._told or self.largest) or self.unacked > limit:
            return []
        self._told = limit
        return [limit]

    def _take(self, numbers: range) -> list[SessionPacket]:
        packets, in_flight, event = self._packets, self.flying, PacketEvent.ACKED
        acked: list[SessionPacket] = []
        for number in numbers:
            if number not in packets:
                continue
            sent = packets[number]
            del packets[number]
            if number in in_flight:
                del in_flight[number]
                self.in_flight_bytes -= sent.size_bytes
            sent.state = TRANSITIONS[sent.state][event]
            # It is not resent, and may wait long for its store ack.
            sent.content = b""
            acked.append(sent)
        return acked

    def _sample(self, echo: int, delay_ns: int, now_ns: int) -> bool:
        """Whether the echo gives a sample of the round trip."""
        if echo not in self._sendings:
            return False
        order, sent_at_ns = self._sendings[echo]
        self._rtt.update(now_ns - sent_at_ns, delay_ns)
        if order > self.acked_order:
            self.acked_order = order
        # Echoes only grow: one that comes late, or again, gives no sample.
        for older in list(takewhile(echo.__ge__, self._sendings)):
            del self._sendings[older]
        return True

    def detect_losses(self, now_ns: int) -> tuple[list[SessionPacket], int | None]:
        """Move overdue packets to the lost ones, also after each ``handle_ack``.

        Returns:
            These packets, and when to look again (None: not needed).
        """
        overdue_ns = now_ns - self._rtt.loss_delay_ns if self.flying else 0
        lost: list[SessionPacket] = []
        look_again_ns = None
        for sent in self.flying.values() if self.flying else ():
            if sent.order >= self.acked_order:
                break
            if sent.order + PACKET_THRESHOLD <= self.acked_order or sent.sent_at_ns <= overdue_ns:
                lost.append(sent)
            else:
                look_again_ns = sent.sent_at_ns + self._rtt.loss_delay_ns
                break
        for sent in lost:
            sent.state = TRANSITIONS[sent.state][PacketEvent.LOST]
            del self.flying[sent.number]
            self.in_flight_bytes -= sent.size_bytes
            if self.congestion is not None:
                self.congestion.handle_lost(sent.size_bytes, sent.sending, now_ns)
        if lost:
            self.lost.extend(sorted(lost, key=_number_of))
        if self.congestion is not None and self._trip_ns is not None:
            # What an ack shows to be lost belongs to the same round as what it acknowledges (RFC 9002, A.7).
            self.congestion.handle_ack(self.in_flight_bytes, self._trip_ns, now_ns)
            self._trip_ns = None
        return lost, look_again_ns

    def check_invariants(self) -> None:
        """Assert that bytes, states and numbers agree, for simulations and searches."""
        in_flight, packets = self.flying, self._packets
        assert self.cumulative <= self.highest_sent < self.next_number
        assert len(in_flight) <= len(packets)
        if not packets:
            return
        of_state: dict[PacketState, list[SessionPacket]] = {state: [] for state in PacketState}
        for number, sent in packets.items():
            assert self.cumulative < number == sent.number
            of_state[sent.state].append(sent)
        assert {sent.number for sent in of_state[PacketState.IN_FLIGHT]} == in_flight.keys()
        assert {sent.number for sent in of_state[PacketState.LOST]} <= {sent.number for sent in self.lost}
        assert all(sent.number > self.highest_sent for sent in of_state[PacketState.QUEUED])
        assert self.in_flight_bytes == sum([sent.size_bytes for sent in in_flight.values()])
        assert self.unsent_bytes == sum([sent.size_bytes for sent in of_state[PacketState.QUEUED]])
        orders = [sent.order for sent in in_flight.values()]
        assert orders == sorted(orders)


_number_of = attrgetter("number")
_sending_of = attrgetter("sending")
_size_of = attrgetter("size_bytes")
