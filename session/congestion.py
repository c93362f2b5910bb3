"""Sharing the network fairly: NewReno (RFC 9002 section 7 and appendix B).

Promise: never much more on the wire than the network has lately shown to carry; a loss episode halves it, once.
"""

__all__ = ["NewReno"]

INITIAL_WINDOW_PACKETS = 10
"""RFC 9002 7.2."""
MINIMUM_WINDOW_PACKETS = 4
"""RFC 9002 says 2; with 4, as in BBR, one random loss still leaves gap evidence and needs no probe."""


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
