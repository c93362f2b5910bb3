"""What facts come to."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tools.replay.builder import healthy
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.log.files import find_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_sessions_that_failed_are_those_that_the_judges_count(spark: "SparkSession", tmp_path: Path) -> None:
    """A row for each end; a session that failed at both ends failed once."""
    from triack import replay
    from triack.tools.replay.tables.facts import FACTS
    from triack.tools.replay.tables.summaries import summarize

    world = healthy()
    world.save(tmp_path)
    records = replay.load(spark, str(tmp_path)).cache()
    made = summarize({name: make(records) for name, make in FACTS.items()})
    sessions = made["sessions"].collect()
    opened = [record for log in world.logs for record in log.all("session_opened")]
    assert len(sessions) == len(opened)
    verdict = replay_local(find_logs([tmp_path]))
    assert len({it.session for it in sessions if it.failed}) == verdict.sessions_closed
    assert made["nodes"].where("stopped").count() == sum(len(log.all("node_stopped")) for log in world.logs)
    outages = made["outages"].collect()
    lost = {(it.node, it.session) for it in sessions if it.reason in ("ack-timeout", "path-lost")}
    assert lost
    assert lost <= {(it.node, it.session) for it in outages}
    assert all(it.since_wall_ns < it.until_wall_ns for it in outages if it.until_wall_ns)
