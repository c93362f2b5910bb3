"""The table of causes: where the cause of a record of an honest log is taken away, the record is found out."""

from collections.abc import Iterator
from functools import cache
from itertools import islice

import pytest

from proof.lies.logs import files_of, records_of
from proof.lies.mutate import Log, Record, renumbered
from proof.planted.bridged import run_bridge
from triack.tools.chaos.drawing import draw
from triack.tools.replay.causes.cause import ANYWHERE, NEVER, Cause, Some, spans_of
from triack.tools.replay.causes.table import CAUSES
from triack.tools.replay.engines.local_engine import judge_records

SEEDS = (12, 112, 62, 11, 1, 1_000_036, 1_000_000, 1_000_027, 1_000_003)
"""Simulated worlds in which all of the records happen, the shortest; the last four have relays."""
TRIES = 40
"""A record may have its cause in what a session says, too, or be excused by an end; not each of so many."""


BRIDGE = -1
"""Stands for a world with a bridge."""


@cache
def honest(seed: int) -> Log:
    return records_of(run_bridge(0) if seed == BRIDGE else files_of(draw(seed)))


def of_kind(some: Some, record: Record) -> Record | None:
    """A record as one of a kind, with as few changes as that takes; None if it cannot be one."""
    if record["event"] != some.event or "known" in record:
        return None
    changes = {name: min(it, key=str) for name, it in some.fields.items() if record.get(name) not in it}
    return {**record, **changes} if some.has({**record, **changes}) else None


def told_too_late(cause: Cause, log: Log) -> Iterator[list[Record]]:
    """Logs in which a record says something once more, behind what must not come before it."""
    for records in log.values():
        for record in records:
            if (said := of_kind(cause.says, record)) is not None:
                last = {**said, "at_ns": records[-1]["at_ns"], "wall_ns": records[-1]["wall_ns"]}
                told = renumbered([*records[:-1], last, records[-1]])
                yield [it for mine in log.values() for it in (told if mine is records else mine)]


def told_without(cause: Cause, log: Log) -> Iterator[list[Record]]:
    """Logs with a record that says something, and without the records that would be its cause."""
    if cause.where == NEVER:
        yield from told_too_late(cause, log)
        return
    for records in log.values():
        for record in records:
            said = of_kind(cause.says, record)
            if said is not None:
                yield [
                    it
                    for mine in log.values()
                    for it in renumbered([said if it is record else it for it in mine if not is_cause(cause, said, it)])
                ]


def is_cause(cause: Cause, said: Record, record: Record) -> bool:
    if any(record.get(name) != said[name] for name in ("origin", "stream", "sequence")):
        return False
    if cause.where != ANYWHERE and record["node"] != said["node"]:
        return False
    facts = [fact for fact in cause.needs for some in fact.by if some.event == record["event"] and some.has(record)]
    spans = [(1 if fact.up_to else first, last) for fact in facts for first, last in spans_of(record)]
    return any(first <= high and low <= last for first, last in spans for low, high in spans_of(said))


@pytest.mark.gate
@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.evidence)
def test_what_has_no_cause_is_found(cause: Cause) -> None:
    lies = (lie for seed in (*SEEDS, BRIDGE) for lie in told_without(cause, honest(seed)))
    found = ({(it.check, it.evidence) for it in judge_records(lie)} for lie in islice(lies, TRIES))
    assert any((cause.check, cause.evidence) in some for some in found)


def test_each_cause_has_words_of_its_own() -> None:
    """A book keeps a cause by its evidence."""
    assert len({cause.evidence for cause in CAUSES}) == len(CAUSES)
