"""The Spark engine as a whole: it says what the local one says, and names what it cannot do."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tools.replay.faults import HARMLESS
from tests.tools.replay.planted import TORN, Planted
from triack.base.errors import ReplayError
from triack.tools.replay import run
from triack.tools.replay.files import find_logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_unusual_but_right_passes(planted: Planted, name: str) -> None:
    """Crashes, resends, removals, forwarding and waiting packets break no promise."""
    assert planted.found(name) == []


def test_the_engines_agree(planted: Planted) -> None:
    """Numbers, violations and their evidence are the same."""
    local, spark = asdict(planted.local[0]), asdict(planted.spark[0])
    assert {name: local[name] for name in local if local[name] != spark[name]} == {"engine": "local"}


def test_torn_lines_are_skipped(planted: Planted) -> None:
    """Both engines skip them and say how many there were."""
    assert (planted.local[0].torn_lines, planted.spark[0].torn_lines) == (TORN, TORN)
    written = sum(len(log.records) for world in planted.worlds.values() for log in (world.alpha, world.beta))
    assert planted.spark[0].records == written


def test_every_finding_belongs_to_a_world(planted: Planted) -> None:
    """So the tests of single faults, which look at one world each, have seen all that Spark found."""
    assert sum(len(planted.found(name)) for name in planted.worlds) == len(planted.spark[0].findings)


def test_spark_names_the_damaged_line(spark: "SparkSession", tmp_path: Path) -> None:
    """Spark knows only that a line does not fit; the error still names its file and number."""
    from triack.tools.replay.spark_engine import replay_spark

    HARMLESS["forwarded"]().save(tmp_path)
    file = tmp_path / "beta" / "beta-000001-000002.jsonl.open"
    lines = file.read_text().splitlines(keepends=True)
    lines[1] = lines[1].replace('"n"', "n")
    file.write_text("".join(lines))
    logs = find_logs([tmp_path])  # the first line of each is whole
    with pytest.raises(ReplayError, match=r"beta-000001-000002\.jsonl\.open line 2 is damaged"):
        replay_spark(spark, logs, timeline=False)


def test_what_spark_cannot_do_is_said_in_one_line(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log vanishes after it was found. The Spark session is not ours, and stays open."""
    HARMLESS["forwarded"]().save(tmp_path)
    logs = find_logs([tmp_path])
    logs[0].path.unlink()
    monkeypatch.setattr(run, "find_logs", lambda _: logs)
    with pytest.raises(ReplayError) as failed:
        run.replay([tmp_path])
    said = str(failed.value)
    assert said.startswith("Spark failed: [PATH_NOT_FOUND] ")
    assert f"{logs[0].path}" in said
    assert said.endswith("; --engine local needs no Spark")
    assert "\n" not in said
    assert spark.range(3).count() == 3
