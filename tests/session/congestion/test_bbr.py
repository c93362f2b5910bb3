"""BBR's states, and its window and rate (draft-ietf-ccwg-bbr); whole flows are in ``stories/test_bottleneck.py``."""

from collections import deque

import pytest

from triack.base.units import MS, SECOND
from triack.session.congestion.bbr import PACING_PERCENT, TRANSITIONS, UNPACED_RATE, Bbr, BbrEvent, BbrState
from triack.session.congestion.delivery_rate import Sending

DATAGRAM = 1_200
RTT = 10 * MS
RATE = 2_400_000
"""Bytes a second: twenty datagrams in a round trip."""


class Recorded(Bbr):
    """With the states that it was in."""

    def __init__(self) -> None:
        super().__init__(DATAGRAM, 1)
        self.states = [self.state]

    def _enter(self, state: BbrState, now_ns: int) -> None:
        super()._enter(state, now_ns)
        self.states.append(state)


class Path:
    """A path that delivers a datagram each half millisecond, after its round trip and what waits in front of it.

    Attributes:
        loses: every how many-th packet is lost; 0 for none.
        queue: datagrams that may wait; what comes on top is lost.
    """

    def __init__(self, *, loses: int = 0, rtt_ns: int = RTT, queue: int = 1_000) -> None:
        self.bbr = Recorded()
        self.loses, self.rtt_ns, self.queue = loses, rtt_ns, queue
        self.now_ns = self.free_ns = self.leaves_ns = 0
        self.sent = self.delivered = self.in_flight = 0
        self.waiting: deque[tuple[int, Sending, int, bool]] = deque()

    def run(self, for_ns: int, *, limit: int = 1_000) -> None:
        """Let time pass, with a given number of packets to send in all."""
        until_ns = self.now_ns + for_ns
        while self.now_ns < until_ns:
            self.now_ns += MS // 4
            while self.waiting and self.waiting[0][0] <= self.now_ns:
                self._answer(*self.waiting.popleft())
            self._send(limit)

    def _send(self, limit: int) -> None:
        bbr = self.bbr
        self.leaves_ns = max(self.leaves_ns, self.now_ns - MS)
        while self.leaves_ns <= self.now_ns and self.in_flight * DATAGRAM < bbr.window_bytes:
            if self.in_flight >= limit:
                bbr.handle_app_limited(self.in_flight * DATAGRAM)
                return
            sending = bbr.handle_sent(DATAGRAM, self.in_flight * DATAGRAM, self.now_ns)
            self.leaves_ns += DATAGRAM * SECOND // bbr.rate(self.rtt_ns)
            self.in_flight += 1
            self.sent += 1
            begins_ns = max(self.free_ns, self.now_ns)
            overflows = begins_ns - self.now_ns > self.queue * MS // 2
            if not overflows:
                self.free_ns = begins_ns + DATAGRAM * SECOND // RATE
            lost = overflows or bool(self.loses and self.sent % self.loses == 0)
            self.waiting.append((max(self.free_ns, begins_ns) + self.rtt_ns, sending, self.now_ns, lost))

    def _answer(self, _at_ns: int, sending: Sending, sent_at_ns: int, lost: bool) -> None:
        bbr = self.bbr
        self.in_flight -= 1
        if lost:
            bbr.handle_lost(DATAGRAM, sending, self.now_ns)
        else:
            self.delivered += 1
            bbr.handle_acked(1, DATAGRAM, sending)
        bbr.handle_ack(self.in_flight * DATAGRAM, 0 if lost else self.now_ns - sent_at_ns, self.now_ns)


def test_every_state_can_be_reached_and_left() -> None:
    """From the first one, by the table."""
    reached = {BbrState.STARTUP}
    for _ in BbrState:
        reached |= {after for state in reached for after in TRANSITIONS[state].values()}
    assert reached == set(BbrState)
    assert all(TRANSITIONS[state] for state in BbrState)
    used = {event for moves in TRANSITIONS.values() for event in moves}
    assert used == set(BbrEvent)


@pytest.mark.plain
def test_it_finds_the_rate_of_the_path_and_then_cycles() -> None:
    """Within a few round trips; then the queue is drained, and the path probed again and again."""
    path = Path()
    path.run(SECOND)
    names = [state.name for state in path.bbr.states]
    assert names[:6] == ["STARTUP", "DRAIN", "DOWN", "CRUISE", "REFILL", "UP"]
    assert names.count("UP") >= 2
    assert 0.95 * RATE <= path.bbr.bandwidth.limit <= 1.05 * RATE
    assert path.bbr.trip.min_ns < 1.1 * RTT


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.plain
def test_each_move_it_makes_is_in_the_table() -> None:
    """Also on a path that loses and overflows."""
    path = Path(loses=10, queue=10)
    path.run(12 * SECOND)
    for before, after in zip(path.bbr.states, path.bbr.states[1:], strict=False):
        assert after in TRANSITIONS[before].values()


