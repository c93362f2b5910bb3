"""The local engine: the judge in this process, for logs that fit into its memory.

``replay_local`` reads files, ``judge_records`` takes what is in memory, as the simulated worlds have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

from triack.base.errors import ReplayError
from triack.tools.replay.conclusion import place
from triack.tools.replay.files import LogFile, Record, complaint, read_records
from triack.tools.replay.findings import DisorderError
from triack.tools.replay.judge import Judge
from triack.tools.replay.schema import Verdict, Violation
from triack.tools.replay.version1 import modernize


def replay_local(logs: list[LogFile]) -> Verdict:
    """Replay segments in this process.

    Args:
        logs: the segments, as ``find_logs`` returns them.

    Raises:
        ReplayError: the logs cannot be read.
    """
    judge = _judged(lambda: ((str(log.path), read_records(log)) for log in logs))
    verdict = judge.finish()
    verdict.torn_lines = sum(bool(log.torn) for log in logs)
    place(verdict.findings, judge.segments)
    return verdict


def judge_records(records: Iterable[Record]) -> list[Violation]:
    """Return what records in memory violate, sorted.

    Args:
        records: those of all nodes, of any version, each node's in the order in which it wrote them.

    Raises:
        ReplayError: one is not as the schema says.
    """
    starts = [
        ("", [_checked(record) for record in start])
        for _, start in groupby(records, key=lambda record: (record["node"], record["incarnation"]))
    ]
    return _judged(lambda: starts).finish().findings


def _judged(segments: Callable[[], Iterable[tuple[str, Iterable[Record]]]]) -> Judge:
    """Return a judge that has seen segments: record by record, or all of them in memory if they are out of order."""
    judge = Judge()
    try:
        for path, records in segments():
            judge.read(path, records)
    except DisorderError:
        judge = Judge()
        judge.take_all((judge.begin(path), records) for path, records in segments())
    return judge


def _checked(record: Record) -> Record:
    record = modernize(record)
    if said := complaint(record):
        raise ReplayError(f"record {record.get('n')} of node {record.get('node')} {said}")
    return record
