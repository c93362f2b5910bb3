"""Two judges of session logs, written apart from each other, find the same in them: sound logs and damaged ones.

The local engine goes over ranges, record by record, the Spark engine over tables. What one of them missed or made up
would have to be missed or made up by the other.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.proof.disk.damage import Records, damage
from tests.tools.chaos.rule_faults import RULE_FAULTS, restarted
from tests.tools.replay.builder import World
from tests.tools.replay.faults import FAULTS, HARMLESS, ready
from triack.tools.chaos.run import run_seed
from triack.tools.replay.files import find_logs, parse_records
from triack.tools.replay.local_engine import replay_local
from triack.tools.replay.schema import CHECKS, Violation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DAMAGED = 220
RUNS = 10
RUN_RECORDS = range(60, 420)
"""Runs with so many records are taken: all that can happen does, and Spark reads 200 of them in some seconds."""

Sound = dict[str, Records]
"""The records of each node of one world, by node."""
Findings = dict[tuple[str, str, str, str, int, int, int], Violation]


def built() -> Iterator[tuple[str, Sound]]:
    """Records made by hand: correct ones, and ones with a planted fault."""
    for name in (*FAULTS, *RULE_FAULTS, *HARMLESS):
        world = build(name)
        world.number(lacking=name == "records_missing")
        yield name, {log.node: log.records for log in (world.alpha, world.beta)}


def build(name: str) -> World:
    if name in HARMLESS:
        return HARMLESS[name]()
    world = ready() if name in FAULTS else restarted()
    (FAULTS | RULE_FAULTS)[name](world)
    return world


def ran() -> Iterator[tuple[str, Sound]]:
    """Records of real nodes in simulated worlds with every kind of fault."""
    found = 0
    for seed in count():
        nodes: defaultdict[str, Records] = defaultdict(list)
        for log in run_seed(seed).logs.values():
            for record in parse_records(log):
                nodes[record["node"]].append(record)
        # A clone writes under the name of another node.
        if sum(map(len, nodes.values())) in RUN_RECORDS and all(map(in_order, nodes.values())):
            yield f"seed {seed}", dict(nodes)
            found += 1
        if found == RUNS:
            return


def in_order(records: Records) -> bool:
    serials = [(record["incarnation"], record["n"]) for record in records]
    return serials == sorted(set(serials))


@dataclass
class Readings:
    """All worlds in one replay, each under ids of its own; what each reader found; and what each world is."""

    readers: dict[str, Findings]
    worlds: dict[str, str]

    def world(self, key: tuple[str, str, str, str, int, int, int]) -> str:
        """The world that a finding is about, by the end of the node or origin that it names."""
        return self.worlds[(key[1] or key[3])[-8:]]


@pytest.fixture(scope="module")
def readings(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Readings:
    from triack.tools.replay.spark_engine import replay_spark

    directory = tmp_path_factory.mktemp("logs")
    kinds = [list(built()), list(ran())]
    worlds: dict[str, str] = {}
    texts = []
    for name, nodes in chain(*kinds):
        texts.append(rename(worlds, name, nodes))
    for seed in range(DAMAGED):
        random = Random(seed)
        name, nodes = random.choice(kinds[seed % 2])
        some = {node: damage(random, nodes[node]) for node in random.sample(sorted(nodes), random.choice([1, 1, 2]))}
        texts.append(rename(worlds, f"{name}, damage {seed}", {**nodes, **some}))
    for part in range(8):
        (directory / f"part-{part}.jsonl").write_text("".join(texts[part::8]))
    logs = find_logs([directory])
    found = {
        "local": replay_local(logs, timeline=False)[0].findings,
        "spark": replay_spark(spark, logs, timeline=False)[0].findings,
    }
    return Readings({reader: {it.identity: it for it in its} for reader, its in found.items()}, worlds)


def rename(worlds: dict[str, str], name: str, nodes: Sound) -> str:
    """The lines of a world, its node ids ending in a number of its own."""
    tag = f"{len(worlds):08x}"
    worlds[tag] = name
    text = "".join(json.dumps(record) + "\n" for records in nodes.values() for record in records)
    for node in nodes:
        text = text.replace(node, node[:24] + tag)
    return text


def test_both_judges_agree(readings: Readings) -> None:
    """Check, node, session, origin, lane, sequence and number are the same, finding by finding."""
    every = set().union(*readings.readers.values())
    disputed = [
        f"{readings.world(key)}: {' and '.join(said)} say {said[next(iter(said))]}"
        for key in sorted(every)
        if len(said := {reader: its[key] for reader, its in readings.readers.items() if key in its}) < 2
    ]
    assert disputed == []


def test_there_is_something_to_agree_on(readings: Readings) -> None:
    """Every promise is broken in several worlds; the damage shows, and not only in what was made by hand."""
    broken: defaultdict[str, set[str]] = defaultdict(set)
    for key in readings.readers["local"]:
        broken[key[0]].add(readings.world(key))
    assert {check for check, worlds in broken.items() if len(worlds) >= 3} == set(CHECKS)
    damaged = {world for worlds in broken.values() for world in worlds if "damage" in world}
    assert len(damaged) > DAMAGED // 3
    assert len([world for world in damaged if world.startswith("seed")]) > DAMAGED // 6


def test_sound_records_pass(readings: Readings) -> None:
    """Nothing is found in records that are right, nor in runs but for acks that a stalled process sent late."""
    right = {*HARMLESS, *(name for name in readings.worlds.values() if name.startswith("seed") and "," not in name)}
    assert {key[0] for key in readings.readers["local"] if readings.world(key) in right} <= {"idle_delay"}