@pytest.mark.parametrize("loses", [0, 20, 10, 3])
@pytest.mark.plain
def test_losses_by_chance_do_not_slow_it_down(loses: int) -> None:
    """Of what the path lets through at least nine tenths is delivered, with a third lost, too."""
    path = Path(loses=loses)
    path.run(SECOND)
    before = path.delivered
    path.run(3 * SECOND)
    share = 1 if not loses else 1 - 1 / loses
    assert (path.delivered - before) * DATAGRAM >= 0.9 * 3 * RATE * share


@pytest.mark.plain
def test_a_path_with_a_short_queue_is_not_flooded() -> None:
    """Of a queue of a fifth of a round trip it overflows little, and fills the path all the same."""
    path = Path(queue=4)
    path.run(SECOND)
    sent, delivered = path.sent, path.delivered
    path.run(4 * SECOND)
    assert (path.delivered - delivered) >= 0.97 * (path.sent - sent)
    assert (path.delivered - delivered) * DATAGRAM >= 0.9 * 4 * RATE


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.plain
def test_a_round_trip_that_grew_is_believed_after_it_was_looked_for() -> None:
    """Five seconds without one as short, then the queue is left empty for a moment."""
    path = Path()
    path.run(2 * SECOND)
    path.rtt_ns = 4 * RTT
    path.run(8 * SECOND)
    assert BbrState.PROBE_RTT in path.bbr.states
    assert path.bbr.trip.min_ns >= 4 * RTT
    before = path.delivered
    path.run(2 * SECOND)
    assert (path.delivered - before) * DATAGRAM >= 0.9 * 2 * RATE


@pytest.mark.plain
def test_a_sender_with_little_to_say_keeps_what_it_knows() -> None:
    """Two packets at a time for seconds: the bandwidth that was found stays found."""
    path = Path()
    path.run(SECOND)
    known = path.bbr.bandwidth.limit
    path.run(5 * SECOND, limit=2)
    assert path.bbr.bandwidth.limit >= 0.95 * known


@pytest.mark.plain
def test_unanswered_probes_leave_the_minimum_and_an_ack_gives_it_back() -> None:
    """Four datagrams; the first acknowledgements let it grow by what they cover."""
    path = Path()
    path.run(SECOND)
    before = path.bbr.window_bytes
    path.bbr.handle_persistent_congestion()
    assert path.bbr.window_bytes == 4 * DATAGRAM
    path.run(SECOND)
    assert path.bbr.window_bytes > before // 2


def test_the_first_window_is_that_of_the_standard() -> None:
    """Ten datagrams, or two of those that are large (RFC 9002 7.2)."""
    assert [Bbr(size, 1).window_bytes for size in (1_200, 9_000, 65_000)] == [12_000, 18_000, 130_000]


@pytest.mark.plain
def test_a_path_shorter_than_a_quantum_is_not_paced() -> None:
    """There is nothing to spread over; the window holds what flows in the turns of the processes at its ends."""
    path = Path(rtt_ns=MS // 4)
    path.run(SECOND)
    assert path.bbr.rate(MS) == UNPACED_RATE
    assert path.bbr.window_bytes > 10 * RATE * RTT // SECOND // 4


@pytest.mark.plain
def test_in_each_state_it_sends_at_its_share_of_the_rate() -> None:
    """One percent less than the gain says, so that a queue may drain."""
    path = Path()
    path.run(SECOND)
    bbr = path.bbr
    for state, percent in PACING_PERCENT.items():
        bbr.state = state
        assert abs(bbr.rate(RTT) - percent * 99 * bbr.bandwidth.limit // 10_000) <= 1


@pytest.mark.plain
def test_what_a_late_process_sends_does_not_make_the_path_look_slower() -> None:
    """It sends in a third of its time, and has looked at the path twice meanwhile."""
    path = Path()
    path.run(SECOND)
    known = path.bbr.bandwidth.limit
    for _ in range(1_000):
        path.leaves_ns = path.now_ns + 5 * MS
        path.bbr.handle_late()
        path.run(7 * MS)
    assert {BbrState.REFILL, BbrState.UP} <= set(path.bbr.states[3:])
    assert path.bbr.bandwidth.limit >= known * 9 // 10


@pytest.mark.plain
def test_who_is_always_late_leaves_startup_all_the_same() -> None:
    """After twenty rounds."""
    path = Path()
    for _ in range(1_000):
        path.bbr.handle_late()
        path.run(MS)
    assert path.bbr.state is not BbrState.STARTUP
