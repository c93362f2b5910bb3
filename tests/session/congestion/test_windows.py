"""Windows of a sender: by packets, by bytes of a stream, by themselves."""

from collections import deque
from dataclasses import replace
from typing import NamedTuple

import pytest

from tests.session.bottleneck import Bottleneck
from tests.session.pair import Pair
from triack.base.delivery import Delivery
from triack.base.ranges import Range
from triack.base.units import MS, SECOND
from triack.session.congestion.auto_window import LEAST_PACKETS, REST_NS, AutoWindow
from triack.session.congestion.delivery_rate import Sending
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.stream_window import QUEUE_NS, StreamWindow
from triack.session.congestion.undecided import UNDECIDED_MAX, Undecided
from triack.session.protocol.events import WindowChanged
from triack.session.protocol.frames import AckFrame
from triack.session.protocol.settings import SessionSettings
from triack.tools.sim.faults import Faults

# How much is in flight over a stream; whole flows are in ``stories/test_flows.py``.

PACKET = 10_000
RTT = 50 * MS


class Stream:
    """A stream that takes every packet, delivers one per fixed interval, and answers each."""

    def __init__(self, packet_ns: int, rtt_ns: int = RTT) -> None:
        self.window = StreamWindow(PACKET)
        self.packet_ns, self.rtt_ns = packet_ns, rtt_ns
        self.now_ns = self.free_ns = self.delivered = self.longest_ns = 0
        self.waiting: deque[tuple[int, int, Sending]] = deque()

    def run(self, for_ns: int, *, limit: int = 1_000_000) -> None:
        until_ns = self.now_ns + for_ns
        while self.now_ns < until_ns:
            while limit and (len(self.waiting) + 1) * PACKET <= self.window.window_bytes:
                limit -= 1
                sending = self.window.handle_sent(PACKET, len(self.waiting) * PACKET, self.now_ns)
                self.free_ns = max(self.free_ns, self.now_ns) + self.packet_ns
                self.waiting.append((self.free_ns + self.rtt_ns, self.now_ns, sending))
            if not limit:
                self.window.handle_app_limited(len(self.waiting) * PACKET)
            if not self.waiting or self.waiting[0][0] > until_ns:
                self.now_ns = until_ns
                return
            self._answer(*self.waiting.popleft())

    def share(self, for_ns: int) -> float:
        """Let time pass. Returns which share of what it may deliver in that time it did."""
        before = self.delivered
        self.run(for_ns)
        return (self.delivered - before) * self.packet_ns / for_ns

    def _answer(self, at_ns: int, sent_at_ns: int, sending: Sending) -> None:
        self.now_ns = at_ns
        self.delivered += 1
        self.longest_ns = max(self.longest_ns, at_ns - sent_at_ns)
        self.window.handle_acked(1, PACKET, sending)
        self.window.handle_ack(len(self.waiting) * PACKET, at_ns - sent_at_ns, at_ns)


def test_two_packets_go_however_slow_it_is() -> None:
    stream = Stream(5 * SECOND)
    stream.run(60 * SECOND)
    assert stream.window.window_bytes < 3 * PACKET
    assert stream.delivered == 11


@pytest.mark.gate
def test_its_own_queue_is_not_taken_for_a_longer_path() -> None:
    stream = Stream(5 * MS)
    assert stream.share(120 * SECOND) > 0.98
    assert stream.longest_ns < RTT + QUEUE_NS + 100 * MS


def test_a_path_that_becomes_longer_is_learned() -> None:
    stream = Stream(5 * MS)
    stream.run(5 * SECOND)
    stream.rtt_ns += 1_500 * MS
    stream.run(60 * SECOND)
    assert stream.share(20 * SECOND) > 0.9


def test_a_sender_with_little_to_say_does_not_forget_the_stream() -> None:
    stream = Stream(5 * MS)
    stream.run(3 * SECOND)
    for _ in range(600):
        stream.run(100 * MS, limit=1)
    assert stream.share(SECOND) > 0.85


def test_what_did_not_reach_the_stream_changes_nothing() -> None:
    """A lost packet, or a turn that came late; but without answers it begins again, with two packets."""
    stream = Stream(5 * MS)
    stream.run(3 * SECOND)
    before = stream.window.window_bytes
    stream.window.handle_lost(PACKET, stream.waiting[0][2], stream.now_ns)
    stream.window.handle_late()
    assert stream.window.window_bytes == before
    stream.window.handle_persistent_congestion()
    assert stream.window.window_bytes == 2 * PACKET


# A window that follows its path: when it grows, and when it shrinks.

AUTO = SessionSettings(max_unacked_packet="auto")
LINK = Faults(rate_bps=10_000_000, delay_ns=10 * MS, queue_bytes=25_000)


def told(pair: Pair, end: str = "a") -> list[int]:
    return [event.packets for event in pair.events[end] if isinstance(event, WindowChanged)]


