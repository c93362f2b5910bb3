"""Findings that are decided node by node: as one that knows all nodes decides them. Here without Spark's part of it."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from itertools import groupby
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.tools.replay.builder import Record
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import PLANTED, plant
from triack.tools.replay.checks.findings import Due, Finding
from triack.tools.replay.engines.local_engine import judge_segments
from triack.tools.replay.engines.spark_dues import (
    ANSWER,
    ASK,
    FINDING,
    OPENING,
    OWN,
    PEERS,
    SEGMENT,
    Asked,
    _ask_each,
    _decide,
    _know,
)
from triack.tools.replay.judges.conclusion import World, decide
from triack.tools.replay.judges.journal import Segment
from triack.tools.replay.log.schema import Violation

OUTCOME = (OWN, FINDING, ANSWER)


def judged(records: Iterable[Record]) -> tuple[list[Finding], World, list[Segment]]:
    """What the judge found among records, before anything is decided."""
    parts = [("", 1, [*mine]) for _, mine in groupby(records, key=lambda it: (it["node"], it["incarnation"]))]
    judge = judge_segments(lambda: parts)
    findings, world, _ = judge._state()  # noqa: SLF001 - before anything is decided
    return findings, world, judge.segments


def by_joins(findings: list[Finding], world: World, segments: list[Segment]) -> list[Violation]:
    """What the tasks of Spark make of it, each of which knows one node."""
    rows: list[Asked] = [(it.node, SEGMENT, "", json.dumps(it).encode()) for it in segments]
    met = {(it.node, it.peer) for it in world.openings}
    for it in world.openings:
        rows += [(whose, OPENING, "", json.dumps(it).encode()) for whose in {it.node, it.peer}]
    for whose, what, name, data in _ask_each(
        {"data": json.dumps([asdict(it.violation), it.dues]).encode()} for it in findings
    ):
        peers = [peer for node, peer in met if node == whose]
        rows += [(peer, ASK, name, data) for peer in peers] if what == PEERS else [(whose, what, name, data)]
    rows.sort(key=lambda it: it[:2])
    known = sorted(_know(dict(zip(("whose", "what", "name", "data"), row, strict=True)) for row in rows))
    told = [dict(zip(("what", "whose", "n", "data"), row, strict=True)) for row in known if row[0] in OUTCOME]
    told.sort(key=lambda it: str(it["whose"]))
    held = [it for _, mine in groupby(told, key=lambda row: row["whose"]) for it in _decide(mine)]
    best: dict[Any, Violation] = {}
    for one in sorted(held, key=lambda it: (it.standing, it)):
        best.setdefault(one.identity, one)
    return list(best.values())


def without(records: list[Record], lost: str) -> list[Record]:
    """The records without those of a node, or without the end of each start, or without first starts."""
    if lost == "a node":
        return [it for it in records if it["node"] != records[0]["node"]]
    if lost == "ends":
        last = {(it["node"], it["incarnation"]): it["n"] for it in records}
        return [it for it in records if it["n"] <= last[(it["node"], it["incarnation"])] * 3 // 4]
    return [it for it in records if it["incarnation"] > 1 or lost != "first starts"]


@pytest.mark.gate
@pytest.mark.parametrize("lost", ["nothing", "a node", "ends", "first starts"])
def test_each_finding_is_decided_as_by_one_that_knows_all(lost: str) -> None:
    """Of every planted fault and every harmless oddity, with whole logs, and with such as lack something."""
    several = 0
    for name in (*PLANTED, *HARMLESS):
        world = HARMLESS[name]() if name in HARMLESS else plant(name)[0]
        records = without(world.all_records(lacking=name == "records_missing"), lost)
        findings, known, segments = judged(records)
        decided = sorted(map(repr, decide(findings, known)))
        assert sorted(map(repr, by_joins(findings, known, segments))) == decided, name
        several += len(decided)
    assert several > len(PLANTED) // 4


def test_peers_are_asked_one_by_one() -> None:
    """A due about all peers of a node fails with one of them; one of no peers holds."""
    findings, known, segments = judged(plant("order_ack_too_early")[0].all_records())
    violation = findings[0].violation
    for node, holds in ((segments[0].node, True), ("nobody", True)):
        asked = [Finding(violation, (Due("peers_given", node),))]
        assert bool(decide(asked, known)) is bool(by_joins(asked, known, segments)) is holds
