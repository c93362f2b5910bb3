"""Spark goes on from summaries as the local engine does: the same verdict, numbers and evidence, lies included."""

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from proof.lies.logs import honest_logs
from tests.tools.replay.cutting import cut, random_cuts, told, write_segments
from triack.tools.replay.engines.prune import prune
from triack.tools.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS = 5
LIARS = 2
"""Runs in whose last segment a record is changed after the prune."""
ALL = 1 << 62

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The pruned logs of several runs, each of nodes of its own."""
    for run, (seed, log) in enumerate(honest_logs(RUNS)):
        before, behind = cut((record for start in log.values() for record in start), random_cuts(log, Random(seed)))
        write_segments([*before, *behind], tmp_path / "logs" / str(run))
        prune(tmp_path / "logs" / str(run), ALL)
        if run < LIARS:
            change(tmp_path / "logs" / str(run))
    return tmp_path / "logs"


def change(folder: Path) -> None:
    """Raise the number of the last packet that left."""
    for path in sorted(folder.glob("*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        sent = [line for line in lines if line["event"] == "packet_sent"]
        if sent:
            sent[-1]["packet"] += 1
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            return


def test_both_engines_go_on_alike(spark: "SparkSession", logs: Path) -> None:
    from triack.tools.replay.engines.spark_engine import replay_spark

    local = replay([logs], engine="local")
    assert (local.verdict, bool(local.findings)) == ("fail", True)
    assert told(replay_spark(spark, [str(logs)])) == told(local)
