"""Round-trip time: smoothed, with its variance (RFC 6298, RFC 9002 section 5)."""

from triack.base.units import MS

INITIAL_RTT_NS = 100 * MS
"""Until the first sample. RFC 9002 6.2.2 says 333 ms for an internet where nothing is known; most nodes are nearer."""
INITIAL_VARIANCE_NS = INITIAL_RTT_NS // 2
"""RFC 9002 6.2.2."""
INITIAL_PROBE_NS = INITIAL_RTT_NS + 4 * INITIAL_VARIANCE_NS
"""What follows from these; one number for all sessions."""
GRANULARITY_NS = 1 * MS
"""The resolution of timers (kGranularity, RFC 9002 6.1.2)."""


class RoundTrip:
    """Estimates the round trip from samples; every figure is integer nanoseconds.

    Attributes:
        probe_ns: how long an ack may take before asking again: smoothed + 4 x variance (RFC 9002 6.2.1). It is read far
            more often than a sample comes.
    """

    __slots__ = ("latest_ns", "min_ns", "probe_ns", "smoothed_ns", "variance_ns")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget every sample."""
        self.latest_ns = 0
        self.min_ns = 0
        self.smoothed_ns = INITIAL_RTT_NS
        self.variance_ns = INITIAL_VARIANCE_NS
        self.probe_ns = INITIAL_PROBE_NS

    @property
    def measured(self) -> bool:
        """Whether there was a sample yet."""
        return self.latest_ns > 0

    def begin(self, handshake_ns: int) -> None:
        """Begin with the round trip of the handshake, which no peer delays; 0: unknown. Ignored after a sample.

        An acceptor may send little but order acks, each acknowledged after seconds: those give no minimum.
        """
        if handshake_ns and not self.measured:
            self.update(handshake_ns)

    def update(self, sample_ns: int, ack_delay_ns: int = 0) -> None:
        """Take one sample; ``ack_delay_ns`` is how long the peer says it held the ack back (RFC 9002 5.3).

        A peer that overstates its delay cannot push a sample below the minimum. RFC 9002 then leaves all of the delay
        in. Ours is up to seconds and the minimum may include the work of a handshake, so the minimum itself is closer.
        """
        if sample_ns < 1:
            sample_ns = 1
        if not self.latest_ns:
            self.latest_ns = self.min_ns = self.smoothed_ns = sample_ns
            self.variance_ns = sample_ns // 2
        else:
            if sample_ns < self.min_ns:
                self.min_ns = sample_ns
            sample_ns -= ack_delay_ns
            if sample_ns < self.min_ns:
                sample_ns = self.min_ns
            self.latest_ns = sample_ns
            distance_ns = self.smoothed_ns - sample_ns
            self.variance_ns = (3 * self.variance_ns + (distance_ns if distance_ns > 0 else -distance_ns)) // 4
            self.smoothed_ns = (7 * self.smoothed_ns + sample_ns) // 8
        spread_ns = 4 * self.variance_ns
        self.probe_ns = self.smoothed_ns + (spread_ns if spread_ns > GRANULARITY_NS else GRANULARITY_NS)

    @property
    def loss_delay_ns(self) -> int:
        """How long a packet may be overtaken before it counts as lost: 9/8 of the round trip (RFC 9002 6.1.2)."""
        return max(9 * self.smoothed_ns // 8, 9 * self.latest_ns // 8, GRANULARITY_NS)
