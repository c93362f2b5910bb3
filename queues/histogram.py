"""How often a duration was how long: the histograms that monitoring reads."""

from bisect import bisect_left
from collections.abc import Sequence

from triack.base.units import SECOND

COMMIT_BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
LATENCY_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
WAIT_BOUNDS_S = (0.01, 0.1, 1.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0, 21_600.0, 86_400.0)


class Histogram:
    """Counts durations by length.

    Args:
        bounds_s: the longest duration of each bucket, in seconds, ascending; one more bucket has all longer ones.
    """

    __slots__ = ("_bounds_ns", "counts", "sum_ns")

    def __init__(self, bounds_s: Sequence[float]) -> None:
        self.counts = [0] * (len(bounds_s) + 1)
        self.sum_ns = 0
        self._bounds_ns = [round(bound_s * SECOND) for bound_s in bounds_s]

    @property
    def bounds_s(self) -> list[float]:
        """The longest duration of each bucket, in seconds."""
        return [bound_ns / SECOND for bound_ns in self._bounds_ns]

    def observe(self, duration_ns: int, times: int = 1) -> None:
        """Count a duration; a negative one, of two clocks that differ, counts as none."""
        if duration_ns < 0:
            duration_ns = 0
        self.counts[bisect_left(self._bounds_ns, duration_ns)] += times
        self.sum_ns += duration_ns * times
