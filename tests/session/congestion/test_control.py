"""Congestion: NewReno, BBR, and what they measure."""

from collections import deque
from itertools import pairwise
from random import Random

import pytest

from tests.sure import sure
from triack.base.ack_trigger import AckTerms
from triack.base.units import MS, SECOND
from triack.session.congestion.bbr import TRANSITIONS, UNPACED_RATE, Bbr, BbrState
from triack.session.congestion.congestion import NewReno
from triack.session.congestion.delivery_rate import DeliveryRate, RateSample, Sending
from triack.session.congestion.loss_floor import LossFloor
from triack.session.congestion.pacing import NetworkShare, Pacer
from triack.session.congestion.path_model import AckBunching, Bandwidth, ShortestTrip
from triack.session.congestion.rtt import RoundTrip
from triack.session.protocol.settings import SessionSettings

# NewReno (RFC 9002 section 7), driven as a session drives it.

DATAGRAM = 1_200


def ack(reno: NewReno, sent_at_ns: int, *, limited: bool = True) -> None:
    """A datagram that left then is acknowledged; so much was in flight that the window held it back, or not."""
    in_flight_bytes = reno.window_bytes if limited else 0
    sending = reno.handle_sent(DATAGRAM, in_flight_bytes, sent_at_ns)
    reno.handle_acked(1, DATAGRAM, sending)


def lose(reno: NewReno, sent_at_ns: int, now_ns: int) -> None:
    reno.handle_lost(DATAGRAM, reno.handle_sent(DATAGRAM, 0, sent_at_ns), now_ns)


@pytest.mark.parametrize("halved", [False, True])
def test_what_left_together_counts_as_much_as_one_by_one(halved: bool) -> None:
    single, by_run = NewReno(DATAGRAM), NewReno(DATAGRAM)
    for reno in (single, by_run) if halved else ():
        lose(reno, 50, 100)
    by_run.handle_acked(10, 10 * DATAGRAM, by_run.handle_sent(10 * DATAGRAM, 0, 200))
    for _ in range(10):
        ack(single, 200)
    assert single.window_bytes <= by_run.window_bytes <= 1.1 * single.window_bytes


def test_a_window_that_was_not_the_limit_does_not_grow() -> None:
    """A sender with little to say learns nothing about the network (RFC 9002 7.8)."""
    reno = NewReno(DATAGRAM)
    ack(reno, 5, limited=False)
    assert reno.window_bytes == 10 * DATAGRAM


def test_after_a_loss_a_round_trip_adds_about_one_datagram() -> None:
    """Congestion avoidance: five acks of a window of five add just under one datagram, not five."""
    reno = NewReno(DATAGRAM)
    lose(reno, 50, 100)
    for _ in range(5):
        ack(reno, 200)
    assert 5.8 * DATAGRAM < reno.window_bytes <= 6 * DATAGRAM


def test_the_floor_is_four_datagrams() -> None:
    """Neither many episodes nor unanswered probes go below it: one loss of four still leaves evidence."""
    reno, calm = NewReno(DATAGRAM), NewReno(DATAGRAM)
    for episode in range(10):
        lose(reno, 100 * episode + 50, 100 * episode + 60)
    calm.handle_persistent_congestion()
    assert reno.window_bytes == calm.window_bytes == 4 * DATAGRAM


