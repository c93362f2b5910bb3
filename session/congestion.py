"""Sharing the network fairly: NewReno (RFC 9002 section 7, appendix B) and pacing."""

from triack.base.units import MS
from triack.session.rtt import RoundTrip

__all__ = ["NewReno", "Pacer"]

INITIAL_WINDOW_PACKETS = 10
MINIMUM_WINDOW_PACKETS = 4
"""RFC 9002 says 2; with 4, as in BBR, one random loss still leaves gap evidence and needs no probe."""
PACING_BURST_PACKETS = 10
PACING_QUANTUM_NS = 2 * MS
"""Timers are not finer than a millisecond or two, so the bucket must hold what flows in that time."""


class NewReno:
    """A congestion window in bytes: slow start, then one datagram a round trip, halved once for each loss episode."""

    __slots__ = ("_datagram_bytes", "_recovery_started_ns", "_slow_start_limit_bytes", "window_bytes")

    def __init__(self, datagram_bytes: int) -> None:
        self._datagram_bytes = datagram_bytes
        self._slow_start_limit_bytes: int | None = None
        self._recovery_started_ns = -1
        self.window_bytes = INITIAL_WINDOW_PACKETS * datagram_bytes

    def handle_acked(self, acked_bytes: int, sent_at_ns: int, *, limited: bool) -> None:
        """Grow for an acknowledged packet; ``limited`` says that the window was what held the sender back."""
        if sent_at_ns <= self._recovery_started_ns or not limited:
            return
        if self._slow_start_limit_bytes is None or self.window_bytes < self._slow_start_limit_bytes:
            self.window_bytes += acked_bytes
        else:
            self.window_bytes += self._datagram_bytes * acked_bytes // self.window_bytes

    def handle_lost(self, newest_sent_at_ns: int, now_ns: int) -> None:
        """Halve the window, once for all losses of one episode."""
        if newest_sent_at_ns <= self._recovery_started_ns:
            return
        self._recovery_started_ns = now_ns
        self.window_bytes = max(self.window_bytes // 2, MINIMUM_WINDOW_PACKETS * self._datagram_bytes)
        self._slow_start_limit_bytes = self.window_bytes

    def handle_persistent_congestion(self) -> None:
        """Probes in a row went unanswered: start from the minimum (RFC 9002 7.6)."""
        self.window_bytes = MINIMUM_WINDOW_PACKETS * self._datagram_bytes


class Pacer:
    """A token bucket that spreads a window over its round trip (RFC 9002 section 7.7)."""

    __slots__ = ("_credit_bytes", "_datagram_bytes", "_filled_at_ns")

    def __init__(self, datagram_bytes: int, now_ns: int) -> None:
        self._datagram_bytes = datagram_bytes
        self._credit_bytes = PACING_BURST_PACKETS * datagram_bytes
        self._filled_at_ns = now_ns

    def ready_at_ns(self, window_bytes: int, rtt: RoundTrip, now_ns: int) -> int:
        """When the next packet may go; ``now_ns`` or earlier means at once."""
        if not rtt.measured:
            return now_ns
        smoothed_ns = max(rtt.smoothed_ns, 1)
        flow_bytes = 5 * window_bytes * (now_ns - self._filled_at_ns) // (4 * smoothed_ns)
        quantum_bytes = 5 * window_bytes * PACING_QUANTUM_NS // (4 * smoothed_ns)
        if flow_bytes:
            most_bytes = max(PACING_BURST_PACKETS * self._datagram_bytes, quantum_bytes)
            self._credit_bytes = min(self._credit_bytes + flow_bytes, most_bytes)
            self._filled_at_ns = now_ns
        missing_bytes = min(self._datagram_bytes, window_bytes) - self._credit_bytes
        if missing_bytes <= 0:
            return now_ns
        return now_ns + max(1, 4 * smoothed_ns * missing_bytes // (5 * window_bytes))

    def spend(self, sent_bytes: int) -> None:
        """Count a packet that was sent."""
        self._credit_bytes -= sent_bytes
