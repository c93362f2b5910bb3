"""The same lies for both engines: many logs in one replay, each with other ids, and one verdict over all."""

import json
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from proof.lies.mutate import Lie, Record
from proof.lies.run import chosen, found_by
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.log.files import find_logs
from triack.tools.replay.log.schema import Verdict, Violation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGS = 10
"""Runs in the sample; twice as many would find as much, and Spark would need twice as long."""
_IDS = ("node", "origin", "peer", "session")
_TAG_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Compared:
    """The verdicts of two engines."""

    lies: int
    records: int
    violations: int
    different: list[str]


def save_lies(lies: list[Lie], directory: Path) -> int:
    """Write logs with lies in them; return how many. Those that replay cannot read at all are left out."""
    saved = 0
    for lie in lies:
        if "damaged" in found_by(lie):
            continue
        saved += 1
        starts: dict[tuple[str, int], list[str]] = {}
        for record in lie.records:
            mine = _renamed(record, f"{saved:0{_TAG_DIGITS}x}")
            starts.setdefault((mine["node"], mine["incarnation"]), []).append(json.dumps(mine) + "\n")
        for (node, incarnation), lines in starts.items():
            (directory / f"{node}-{incarnation:06d}-000001.jsonl").write_text("".join(lines))
    return saved


def _renamed(record: Record, tag: str) -> Record:
    ids = {name: tag + record[name][_TAG_DIGITS:] for name in _IDS if record.get(name)}
    return {**record, **ids}


def compare(spark: "SparkSession", lies: int, seed: int, directory: Path) -> Compared:
    """Judge a sample of lies by both engines."""
    from triack.tools.replay.engines.spark_engine import replay_spark

    sample = [lie for lie, _, _ in islice(chosen(lies, seed, LOGS, wide=2), lies)]
    saved = save_lies(sample, directory)
    local = replay_local(find_logs([directory]))
    judged = replay_spark(spark, [str(directory)])
    return Compared(saved, local.records, sum(local.violations.values()), unlike(local, judged))


_SPARK_ALONE = ("counted", "differences")


def unlike(local: Verdict, judged: Verdict) -> list[str]:
    """Describe how two verdicts differ; of violations the Spark verdict has the first of each check."""
    here, there = asdict(local), asdict(judged)
    for said in (here, there):
        # If a lie makes two nodes commit a packet, the order of reading decides which of them a latency is for.
        del said["timeline"]["flows"]["delays"]
        for name in [name for name in said["timeline"]["series"] if name.startswith("latency ")]:
            del said["timeline"]["series"][name]
        for flow in said["timeline"]["flows"]["counts"].values():
            del flow["longest_ns"], flow["since_ns"]
    told = [
        f"{name}: {here[name]} and {there[name]}"
        for name in here
        if name not in ("engine", "findings", *_SPARK_ALONE) and here[name] != there[name]
    ]
    known = set(map(_said, local.findings))
    told += [f"only on Spark: {it}" for it in judged.findings if _said(it) not in known]
    return told


def _said(violation: Violation) -> tuple[object, ...]:
    return *violation.identity, violation.evidence, violation.n
