"""T11: copies of logs are logs of other nodes, and are judged like those."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.tools.bench.measuring import measured
from triack.tools.bench import replaying
from triack.tools.bench.figures import Result
from triack.tools.bench.options import Meter, Options
from triack.tools.bench.replaying import Made, copy_logs, count_packets
from triack.tools.bench.rows import rows_of
from triack.tools.bench.run import run_once
from triack.tools.bench.systems.catalogue import SYSTEMS
from triack.tools.bench.work import Work
from triack.tools.replay.run import replay


@pytest.mark.slow
async def test_a_copy_is_another_pair_of_nodes(tmp_path: Path) -> None:
    await run_once(SYSTEMS["triack"], Work(messages=1_000), tmp_path, {}, lambda _progress: None)
    copy_logs(tmp_path / "logs", tmp_path / "copy", 1)
    alone = replay([tmp_path / "logs"], engine="local")
    both = replay([tmp_path / "logs", tmp_path / "copy"], engine="local")
    assert (alone.verdict, both.verdict) == ("pass", "pass")
    assert (both.records, both.nodes) == (2 * alone.records, 4)
    assert both.delivered == 2 * alone.delivered == 2_000


async def test_without_spark_it_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what to install: no option of another command, such as the engine of a replay."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = await measured("T11", tmp_path, 10)
    (note,) = result.notes
    assert note.startswith("not run: replay on Spark needs ")
    assert "install" in note
    assert "--" not in note
    assert result.headline.values == []


async def replay_here(logs: list[Path]) -> dict[str, Any]:
    """By the local engine: where what is asked is whether the logs are whole."""
    began_s = time.monotonic()
    verdict = replay(logs, engine="local")
    return {**verdict.to_json(), "took_s": time.monotonic() - began_s, "driver_bytes": 0, "processor_s": 1.0}


@pytest.mark.slow
@pytest.mark.spark
async def test_few_and_many_are_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The many on Spark, as the row does with both: each starts a Java."""
    pytest.importorskip("pyspark")
    on_spark = getattr(replaying, "_replay")  # noqa: B009 - what is replaced is called
    monkeypatch.setattr(replaying, "_replay", lambda logs: (on_spark if len(logs) > 1 else replay_here)(logs))
    result = await measured("T11", tmp_path, 500)
    assert result.verified, result.notes
    assert result.figures["clean"].values[0] > 0
    assert result.details["T11 clean records"] > 0
    assert result.details["T11 clean driver MiB"] > 10


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays by the local engine: what is asked is whether the logs that were made are whole, in every form."""
    monkeypatch.setattr(replaying, "missing_of_spark", lambda: None)
    monkeypatch.setattr(replaying, "_replay", replay_here)


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
async def test_every_form_of_logs_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As columns, with losses, and as one session; T11 replays them all, and so does its growth."""
    monkeypatch.setattr(replaying, "RECORDS", 1)
    (row,) = rows_of(("T11",))
    result = Result.of(row)
    await replaying.measure_replay(row, Options(tmp_path, 1, messages=1_000), Meter(), result)
    assert result.verified, result.notes
    assert all(figure.values for figure in result.figures.values())


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
async def test_growth_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "GROWN", (5,))
    (row,) = rows_of(("growth",))
    result = Result.of(row)
    await replaying.measure_growth(row, Options(tmp_path, 1, messages=500, quick=True), Meter(), result)
    assert result.verified, result.notes
    assert result.figures["one giant session, 5 million"].values[0] > 0
    assert result.details["one giant session, 5 million a processor s"] > 0


async def test_growth_tells_the_rates_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of all records, with what Spark costs once, and that of those beyond the first replay's."""
    seconds = {5: (10.0, 8.0), 10: (20.0, 12.0)}

    async def make(*_: object) -> Made:
        return Made(tmp_path, 1_000_000)

    async def replayed(logs: list[Path]) -> dict[str, Any]:
        took_s, busy_s = seconds[len(logs)]
        return {"verdict": "pass", "took_s": took_s, "processor_s": busy_s, "driver_bytes": 0}

    monkeypatch.setattr(replaying, "_missing", lambda: None)
    monkeypatch.setattr(replaying, "_make", make)
    monkeypatch.setattr(replaying, "_replay", replayed)
    for many in ("_pairs", "_giant"):
        monkeypatch.setattr(replaying, many, lambda made, times: [made.logs] * times)
    monkeypatch.setattr(replaying, "GROWN", (5, 10))
    (row,) = rows_of(("growth",))
    result = Result.of(row)
    await replaying.measure_growth(row, Options(tmp_path, 1), Meter(), result)
    assert result.details["clean, 10 million a processor s"] == round(10_000_000 / 12.0)
    assert result.details["clean, 10 million more a processor s"] == 5_000_000 / 4
    assert "clean, 5 million more a processor s" not in result.details


def test_records_are_counted_by_packets() -> None:
    assert count_packets({"event": "packet_sent", "packets": 7}) == 7
    assert count_packets({"event": "handed", "counts": [[3, 10], [1, 2]]}) == 4
    assert count_packets({"event": "ack_sent"}) == 1
