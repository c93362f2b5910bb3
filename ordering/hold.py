"""The sending end of a held-back stream: its destination has no room, and says when it has.

Promise: a waiting stream sends only a probe now and then. So no lost hold of either end can stop a stream for good: a
probe that is taken, or answered, replaces the lost one.

    GOING --stop--> PAUSED --timer | progress--> PROBING --sent--> PAUSED
    PAUSED | PROBING --go | session over--> GOING

Holds have turns, which only grow within a session: of two that overtake each other the newer one counts. A destination
that repeats a hold, so that its session does not end as idle, repeats its turn. When a packet was refused, the turn is
another one.
"""

from enum import IntEnum

from triack.base.transitions import next_state
from triack.base.units import SECOND

PROBE_NS = 5 * SECOND
"""The wait for the first probe.

Each further one in a row waits twice as long, as TCP probes a zero window (RFC 9293, 3.8.6.1): a destination that stays
full costs one packet each time.
"""
PROBE_MAX_NS = 60 * SECOND
"""The longest wait, and the cost of a lost hold. Holds are packets: one is lost only with its session."""


class HoldState(IntEnum):
    """Whether packets may leave."""

    GOING = 0
    PAUSED = 1
    PROBING = 2
    """One may."""


class HoldEvent(IntEnum):
    """An event of the hold."""

    STOP = 0
    GO = 1
    TIMER = 2
    SENT = 3
    PROGRESS = 4
    """The destination has taken packets."""


_HELD = {
    HoldEvent.STOP: HoldState.PAUSED,
    HoldEvent.GO: HoldState.GOING,
    HoldEvent.TIMER: HoldState.PROBING,
    HoldEvent.SENT: HoldState.PAUSED,
    HoldEvent.PROGRESS: HoldState.PROBING,
}
TRANSITIONS: dict[HoldState, dict[HoldEvent, HoldState]] = {
    HoldState.GOING: dict.fromkeys(HoldEvent, HoldState.GOING) | {HoldEvent.STOP: HoldState.PAUSED},
    HoldState.PAUSED: _HELD,
    HoldState.PROBING: _HELD,
}
"""The next state by state and event."""


class Hold:
    """Whether one stream waits for its destination."""

    __slots__ = ("_again_at_ns", "_turn", "_wait_ns", "state")

    def __init__(self) -> None:
        self.state = HoldState.GOING
        self._turn = 0
        self._again_at_ns = 0
        self._wait_ns = PROBE_NS

    @property
    def stops(self) -> bool:
        """Whether nothing may leave now."""
        return self.state is HoldState.PAUSED

    @property
    def deadline_ns(self) -> int | None:
        """When the next probe may leave, or None."""
        return self._again_at_ns if self.state is HoldState.PAUSED else None

    def is_repeated(self, turn: int) -> bool:
        """Whether a hold with this turn says only what the last one has said: no packet has been refused since then."""
        return turn == self._turn and self.state is not HoldState.GOING

    def handle_flow_control(self, turn: int, now_ns: int, *, stop: bool) -> None:
        """The destination says stop, or go."""
        if turn < self._turn:
            return
        self._turn = turn
        if self.state is not HoldState.PAUSED:
            # A destination that says stop once a second must not put the probe off without end.
            self._again_at_ns = now_ns + self._wait_ns
        self._move(HoldEvent.STOP if stop else HoldEvent.GO)

    def handle_sent(self, now_ns: int) -> None:
        """A packet has left."""
        if self.state is HoldState.PROBING:
            self._wait_ns = min(2 * self._wait_ns, PROBE_MAX_NS)
            self._again_at_ns = now_ns + self._wait_ns
            self._move(HoldEvent.SENT)

    def handle_timer(self, now_ns: int) -> None:
        """A probe may be due."""
        if self.state is HoldState.PAUSED and now_ns >= self._again_at_ns:
            self._move(HoldEvent.TIMER)

    def hasten(self) -> bool:
        """Let the next probe leave now, as its session would end before. Returns whether one may leave."""
        self._move(HoldEvent.TIMER)
        return self.state is HoldState.PROBING

    def handle_progress(self) -> bool:
        """An acknowledgement came: the next probe need not wait. Returns whether it did."""
        before = self.state
        if before is HoldState.GOING:
            return False
        self._wait_ns = PROBE_NS
        self._move(HoldEvent.PROGRESS)
        return self.state is not before

    def handle_session_closed(self) -> None:
        """Forget the hold with its session; the destination repeats it if it still holds."""
        self._turn = 0
        self._move(HoldEvent.GO)

    def _move(self, event: HoldEvent) -> None:
        self.state = next_state(TRANSITIONS, self.state, event)
        if self.state is HoldState.GOING:
            self._wait_ns = PROBE_NS
