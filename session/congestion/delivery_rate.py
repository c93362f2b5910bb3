"""How fast the path delivers: delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation, section 3).

Promise: no sample exceeds the rate at which the network really took the packets, however acknowledgements are bunched.
A sample is measured over the longer of two times: that in which its packets left, and that in which they were
acknowledged.
"""

from dataclasses import dataclass

from triack.base.units import SECOND


@dataclass(slots=True, eq=False)
class Sending:
    """The state when packets left, all those of one moment together (section 3.2, per-packet state).

    Attributes:
        delivered_bytes: acknowledged until then.
        lost_bytes: lost until then.
        delivered_at_ns: when the last acknowledgement came.
        first_sent_at_ns: when the packets left that were acknowledged last.
        in_flight_bytes: including these packets.
        app_limited: whether there was not enough to send.
        spares: whether the sender left the network room then: see ``loss_floor``.
    """

    sent_at_ns: int
    delivered_bytes: int
    lost_bytes: int
    delivered_at_ns: int
    first_sent_at_ns: int
    in_flight_bytes: int
    app_limited: bool
    spares: bool


@dataclass(slots=True)
class RateSample:
    """The sample of one acknowledgement.

    Attributes:
        rate: bytes a second that were delivered; 0 when the time was too short to tell.
        tried_rate: the same plus the bytes lost meanwhile.
        acked_bytes: that it covers.
        sending: of the newest packet that it covers.
    """

    rate: int
    tried_rate: int
    acked_bytes: int
    sending: Sending


class DeliveryRate:
    """Measures one direction of one path.

    Attributes:
        app_limited_until: packets sent before this number of bytes is delivered show how much we had to send, not how
            much the path takes; 0 when that is over.
    """

    __slots__ = ("_acked_bytes", "_delivered_at_ns", "_first_sent_at_ns", "_latest", "_newest", "app_limited_until",
                 "delivered_bytes", "lost_bytes")  # fmt: skip

    def __init__(self) -> None:
        self.delivered_bytes = 0
        self.lost_bytes = 0
        self.app_limited_until = 0
        self._delivered_at_ns = 0
        self._first_sent_at_ns = 0
        self._acked_bytes = 0
        self._latest: Sending | None = None
        self._newest: Sending | None = None

    def handle_sent(self, size_bytes: int, in_flight_bytes: int, now_ns: int, *, spares: bool) -> Sending:
        """Packets of ``size_bytes`` leave together; ``in_flight_bytes`` does not include them."""
        latest = self._latest
        if latest is not None and latest.sent_at_ns == now_ns and latest.delivered_bytes == self.delivered_bytes:
            latest.in_flight_bytes += size_bytes
            return latest
        if not in_flight_bytes:
            self._first_sent_at_ns = self._delivered_at_ns = now_ns
        self._latest = Sending(
            now_ns,
            self.delivered_bytes,
            self.lost_bytes,
            self._delivered_at_ns,
            self._first_sent_at_ns,
            in_flight_bytes + size_bytes,
            bool(self.app_limited_until),
            spares,
        )
        return self._latest

    def handle_acked(self, sending: Sending, size_bytes: int) -> None:
        """Packets of this sending are acknowledged; ``take_sample`` follows after the last of an acknowledgement."""
        self._acked_bytes += size_bytes
        if self._newest is None or sending.sent_at_ns > self._newest.sent_at_ns:
            self._newest = sending

    def handle_lost(self, size_bytes: int) -> None:
        """A packet was lost."""
        self.lost_bytes += size_bytes

    def handle_app_limited(self, in_flight_bytes: int) -> None:
        """There is nothing to send, and room for it (section 3.4)."""
        self.app_limited_until = self.delivered_bytes + in_flight_bytes or 1

    def take_sample(self, min_rtt_ns: int, now_ns: int) -> RateSample | None:
        """The sample of the acknowledgement, None when it covers nothing (section 3.3)."""
        newest, acked_bytes = self._newest, self._acked_bytes
        if newest is None:
            return None
        # Packets that leave after an acknowledgement do not join a sending before it.
        self._newest = self._latest = None
        self._acked_bytes = 0
        self.delivered_bytes += acked_bytes
        self._delivered_at_ns = now_ns
        if self.app_limited_until and self.delivered_bytes > self.app_limited_until:
            self.app_limited_until = 0
        sending_ns = newest.sent_at_ns - newest.first_sent_at_ns
        interval_ns = max(sending_ns, now_ns - newest.delivered_at_ns)
        self._first_sent_at_ns = newest.sent_at_ns
        # An answer in less than a round trip can only be that to another sending of the packet.
        known = interval_ns > 0 and interval_ns >= min_rtt_ns
        if not known:
            return RateSample(0, 0, acked_bytes, newest)
        delivered_bytes = self.delivered_bytes - newest.delivered_bytes
        tried_bytes = delivered_bytes + self.lost_bytes - newest.lost_bytes
        return RateSample(
            delivered_bytes * SECOND // interval_ns, tried_bytes * SECOND // interval_ns, acked_bytes, newest
        )
