"""What one session promises, as Spark sees it."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tools.replay.faults import SESSION_CHECKS, breaking, ready
from tests.tools.replay.planted import Planted
from triack.tools.replay.files import find_logs
from triack.tools.replay.schema import ACK_RANGE_PACKETS_MAX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("name", breaking(*SESSION_CHECKS))
def test_a_planted_fault_is_found(planted: Planted, name: str) -> None:
    planted.fault(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("window_exceeded", ["65 packets unacknowledged, the window is 64"]),
        ("ack_for_what_was_not_sent", ["acknowledged but not sent before"]),
        ("ack_of_what_did_not_arrive", ["acknowledged but not received before"] * 2),
        ("threshold_ignored", ["96 new packets without an ack, the threshold is 32"]),
        (
            "idle_delay_exceeded",
            ["acknowledged after 752 ms, at most 750 ms are allowed", "acknowledged never, at most 750 ms are allowed"],
        ),
    ],
)
def test_the_evidence_has_the_numbers(planted: Planted, name: str, said: list[str]) -> None:
    assert planted.evidence(name) == said


def test_a_wild_range_does_not_eat_the_memory(spark: "SparkSession", tmp_path: Path) -> None:
    """It is looked at as far as any window goes, and a range that ends before it begins not at all."""
    from pyspark.sql import functions as f

    from triack.tools.replay import spark_records, spark_sessions

    world = ready()
    world.send("express", world.queue("express", 2))
    world.alpha.write("ack_received", session=world.session, ranges=[[2, 1 << 60], [1, 0]])
    logs = find_logs(world.save(tmp_path))
    records = spark_records.encode(spark_records.read_lines(spark, logs), logs)
    links = spark_sessions.links(*spark_records.split(records)).where("outgoing")
    (row,) = links.agg(
        f.count("acked").alias("acked"),
        f.max(f.when(f.col("acked").isNotNull(), f.col("packet"))).alias("highest"),
        f.count_if(f.expr("moved < acked")).alias("freed"),
    ).collect()
    assert tuple(row) == (ACK_RANGE_PACKETS_MAX, ACK_RANGE_PACKETS_MAX + 1, 1)
