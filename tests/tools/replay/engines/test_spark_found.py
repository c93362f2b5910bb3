"""What comes home from Spark; tests/tools/replay/stories/test_fleet.py has it of many nodes."""

import json

import pytest

pytest.importorskip("pyspark")

from triack.tools.replay.engines.spark_found import _merged, _series
from triack.tools.replay.log.series import Series


def row(series: Series) -> bytes:
    return json.dumps(["committed", series.mode, series.bits, list(series.buckets.items())]).encode()


def test_series_of_a_name_are_merged_as_one_process_would() -> None:
    """Also where one of them has wider buckets."""
    first, second, both = Series("sum"), Series("sum"), Series("sum")
    for at in range(2_000):
        for series in (first, both):
            series.add(at << 24, 1)
    for series in (second, both):
        series.add(5 << 24, 7)
    merged = _series(_merged([row(first), row(second)]))
    assert (merged.mode, merged.bits, merged.buckets) == (both.mode, both.bits, both.buckets)
