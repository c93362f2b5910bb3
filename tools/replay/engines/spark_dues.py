"""What findings depend on, decided by joins: each node by one task, which knows that node's starts and sessions alone.

A due is about one node. Whether it holds follows from the starts of that node, from its sessions, and from what its
peers tell of their sessions with it. So a finding asks each node that one of its dues is about, and the answers come
together again by the finding. Neither the driver nor a closure ever holds the starts or sessions of all nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple, fields
from hashlib import sha256
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from triack.tools.replay.checks.findings import EVER, Due, Opening, Output
from triack.tools.replay.engines.arrow_rows import each
from triack.tools.replay.judges.conclusion import World, cut_log, decide, missing_of, outcome, place
from triack.tools.replay.judges.journal import Segment, join_segments
from triack.tools.replay.log.schema import Violation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VIOLATIONS: Final = ", ".join(
    f"`{field.name}` {'bigint' if field.type == 'int' else 'string'}" for field in fields(Violation)
)
"""A violation: the fields of ``schema.Violation``."""
IDENTITY: Final = [field.name for field in fields(Violation)[:9]]
"""Two findings that agree in these are the same."""
ASKED: Final = "whose string, what int, name string, data binary"
"""A row for the task of the node ``whose``: ``what`` is one of the constants below, ``name`` of a finding."""
SEGMENT: Final = 0
OPENING: Final = 1
ASK: Final = 2
PEERS: Final = 3
"""In this order the task of a node gets its rows. ``PEERS`` are asked of all peers of the node in its place."""
KNOWN: Final = "what string, whose string, n bigint, data binary"
"""What the task of a node tells: of itself (``MISSING`` and so on), or of a finding, whose name is in ``whose``."""
MISSING: Final = "missing"
UNFINISHED: Final = "unfinished"
SHORT: Final = "short"
LIFE: Final = "life"
COUNTS: Final = ("nodes", "starts", "records")
"""Of the node ``whose``: the names of its missing logs, that its last log has no end, starts whose logs surely lack
their ends (``n`` is the start), its starts as ``Life``, and numbers in ``n``."""
OWN: Final = "own"
"""A violation that the segments of a node show together."""
FINDING: Final = "finding"
ANSWER: Final = "answer"
"""A finding with its place, or nothing if the begin of its log is missing; and the answer to one of its dues."""

Asked = tuple[str, int, str, bytes]
Known = tuple[str, str, int, bytes]


def ask(found: DataFrame, *, findings: bool) -> DataFrame:
    """Return what the tasks of all nodes tell, as ``KNOWN``; the caller keeps it in Spark's cache."""
    segments = found.where("unit = 'segment'").select(_part(0).alias("whose"), _what(SEGMENT), _nameless(), "data")
    openings = found.where("unit = 'opening'").select(_part(0).alias("node"), _part(2).alias("peer"), "data")
    rows = segments
    for whose, some in (("node", openings), ("peer", openings.where("peer != node"))):
        rows = rows.unionByName(some.select(f.col(whose).alias("whose"), _what(OPENING), _nameless(), "data"))
    if findings:
        asked = found.where("unit = 'finding'").select("data").mapInArrow(each(_ask_each, ASKED), ASKED)
        met = openings.select("node", "peer").distinct()
        of_peers = asked.where(f.col("what") == PEERS).join(met, f.col("whose") == f.col("node"))
        of_peers = of_peers.select(f.col("peer").alias("whose"), _what(ASK), "name", "data")
        rows = rows.unionByName(asked.where(f.col("what") != PEERS)).unionByName(of_peers)
    ordered = rows.repartition("whose").sortWithinPartitions("whose", "what")
    return ordered.mapInArrow(each(_know, KNOWN), KNOWN)


def violations(known: DataFrame) -> DataFrame:
    """Return those findings whose dues hold, each once, as ``VIOLATIONS`` with file and line."""
    mine = known.where(f.col("what").isin(OWN, FINDING, ANSWER))
    ordered = mine.repartition("whose").sortWithinPartitions("whose", f.col("what").desc())
    held = ordered.mapInArrow(each(_decide_each, VIOLATIONS), VIOLATIONS)
    # A broken promise comes before a late one, if two findings are about the same.
    others = ["standing", *(name for field in fields(Violation) if (name := field.name) not in (*IDENTITY, "standing"))]
    best = held.groupBy(*IDENTITY).agg(f.min(f.struct(*others)).alias("best"))
    return best.select(*IDENTITY, *(f.col(f"best.{field.name}") for field in fields(Violation)[len(IDENTITY) :]))


