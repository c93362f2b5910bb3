"""Series: buckets widen as time goes on, and nothing in them is lost."""

from triack.tools.replay.log.series import BUCKETS_MAX, GRAIN_BITS, Series, delay_bucket, latency_bucket


def test_a_series_widens_and_keeps_its_sum() -> None:
    series = Series("sum")
    for at in range(10_000):
        series.add(at << GRAIN_BITS, 1)
    assert len(series.buckets) <= BUCKETS_MAX
    assert sum(value for _, value in series.points()) == 10_000


def test_two_series_fold_into_one() -> None:
    """Whichever is the wider one."""
    fine, wide, whole = Series("max"), Series("max", GRAIN_BITS + 4), Series("max")
    for at in range(64):
        (fine if at % 2 else wide).add(at << GRAIN_BITS, at)
        whole.add(at << GRAIN_BITS, at)
    fine.merge(wide)
    whole.widen(GRAIN_BITS + 4)
    assert list(fine.points()) == list(whole.points())
    whole.widen(GRAIN_BITS)
    assert whole.bits == GRAIN_BITS + 4


def test_latencies_have_eight_buckets_a_decade() -> None:
    assert [latency_bucket(ns) for ns in (0, 1000, 1400, 10_000, 1_000_000)] == [0, 0, 1, 8, 24]


def test_delays_have_thirty_two_buckets_a_decade() -> None:
    assert [delay_bucket(ns) for ns in (0, 1000, 1080, 10_000, 1_000_000)] == [0, 0, 1, 32, 96]