def test_it_is_doubled_once_for_each_round_trip_in_which_the_sender_stood_still() -> None:
    """Acks of what was sent before say nothing of the new one; a sender that does not stand still needs no more."""
    auto = AutoWindow()
    for at in range(100):
        auto.handle_ack(15, 16 * at, 16 * at, at * MS, stands_still=False)
    assert auto.packets == LEAST_PACKETS
    auto = AutoWindow()
    for highest, packets in ((8, 32), (12, 32), (16, 32), (17, 64)):
        auto.handle_ack(auto.packets, highest, 16, MS, stands_still=True)
        assert auto.packets == packets


def test_it_is_halved_when_a_quarter_was_not_used_for_a_second() -> None:
    auto = AutoWindow()
    for highest in (16, 32, 64):
        auto.handle_ack(highest, highest, highest, MS, stands_still=True)
    assert auto.packets == 8 * LEAST_PACKETS
    seen = []
    for second, used in ((1, 32), (2, 31), (3, 16), (4, 0), (5, 0), (6, 0), (7, 0)):
        at_ns = MS + second * REST_NS
        auto.handle_ack(used, 64, 64, at_ns - 1, stands_still=False)
        auto.handle_ack(0, 64, 64, at_ns, stands_still=False)
        seen.append(auto.packets)
    assert seen == [128, 64, 64, 32, 16, 16, 16]


@pytest.mark.parametrize(("most", "windows"), [(100, [16, 32, 64, 100]), (16, []), (5, [])])
def test_a_session_tells_each_window_before_it_uses_it(most: int, windows: list[int]) -> None:
    pair = Pair.opened(AUTO, peer_settings=replace(AUTO, auto_window_max=most), udp=False)
    pair.backlog["a"].extend((Delivery.EXPRESS, b"x") for _ in range(600))
    pair.run(10 * SECOND)
    assert told(pair) == windows
    assert pair.most_unacked == most
    assert len(pair.fresh("b")) == 600


@pytest.mark.parametrize("auto_at", ["a", "b"])
def test_a_number_at_either_end_bounds_it(auto_at: str) -> None:
    """MSMQ's window is kept with whom it is agreed on, and what it makes due as well."""
    fixed = SessionSettings(max_unacked_packet=24)
    settings, peer = (AUTO, fixed) if auto_at == "a" else (fixed, AUTO)
    pair = Pair.opened(settings, peer_settings=peer, udp=False)
    for end in "ab":
        pair.backlog[end].extend((Delivery.EXPRESS, b"x") for _ in range(200))
    pair.run(10 * SECOND)
    assert {end: told(pair, end) for end in "ab"} == {"a": [], "b": [], auto_at: [16, 24]}
    assert pair.most_unacked == 24
    assert {end.ack_sender.terms.count for end in pair.ends.values()} == {12}
    assert len(pair.fresh("a")) == len(pair.fresh("b")) == 200


def test_one_that_shrinks_is_announced_when_so_few_are_left() -> None:
    pair = Pair.opened(AUTO, udp=False)
    pair.backlog["a"].extend((Delivery.EXPRESS, b"x") for _ in range(1_000))
    pair.run(3 * SECOND)
    grown = max(told(pair))
    for _ in range(30):
        pair.send("a", 2)
        pair.run(SECOND)
    assert grown >= 256
    assert told(pair)[-4:] == [128, 64, 32, 16]


