"""Durations by length."""

from triack.base.units import MS, SECOND
from triack.queues.histogram import COMMIT_BOUNDS_S, LATENCY_BOUNDS_S, WAIT_BOUNDS_S, Histogram


def test_each_duration_is_in_the_first_bucket_that_takes_it() -> None:
    """A bound belongs to its bucket, as Prometheus has it (le)."""
    seen = Histogram((0.001, 0.01))
    for duration_ns, times in ((0, 1), (MS, 1), (MS + 1, 2), (10 * MS, 1), (SECOND, 3), (-5, 1)):
        seen.observe(duration_ns, times)
    assert seen.counts == [3, 3, 3]
    assert seen.sum_ns == MS + 2 * (MS + 1) + 10 * MS + 3 * SECOND


def test_bounds_ascend() -> None:
    for bounds in (COMMIT_BOUNDS_S, LATENCY_BOUNDS_S, WAIT_BOUNDS_S):
        assert list(bounds) == sorted(set(bounds))
