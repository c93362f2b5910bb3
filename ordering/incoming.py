"""The receiving end of a transactional sequence: accepted once, in order.

Promise: packets come out of ``handle_packet`` in the sender's order, each exactly once; there is no duplicate window.
The accept rule is [MS-MQQB] 3.1.5.8.6:

    same sequence, number above the last accepted, previous not above it   -> accept
    newer sequence, previous = 0                                           -> accept
    anything else                                                          -> hold it if it may fit later, else reject

Only accepted packets move the position. It knows nothing of disks: the caller commits the accepted packets together
with ``position``, then calls ``handle_committed``; order acks cover the committed position alone.
"""

from collections.abc import Callable
from enum import Enum
from heapq import heappop, heappush
from typing import Generic, TypeVar

from triack.base.ranges import Range
from triack.base.reasons import RejectReason
from triack.ordering.order_ack import OrderAck
from triack.ordering.order_settings import OrderSettings
from triack.ordering.wire import SequenceHeader

Context = TypeVar("Context")

Position = tuple[int, int]
"""A sequence id and the number of the last packet of it; (0, 0) before the first."""

SKIPS_MAX = 256
"""Runs of numbers that were passed over and are remembered: a copy of one may still be in flight.

A forgotten one counts as accepted; its origin, which gave it up, no longer asks.
"""


class Outcome(Enum):
    """The outcome of a packet; the value of a rejection is its reason."""

    ACCEPTED = "accepted"
    OUT_OF_ORDER = "held"
    DUPLICATE = RejectReason.DUPLICATE
    STALE_SEQUENCE = RejectReason.STALE_SEQUENCE
    HOLD_FULL = RejectReason.HOLD_FULL