@pytest.mark.slow
@pytest.mark.parametrize("congestion", ["newreno", "bbr"])
@pytest.mark.parametrize("rate_bps", [1_000_000, 20_000_000])
def test_it_is_as_large_as_the_path_wants(congestion: str, rate_bps: int) -> None:
    """The link is as full as with a window of thousands, and the window is a few times the packets in flight."""
    plan = replace(LINK, rate_bps=rate_bps, queue_bytes=max(15_000, rate_bps // 400))
    goodput, windows = {}, {}
    for window in ("auto", 4_096):
        link = Bottleneck(plan, SessionSettings(max_unacked_packet=window, congestion=congestion))
        link.run(2 * SECOND)
        goodput[window] = link.run(2 * SECOND)[0]
        windows[window] = link.flows[0].sender.window.limit
    carried = (rate_bps * 2 * LINK.delay_ns // SECOND // 8 + plan.queue_bytes) // 1_200
    assert goodput["auto"] > 0.97 * goodput[4_096]
    assert windows["auto"] <= max(8 * carried, LEAST_PACKETS)


# Which packets are reported acknowledged, when an ack names some as refused.


class Packet(NamedTuple):
    number: int


def ack(cumulative: int, *refused: Range, ranges: tuple[Range, ...] = ()) -> AckFrame:
    return AckFrame(cumulative, list(ranges), 64, 0, 0, refused)


def packets(*numbers: int) -> list[Packet]:
    return [Packet(number) for number in numbers]


def test_what_is_named_waits_until_it_is_named_no_more() -> None:
    undecided = Undecided[Packet]()
    assert undecided.sift(packets(1, 2, 3), ack(3, (2, 2))) == packets(1, 3)
    assert undecided.sift(packets(4), ack(4, (2, 2))) == packets(4)
    assert undecided.sift([], ack(4)) == packets(2)
    assert undecided.sift([], ack(4)) == []
    assert undecided.sift(packets(5), ack(5, (5, 5))) == []
    assert undecided.sift([], ack(5)) == packets(5), "also the last that an ack covers"


def test_an_older_ack_settles_nothing() -> None:
    """It was sent before the packet came, so that it could not name it."""
    undecided = Undecided[Packet]()
    assert undecided.sift(packets(1, 5), ack(1, (5, 5), ranges=((5, 5),))) == packets(1)
    assert undecided.sift([], ack(1)) == []
    assert undecided.sift([], ack(1, ranges=((3, 5),))) == packets(5)


def test_a_peer_that_names_everything_fills_no_memory() -> None:
    undecided = Undecided[Packet]()
    numbers = range(1, UNDECIDED_MAX + 101)
    told = undecided.sift(packets(*numbers), ack(numbers[-1], (1, numbers[-1])))
    assert (len(undecided), told) == (UNDECIDED_MAX, packets(*numbers[UNDECIDED_MAX:]))


# The round trip, against figures computed by hand from RFC 6298 and RFC 9002.


def after(*samples_ms: int | tuple[int, int]) -> RoundTrip:
    """An estimate after samples in milliseconds, each perhaps with the peer's ack delay."""
    rtt = RoundTrip()
    for sample in samples_ms:
        sample_ms, delay_ms = sample if isinstance(sample, tuple) else (sample, 0)
        rtt.update(sample_ms * MS, delay_ms * MS)
    return rtt


def test_what_the_handshake_took_is_the_first_sample_if_there_is_none() -> None:
    """So acks that were held back for long are seen to be that."""
    rtt = RoundTrip()
    rtt.begin(0)
    assert not rtt.measured
    rtt.begin(10 * MS)
    rtt.begin(70 * MS)
    rtt.update(510 * MS, 500 * MS)
    assert (rtt.smoothed_ns, rtt.min_ns) == (10 * MS, 10 * MS)


def test_the_first_sample_is_taken_whole() -> None:
    """RFC 6298 2.2: SRTT = R, RTTVAR = R/2, and RTO = SRTT + 4 RTTVAR. An ack delay is not believed yet."""
    rtt = after((80, 20))
    assert (rtt.smoothed_ns, rtt.variance_ns, rtt.min_ns, rtt.probe_ns) == (80 * MS, 40 * MS, 80 * MS, 240 * MS)


def test_a_sequence_of_samples() -> None:
    """100, 60, then 120 of which the peer held back 20; RFC 6298 2.3 and RFC 9002 5.3, step by step.

    60:  var = 3/4 50 + 1/4 |100 - 60| = 47.5;   srtt = 7/8 100 + 1/8 60 = 95
    100: var = 3/4 47.5 + 1/4 |95 - 100| = 36.875;   srtt = 7/8 95 + 1/8 100 = 95.625
    """
    first, rtt = after(100, 60), after(100, 60, (120, 20))
    assert (first.variance_ns, first.smoothed_ns) == (47_500_000, 95 * MS)
    assert (rtt.variance_ns, rtt.smoothed_ns, rtt.min_ns) == (36_875_000, 95_625_000, 60 * MS)
    assert rtt.probe_ns == 95_625_000 + 4 * 36_875_000


def test_an_ack_delay_never_takes_a_sample_below_the_minimum() -> None:
    """RFC 9002 5.3: a peer that overstates its delay does not shrink the round trip under what was seen."""
    assert after(60, (70, 20)).latest_ns == after(60, (80, 20)).latest_ns == 60 * MS


def test_loss_delay_is_nine_eighths_of_the_larger_figure() -> None:
    """RFC 9002 6.1.2: the smoothed or the latest round trip, whichever is larger."""
    assert [after(*it).loss_delay_ns for it in ((80,), (80, 160), (80, 40))] == [90 * MS, 180 * MS, 9 * 75 * MS // 8]


def test_timers_are_never_finer_than_a_millisecond() -> None:
    """On a fast link the variance is nothing, but the granularity of a timer stays (RFC 9002 6.2.1)."""
    rtt = RoundTrip()
    for _ in range(60):
        rtt.update(8_000)
    assert rtt.variance_ns < 10
    assert (rtt.probe_ns - rtt.smoothed_ns, rtt.loss_delay_ns) == (MS, MS)


def test_a_clock_that_did_not_move_is_a_sample_all_the_same() -> None:
    """A sample of nothing counts as the smallest there is, so the round trip counts as measured."""
    assert (after(0).measured, after(0).smoothed_ns) == (True, 1)


def test_before_any_sample_and_when_all_was_forgotten() -> None:
    """The first guess is 100 ms with half of it as variance: a probe after 300 ms."""
    forgotten = after(100, 60)
    forgotten.reset()
    for rtt in (RoundTrip(), forgotten):
        assert not rtt.measured
        assert (rtt.smoothed_ns, rtt.variance_ns, rtt.probe_ns) == (100 * MS, 50 * MS, 300 * MS)
    assert forgotten.min_ns == RoundTrip().min_ns
