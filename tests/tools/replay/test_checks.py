"""Each promise is broken once, and both engines find exactly that."""

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tools.replay.faults import FAULTS, HARMLESS, ready, rename
from triack.base.errors import ReplayError
from triack.tools.replay import run
from triack.tools.replay.files import find_logs
from triack.tools.replay.local_engine import replay_local
from triack.tools.replay.schema import CHECKS, Timeline, Verdict, Violation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.tools.replay.faults import Expected

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@dataclass(slots=True)
class Everything:
    """All worlds in one replay, by both engines: Spark starts and plans once for all tests."""

    expected: dict[str, "Expected"]
    tags: dict[str, str]
    local: Verdict
    spark: Verdict
    timelines: tuple[Timeline, Timeline]

    def found(self, engine: str, name: str) -> list[Violation]:
        verdict: Verdict = getattr(self, engine)
        tag = f"{self.tags[name]:0>8}"
        return [found for found in verdict.findings if tag in (found.node[-8:], found.origin[-8:])]


@pytest.fixture(scope="session")
def everything(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Everything:
    from triack.tools.replay.spark_engine import replay_spark

    directory = tmp_path_factory.mktemp("logs")
    expected: dict[str, Expected] = {}
    tags = {name: f"{at:04x}" for at, name in enumerate([*FAULTS, *HARMLESS], start=1)}
    for name, tag in tags.items():
        world = ready() if name in FAULTS else HARMLESS[name]()
        expected[name] = FAULTS[name](world) if name in FAULTS else set()
        rename(world, tag).save(directory, number=name != "records_missing")
        if name == "records_missing":
            world.beta.number()
            world.save(directory, number=False)
    tear(directory, tags)
    logs = find_logs([directory])
    (local, local_line), (spark_, spark_line) = (
        replay_local(logs, timeline=True),
        replay_spark(spark, logs, timeline=True),
    )
    assert local_line is not None
    assert spark_line is not None
    return Everything(expected, tags, local, spark_, (local_line, spark_line))


def tear(directory: Path, tags: dict[str, str]) -> None:
    """Leave torn lines in two logs: half a record, and a whole one that only lacks its newline."""
    for name, text in (("healthy", '{"v": 1, "event": "pack'), ("forwarded", None)):
        (file,) = (directory / f"beta{tags[name]}").glob("*-000001-000002.jsonl.open")
        last = file.read_text().splitlines()[-1]
        with file.open("a") as log:
            log.write(text or last.replace('"n": ', '"n": 1'))


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(everything: Everything, name: str, engine: str) -> None:
    """The fault is found as what it is, and nothing else is."""
    found = Counter((v.check, v.lane, v.sequence, v.number) for v in everything.found(engine, name))
    assert found == Counter(everything.expected[name])


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_unusual_but_right_passes(everything: Everything, name: str, engine: str) -> None:
    """Crashes, resends, removals, forwarding and waiting packets break no promise."""
    assert everything.found(engine, name) == []


def test_every_check_has_a_fault(everything: Everything) -> None:
    """No check is without a test that sees it fail."""
    assert {check for expected in everything.expected.values() for check, *_ in expected} == set(CHECKS)


def test_torn_lines_are_skipped(everything: Everything) -> None:
    """Both engines skip them and say how many there were."""
    assert (everything.local.torn_lines, everything.spark.torn_lines) == (2, 2)


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


def test_the_engines_agree(everything: Everything) -> None:
    """Numbers, violations and their evidence are the same, and so is what the plots show."""
    local, spark = asdict(everything.local), asdict(everything.spark)
    assert {name: local[name] for name in local if local[name] != spark[name]} == {"engine": "local"}
    assert asdict(everything.timelines[0]) == asdict(everything.timelines[1])
