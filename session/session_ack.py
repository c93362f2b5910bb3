"""The receiving half of the session acknowledgement: which packets arrived, and when to say so.

Promise: every packet that arrived is covered by the next ack, and that ack leaves no later than the trigger says.

    NOTHING_OWED --arrived--> OWED --count | bytes | delay | gap | duplicate | request--> DUE --sent--> NOTHING_OWED

It knows nothing of disks or of order; those are the other two acknowledgements. What makes an ack due is said in
``settings.AckTrigger``: half a window or the idle delay is MSMQ's rule ([MS-MQQB] 3.1.1.6.1, and ``IdleAckDelay``); at
once for what is out of order is that of RFC 9000 section 13.2.1.
"""

from enum import IntEnum, StrEnum

from triack.base.ranges import NumberSet
from triack.session.settings import AckTrigger

__all__ = ["AckState", "Cause", "SessionAck"]


class AckState(IntEnum):
    """What the receiver owes the sender."""

    NOTHING_OWED = 0
    OWED = 1
    """Something arrived; the ack may still wait for company or for a packet to ride on."""
    DUE = 2
    """The ack must leave with the next datagram."""


class Cause(StrEnum):
    """What happened. All but the first and the last make an ack due; the value is the log's ``trigger``."""

    ARRIVED = "arrived"
    COUNT = "count"
    BYTES = "bytes"
    DELAY = "delay"
    GAP = "gap"
    DUPLICATE = "duplicate"
    REQUEST = "request"
    SENT = "sent"


_DUE = dict.fromkeys((Cause.COUNT, Cause.BYTES, Cause.DELAY, Cause.GAP, Cause.DUPLICATE, Cause.REQUEST), AckState.DUE)

TRANSITIONS: dict[AckState, dict[Cause, AckState]] = {
    AckState.NOTHING_OWED: {
        Cause.ARRIVED: AckState.OWED,
        Cause.SENT: AckState.NOTHING_OWED,
        **_DUE,
        Cause.DELAY: AckState.NOTHING_OWED,
    },
    AckState.OWED: {Cause.ARRIVED: AckState.OWED, Cause.SENT: AckState.NOTHING_OWED, **_DUE},
    AckState.DUE: {Cause.ARRIVED: AckState.DUE, Cause.SENT: AckState.NOTHING_OWED, **_DUE},
}


class SessionAck:
    """Tracks arrivals of one direction of one session.

    Args:
        trigger: the ack policy.
        span: how far above the cumulative number a packet may be; bounds what a peer can make us remember.
    """

    __slots__ = (
        "_span",
        "_trigger",
        "cause",
        "first_pending_at_ns",
        "newest_at_ns",
        "newest_counter",
        "pending",
        "pending_bytes",
        "received",
        "state",
    )

    def __init__(self, trigger: AckTrigger, span: int) -> None:
        self._trigger = trigger
        self._span = span
        self.received = NumberSet()
        self.state = AckState.NOTHING_OWED
        self.cause = Cause.ARRIVED
        self.pending = 0
        self.pending_bytes = 0
        self.first_pending_at_ns = 0
        self.newest_counter = 0
        self.newest_at_ns = 0

    @property
    def deadline_ns(self) -> int | None:
        """When the delay makes the ack due, or None."""
        if self.state is not AckState.OWED:
            return None
        return self.first_pending_at_ns + self._trigger.delay_ns

    @property
    def piggybacks(self) -> bool:
        """Whether the ack wants to ride on a packet that leaves now."""
        return self.state is not AckState.NOTHING_OWED and self._trigger.piggyback

    def in_reach(self, number: int) -> bool:
        """Whether a correct sender could send this number now."""
        return number <= self.received.cumulative + self._span

    def handle_packet(self, number: int, size_bytes: int, *, counter: int, asks: bool, now_ns: int) -> bool:
        """Count a packet that datagram ``counter`` brought. Returns False when this session had it already."""
        trigger, received = self._trigger, self.received
        if counter > self.newest_counter:
            self.newest_counter = counter
            self.newest_at_ns = now_ns
        expected = received.highest + 1
        if not received.add(number):
            self._move(Cause.DUPLICATE if trigger.on_duplicate else Cause.ARRIVED, now_ns)
            return False
        if self.pending == 0:
            self.first_pending_at_ns = now_ns
        self.pending += 1
        self.pending_bytes += size_bytes
        if asks and trigger.on_request:
            self._move(Cause.REQUEST, now_ns)
        elif number != expected and trigger.on_gap:
            self._move(Cause.GAP, now_ns)
        elif trigger.count is not None and self.pending >= trigger.count:
            self._move(Cause.COUNT, now_ns)
        elif trigger.bytes_ is not None and self.pending_bytes >= trigger.bytes_:
            self._move(Cause.BYTES, now_ns)
        else:
            self._move(Cause.ARRIVED, now_ns)
        return True

    def handle_request(self, now_ns: int) -> None:
        """The peer asked for an ack without sending a packet."""
        self._move(Cause.REQUEST, now_ns)

    def handle_timer(self, now_ns: int) -> None:
        """The delay may have run out."""
        deadline_ns = self.deadline_ns
        if deadline_ns is not None and now_ns >= deadline_ns:
            self._move(Cause.DELAY, now_ns)

    def handle_sent(self, now_ns: int) -> None:
        """An ack for everything received has left."""
        self._move(Cause.SENT, now_ns)
        self.pending = 0
        self.pending_bytes = 0

    def normalize(self) -> None:
        """For searches, which keep no session log: why the last ack was due is asked nowhere else."""
        self.cause = Cause.ARRIVED

    def _move(self, cause: Cause, now_ns: int) -> None:
        before = self.state
        self.state = TRANSITIONS[before][cause]
        if before is AckState.NOTHING_OWED and self.state is AckState.OWED and self.pending == 0:
            self.first_pending_at_ns = now_ns
        if before is not AckState.DUE:
            self.cause = cause