def _part(at: int) -> Any:
    """Return a value of an array of JSON in ``data``."""
    return f.get_json_object(f.col("data").cast("string"), f"$[{at}]")


def _what(what: int) -> Any:
    return f.lit(what).alias("what")


def _nameless() -> Any:
    return f.lit("").alias("name")


# ---- what runs on the workers


def _ask_each(rows: Iterable[dict[str, Any]]) -> Iterator[Asked]:
    """Yield each finding for the node whose record shows it, and each of its dues for the node that it is about."""
    for row in rows:
        data = row["data"]
        violation, dues = json.loads(data)
        name = sha256(data).hexdigest()
        yield violation["node"] or violation["origin"], ASK, name, data
        for due in dues:
            kind, node = due[0], due[1]
            if kind == "peers_given":
                yield node, PEERS, name, json.dumps(["given", None, 1, "", 0, EVER, 0]).encode()
            else:
                yield node, ASK, name, json.dumps(due).encode()


def _know(rows: Iterable[dict[str, Any]]) -> Iterator[Known]:
    for node, mine in groupby(rows, key=lambda row: row["whose"]):
        yield from _know_one(node, mine)


def _know_one(node: str, rows: Iterator[dict[str, Any]]) -> Iterator[Known]:
    """Yield what is known of a node, and its answers."""
    there: dict[int, list[Any]] = {SEGMENT: [], OPENING: []}
    asked: list[dict[str, Any]] = []
    for row in rows:
        if row["what"] >= ASK:
            asked.append(row)
            break
        there[row["what"]].append(json.loads(row["data"]))
    segments, openings = [Segment(*it) for it in there[SEGMENT]], [Opening(*it) for it in there[OPENING]]
    joining = Output()
    world = World(join_segments(segments, joining), openings)
    yield from _tell(node, world)
    for it in placed(decide(joining.findings, world), segments):
        yield OWN, sha256(repr(it).encode()).hexdigest(), 0, json.dumps(asdict(it)).encode()
    for row in chain(asked, rows):
        yield from _answer(node, row, world, segments)


def _tell(node: str, world: World) -> Iterator[Known]:
    for at, said in enumerate(missing_of(world, node)):
        yield MISSING, node, at, said.encode()
    if node not in world.nodes:
        return
    lives = [life for _, life in sorted(world.lives.items())]
    if not lives[-1].stopped:
        yield UNFINISHED, node, 0, b""
    for start in world.endings.short():
        yield SHORT, node, start[1], cut_log(world, start).encode()
    for life in lives:
        yield LIFE, node, life.incarnation, json.dumps(life).encode()
    for what, count in zip(COUNTS, (1, len(lives), sum(life.records for life in lives)), strict=True):
        yield what, node, count, b""


def _answer(node: str, row: dict[str, Any], world: World, segments: list[Segment]) -> Iterator[Known]:
    asked, name = json.loads(row["data"]), row["name"]
    if isinstance(asked[0], dict):
        (violation,) = placed([Violation(**asked[0])], segments)
        if (node, violation.incarnation) not in world.headless:
            yield FINDING, name, 0, json.dumps(asdict(violation)).encode()
        return
    due = Due(*asked)._replace(node=node)
    lacking = [(*start, cut_log(world, start)) for start in sorted(world.lacking(due))]
    yield ANSWER, name, 0, json.dumps([due.kind, world.holds(due), lacking]).encode()


def placed(found: list[Violation], segments: list[Segment]) -> list[Violation]:
    """Return violations with the file and line of their records."""
    place(found, segments)
    return found


def _decide_each(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    for _, mine in groupby(rows, key=lambda row: row["whose"]):
        yield from map(astuple, _decide(mine))


def _decide(rows: Iterable[dict[str, Any]]) -> Iterator[Violation]:
    """Yield what comes of a finding, by the answers to its dues."""
    found: Violation | None = None
    failing, lacking = set[str](), set[tuple[str, int, str]]()
    for row in rows:
        told = json.loads(row["data"])
        if row["what"] == OWN:
            yield Violation(**told)
        elif row["what"] == FINDING:
            found = Violation(**told)
        else:
            kind, holds, starts = told
            failing |= set() if holds else {kind}
            lacking |= {(node, start, said) for node, start, said in starts}
    if found is not None:
        yield from outcome(found, failing, sorted(lacking))
