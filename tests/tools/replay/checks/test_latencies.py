"""Latencies do not depend on which node is heard first, and what was measured is forgotten."""

from triack.tools.replay.checks.findings import Output
from triack.tools.replay.checks.latencies import Latencies
from triack.tools.replay.log.ranges import RangeSet
from triack.tools.replay.log.series import delay_bucket, latency_bucket

MS = 1_000_000
QUEUED = [(1, 10, 0), (11, 20, 5 * MS)]
COMMITTED = [(1, 4, 1 * MS), (5, 12, 7 * MS), (13, 20, 9 * MS)]


def record(first: int, last: int, wall_ns: int) -> dict[str, int]:
    return {"first": first, "last": last, "count": last - first + 1, "wall_ns": wall_ns}


def measured(*order: str) -> tuple[dict[str, int], Latencies]:
    latencies, out = Latencies(), Output()
    for what in order:
        for span in QUEUED if what == "queued" else COMMITTED:
            getattr(latencies, what)(record(*span), out)
    return {name: sum(series.buckets.values()) for name, series in out.series.items()}, latencies


def test_each_message_is_measured_once() -> None:
    """By the range in which the last packet of its commit was queued."""
    for order in (("queued", "committed"), ("committed", "queued")):
        counts, latencies = measured(*order)
        one, four, two = (f"latency {latency_bucket(ms * MS)}" for ms in (1, 4, 2))
        assert counts == {one: 4, two: 8, four: 8}
        assert latencies.waiting == 0


def test_what_was_not_queued_waits() -> None:
    assert measured("committed")[0] == {}


def test_what_two_have_seen_is_measured_together() -> None:
    """Either of them may have seen either event."""
    for one, other in (("queued", "committed"), ("committed", "queued")):
        (_, mine), (_, others), out = measured(one), measured(other), Output()
        mine.join(others, out)
        counts = {name: sum(series.buckets.values()) for name, series in out.series.items()}
        assert counts == measured("queued", "committed")[0]
        assert mine.waiting == 0


def test_delays_are_kept_for_percentiles_and_the_slowest_exactly() -> None:
    """Whatever part of a stream was seen first."""
    (_, mine), (_, others) = measured("queued"), measured("committed")
    mine.join(others, Output())
    for latencies in (mine, measured("queued", "committed")[1]):
        assert latencies.delays == {delay_bucket(1 * MS): 4, delay_bucket(2 * MS): 8, delay_bucket(4 * MS): 8}
        assert latencies.longest_ns == 4 * MS


def test_what_waits_has_waited_since_it_was_queued() -> None:
    _, latencies = measured("queued")
    assert [latencies.oldest(RangeSet([span])) for span in ((9, 12), (11, 20), (21, 30))] == [0, 5 * MS, 0]
