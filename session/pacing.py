"""Spreading what a session sends over its round trip, on a network that it shares.

Promise: no burst is longer than the network takes from anybody (RFC 9002 section 7.7).
"""

from triack.base.units import MS
from triack.session.congestion import NewReno
from triack.session.rtt import RoundTrip

__all__ = ["NetworkShare", "Pacer"]

BURST_PACKETS = 10
"""What may go at once: the initial congestion window (RFC 9002 7.7, 7.2)."""
QUANTUM_NS = 2 * MS
"""Timers are not finer than a millisecond or two, so the bucket must hold what flows in that time."""


class Pacer:
    """A token bucket that spreads a window over its round trip (RFC 9002 section 7.7)."""

    __slots__ = ("_credit_bytes", "_datagram_bytes", "_filled_at_ns")

    def __init__(self, datagram_bytes: int, now_ns: int) -> None:
        self._datagram_bytes = datagram_bytes
        self._credit_bytes = BURST_PACKETS * datagram_bytes
        self._filled_at_ns = now_ns

    def ready_at_ns(self, window_bytes: int, rtt: RoundTrip, now_ns: int) -> int:
        """When the next packet may go; ``now_ns`` or earlier means at once."""
        if not rtt.measured:
            return now_ns
        smoothed_ns = max(rtt.smoothed_ns, 1)
        flow_bytes = 5 * window_bytes * (now_ns - self._filled_at_ns) // (4 * smoothed_ns)
        quantum_bytes = 5 * window_bytes * QUANTUM_NS // (4 * smoothed_ns)
        if flow_bytes:
            most_bytes = max(BURST_PACKETS * self._datagram_bytes, quantum_bytes)
            self._credit_bytes = min(self._credit_bytes + flow_bytes, most_bytes)
            self._filled_at_ns = now_ns
        missing_bytes = min(self._datagram_bytes, window_bytes) - self._credit_bytes
        if missing_bytes <= 0:
            return now_ns
        return now_ns + max(1, 4 * smoothed_ns * missing_bytes // (5 * window_bytes))

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
