"""How much is in flight over a stream; whole flows are in ``stories/test_bottleneck.py``."""

from collections import deque

from triack.base.units import MS, SECOND
from triack.session.congestion.delivery_rate import Sending
from triack.session.congestion.stream_window import QUEUE_NS, StreamWindow

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
        """Let time pass, with a given number of packets to send."""
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

    def _answer(self, at_ns: int, sent_at_ns: int, sending: Sending) -> None:
        self.now_ns = at_ns
        self.delivered += 1
        self.longest_ns = max(self.longest_ns, at_ns - sent_at_ns)
        self.window.handle_acked(1, PACKET, sending)
        self.window.handle_ack(len(self.waiting) * PACKET, at_ns - sent_at_ns, at_ns)


def test_it_grows_to_what_the_stream_delivers_in_its_round_trip_and_half_a_second() -> None:
    """A packet each 5 ms: 110 of them and what its own packet takes."""
    stream = Stream(5 * MS)
    assert stream.window.window_bytes == 2 * PACKET
    stream.run(3 * SECOND)
    assert 105 <= stream.window.window_bytes // PACKET <= 115
    assert stream.delivered > 0.9 * 3 * SECOND / (5 * MS)


def test_two_packets_go_however_slow_it_is() -> None:
    """One each five seconds."""
    stream = Stream(5 * SECOND)
    stream.run(60 * SECOND)
    assert stream.window.window_bytes < 3 * PACKET
    assert stream.delivered == 11


def test_its_own_queue_is_not_taken_for_a_longer_path() -> None:
    """It is let go every five seconds, and the stream stays full."""
    stream = Stream(5 * MS)
    stream.run(120 * SECOND)
    assert stream.longest_ns < RTT + QUEUE_NS + 100 * MS
    assert stream.delivered > 0.98 * 120 * SECOND / (5 * MS)


def test_a_path_that_becomes_longer_is_learned() -> None:
    """By a second and a half, three times what may wait."""
    stream = Stream(5 * MS)
    stream.run(5 * SECOND)
    stream.rtt_ns += 1_500 * MS
    stream.run(60 * SECOND)
    before = stream.delivered
    stream.run(20 * SECOND)
    assert stream.delivered - before > 0.9 * 20 * SECOND / (5 * MS)


def test_a_sender_with_little_to_say_does_not_forget_the_stream() -> None:
    """Ten packets a second for a minute; then as much as goes."""
    stream = Stream(5 * MS)
    stream.run(3 * SECOND)
    for _ in range(600):
        stream.run(100 * MS, limit=1)
    before = stream.delivered
    stream.run(SECOND)
    assert stream.delivered - before > 0.85 * SECOND / (5 * MS)


def test_without_answers_it_begins_again() -> None:
    """With two packets."""
    stream = Stream(5 * MS)
    stream.run(3 * SECOND)
    stream.window.handle_persistent_congestion()
    assert stream.window.window_bytes == 2 * PACKET


def test_what_did_not_reach_the_stream_changes_nothing() -> None:
    """A lost packet, or a turn that came late."""
    stream = Stream(5 * MS)
    stream.run(3 * SECOND)
    before = stream.window.window_bytes
    stream.window.handle_lost(PACKET, stream.waiting[0][2], stream.now_ns)
    stream.window.handle_late()
    assert stream.window.window_bytes == before
