"""What a sequence promises over all sessions, as Spark sees it."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tools.replay.builder import PER_PACKET, place
from tests.tools.replay.faults import STREAM_CHECKS, TX, breaking, ready
from tests.tools.replay.planted import Planted
from triack.tools.replay.files import find_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("name", breaking(*STREAM_CHECKS))
def test_a_planted_fault_is_found(planted: Planted, name: str) -> None:
    planted.fault(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hole_in_a_commit", ["1 packets from 2 on were not committed before 3"]),
        ("handed_out_of_order", ["messages 0..9 handed out after 5/2 message 9"]),
        ("handed_twice", ["10 messages handed out again without being marked"]),
        ("committed_twice", ["committed 2 times; messages: 10"]),
        ("order_ack_too_early", ["order ack up to 4, committed up to 0"]),
        ("lost_recoverable", ["acknowledged at its origin, committed nowhere; messages: 10"]),
    ],
)
def test_the_evidence_has_the_numbers(planted: Planted, name: str, said: list[str]) -> None:
    assert planted.evidence(name) == said


def test_a_stream_falls_into_parts_of_one_fate(spark: "SparkSession", tmp_path: Path) -> None:
    """Six packets: 1 and 2 committed and order-acked, 3 removed, 4 and 5 queued again after a start, 6 new."""
    from triack.tools.replay import spark_records, spark_streams

    world = ready()
    world.queue(TX, 5)
    world.commit(TX, range(1, 3))
    world.order_ack(2)
    world.alpha.write("removed", cls=TX, **place(TX), first=3, last=3, count=PER_PACKET, reason="expired")
    world.alpha.start()
    world.queued(TX, 4, 5, recovered=True)
    world.queue(TX, 1)
    logs = find_logs(world.save(tmp_path))
    records = spark_records.encode(spark_records.read_lines(spark, logs), logs)
    columns = ("first", "last", "fresh", "again", "removed", "committed", "covered", "order_acked")
    parts = sorted(map(tuple, spark_streams.segments(records).select(*columns).collect()))
    assert parts == [
        (1, 2, 1, 0, 0, 1, 0, 1),
        (3, 3, 1, 0, 1, 0, 0, 0),
        (4, 5, 1, 1, 0, 0, 0, 0),
        (6, 6, 1, 0, 0, 0, 0, 0),
    ]
