"""How much may be in flight over a stream: what it delivers in its round trip, and a queue of half a second.

TCP controls congestion itself, but takes as much as its buffers hold. On a slow link 64 packets of 65,000 bytes take
more than a minute, in which nothing else gets through and every timer runs out.

Promise: the stream is never idle for want of packets, and the last packet is acknowledged within half a second more
than the link takes, however slow it is; unless two packets take longer than that.

The estimators are BBR's (``path_model``, ``delivery_rate``). If no round trip was as short as the shortest for five
seconds, the queue is drained for one round trip, so that it is not taken for a longer path.
"""

from typing import ClassVar

from triack.base.units import MS, SECOND
from triack.session.congestion.delivery_rate import DeliveryRate, Sending
from triack.session.congestion.path_model import Bandwidth, ShortestTrip

QUEUE_NS = 500 * MS
"""The longest queue: longer than the turns of a busy machine, and a quarter of the shortest default silence that closes
a session."""
MINIMUM_WINDOW_PACKETS = 2
"""One is in flight while the other is acknowledged."""


class StreamWindow:
    """One direction of one stream."""

    name: ClassVar[str] = "stream"
    __slots__ = ("_delivery", "_is_looking", "_minimum_bytes", "bandwidth", "trip", "window_bytes")

    def __init__(self, datagram_bytes: int) -> None:
        self._minimum_bytes = MINIMUM_WINDOW_PACKETS * datagram_bytes
        self.window_bytes = self._minimum_bytes
        self.bandwidth, self.trip = Bandwidth(), ShortestTrip()
        self._delivery = DeliveryRate()
        self._is_looking = False

    def handle_sent(self, size_bytes: int, in_flight_bytes: int, now_ns: int) -> Sending:
        """Packets leave together, on top of ``in_flight_bytes``. The result comes back with the fate of each packet."""
        return self._delivery.handle_sent(size_bytes, in_flight_bytes, now_ns, spares=False)

    def handle_app_limited(self, in_flight_bytes: int) -> None:
        """There is nothing to send."""
        if in_flight_bytes < self.window_bytes:
            self._delivery.handle_app_limited(in_flight_bytes)

    def handle_late(self) -> None:
        """Nothing to do: a stream is not paced."""

    def handle_acked(self, packets: int, size_bytes: int, sending: Sending) -> None:  # noqa: ARG002 - as any controller
        """Packets that left together are acknowledged; ``handle_ack`` follows after the last of an ack."""
        self._delivery.handle_acked(sending, size_bytes)

    def handle_ack(self, in_flight_bytes: int, rtt_ns: int, now_ns: int) -> None:  # noqa: ARG002 - as any controller
        """An acknowledgement has been taken; ``rtt_ns`` is the round trip it shows, 0 for none."""
        sample = self._delivery.take_sample(self.trip.min_ns, now_ns)
        if sample is None:
            return
        self.bandwidth.handle_sample(sample, sample.rate, self._delivery.delivered_bytes)
        if rtt_ns:
            self.trip.handle_sample(rtt_ns, now_ns)
        if self.trip.is_stale:
            self._is_looking = True
            self.bandwidth.begin_cycle()
        elif sample.sending.in_flight_bytes <= self._holds_bytes(0):
            self._is_looking = False
        most_bytes = self._holds_bytes(0 if self._is_looking else QUEUE_NS)
        self.window_bytes = min(self.window_bytes + sample.acked_bytes, most_bytes)

    def handle_lost(self, size_bytes: int, sending: Sending, now_ns: int) -> None:  # noqa: ARG002 - as any controller
        """A packet is lost: it never reached the stream."""
        self._delivery.handle_lost(size_bytes)

    def handle_persistent_congestion(self) -> None:
        """Probes in a row went unanswered: use the minimum window until an acknowledgement comes."""
        self.window_bytes = self._minimum_bytes

    def _holds_bytes(self, queue_ns: int) -> int:
        """The bytes that the stream delivers in its shortest round trip plus ``queue_ns``."""
        return max(self.bandwidth.limit * (self.trip.min_ns + queue_ns) // SECOND, self._minimum_bytes)
