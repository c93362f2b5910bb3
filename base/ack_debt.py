"""The acknowledgement that a receiver owes, and when it is due. All three acknowledgements own one of these.

Promise: an owed acknowledgement becomes due when the first condition of its terms holds, and never later. Packets that
it covered do not count for the next one.

    NOTHING_OWED --arrived--> OWED --count | bytes | delay | idle | gap | duplicate | request--> DUE
    DUE --sent--> NOTHING_OWED

It only counts, and knows neither numbers nor disks nor order. Half a window or the idle delay is MSMQ's rule ([MS-MQQB]
3.1.1.6.1, and ``IdleAckDelay``). A delay that begins again with each packet is the rule of its order acks (3.1.5.8.6).
An immediate ack for packets out of order is that of RFC 9000 section 13.2.1.
"""

from enum import IntEnum, StrEnum

from triack.base.ack_trigger import AckTerms


class AckState(IntEnum):
    """The debt of the receiver to the sender."""

    NOTHING_OWED = 0
    OWED = 1
    """Something arrived; the ack may still wait for more, or for a packet to travel with."""
    DUE = 2
    """The ack must leave as soon as it can."""


class Cause(StrEnum):
    """An event. All but the first and the last make an ack due; the value is the log's ``trigger``."""

    ARRIVED = "arrived"
    COUNT = "count"
    BYTES = "bytes"
    DELAY = "delay"
    IDLE = "idle"
    GAP = "gap"
    DUPLICATE = "duplicate"
    REQUEST = "request"
    SENT = "sent"


_DUE = dict.fromkeys(set(Cause) - {Cause.ARRIVED, Cause.SENT}, AckState.DUE)

TRANSITIONS: dict[AckState, dict[Cause, AckState]] = {
    AckState.NOTHING_OWED: {
        Cause.ARRIVED: AckState.OWED,
        Cause.SENT: AckState.NOTHING_OWED,
        **_DUE,
        Cause.DELAY: AckState.NOTHING_OWED,
        Cause.IDLE: AckState.NOTHING_OWED,
    },
    AckState.OWED: {Cause.ARRIVED: AckState.OWED, Cause.SENT: AckState.NOTHING_OWED, **_DUE},
    AckState.DUE: {Cause.ARRIVED: AckState.DUE, Cause.SENT: AckState.NOTHING_OWED, **_DUE},
}


class AckDebt:
    """Counts what one acknowledgement has to cover.

    Attributes:
        cause: why it is due; if it is not, the last event.
        pending: packets that no acknowledgement has covered yet.
    """

    __slots__ = ("_asked_by_ns", "_first_at_ns", "_last_at_ns", "_pending_bytes", "cause", "pending", "state", "terms")

    def __init__(self, terms: AckTerms) -> None:
        self.terms = terms
        self.state = AckState.NOTHING_OWED
        self.cause = Cause.ARRIVED
        self.pending = 0
        self._pending_bytes = 0
        self._asked_by_ns: int | None = None
        self._first_at_ns = 0
        self._last_at_ns = 0

    @property
    def due(self) -> bool:
        """Whether the ack must leave."""
        return self.state is AckState.DUE

    @property
    def owed(self) -> bool:
        """Whether an ack would say something new."""
        return self.state is not AckState.NOTHING_OWED

    @property
    def deadline_ns(self) -> int | None:
        """When waiting makes the ack due, or None."""
        if self.state is not AckState.OWED:
            return None
        at_ns, idle_ns = self._first_at_ns + self.terms.delay_ns, self.terms.idle_ns
        if self._asked_by_ns is not None:
            at_ns = min(at_ns, self._asked_by_ns)
        return at_ns if idle_ns is None else min(at_ns, self._last_at_ns + idle_ns)

    def leaves_with_packet(self, now_ns: int) -> bool:
        """Whether the ack leaves with a packet that leaves now: it is due, or has waited long enough."""
        if self.state is not AckState.OWED:
            return self.state is AckState.DUE
        after_ns = self.terms.piggyback_ns
        return after_ns is not None and now_ns >= self._first_at_ns + after_ns

    def add(
        self,
        packets: int,
        size_bytes: int,
        now_ns: int,
        *,
        ack_requested: bool = False,
        gap: bool = False,
        asked_by_ns: int | None = None,
    ) -> None:
        """Add packets to be acknowledged.

        Args:
            packets: how many.
            size_bytes: of all of them.
            now_ns: the clock.
            ack_requested: their sender wants the ack without delay.
            gap: something is missing before them.
            asked_by_ns: their sender wants it by then, or sooner with something else that it waits for.
        """
        terms = self.terms
        if self.state is AckState.NOTHING_OWED or not self.pending:
            self._first_at_ns = now_ns
        self._last_at_ns = now_ns
        self.pending += packets
        self._pending_bytes += size_bytes
        if ack_requested and terms.on_request:
            self._move(Cause.REQUEST)
        elif gap and terms.on_gap:
            self._move(Cause.GAP)
        elif terms.count is not None and self.pending >= terms.count:
            self._move(Cause.COUNT)
        elif terms.bytes_ is not None and self._pending_bytes >= terms.bytes_:
            self._move(Cause.BYTES)
        else:
            self._move(Cause.ARRIVED)
            if asked_by_ns is not None and terms.on_request and self._asked_by_ns is None:
                self._asked_by_ns = asked_by_ns

    def handle_duplicate(self, now_ns: int) -> None:
        """Something arrived twice: its sender has not seen the ack."""
        if self.state is AckState.NOTHING_OWED:
            self._first_at_ns = now_ns  # a duplicate does not delay an ack that is owed already
        self._last_at_ns = now_ns
        self._move(Cause.DUPLICATE if self.terms.on_duplicate else Cause.ARRIVED)

    def handle_request(self) -> None:
        """The peer wants the ack, whatever there is to acknowledge."""
        self._move(Cause.REQUEST)

    def handle_company(self) -> None:
        """A packet that the ack may travel with leaves now."""
        if self._asked_by_ns is not None:
            self._move(Cause.REQUEST)

    def handle_timer(self, now_ns: int) -> None:
        """Waiting may have ended."""
        deadline_ns = self.deadline_ns
        if deadline_ns is None or now_ns < deadline_ns:
            return
        if deadline_ns == self._asked_by_ns:
            self._move(Cause.REQUEST)
        else:
            first = now_ns >= self._first_at_ns + self.terms.delay_ns
            self._move(Cause.DELAY if first else Cause.IDLE)

    def handle_sent(self) -> None:
        """An ack for everything counted has left."""
        self._move(Cause.SENT)
        self.pending = 0
        self._pending_bytes = 0
        self._asked_by_ns = None

    def _move(self, cause: Cause) -> None:
        before = self.state
        self.state = TRANSITIONS[before][cause]
        if before is not AckState.DUE:
            self.cause = cause
