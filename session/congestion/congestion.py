"""Sharing the network fairly: what a congestion controller is, and NewReno (RFC 9002 section 7 and appendix B).

Promise of NewReno: never much more on the wire than the network has lately shown to carry; a loss episode halves it,
once. The other controller is in ``bbr``.
"""

from typing import Any, ClassVar, Protocol

from triack.base.units import SECOND

INITIAL_WINDOW_PACKETS = 10
"""RFC 9002 7.2."""
MINIMUM_WINDOW_PACKETS = 4
"""RFC 9002 says 2; with 4, as in BBR, one random loss still leaves gap evidence and needs no probe."""
PACING_QUARTERS = 5
"""A window is spread over its round trip at 5/4 of its own rate, so that the pacer is not the limit (RFC 9002 7.7)."""


class Congestion(Protocol):
    """How much may be in flight. The caller hands back each result of ``handle_sent`` with the fate of its packets."""

    name: ClassVar[str]
    window_bytes: int

    def handle_sent(self, size_bytes: int, in_flight_bytes: int, now_ns: int) -> Any:
        """Packets leave together, on top of ``in_flight_bytes``. The result comes back with the fate of each packet."""

    def handle_app_limited(self, in_flight_bytes: int) -> None:
        """There is nothing to send."""

    def handle_late(self) -> None:
        """The process was scheduled too late to send at the rate of ``rate``."""

    def handle_acked(self, packets: int, size_bytes: int, sending: Any) -> None:
        """Packets that left together are acknowledged; ``handle_ack`` follows after the last of an ack."""

    def handle_ack(self, in_flight_bytes: int, rtt_ns: int, now_ns: int) -> None:
        """An acknowledgement has been taken; ``rtt_ns`` is the round trip it shows, 0 for none."""

    def handle_lost(self, size_bytes: int, sending: Any, now_ns: int) -> None:
        """A packet is lost; of several the one sent first comes first."""

    def handle_persistent_congestion(self) -> None:
        """Probes in a row went unanswered."""


class Paced(Congestion, Protocol):
    """A controller that also gives a rate."""

    def handle_size(self, datagram_bytes: int) -> None:
        """The path carries larger datagrams than before, or smaller ones."""

    def rate(self, smoothed_ns: int) -> int:
        """Bytes a second at which packets are to leave; ``smoothed_ns`` is the round trip."""


class NewReno:
    """A congestion window in bytes: slow start, then one datagram a round trip, halved once for each loss episode."""

    name: ClassVar[str] = "newreno"
    __slots__ = ("_datagram_bytes", "_recovery_started_ns", "_slow_start_limit_bytes", "window_bytes")

    def __init__(self, datagram_bytes: int) -> None:
        self._datagram_bytes = datagram_bytes
        self._slow_start_limit_bytes: int | None = None
        self._recovery_started_ns = -1
        self.window_bytes = INITIAL_WINDOW_PACKETS * datagram_bytes

    def rate(self, smoothed_ns: int) -> int:
        """Bytes a second: the window in its round trip, and a quarter more."""
        return PACING_QUARTERS * self.window_bytes * SECOND // (4 * max(smoothed_ns, 1))

    def handle_size(self, datagram_bytes: int) -> None:
        """Raise the window to the minimum for such datagrams; their size says nothing else about the path."""
        self._datagram_bytes = datagram_bytes
        self.window_bytes = max(self.window_bytes, MINIMUM_WINDOW_PACKETS * datagram_bytes)

    def handle_sent(self, size_bytes: int, in_flight_bytes: int, now_ns: int) -> tuple[int, bool]:
        """Packets leave. Returns when, and whether the window limits the sender (RFC 9002 7.8)."""
        return now_ns, 2 * (in_flight_bytes + size_bytes) >= self.window_bytes

    def handle_app_limited(self, in_flight_bytes: int) -> None:
        """Nothing to do: each sending tells whether the window was the limit."""

    def handle_late(self) -> None:
        """Nothing to do, for the same reason."""

    def handle_acked(self, packets: int, size_bytes: int, sending: tuple[int, bool]) -> None:  # noqa: ARG002 - as any
        """Grow for acknowledged packets that were sent since the last halving, with the window as the limit."""
        sent_at_ns, limited = sending
        if sent_at_ns <= self._recovery_started_ns or not limited:
            return
        if self._slow_start_limit_bytes is None or self.window_bytes < self._slow_start_limit_bytes:
            self.window_bytes += size_bytes
        else:
            self.window_bytes += self._datagram_bytes * size_bytes // self.window_bytes

    def handle_ack(self, in_flight_bytes: int, rtt_ns: int, now_ns: int) -> None:
        """Nothing to do: ``handle_acked`` has grown the window."""

    def handle_lost(self, size_bytes: int, sending: tuple[int, bool], now_ns: int) -> None:  # noqa: ARG002 - as any
        """Halve the window, once for all losses of one episode."""
        if sending[0] <= self._recovery_started_ns:
            return
        self._recovery_started_ns = now_ns
        self.window_bytes = max(self.window_bytes // 2, MINIMUM_WINDOW_PACKETS * self._datagram_bytes)
        self._slow_start_limit_bytes = self.window_bytes

    def handle_persistent_congestion(self) -> None:
        """Probes in a row went unanswered: start from the minimum (RFC 9002 7.6)."""
        self.window_bytes = MINIMUM_WINDOW_PACKETS * self._datagram_bytes
