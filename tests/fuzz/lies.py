"""Session logs in which each line is one that a node may write, and all together what no nodes have done."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.queues.world import numbered, two
from triack.base.delivery import Delivery
from triack.base.errors import ReplayError
from triack.base.units import MS, SECOND
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.log.files import Record, find_logs, parse_records
from triack.tools.sim.faults import Faults

CHANGE_BYTES = 5
"""Of one change: what is done, to which line, to which of its fields, and two more."""
CHANGES_MAX = 40
"""More make nothing that fewer do not."""
NUMBERS = (0, 1, 2, 3, 7, 64, 2**16, 2**31, 10**17, 2**63 - 1, 2**63, 2**64 - 1, -1)
"""Values that a field may have instead."""


def lies(data: bytes) -> None:
    """There is a verdict, or the logs are refused by name, after a time that has nothing to do with what they say."""
    records = [dict(record) for record in honest()]
    changes = [data[at : at + CHANGE_BYTES] for at in range(0, len(data), CHANGE_BYTES)]
    for what, *more in (change for change in changes[:CHANGES_MAX] if len(change) == CHANGE_BYTES):
        if records:
            CHANGES[what % len(CHANGES)](records, *more)
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        for node in {record["node"] for record in records}:
            lines = [json.dumps(record) for record in records if record["node"] == node]
            (Path(folder) / f"{node}.jsonl").write_text("\n".join(lines) + "\n")
        try:
            verdict = replay_local(find_logs([Path(folder)]))
        except ReplayError:
            return
        assert verdict.records <= len(records)


@cache
def honest() -> list[Record]:
    """The logs of two nodes that sent each other something of each class over a bad network."""
    world, a, b = two(3, Faults(delay_ns=5 * MS, loss=0.2))
    for delivery in Delivery:
        a.send(b, "q", *numbered(0, 4), delivery=delivery)
    b.send(a, "answers", *numbered(0, 2))
    world.run(40 * SECOND)
    a.restart()
    b.read_all("q")
    world.run(600 * SECOND)
    return parse_records(b"".join(record for node in (a, b) for record in node.records))


def _set(records: list[Record], line: int, field: int, value: int, _: int) -> None:
    record = records[line % len(records)]
    names = [name for name, known in record.items() if type(known) is int]
    record[names[field % len(names)]] = NUMBERS[value % len(NUMBERS)]


def _add(records: list[Record], line: int, field: int, value: int, less: int) -> None:
    """A number is a little more, or less."""
    record = records[line % len(records)]
    names = [name for name, known in record.items() if type(known) is int]
    record[names[field % len(names)]] += value - less


def _take(records: list[Record], line: int, field: int, other: int, _: int) -> None:
    """A field says what it says elsewhere."""
    record = records[line % len(records)]
    name = list(record)[field % len(record)]
    told = [known[name] for known in records if name in known]
    record[name] = told[other % len(told)]


def _move(records: list[Record], line: int, to: int, *_: int) -> None:
    records.insert(to % len(records), records.pop(line % len(records)))


def _repeat(records: list[Record], line: int, to: int, *_: int) -> None:
    records.insert(to % len(records), dict(records[line % len(records)]))


def _drop(records: list[Record], line: int, count: int, *_: int) -> None:
    at = line % len(records)
    del records[at : at + 1 + count % 8]


def _renumber(records: list[Record], *_: int) -> None:
    """All are numbered as they stand, as if they had been written so."""
    for number, record in enumerate(records, 1):
        record["n"] = number


CHANGES: tuple[Callable[..., None], ...] = (_set, _add, _take, _move, _repeat, _drop, _renumber)