class IncomingSequence(Generic[Context]):
    """One stream from one origin.

    Args:
        settings: how much to hold and when to acknowledge.
        position: the last accepted packet, as the disk has it.
    """

    __slots__ = (
        "_held",
        "_held_order",
        "_held_sequence",
        "_settings",
        "_skips",
        "ack",
        "committed",
        "held_bytes",
        "position",
    )

    def __init__(self, settings: OrderSettings, position: Position = (0, 0)) -> None:
        self._settings = settings
        self.position = position
        self.committed = position
        self.ack = OrderAck(settings)
        self._held: dict[int, tuple[SequenceHeader, Context]] = {}
        self._held_order: list[tuple[int, int]] = []
        self._held_sequence = 0
        self.held_bytes = 0
        self._skips: list[Range] = []

    @property
    def held(self) -> int:
        """How many out-of-order packets wait for those before them."""
        return len(self._held)

    def handle_packet(
        self, header: SequenceHeader, context: Context, now_ns: int
    ) -> tuple[Outcome, list[tuple[SequenceHeader, Context]]]:
        """Judge a packet.

        Args:
            header: the packet.
            context: anything; it comes back when the packet is accepted, now or later.
            now_ns: the clock.

        Returns:
            Its outcome, and the packets that are accepted now, in order.
        """
        self.ack.handle_packet(now_ns, ack_requested=header.ack_requested)
        outcome = self._judge(header)
        if outcome is Outcome.ACCEPTED:
            return outcome, self._accept(header, context)
        if outcome is Outcome.OUT_OF_ORDER:
            self._hold(header, context)
        elif outcome is Outcome.DUPLICATE:
            self.ack.handle_request()
            held = self._held.get(header.number)
            if held is not None and header.sequence == self._held_sequence:
                # It came again by another session: the answer goes there.
                self._held[header.number] = (held[0], context)
        return outcome, []

    def handle_run(
        self,
        header: SequenceHeader,
        packets: int,
        now_ns: int,
        *,
        ack_requested: bool,
        items: Callable[[], list[tuple[SequenceHeader, Context]]],
    ) -> tuple[Outcome, list[tuple[SequenceHeader, Context]]] | None:
        """Judge packets of which each one names the one before it.

        Args:
            header: of the first.
            packets: how many there are.
            now_ns: the clock.
            ack_requested: whether one of them asks for an ack.
            items: each of them, with what comes back when it is accepted; called when they must wait.

        Returns:
            The outcome of all, and the packets that are accepted after them, in order. None when they have to be judged
            one by one, and nothing has changed.
        """
        outcome = self._judge_run(header, header.number + packets - 1)
        if outcome is None:
            return None
        self.ack.handle_packet(now_ns, ack_requested=ack_requested, packets=packets)
        if outcome is Outcome.ACCEPTED:
            self._move_to(header)
            self.position = (header.sequence, header.number + packets - 1)
            return outcome, self._release(header.sequence)
        for item in items():
            self._hold(*item)
        return outcome, []

    def _judge_run(self, header: SequenceHeader, last: int) -> Outcome | None:
        outcome = self._judge(header)
        if outcome is Outcome.ACCEPTED:
            # None of those that wait may be among them.
            return outcome if not self._held or self._held_order[0][0] >= last else None
        numbers = range(header.number, last + 1)
        is_free = self._held.keys().isdisjoint(numbers)
        has_room = len(self._held) + len(numbers) <= self._settings.max_held_packets
        return outcome if outcome is Outcome.OUT_OF_ORDER and is_free and has_room else None

    def _hold(self, header: SequenceHeader, context: Context) -> None:
        heappush(self._held_order, (header.previous, header.number))
        if header.number not in self._held:
            self.held_bytes += len(header.body)
        self._held[header.number] = (header, context)

    def let_go(self) -> list[tuple[SequenceHeader, Context]]:
        """Forget the out-of-order packets, which come again. Returns them."""
        let_go = list(self._held.values())
        self._forget_held()
        return let_go

    def is_next(self, header: SequenceHeader) -> bool:
        """Whether a packet would be accepted now."""
        return self._judge_position(header) is Outcome.ACCEPTED

    def is_fresh(self, header: SequenceHeader) -> bool:
        """Whether a packet is neither accepted nor passed over."""
        return (header.sequence, header.number) > self.position

    def has_accepted(self, header: SequenceHeader) -> bool:
        """Whether a duplicate was accepted, and not only held, or passed over."""
        return (header.sequence, header.number) <= self.position and not self.has_passed(header)

    def has_passed(self, header: SequenceHeader) -> bool:
        """Whether a packet was given up by its origin, and passed over here.

        Only copies that were in flight can be such packets, so it need not be known after a restart.
        """
        skips = self._skips if header.sequence == self.position[0] else ()
        return any(first <= header.number <= last for first, last in skips)

    def handle_committed(self, position: Position) -> None:
        """The commit that made this position durable has returned."""
        self.committed = max(self.committed, position)

    def _judge(self, header: SequenceHeader) -> Outcome:
        return self._judge_position(header) or self._judge_hold(header)

    def _judge_position(self, header: SequenceHeader) -> Outcome | None:
        sequence, number = self.position
        if header.sequence < sequence:
            return Outcome.STALE_SEQUENCE
        if header.sequence == sequence:
            if header.number <= number:
                return Outcome.DUPLICATE
            if header.previous <= number:
                return Outcome.ACCEPTED
        elif header.previous == 0:
            # Its origin says that nothing before it in this sequence is still to come.
            return Outcome.ACCEPTED
        return None

    def _judge_hold(self, header: SequenceHeader) -> Outcome:
        if header.sequence > self._held_sequence:
            self._forget_held()
            self._held_sequence = header.sequence
        if header.sequence < self._held_sequence:
            return Outcome.HOLD_FULL
        known = self._held.get(header.number)
        if known is not None:
            # The same packet may come again with a smaller previous: keep the sender's newer value.
            return Outcome.OUT_OF_ORDER if header.previous < known[0].previous else Outcome.DUPLICATE
        if len(self._held) >= self._settings.max_held_packets:
            return Outcome.HOLD_FULL
        return Outcome.OUT_OF_ORDER

    def _accept(self, header: SequenceHeader, context: Context) -> list[tuple[SequenceHeader, Context]]:
        self._move_to(header)
        return [(header, context), *self._release(header.sequence)]

    def _release(self, sequence: int) -> list[tuple[SequenceHeader, Context]]:
        """Accept the held packets that now fit, after a packet of that sequence was accepted."""
        accepted: list[tuple[SequenceHeader, Context]] = []
        if self._held_order and sequence > self._held_sequence:
            self._forget_held()
        while self._held and self._held_sequence == self.position[0]:
            following = self._poll_held()
            if following is None:
                break
            accepted.append(following)
            self._move_to(following[0])
        return accepted

    def _move_to(self, header: SequenceHeader) -> None:
        sequence, number = self.position
        self.position = (header.sequence, header.number)
        if header.sequence != sequence:
            self._skips.clear()
            number = 0
        if header.number > number + 1:
            self._skips.append((number + 1, header.number - 1))
            del self._skips[:-SKIPS_MAX]

    def _poll_held(self) -> tuple[SequenceHeader, Context] | None:
        # The packet with the lowest previous fits first; that also skips packets that the sender gave up meanwhile.
        position, order = self.position[1], self._held_order
        while order and order[0][0] <= position:
            previous, number = heappop(order)
            held = self._held.get(number)
            if held is None or held[0].previous != previous:
                continue
            del self._held[number]
            self.held_bytes -= len(held[0].body)
            if number > position:
                return held
        return None

    def _forget_held(self) -> None:
        self._held.clear()
        self.held_bytes = 0
        self._held_order.clear()

    def check_invariants(self) -> None:
        """Assert that nothing counts as committed that was not accepted, and that what is held may still fit."""
        assert self.committed <= self.position
        assert len(self._held) <= self._settings.max_held_packets
        assert self.held_bytes == sum([len(header.body) for header, _ in self._held.values()])
        assert self._held_sequence >= self.position[0] or not self._held
        for number, (header, _) in self._held.items():
            assert header.number == number
            assert header.sequence == self._held_sequence
            assert (header.previous, number) in self._held_order
            assert (header.sequence, header.previous) > self.position
