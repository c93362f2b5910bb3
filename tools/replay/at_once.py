"""Judges what a segment tells while it is read, as far as nothing that comes before it is in another one.

What does not travel to a judge elsewhere costs much less. A node's first segment has nothing before it, and a session
begins where it opens. Later segments go on with the parts that are left at the end of this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from typing import Final

from triack.tools.replay.findings import DisorderError, Record
from triack.tools.replay.journal import Journal, Unit
from triack.tools.replay.judge import order_of
from triack.tools.replay.parting import Part

BLOCK_RECORDS: Final = 2_048
"""Records that are read, and then judged: one judge after the other is faster than all of them in turns."""


class AtOnce:
    """Reads one segment, and judges what can be judged.

    Args:
        journal: of the segment.

    Attributes:
        parts: what was judged, by unit, with the serial of its first record.
    """

    def __init__(self, journal: Journal) -> None:
        self.parts: dict[Unit, tuple[int, Part]] = {}
        self._journal = journal
        # Whether it is the first segment of its node.
        self._begins = False

    def read(self, records: Iterable[Record]) -> Iterator[tuple[Unit, Record]]:
        """Judge records; yield those that cannot be judged here, with whom they go to.

        Raises:
            DisorderError: they are not those of one start of one node in their order, and are to be judged elsewhere.
        """
        at, last = iter(records), Record()
        while block := list(islice(at, BLOCK_RECORDS)):
            if not last:
                self._begins = block[0]["event"] == "node_started" and block[0]["incarnation"] == 1
            for before, record in pairwise([last, *block] if last else block):
                if record["n"] <= before["n"] or not _of_one_start(record, before):
                    raise DisorderError
            last = block[-1]
            yield from self._judge(block)
        for _, part in self.parts.values():
            part.until = last["incarnation"], last["n"]

    def _judge(self, block: list[Record]) -> Iterator[tuple[Unit, Record]]:
        """Judge records, one unit after the other; yield what cannot be judged here."""
        piles: dict[Unit, list[Record]] = {}
        for record in block:
            for unit, seen in self._journal.see(record):
                # What is not the record itself comes before it, the first time that the segment tells of the unit.
                if unit not in self.parts and seen is not record and self._may_begin(unit, record):
                    self.parts[unit] = record["n"], Part(unit)
                if unit in self.parts:
                    piles.setdefault(unit, []).append(seen)
                else:
                    yield unit, seen
        told: set[Unit] = set()
        for unit in [unit for unit in piles if unit[0] == "session"]:
            part = self.parts[unit][1]
            part.see(piles.pop(unit))
            for fact in part.out.facts:
                lane = "lane", fact["origin"], str(fact["lane"])
                if self._begins and lane not in self.parts:
                    self.parts[lane] = fact["n"], Part(lane)
                if lane in self.parts:
                    piles.setdefault(lane, []).append(fact)
                    told.add(lane)
                else:
                    yield lane, fact
            part.out.facts.clear()
        for unit, pile in piles.items():
            self.parts[unit][1].see(sorted(pile, key=order_of) if unit in told else pile)

    def _may_begin(self, unit: Unit, record: Record) -> bool:
        return self._begins or (unit[0] == "session" and record["event"] == "session_opened")


def _of_one_start(record: Record, other: Record) -> bool:
    return bool(record["node"] == other["node"] and record["incarnation"] == other["incarnation"])
