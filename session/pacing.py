"""Spreading what a session sends over its round trip, on a network that it shares.

Promise: no burst is longer than the network takes from anybody (RFC 9002 section 7.7), and none is shorter than it must
be: to wake for each packet of a fast flow would cost more than to send it.
"""

from triack.base.units import MS
from triack.session.congestion import NewReno
from triack.session.rtt import RoundTrip

__all__ = ["NetworkShare", "Pacer"]

BURST_PACKETS = 10
"""What may go at once: the initial congestion window (RFC 9002 7.7, 7.2)."""
BUCKET_NS = 2 * MS
"""Timers are not finer than a millisecond or two, so the bucket must hold what flows in that time."""
QUANTUM_NS = MS
"""A sender that has spent its credit waits for what flows in this time, as BBR does for its send quantum
(draft-cardwell-iccrg-bbr-congestion-control-02, section 4.6.3), but for no less than a packet: a slow flow is even."""
QUANTUM_MAX_BYTES = 64 * 1024
"""The largest send quantum of BBR (same section): what hardware sends at once."""


class Pacer:
    """A token bucket that spreads a window over its round trip (RFC 9002 section 7.7), a send quantum at a time."""

    __slots__ = ("_credit_bytes", "_datagram_bytes", "_filled_at_ns", "_spent")

    def __init__(self, datagram_bytes: int, now_ns: int) -> None:
        self._datagram_bytes = datagram_bytes
        self._credit_bytes = BURST_PACKETS * datagram_bytes
        self._filled_at_ns = now_ns
        self._spent = False

    def ready_at_ns(self, window_bytes: int, rtt: RoundTrip, now_ns: int) -> int:
        """When the next packet may go; ``now_ns`` or earlier means at once."""
        if not rtt.measured:
            return now_ns
        smoothed_ns = max(rtt.smoothed_ns, 1)
        flow_bytes = 5 * window_bytes * (now_ns - self._filled_at_ns) // (4 * smoothed_ns)
        if flow_bytes:
            bucket_bytes = 5 * window_bytes * BUCKET_NS // (4 * smoothed_ns)
            most_bytes = max(BURST_PACKETS * self._datagram_bytes, bucket_bytes)
            self._credit_bytes = min(self._credit_bytes + flow_bytes, most_bytes)
            self._filled_at_ns = now_ns
        packet_bytes = min(self._datagram_bytes, window_bytes)
        if self._credit_bytes >= packet_bytes and not self._spent:
            return now_ns
        quantum_bytes = min(5 * window_bytes * QUANTUM_NS // (4 * smoothed_ns), QUANTUM_MAX_BYTES)
        missing_bytes = max(packet_bytes, quantum_bytes) - self._credit_bytes
        self._spent = missing_bytes > 0
        if not self._spent:
            return now_ns
        # Rounded up, so that it is there then.
        return now_ns - -4 * smoothed_ns * missing_bytes // (5 * window_bytes)

    def spend(self, sent_bytes: int) -> None:
        """Count a packet that was sent."""
        self._credit_bytes -= sent_bytes


class NetworkShare:
    """What a session may take of a network that it shares with others: how much in all, and how fast.

    Attributes:
        window: how much may be on the wire.
    """

    __slots__ = ("_pacer", "window")

    def __init__(self, datagram_bytes: int, now_ns: int) -> None:
        self.window = NewReno(datagram_bytes)
        self._pacer = Pacer(datagram_bytes, now_ns)

    def ready_at_ns(self, rtt: RoundTrip, now_ns: int) -> int:
        """When the next packet may go; ``now_ns`` or earlier means at once."""
        return self._pacer.ready_at_ns(self.window.window_bytes, rtt, now_ns)

    def handle_sent(self, sent_bytes: int) -> None:
        """A packet was sent."""
        self._pacer.spend(sent_bytes)
