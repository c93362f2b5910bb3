"""All worlds of `faults`, judged once by both engines: Spark starts and plans once for all tests."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.tools.replay.builder import World
from tests.tools.replay.faults import FAULTS, HARMLESS, Expected, ready, rename
from triack.tools.replay.files import LogFile, find_logs
from triack.tools.replay.local_engine import replay_local
from triack.tools.replay.schema import Timeline, Verdict, Violation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TORN = 2
"""Logs that end in the middle of a line."""


@dataclass(slots=True)
class Planted:
    """What is in the worlds, and what the engines found there."""

    worlds: dict[str, World]
    expected: dict[str, Expected]
    logs: list[LogFile]
    local: tuple[Verdict, Timeline]
    spark: tuple[Verdict, Timeline]

    def found(self, name: str) -> list[Violation]:
        """What Spark found in one world."""
        nodes = {self.worlds[name].alpha.records[0]["node"], self.worlds[name].beta.records[0]["node"]}
        return [found for found in self.spark[0].findings if nodes & {found.node, found.origin}]

    def fault(self, name: str) -> None:
        """See that Spark found a fault as what it is, once, and nothing else."""
        found = Counter((it.check, it.lane, it.sequence, it.number) for it in self.found(name))
        assert found == Counter(self.expected[name])

    def evidence(self, name: str) -> list[str]:
        """What Spark says of a world, finding by finding."""
        return [it.evidence for it in self.found(name)]


def judge(spark: "SparkSession", directory: Path) -> Planted:
    """Write the logs of all worlds, each with ids of its own, and let both engines read them."""
    from triack.tools.replay.spark_engine import replay_spark

    worlds: dict[str, World] = {}
    expected: dict[str, Expected] = {}
    for at, name in enumerate([*FAULTS, *HARMLESS], start=1):
        world = worlds[name] = ready() if name in FAULTS else HARMLESS[name]()
        expected[name] = FAULTS[name](world) if name in FAULTS else set()
        rename(world, f"{at:04x}").number(lacking=name == "records_missing")
        world.save(directory, number=False)
    tear(directory, worlds)
    logs = find_logs([directory])
    (local, local_line), (judged, judged_line) = (
        replay_local(logs, timeline=True),
        replay_spark(spark, logs, timeline=True),
    )
    assert local_line is not None
    assert judged_line is not None
    return Planted(worlds, expected, logs, (local, local_line), (judged, judged_line))


def tear(directory: Path, worlds: dict[str, World]) -> None:
    """Leave torn lines in two logs: half a record, and a whole one that only lacks its newline."""
    for name, text in (("healthy", '{"v": 1, "event": "pack'), ("forwarded", None)):
        (file,) = (directory / worlds[name].beta.name).glob("*-000001-000002.jsonl.open")
        last = file.read_text().splitlines()[-1]
        with file.open("a") as log:
            log.write(text or last.replace('"n": ', '"n": 1'))
