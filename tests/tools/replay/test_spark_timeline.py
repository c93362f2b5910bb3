"""What the plots show, gathered by Spark."""

from dataclasses import asdict
from typing import Any

import pytest

from tests.tools.replay.planted import Planted
from triack.tools.replay.schema import TIMELINE_BUCKETS, SessionLine

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_the_engines_draw_the_same(planted: Planted) -> None:
    assert asdict(planted.local[1]) == asdict(planted.spark[1])


def test_nothing_is_left_out(planted: Planted) -> None:
    """Every message on a disk, every packet that left or came again, and every end of a session has its place."""
    verdict, timeline = planted.spark
    logs = [log for world in planted.worlds.values() for log in (world.alpha, world.beta)]
    assert sum(timeline.committed.values()) == sum(it["count"] for log in logs for it in log.all("committed"))
    assert sum(timeline.resends.values()) == verdict.resends
    assert sum(timeline.duplicates.values()) == verdict.duplicates_on_wire
    assert len(timeline.sessions) == sum(len(log.all("session_opened")) for log in logs)
    assert max(peak for line in timeline.unacked.values() for peak in line.values()) == 150


def test_a_span_has_so_many_buckets() -> None:
    """However long it is, and no finer than a grain."""
    pytest.importorskip("pyspark")
    from triack.tools.replay.spark_timeline import empty_timeline

    hour = 3_600_000_000_000
    assert (empty_timeline(0, 1).bucket_ns, empty_timeline(7, 7).start_ns) == (10_000_000, 7)
    assert hour // TIMELINE_BUCKETS <= empty_timeline(0, hour).bucket_ns <= hour // TIMELINE_BUCKETS + 10_000_000


def test_facts_find_their_plots() -> None:
    """Facts of the verdict are left alone, and sessions are shown as they began."""
    pytest.importorskip("pyspark")
    from triack.tools.replay.spark_timeline import empty_timeline, fill_timeline

    timeline = empty_timeline(0, 1)
    rows: list[Any] = [
        fact("window", number=1, value=9),
        fact("plot committed", number=3, value=40),
        fact("plot resends", number=4, value=0),
        fact("plot unacked", node=1, session=2, number=3, value=17),
        fact("plot life", node=1, session=2, number=500, value=900, evidence="drained"),
        fact("plot life", node=1, session=3, number=200),
    ]
    fill_timeline(timeline, rows, {1: "node", 2: "second", 3: "first"})
    assert (timeline.committed, timeline.resends, timeline.duplicates) == ({3: 40}, {}, {})
    assert timeline.unacked == {("node", "second"): {3: 17}}
    assert timeline.sessions == [
        SessionLine("node", "first", 200, 0, ""),
        SessionLine("node", "second", 500, 900, "drained"),
    ]


def fact(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "node": None, "session": None, "number": None, "value": None, "evidence": None, **more}
