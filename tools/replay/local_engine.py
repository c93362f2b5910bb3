"""The local engine: the judge in this process, for logs that fit into its memory.

``replay_local`` reads files, ``judge_records`` takes what is in memory, as the simulated worlds have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Final

from triack.base.errors import ReplayError
from triack.base.printable import counted
from triack.tools.replay.conclusion import place
from triack.tools.replay.files import LogFile, Record, complaint, read_records
from triack.tools.replay.findings import DisorderError
from triack.tools.replay.judge import Judge
from triack.tools.replay.schema import Verdict, Violation
from triack.tools.replay.version1 import modernize

SAID_RECORDS: Final = 20_000
"""How far it is, is told every so many records: a few times a second."""


def replay_local(logs: list[LogFile], say: Callable[[str], None] | None = None) -> Verdict:
    """Replay segments in this process.

    Args:
        logs: the segments, as ``find_logs`` returns them.
        say: called now and then with how far it is, in words.

    Raises:
        ReplayError: the logs cannot be read.
    """
    judge = _judged(lambda: _read(logs, say))
    verdict = judge.finish()
    verdict.torn_lines = sum(bool(log.torn) for log in logs)
    place(verdict.findings, judge.segments)
    return verdict


def _read(logs: list[LogFile], say: Callable[[str], None] | None) -> Iterator[tuple[str, Iterable[Record]]]:
    for number, log in enumerate(logs, start=1):
        records = read_records(log)
        where = f"segment {number:,} of {len(logs):,}"
        yield str(log.path), records if say is None else _telling(records, where, say)


def _telling(records: Iterable[Record], where: str, say: Callable[[str], None]) -> Iterator[Record]:
    for at, record in enumerate(records):
        if not at % SAID_RECORDS:
            say(f"{where}, {counted(at, 'record')} of it judged")
        yield record


def judge_records(records: Iterable[Record]) -> list[Violation]:
    """Return what records in memory violate, sorted; see ``verdict_on``."""
    return verdict_on(records).findings


def verdict_on(records: Iterable[Record]) -> Verdict:
    """Return the verdict on records in memory.

    Args:
        records: those of all nodes, of any version, each node's in the order in which it wrote them.

    Raises:
        ReplayError: one is not as the schema says.
    """
    starts = [
        ("", [_checked(record) for record in start])
        for _, start in groupby(records, key=lambda record: (record["node"], record["incarnation"]))
    ]
    return _judged(lambda: starts).finish()


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
