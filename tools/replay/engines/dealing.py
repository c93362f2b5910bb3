"""How records travel to their judges on a cluster: in chunks, each of one unit and one start of one node.

A chunk costs the cluster as much as a record would, and holds thousands. Chunks of a unit may overlap, as facts from
sessions belong between a stream's own records; ``in_order`` merges them and keeps few of them in memory.
"""

from __future__ import annotations

import marshal
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from triack.tools.replay.checks.findings import Record
from triack.tools.replay.judges.journal import Unit
from triack.tools.replay.judges.judge import order_of

CHUNK_RECORDS: Final = 2_048
"""Records of a chunk: some hundred kilobytes, so that a few hundred of them fit into the smallest worker."""
HELD_RECORDS: Final = 65_536
"""Records that wait for their chunks to be full, over all units: a few dozen megabytes."""
Place = tuple[str, int, int]
"""Where in a unit a record is: its node, start and serial."""


class Chunk(NamedTuple):
    """Records of one unit and one start of one node, in their order."""

    unit: Unit
    node: str
    incarnation: int
    n: int
    data: bytes


def deal(dealt: Iterable[tuple[Unit, Record]]) -> Iterator[Chunk]:
    """Put records into chunks."""
    piles: dict[tuple[Unit, str, int], list[Record]] = {}
    held = 0
    for unit, record in dealt:
        key = unit, record["node"], record["incarnation"]
        pile = piles.get(key)
        if pile is None:
            pile = piles[key] = []
        pile.append(record)
        held += 1
        if len(pile) == CHUNK_RECORDS:
            held -= CHUNK_RECORDS
            yield _chunk(key, piles.pop(key))
        elif held == HELD_RECORDS:
            held = 0
            yield from (_chunk(*item) for item in piles.items())
            piles.clear()
    yield from (_chunk(*item) for item in piles.items())


def _chunk(key: tuple[Unit, str, int], records: list[Record]) -> Chunk:
    serials = [record["n"] for record in records]
    if serials != sorted(serials):
        records.sort(key=order_of)
    return Chunk(*key, records[0]["n"], marshal.dumps(records))


def unpack_chunk(data: bytes) -> list[Record]:
    """Return the records of a chunk; all workers run the same Python, as Spark demands."""
    records: list[Record] = marshal.loads(data)  # noqa: S302 - what this program's own workers packed
    return records


def in_order(chunks: Iterable[tuple[Place, list[Record]]]) -> Iterator[list[Record]]:
    """Yield the records of a unit in the order in which its judge wants them."""
    waiting: list[Record] = []
    for first, records in chunks:
        if waiting and _place(waiting[-1]) >= first:
            at = bisect_left(waiting, first, key=_place)
            yield waiting[:at]
            waiting = sorted(waiting[at:] + records, key=order_of)
        else:
            yield waiting
            waiting = records
    yield waiting


def _place(record: Record) -> Place:
    return record["node"], record["incarnation"], record["n"]
