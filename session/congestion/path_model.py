"""Estimators of a path: how much it delivers, how long it takes, and how it bunches acknowledgements.

They are those of BBR (draft-ietf-ccwg-bbr, sections 5.5.1 to 5.5.9); ``bbr`` acts on them.
"""

from triack.base.units import SECOND
from triack.session.congestion.delivery_rate import RateSample

GROWTH_PERCENT = 25
"""A round that delivers this much more shows that the path was not full (section 5.3.1.2)."""
FULL_ROUNDS = 3
"""This many rounds in a row without such growth show that it is full: limits of the peer show in two (same)."""
TRIP_MEMORY_NS = 10 * SECOND
"""MinRTTFilterLen: routes change at times, so a minimum round trip expires (section 2.13.1)."""
TRIP_LOOK_NS = 5 * SECOND
"""ProbeRTTInterval: if no round trip was as short for this time, the sender drains the queue to get one (same)."""
BUNCH_ROUNDS = 5
"""Two halves of BBRExtraAckedFilterLen, 10 rounds (section 2.11)."""


class Bandwidth:
    """The highest rate of this probing cycle and the one before; and whether it still grows.

    Attributes:
        latest: bytes a second, the most of this round.
        limit: bytes a second, the most of this cycle and the one before (BBR.max_bw).
        is_full: whether the path has shown that it delivers no more.
        is_plateau: whether the last rounds brought no growth; ``restart`` forgets it.
        round_started: whether the last sample began a round trip.
    """

    __slots__ = ("_before", "_cycle", "_flat_rounds", "_full_rate", "_round_ends_bytes", "is_full", "is_plateau",
                 "latest", "limit", "round_started")  # fmt: skip

    def __init__(self) -> None:
        self._cycle = self._before = 0
        self._full_rate = self._flat_rounds = 0
        self._round_ends_bytes = 0
        self.latest = self.limit = 0
        self.is_full = self.is_plateau = self.round_started = False

    def handle_sample(self, sample: RateSample, rate: int, delivered_bytes: int) -> None:
        """An acknowledgement has come that shows ``rate``; ``delivered_bytes`` includes what it covers."""
        sending = sample.sending
        self.round_started = sending.delivered_bytes >= self._round_ends_bytes
        if self.round_started:
            self._round_ends_bytes = delivered_bytes
            self._look(sending.app_limited)
            self.latest = 0
        if rate > self.latest:
            self.latest = rate
        if rate > self._cycle and (not sending.app_limited or rate > self.limit):
            self._cycle = rate
            self.limit = max(rate, self._before)

    def _look(self, app_limited: bool) -> None:
        if app_limited or self.is_plateau or not self.latest:
            return
        if 100 * self.latest >= (100 + GROWTH_PERCENT) * self._full_rate:
            self._full_rate, self._flat_rounds = self.latest, 0
            return
        self._flat_rounds += 1
        if self._flat_rounds >= FULL_ROUNDS:
            self.is_full = self.is_plateau = True

    def restart(self) -> None:
        """Look for growth anew (BBRResetFullBW)."""
        self._full_rate = self._flat_rounds = 0
        self.is_plateau = False

    def begin_cycle(self) -> None:
        """The path is probed again: the rate of the cycle before the last one is forgotten (section 5.5.6)."""
        if self._cycle:  # or nothing was measured meanwhile
            self._before, self._cycle = self._cycle, 0
            self.limit = self._before


class ShortestTrip:
    """The shortest round trip of the last seconds (section 5.5.7).

    Attributes:
        min_ns: the round trip; 0 before the first.
        is_stale: whether none was as short for so long that the sender should probe for it.
    """

    __slots__ = ("_looked_at_ns", "_looked_ns", "_min_at_ns", "is_stale", "min_ns")

    def __init__(self) -> None:
        self.min_ns = self._looked_ns = 0
        self._min_at_ns = self._looked_at_ns = 0
        self.is_stale = False

    def handle_sample(self, rtt_ns: int, now_ns: int) -> None:
        """A round trip was measured."""
        self.is_stale = bool(self._looked_ns) and now_ns > self._looked_at_ns + TRIP_LOOK_NS
        if self.is_stale or not self._looked_ns or rtt_ns <= self._looked_ns:
            self._looked_ns, self._looked_at_ns = rtt_ns, now_ns
        if not self.min_ns or self._looked_ns <= self.min_ns or now_ns > self._min_at_ns + TRIP_MEMORY_NS:
            self.min_ns, self._min_at_ns = self._looked_ns, self._looked_at_ns

    def refresh(self, now_ns: int) -> None:
        """The sender has just probed for it."""
        self._looked_at_ns = self._min_at_ns = now_ns
        self.min_ns = self._looked_ns


class AckBunching:
    """How much more is acknowledged at once than flows in that time (section 5.5.9)."""

    __slots__ = ("_before", "_bunch_bytes", "_latest", "_rounds", "_started_at_ns")

    def __init__(self) -> None:
        self._latest = self._before = self._rounds = 0
        self._bunch_bytes = self._started_at_ns = 0

    @property
    def extra_bytes(self) -> int:
        """The most of the last rounds."""
        return self._latest if self._latest > self._before else self._before

    def handle_acked(self, acked_bytes: int, rate: int, most_bytes: int, now_ns: int, *, round_started: bool) -> None:
        """``acked_bytes`` were acknowledged; ``rate`` is the expected rate in bytes a second."""
        if round_started:
            self._rounds += 1
            if self._rounds >= BUNCH_ROUNDS:
                self._rounds = 0
                self._before, self._latest = self._latest, 0
        expected_bytes = rate * (now_ns - self._started_at_ns) // SECOND
        if self._bunch_bytes <= expected_bytes:
            self._bunch_bytes = expected_bytes = 0
            self._started_at_ns = now_ns
        self._bunch_bytes += acked_bytes
        extra_bytes = self._bunch_bytes - expected_bytes
        if extra_bytes > most_bytes:
            extra_bytes = most_bytes
        if extra_bytes > self._latest:
            self._latest = extra_bytes
