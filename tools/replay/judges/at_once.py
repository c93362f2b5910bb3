"""Judges a segment while it is read, as far as nothing that comes before it is in another segment.

A record that stays here costs much less than one that travels to a judge elsewhere. A node's first segment has nothing
before it, and a session begins where it opens. Later segments go on with the parts that this one leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Final

from triack.tools.replay.checks.findings import DisorderError, Record
from triack.tools.replay.judges.journal import Journal, Unit, units_of
from triack.tools.replay.judges.judge import Part

BLOCK_RECORDS: Final = 512
"""Records that are read and then judged together: running one judge after the other is faster than taking turns. With
more records than this the processor's cache drops the first ones before the last judge looks at them."""


class AtOnce:
    """Reads one segment, and judges what can be judged."""

    def __init__(self, journal: Journal) -> None:
        self.parts: dict[Unit, tuple[int, Part]] = {}
        self._journal = journal
        # Whether it is the first segment of its node.
        self._begins = False

    def read(self, records: Iterable[Record]) -> Iterator[tuple[Unit, Record]]:
        """Judge records; yield those that cannot be judged here, with their units.

        Raises:
            DisorderError: they are not those of one start of one node in their order, and are to be judged elsewhere.
        """
        at, last = iter(records), Record()
        while block := list(islice(at, BLOCK_RECORDS)):
            if not last:
                self._begins = block[0]["event"] == "node_started" and block[0]["incarnation"] == 1
            for record in block:
                self._journal.note(record)
            if not self._journal.in_order:
                raise DisorderError
            last = block[-1]
            piles: dict[Unit, list[Record]] = {}
            yield from self._deal(block, piles)
            yield from self._judge(piles)
        for _, part in self.parts.values():
            part.until = last["incarnation"], last["n"]

    def _deal(self, block: list[Record], piles: dict[Unit, list[Record]]) -> Iterator[tuple[Unit, Record]]:
        """Put records on the piles of the units that are judged here; yield the others."""
        # Units and piles of records, by the fields that decide both.
        ways: dict[tuple[object, ...], list[tuple[Unit, list[Record] | None]]] = {}
        for record in block:
            get = record.get
            where = get("topic"), get("queue"), get("bridge")
            about = record["event"], get("session"), get("origin"), get("stream"), *where
            way = ways.get(about)
            if way is None:
                way = ways[about] = [(unit, self._pile(unit, record, piles)) for unit in units_of(record)]
                for unit, pile in way:
                    # An earlier record of the block may have been another event of the unit.
                    life = self._journal.meet(unit, record)
                    if life is not None and pile is not None:
                        pile.append(life)
                    elif life is not None:
                        yield unit, life
            for unit, pile in way:
                if pile is None:
                    yield unit, record
                else:
                    pile.append(record)

    def _pile(self, unit: Unit, record: Record, piles: dict[Unit, list[Record]]) -> list[Record] | None:
        """Return where the records of a unit go, None if it is judged elsewhere."""
        if unit not in self.parts:
            if self._journal.knows(unit) or not self._may_begin(unit, record):
                return None
            self.parts[unit] = record["n"], Part(unit)
        return piles.setdefault(unit, [])

    def _judge(self, piles: dict[Unit, list[Record]]) -> Iterator[tuple[Unit, Record]]:
        """Judge what is on the piles, sessions first; yield what they tell streams that are judged elsewhere."""
        told: set[Unit] = set()
        for unit in [unit for unit in piles if unit[0] == "session"]:
            part = self.parts[unit][1]
            part.see(piles.pop(unit))
            for (origin, number), facts in part.out.take_facts().items():
                stream = "stream", origin, str(number)
                if self._begins and stream not in self.parts:
                    self.parts[stream] = facts[0]["n"], Part(stream)
                if stream in self.parts:
                    piles.setdefault(stream, []).extend(facts)
                    told.add(stream)
                else:
                    yield from ((stream, fact) for fact in facts)
        for unit, pile in piles.items():
            # Of records that are alike in these fields, a fact was put behind the record that it follows from.
            self.parts[unit][1].see(sorted(pile, key=itemgetter("n")) if unit in told else pile)

    def _may_begin(self, unit: Unit, record: Record) -> bool:
        return self._begins or (unit[0] == "session" and record["event"] == "session_opened")