def test_a_window_leaves_a_quarter_faster_than_its_round_trip() -> None:
    """So that the pacer is not what holds it back (RFC 9002 7.7)."""
    assert NewReno(DATAGRAM).rate(SECOND // 10) == 5 * 10 * DATAGRAM * 10 // 4


# BBR's states, and its window and rate (draft-ietf-ccwg-bbr); whole flows are in ``stories/test_flows.py``.

RTT = 10 * MS
RATE = 2_400_000
"""Bytes a second: twenty datagrams in a round trip."""


class Recorded(Bbr):
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
        until_ns = self.now_ns + for_ns
        while self.now_ns < until_ns:
            self.now_ns += MS // 4
            while self.waiting and self.waiting[0][0] <= self.now_ns:
                self._answer(*self.waiting.popleft())
            self._send(limit)

    def share(self, for_ns: int) -> float:
        """Let time pass. Returns which share of the path's rate was delivered in it."""
        before = self.delivered
        self.run(for_ns)
        return (self.delivered - before) * DATAGRAM * SECOND / (RATE * for_ns)

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


@pytest.mark.gate
@pytest.mark.plain
def test_each_move_it_makes_is_in_the_table() -> None:
    path = Path(loses=10, queue=10)
    path.run(12 * SECOND)
    for before, after in pairwise(path.bbr.states):
        assert after in TRANSITIONS[before].values()


@pytest.mark.parametrize("loses", [0, 20, 10, 3])
@pytest.mark.plain
def test_losses_by_chance_do_not_slow_it_down(loses: int) -> None:
    path = Path(loses=loses)
    path.run(SECOND)
    assert path.share(3 * SECOND) >= 0.9 * (1 if not loses else 1 - 1 / loses)


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
    assert path.share(2 * SECOND) >= 0.9


@pytest.mark.plain
def test_a_sender_with_little_to_say_keeps_what_it_knows() -> None:
    path = Path()
    path.run(SECOND)
    known = path.bbr.bandwidth.limit
    path.run(5 * SECOND, limit=2)
    assert path.bbr.bandwidth.limit >= 0.95 * known


@pytest.mark.plain
def test_unanswered_probes_leave_the_minimum_and_an_ack_gives_it_back() -> None:
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
    path = Path()
    for _ in range(1_000):
        path.bbr.handle_late()
        path.run(MS)
    assert path.bbr.state is not BbrState.STARTUP


# The pacer (RFC 9002 section 7.7), and what a session may take of a network.

TERMS = AckTerms(count=64, bytes_=None, delay_ns=MS)


def flow(packets: int, rtt_ns: int) -> int:
    """Bytes a second of 5/4 of a number of datagrams in a round trip."""
    return 5 * packets * DATAGRAM * SECOND // (4 * rtt_ns)


def burst(pacer: Pacer, rate: int, now_ns: int) -> int:
    """Let all datagrams go that may leave now. Returns how many."""
    count = 0
    while pacer.ready_at_ns(rate, DATAGRAM, now_ns) <= now_ns and count < 1_000:
        pacer.credit_bytes -= DATAGRAM
        count += 1
    return count


def measured(rtt_ns: int) -> RoundTrip:
    rtt = RoundTrip()
    rtt.update(rtt_ns)
    return rtt


def test_the_pacer_spreads_a_window_over_its_round_trip() -> None:
    pacer, rate = Pacer(DATAGRAM, 0), flow(20, 100 * MS)
    now_ns, times = 0, list[int]()
    while now_ns < 100 * MS:
        times += [now_ns] * burst(pacer, rate, now_ns)
        now_ns = pacer.ready_at_ns(rate, DATAGRAM, now_ns)
    assert times[:10] == [0] * 10
    assert all(abs(later - earlier - 4 * MS) <= MS // 100 for earlier, later in pairwise(times[10:]))
    assert 33 <= len(times) <= 35


@pytest.mark.parametrize(("rtt_ns", "rested_ns", "packets"), [(100 * MS, 3_600 * SECOND, 10), (MS, 10 * MS, 50)])
def test_a_rested_pacer_lets_a_burst_go_and_no_more(rtt_ns: int, rested_ns: int, packets: int) -> None:
    """Ten datagrams after any rest, or what flows between two ticks of a timer: 2.5 windows in two milliseconds."""
    assert burst(Pacer(DATAGRAM, 0), flow(20, rtt_ns), rested_ns) == packets


@pytest.mark.parametrize(("window_packets", "quantum_packets"), [(20, 2), (160, 20), (1_600, 54)])
def test_a_sender_that_spent_its_credit_waits_for_a_quantum(window_packets: int, quantum_packets: int) -> None:
    """A millisecond's worth, and 64 KiB at most: who looks earlier sends nothing, and then a run of packets goes."""
    pacer, rate = Pacer(DATAGRAM, 0), flow(window_packets, 10 * MS)
    burst(pacer, rate, 0)
    ready_ns = pacer.ready_at_ns(rate, DATAGRAM, pacer.ready_at_ns(rate, DATAGRAM, 0) - 1)
    assert burst(pacer, rate, ready_ns) == quantum_packets


def test_a_timer_that_is_late_costs_nothing_of_the_rate() -> None:
    """Woken a millisecond late each time, a fast sender still gets its 5/4 of a window in each round trip."""
    pacer, rate = Pacer(DATAGRAM, 0), flow(160, 10 * MS)
    now_ns = sent = 0
    while now_ns < 1_000 * MS:
        sent += burst(pacer, rate, now_ns)
        now_ns = pacer.ready_at_ns(rate, DATAGRAM, now_ns) + MS * 9 // 10
    assert 19_500 < sent < 20_100


@pytest.mark.parametrize(("late_ms", "sent_ms"), [(5, 6), (7, 8), (20, 8)])
def test_a_process_that_is_late_for_its_turn_makes_up_for_it(late_ms: int, sent_ms: int) -> None:
    """With all that flowed while it waited, the quantum included; but not for more than eight milliseconds."""
    pacer, rate = Pacer(DATAGRAM, 0), 10_000 * DATAGRAM  # ten a millisecond
    burst(pacer, rate, 0)
    now_ns = pacer.ready_at_ns(rate, DATAGRAM, 0) + late_ms * MS
    assert pacer.ready_at_ns(rate, DATAGRAM, now_ns) <= now_ns
    assert pacer.was_late is (late_ms > sent_ms)
    assert burst(pacer, rate, now_ns) == 10 * sent_ms


@pytest.mark.parametrize("late_ns", [0, SECOND])
@pytest.mark.plain
def test_a_late_process_says_so_to_its_controller(late_ns: int) -> None:
    share, rtt = NetworkShare(SessionSettings(congestion="bbr"), DATAGRAM, 0, 0), measured(100 * MS)
    while (ready_ns := share.ready_at_ns(rtt, DATAGRAM, 0)) <= 0:
        share.handle_sent(DATAGRAM, TERMS)
    now_ns = ready_ns + late_ns
    assert share.ready_at_ns(rtt, DATAGRAM, now_ns) <= now_ns
    assert share.window.handle_sent(DATAGRAM, DATAGRAM, now_ns).app_limited is bool(late_ns)


def test_before_the_round_trip_is_known_nothing_is_held_back() -> None:
    """There is nothing to spread over yet."""
    share = NetworkShare(SessionSettings(), DATAGRAM, 0, 0)
    for _ in range(100):
        assert share.ready_at_ns(RoundTrip(), DATAGRAM, 7) == 7
        share.handle_sent(DATAGRAM, TERMS)


@pytest.mark.parametrize("controller", ["newreno", "bbr"])
def test_a_small_packet_waits_for_its_own_bytes_and_not_for_those_of_the_largest(controller: str) -> None:
    """On a path of large datagrams and a slow flow of small ones, the credit of a large one takes long."""
    share, rtt = NetworkShare(SessionSettings(congestion=controller), DATAGRAM, 0, 0), measured(100 * MS)
    share.handle_size(64_000)
    while share.ready_at_ns(rtt, 64_000, 0) <= 0:
        share.handle_sent(64_000, TERMS)
    now_ns = share.ready_at_ns(rtt, 100, 0)
    assert now_ns < share.ready_at_ns(rtt, 64_000, 0)
    assert share.ready_at_ns(rtt, 100, now_ns) <= now_ns


def test_a_path_that_is_found_to_carry_more_lets_a_burst_of_that_go() -> None:
    pacer = Pacer(DATAGRAM, 0)
    pacer.handle_size(64_000)
    for ready in (True, True, False):
        assert (pacer.ready_at_ns(1, 64_000, 0) <= 0) is ready
        pacer.credit_bytes -= 64_000


@pytest.mark.parametrize("window", [4, 30, 80])
def test_what_goes_by_the_run_is_what_the_pacer_lets_go_one_by_one(window: int) -> None:
    (single, by_run), rtt = (wide(window), wide(window)), measured(20 * MS)
    sent, asked = [0, 0], [list[int](), list[int]()]
    for now_ns in range(0, 40 * MS, MS // 2):
        while single.ready_at_ns(rtt, DATAGRAM, now_ns) <= now_ns:
            sent[0] += 1
            asked[0] += [sent[0]] * single.handle_sent(DATAGRAM, TERMS)
        while by_run.ready_at_ns(rtt, DATAGRAM, now_ns) <= now_ns:
            room = by_run.run_room(rtt)
            packets = min(-(-room.until_ask_bytes // DATAGRAM), room.credit_bytes // DATAGRAM)
            sent[1] += packets
            asked[1] += [sent[1]] * by_run.handle_sent(DATAGRAM, TERMS, before_bytes=(packets - 1) * DATAGRAM)
        assert sent[0] == sent[1]
    assert asked[0] == asked[1] != []


def wide(packets: int) -> NetworkShare:
    """A share whose window holds so many datagrams."""
    share = NetworkShare(SessionSettings(), DATAGRAM, 0, 0)
    share.window.window_bytes = packets * DATAGRAM
    return share


def test_an_ack_is_asked_for_eight_times_in_a_window() -> None:
    share = wide(80)
    assert [number for number in range(1, 81) if share.handle_sent(DATAGRAM, TERMS)] == list(range(10, 81, 10))
    assert not any(share.handle_sent(DATAGRAM, AckTerms(count=40, bytes_=None, delay_ns=MS)) for _ in range(80))


def test_who_has_nothing_more_to_send_does_not_ask_before_half_of_the_window_is_spent() -> None:
    share, spare = wide(80), [(number, (80 - number) * DATAGRAM) for number in range(1, 61)]
    asked = [number for number, left in spare if share.handle_sent(DATAGRAM, TERMS, spare_bytes=left)]
    assert asked == [40, 50, 60]


@pytest.mark.parametrize(("count", "ack_requested"), [(20, False), (21, True)])
def test_half_of_a_window_holds_many_small_packets(count: int, ack_requested: bool) -> None:
    """Twenty of 200 bytes are in half of 8,000: who acknowledges twenty is not asked, and who 21 is."""
    share, terms = NetworkShare(SessionSettings(), DATAGRAM, 0, 0), AckTerms(count=count, bytes_=None, delay_ns=MS)
    share.window.window_bytes = 8_000
    assert any(share.handle_sent(200, terms) for _ in range(40)) is ack_requested


# The estimators of BBR (draft-ietf-ccwg-bbr, 5.5).


class Rounds:
    """A bandwidth that gets one sample a round trip."""

    def __init__(self) -> None:
        self.bandwidth = Bandwidth()
        self.delivered_bytes = 0

    def sample(self, *rates: int, app_limited: bool = False) -> Bandwidth:
        for rate in rates:
            sending = Sending(0, self.delivered_bytes, 0, 0, 0, 0, app_limited, False)
            self.delivered_bytes += 1_000
            self.bandwidth.handle_sample(RateSample(rate, rate, 1_000, sending), rate, self.delivered_bytes)
        return self.bandwidth


def test_three_rounds_without_growth_show_that_it_is_full() -> None:
    """And no fewer: a peer that acknowledges late looks like that for two. A quarter more is growth."""
    rounds = Rounds()
    assert not rounds.sample(100, 110, 110, 110).is_full
    assert rounds.sample(110).is_full
    assert not Rounds().sample(100, 125, 160, 200, 250, 320).is_full


def test_a_sender_with_little_to_say_does_not_fill_it() -> None:
    rounds = Rounds()
    rounds.sample(100)
    assert not rounds.sample(*[50] * 10, app_limited=True).is_full
    assert rounds.bandwidth.limit == 100
    assert rounds.sample(200, app_limited=True).limit == 200


def test_a_bandwidth_is_believed_for_two_cycles() -> None:
    """A path that has become slower is known as such when it has been probed twice; who rested knows what it knew."""
    rounds = Rounds()
    rounds.sample(100)
    for _ in range(3):
        rounds.bandwidth.begin_cycle()
    assert rounds.bandwidth.limit == 100
    assert rounds.sample(40).limit == 100
    rounds.bandwidth.begin_cycle()
    assert rounds.sample(40).limit == 40


def test_the_shortest_round_trip_is_kept_and_looked_for() -> None:
    trip, found = ShortestTrip(), []
    for sample_ns, at_ns in ((10 * MS, 0), (30 * MS, SECOND), (30 * MS, 6 * SECOND), (25 * MS, 6 * SECOND + MS)):
        trip.handle_sample(sample_ns, at_ns)
        found.append((trip.min_ns, trip.is_stale))
    assert found[:3] == [(10 * MS, False), (10 * MS, False), (10 * MS, True)]
    trip.refresh(6 * SECOND + MS)
    assert trip.min_ns == 25 * MS
    trip.handle_sample(25 * MS, 7 * SECOND)
    assert not trip.is_stale


def test_acks_in_bunches_are_counted_above_the_flow() -> None:
    """Of a flow of 1,000 bytes a millisecond, 10,000 at once every 10 ms are nearly 10,000 ahead of it."""
    bunching = AckBunching()
    for number in range(1, 5):
        bunching.handle_acked(10_000, 1_000_000, 64_000, number * 10 * MS, round_started=False)
    assert bunching.extra_bytes == 10_000


def test_bunches_of_long_ago_are_forgotten() -> None:
    bunching = AckBunching()
    bunching.handle_acked(50_000, 1_000_000, 64_000, SECOND, round_started=False)
    for number in range(1, 12):
        bunching.handle_acked(1_000, 1_000_000, 64_000, SECOND + number * 100 * MS, round_started=True)
    assert bunching.extra_bytes == 1_000


# Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation).

PACKET = 1_000


def send(rate: DeliveryRate, packets: int, gap_ns: int, start_ns: int = 0, in_flight: int = 0) -> list[Sending]:
    return [
        rate.handle_sent(PACKET, (in_flight + number) * PACKET, start_ns + number * gap_ns, spares=False)
        for number in range(packets)
    ]


def ack_sent(rate: DeliveryRate, sendings: list[Sending], now_ns: int, min_rtt_ns: int = RTT) -> RateSample:
    for sending in sendings:
        rate.handle_acked(sending, PACKET)
    return sure(rate.take_sample(min_rtt_ns, now_ns))


def test_packets_at_the_rate_of_the_path_show_it() -> None:
    """Each millisecond one leaves and, a round trip later, one is acknowledged: a thousand a second."""
    rate = DeliveryRate()
    flying = send(rate, 10, MS)
    samples = []
    for at_ns in range(RTT, 4 * RTT, MS):
        samples.append(ack_sent(rate, [flying.pop(0)], at_ns))
        flying += send(rate, 1, 0, start_ns=at_ns, in_flight=9)
    assert samples[-1].rate == 1_000 * PACKET
    assert rate.delivered_bytes == 30 * PACKET


def test_acks_in_a_bunch_show_no_more_than_left() -> None:
    """Ten packets that left within 9 ms, acknowledged all at once: what counts is the longer time."""
    rate = DeliveryRate()
    assert ack_sent(rate, send(rate, 10, MS), 19 * MS).rate == 10 * PACKET * SECOND // (19 * MS)


def test_packets_in_a_bunch_show_no_more_than_arrived() -> None:
    """Ten that left at once, with acks a millisecond apart, which is the rate of the path."""
    rate = DeliveryRate()
    sendings = send(rate, 10, 0)
    samples = [ack_sent(rate, [sending], RTT + number * MS) for number, sending in enumerate(sendings)]
    assert samples[-1].rate == 10 * PACKET * SECOND // (19 * MS)
    assert sendings[0] is sendings[9]
    assert sendings[0].in_flight_bytes == 10 * PACKET


def test_an_answer_before_a_round_trip_is_to_another_sending() -> None:
    rate = DeliveryRate()
    assert ack_sent(rate, send(rate, 1, 0), RTT - 1).rate == 0
    assert rate.delivered_bytes == PACKET


def test_losses_are_in_what_was_tried() -> None:
    rate = DeliveryRate()
    sendings = send(rate, 10, 0)
    for _ in range(5):
        rate.handle_lost(PACKET)
    sample = ack_sent(rate, sendings[5:], RTT)
    assert (sample.rate, sample.tried_rate) == (500 * PACKET, 1_000 * PACKET)


def test_with_little_to_say_a_sample_tells_so() -> None:
    rate = DeliveryRate()
    first = send(rate, 2, 0)
    rate.handle_app_limited(2 * PACKET)
    second = send(rate, 1, 0, start_ns=MS, in_flight=2)
    assert (first[0].app_limited, second[0].app_limited) == (False, True)
    ack_sent(rate, first, RTT)
    ack_sent(rate, second, RTT + MS)
    assert not send(rate, 1, 0, start_ns=20 * MS)[0].app_limited


def play(floor: LossFloor, rounds: int, loss: float, random: Random, *, spared: bool) -> int:
    """Rounds of a hundred packets each, acknowledged or lost. Returns how many of them are called congestion."""
    flagged = 0
    for _ in range(rounds):
        for _ in range(100):
            if random.random() < loss:
                floor.handle_lost(spared=spared)
            else:
                floor.handle_acked(1, spared=spared)
        flagged += floor.end_round(2)
    return flagged


def learned(loss: float, seed: int = 1) -> LossFloor:
    """A floor that has seen 2,000 packets of which that share was lost with room left."""
    floor = LossFloor()
    play(floor, 20, loss, Random(seed), spared=True)
    return floor


@pytest.mark.parametrize("loss", [0.0, 0.01, 0.1, 0.3])
def test_what_is_lost_with_room_left_is_the_floor(loss: float) -> None:
    floor = learned(loss)
    assert abs(floor.per_mille - 1_000 * loss) < 50
    assert play(floor, 500, loss, Random(2), spared=True) <= 5


@pytest.mark.parametrize(("loss", "least"), [(0.0, 99), (0.01, 99), (0.1, 90), (0.3, 50)])
def test_what_is_lost_on_top_is_congestion(loss: float, least: int) -> None:
    """A quarter more of the packets, as of a path that is sent a quarter too much: seen within a round or two."""
    assert play(learned(loss), 100, loss + 0.25, Random(3), spared=False) >= least


def test_losses_of_a_sender_that_leaves_no_room_do_not_raise_the_floor() -> None:
    """Else a full path would be taken for a lossy one, and sent even more."""
    floor = learned(0.0)
    play(floor, 50, 0.4, Random(4), spared=False)
    assert floor.per_mille == 0


def test_what_is_lost_by_chance_is_sent_on_top() -> None:
    """Of ten with a floor of three, seven arrive."""
    assert 9_300 < learned(0.3).carried(7_000) < 10_700
    assert learned(0.9).carried(1_000) == 2_000
