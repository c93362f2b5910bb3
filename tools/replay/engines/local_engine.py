"""The local engine: the judge in this process, for logs that fit into its memory.

``replay_local`` reads files, ``judge_records`` takes what is in memory, as the simulated worlds have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Final

from triack.base.errors import ReplayError
from triack.base.printable import counted
from triack.tools.replay.checks.findings import DisorderError
from triack.tools.replay.engines.checkpoint import revive_part
from triack.tools.replay.engines.summary import load_summaries
from triack.tools.replay.judges.conclusion import Read, cover, files_of
from triack.tools.replay.judges.judge import Judge
from triack.tools.replay.judges.past import Past
from triack.tools.replay.log.files import LogFile, Reading, Record
from triack.tools.replay.log.listing import Listing
from triack.tools.replay.log.schema import Verdict, Violation
from triack.tools.replay.log.validity import complaint

SAID_RECORDS: Final = 20_000
"""Progress is reported after this many records: a few times a second."""


def replay_local(
    logs: list[LogFile], say: Callable[[str], None] | None = None, listing: Listing | None = None
) -> Verdict:
    """Replay logs in this process."""
    readings: dict[str, Reading] = {}
    listing = listing or Listing()
    loaded = load_summaries(listing)
    judge = judge_segments(lambda: read_segments(logs, readings, say), loaded.past)
    verdict = judge.finish()
    for log in logs:
        readings[str(log.path)].compare(log.size)
    read = [Read(path, 0, it.torn, it.fault) for path, it in readings.items()]
    cover(verdict, listing, [*files_of(judge.segments, read), *loaded.read])
    return verdict


def read_segments(
    logs: list[LogFile], readings: dict[str, Reading], say: Callable[[str], None] | None
) -> Iterator[tuple[str, int, Iterable[Record]]]:
    """Yield the segments of logs as path, first line and records; the readings are kept by path."""
    for number, log in enumerate(logs, start=1):
        path = str(log.path)
        readings[path] = Reading(path)
        where = f"file {number:,} of {len(logs):,}"
        for line, records in readings[path].segments():
            yield path, line, records if say is None else _telling(records, where, say)


def _telling(records: Iterable[Record], where: str, say: Callable[[str], None]) -> Iterator[Record]:
    for at, record in enumerate(records):
        if not at % SAID_RECORDS:
            say(f"{where}, {counted(at, 'record')} of it judged")
        yield record


def judge_records(records: Iterable[Record]) -> list[Violation]:
    """Return what records in memory violate, sorted; see ``verdict_on``."""
    return verdict_on(records).findings


def verdict_on(records: Iterable[Record]) -> Verdict:
    """Return the verdict on records in memory, each node's in the order in which it wrote them."""
    parts = 0

    def part_of(record: Record) -> tuple[str, int, int]:
        nonlocal parts
        parts += record["event"] == "node_continued"
        return record["node"], record["incarnation"], parts

    segments = [("", 1, [_checked(record) for record in part]) for _, part in groupby(records, key=part_of)]
    return judge_segments(lambda: segments).finish()


def judge_segments(
    segments: Callable[[], Iterable[tuple[str, int, Iterable[Record]]]],
    past: Past | None = None,
    *,
    forgets: bool = False,
) -> Judge:
    """Return a judge that has seen segments: record by record, or all of them in memory if they are out of order."""
    judge = begin_judge(past, forgets=forgets)
    try:
        for path, line, records in segments():
            judge.read(path, records, line)
    except DisorderError:
        judge = begin_judge(past)
        judge.take_all((judge.begin(path, line), records) for path, line, records in segments())
    return judge


def begin_judge(past: Past | None, *, forgets: bool = False) -> Judge:
    """Return a judge that goes on from what summaries hold, if there are any."""
    judge = Judge(forgets=forgets)
    if past is not None:
        judge.resume(past, revive_part)
    return judge


def _checked(record: Record) -> Record:
    if said := complaint(record):
        raise ReplayError(f"record {record.get('n')} of node {record.get('node')} {said}")
    return record
