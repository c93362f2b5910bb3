"""The receiving half of the order acknowledgement.

It decides when to tell the origin how far its sequence is accepted and on disk.

Promise: an order ack leaves ``order_ack_idle`` after the last packet of a burst, at the latest ``seq_max_ack_delay``
after the first ([MS-MQQB] 3.1.5.8.6, 3.1.6.9), and at once when asked; it never speaks of more than the committed
position, which the caller supplies.

    NOTHING_OWED --packet--> OWED --asked | timer--> DUE --sent--> NOTHING_OWED
"""

from enum import IntEnum

from triack.ordering.settings import OrderSettings

__all__ = ["OrderAck", "OrderAckState"]


class OrderAckState(IntEnum):
    """What the destination owes the origin."""

    NOTHING_OWED = 0
    OWED = 1
    """Packets arrived; the ack waits for the burst to end."""
    DUE = 2
    """The ack leaves as soon as everything accepted is committed."""


class OrderAckEvent(IntEnum):
    """What happened."""

    PACKET = 0
    ASKED = 1
    TIMER = 2
    SENT = 3


TRANSITIONS: dict[OrderAckState, dict[OrderAckEvent, OrderAckState]] = {
    OrderAckState.NOTHING_OWED: {
        OrderAckEvent.PACKET: OrderAckState.OWED,
        OrderAckEvent.ASKED: OrderAckState.DUE,
        OrderAckEvent.TIMER: OrderAckState.NOTHING_OWED,
        OrderAckEvent.SENT: OrderAckState.NOTHING_OWED,
    },
    OrderAckState.OWED: {
        OrderAckEvent.PACKET: OrderAckState.OWED,
        OrderAckEvent.ASKED: OrderAckState.DUE,
        OrderAckEvent.TIMER: OrderAckState.DUE,
        OrderAckEvent.SENT: OrderAckState.NOTHING_OWED,
    },
    OrderAckState.DUE: {
        OrderAckEvent.PACKET: OrderAckState.DUE,
        OrderAckEvent.ASKED: OrderAckState.DUE,
        OrderAckEvent.TIMER: OrderAckState.DUE,
        OrderAckEvent.SENT: OrderAckState.NOTHING_OWED,
    },
}


class OrderAck:
    """Debounces the order acks of one incoming sequence ([MS-MQQB] 3.1.5.8.6)."""

    __slots__ = ("_first_at_ns", "_last_at_ns", "_settings", "state")

    def __init__(self, settings: OrderSettings) -> None:
        self._settings = settings
        self.state = OrderAckState.NOTHING_OWED
        self._first_at_ns = 0
        self._last_at_ns = 0

    @property
    def due(self) -> bool:
        """Whether the ack should leave now."""
        return self.state is OrderAckState.DUE

    @property
    def deadline_ns(self) -> int | None:
        """When waiting ends, or None."""
        if self.state is not OrderAckState.OWED:
            return None
        idle_ns = self._last_at_ns + self._settings.order_ack_idle_ns
        return min(idle_ns, self._first_at_ns + self._settings.seq_max_ack_delay_ns)

    def handle_packet(self, now_ns: int, *, asks: bool) -> None:
        """A packet of the sequence arrived, whatever became of it."""
        if self.state is OrderAckState.NOTHING_OWED:
            self._first_at_ns = now_ns
        self._last_at_ns = now_ns
        self._move(OrderAckEvent.ASKED if asks else OrderAckEvent.PACKET)

    def handle_request(self) -> None:
        """The origin wants the ack, or a duplicate shows that it missed one."""
        self._move(OrderAckEvent.ASKED)

    def handle_timer(self, now_ns: int) -> None:
        """Waiting may have ended."""
        deadline_ns = self.deadline_ns
        if deadline_ns is not None and now_ns >= deadline_ns:
            self._move(OrderAckEvent.TIMER)

    def handle_sent(self) -> None:
        """The ack was handed to a session."""
        self._move(OrderAckEvent.SENT)

    # ---- for searches that keep the clock still

    def expire(self) -> None:
        """Whatever arrived did so long ago: the next ``handle_timer`` finds that waiting has ended."""
        self._first_at_ns = self._last_at_ns = 0

    def refresh(self, now_ns: int) -> None:
        """Whatever arrived did so just now."""
        self._first_at_ns = self._last_at_ns = now_ns

    def _move(self, event: OrderAckEvent) -> None:
        self.state = TRANSITIONS[self.state][event]
