"""What tasks have found comes together at the end of a replay on Spark; stories/test_fleet.py has it of many nodes."""

import pytest

pytest.importorskip("pyspark")

from triack.tools.replay.checks.findings import Output
from triack.tools.replay.engines.spark_conclusion import Told


def test_what_tasks_tell_comes_together_as_one_process_would_have_it() -> None:
    """Also where one of them has wider buckets, and whichever was told first."""
    first, second, both = Output(), Output(), Output()
    for at in range(2_000):
        for out in (first, both):
            out.chart("committed", at << 24, 1)
            out.count("sent", 1)
            out.begin(at + 9)
    for out in (second, both):
        out.chart("committed", 5 << 24, 7)
        out.count("sent", 5)
        out.begin(7)
        out.end(8)
    for parts in ((first, second), (second, first)):
        told = Told()
        for part in parts:
            told.take(part)
        assert (told.out.numbers, told.out.begin_ns, told.out.end_ns) == ({"sent": 2_005}, 7, 8)
        series, whole = told.out.series["committed"], both.series["committed"]
        assert (series.mode, series.bits, series.buckets) == (whole.mode, whole.bits, whole.buckets)
