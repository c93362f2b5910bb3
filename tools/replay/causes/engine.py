"""Compares the records of one stream with the table of causes, as they are read.

A cause is looked at when its record is read, if the same node must have shown it before; with the node's next moment,
where one commit holds both, in any order; and at the end, where any node may show it. Facts are kept as ranges of
packets; of what waits for the end, such as single order acks, the places of the records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple

from triack.tools.replay.causes.cause import HERE, NEVER, NOW, Cause, Fact, spans_of
from triack.tools.replay.causes.table import CAUSES_NAMED, CAUSES_OF, FACTS_BY
from triack.tools.replay.checks.findings import Due, LaneReporter, Output, Record, settled
from triack.tools.replay.log.messages import ByPacket
from triack.tools.replay.log.ranges import RangeSet, Span

PLACE: Final = ("node", "incarnation", "n", "wall_ns")
"""What is kept of a record until the end: there may be one for each order ack."""


class Sides(NamedTuple):
    """What the sides of a stream keep, by node."""

    receivers: Mapping[str, Any]
    relays: Mapping[str, Any]
    senders: Mapping[str, Any]


class Book:
    """What one node has said of one stream.

    Attributes:
        at_ns: when it said something last that only holds for the moment, or is judged with its end.
        facts: packets, by the words of a fact and the sequence.
        passing: the same of what is true at that moment alone.
        moment: records of this moment, each with the evidence of a cause.
        words: the places of records whose cause any node may show, by its evidence, and their sequence and packets.
    """

    def __init__(self) -> None:
        self.at_ns = 0
        self.facts: dict[tuple[str, int], RangeSet] = {}
        self.passing: dict[tuple[str, int], RangeSet] = {}
        self.moment: list[tuple[str, Record]] = []
        self.words: dict[tuple[str, int, int, int], tuple[object, ...]] = {}


class Causes(LaneReporter):
    """Judges what the records of one stream need.

    Attributes:
        waiting: the nodes that said something at this moment which the next one ends.
    """

    def __init__(self, origin: str, stream: int, out: Output) -> None:
        super().__init__(origin, stream, out)
        self._books: defaultdict[str, Book] = defaultdict(Book)
        self.waiting: set[str] = set()

    def handle_time(self, node: str, at_ns: int, sides: Callable[[], Sides]) -> None:
        """A record of a node is written: the moment before may be over."""
        if node not in self.waiting:
            return
        book = self._books[node]
        if book.at_ns != at_ns:
            self._judge_moment(book, sides())
            book.moment.clear()
            book.passing.clear()
            self.waiting.discard(node)

    def judge(self, record: Record, sides: Callable[[], Sides]) -> None:
        """Find what a record needs and its node has not shown, or keep it until that is known."""
        for cause in CAUSES_OF[record["event"]]:
            if not cause.says.has(record):
                continue
            if cause.where in (HERE, NEVER):
                self._judge_cause(cause, record, sides())
            elif cause.where == NOW:
                self._now(record).moment.append((cause.evidence, record))
            else:
                words, place = self._books[record["node"]].words, tuple(record[name] for name in PLACE)
                for span in spans_of(record):
                    words.setdefault((cause.evidence, record["sequence"], *span), place)

    def note(self, record: Record) -> None:
        """Keep what causes may need."""
        for fact, some in FACTS_BY[record["event"]]:
            if some.has(record):
                facts = self._now(record).passing if fact.passes else self._books[record["node"]].facts
                known = facts.setdefault((fact.words, record["sequence"]), RangeSet())
                for first, last in spans_of(record):
                    known.add(1 if fact.up_to else first, last)

    def _now(self, record: Record) -> Book:
        """The book of a node, which says something that holds for this moment."""
        book = self._books[record["node"]]
        book.at_ns = record["at_ns"]
        self.waiting.add(record["node"])
        return book

    def _judge_moment(self, book: Book, sides: Sides) -> None:
        for evidence, record in book.moment:
            # A process that dies in the midst of it has not written all.
            due = Due("log", record["node"], record["incarnation"], end_ns=record["at_ns"])
            self._judge_cause(CAUSES_NAMED[evidence], record, sides, due)

    def _judge_cause(self, cause: Cause, record: Record, sides: Sides, *dues: Due) -> None:
        node, sequence = record["node"], record["sequence"]
        dues = *dues, settled(node, last=record["incarnation"])
        for span in spans_of(record):
            wrong = self._lacking(cause.needs, (node,), sequence, span, sides)
            if cause.where == NEVER:
                wrong = RangeSet(wrong).missing(*span)
            for low, high in wrong:
                self._at(record, cause.check, cause.evidence, *dues, number=low, last=high)

    def _lacking(
        self, needs: Iterable[Fact], nodes: Iterable[str], sequence: int, span: Span, sides: Sides
    ) -> list[Span]:
        """Return the packets of a span of which no fact is true at any of these nodes."""
        left = [span]
        for fact in needs:
            for node in nodes:
                for known in self._known(fact, node, sequence, sides):
                    left = [part for some in left for part in known.missing(*some)]
                    if not left:
                        return left
        return left

    def _known(self, fact: Fact, node: str, sequence: int, sides: Sides) -> Iterator[RangeSet | ByPacket]:
        if not fact.side:
            book = self._books.get(node)
            if book is not None:
                known = (book.passing if fact.passes else book.facts).get((fact.words, sequence))
                yield from () if known is None else (known,)
            return
        side = getattr(sides, fact.side).get(node)
        state = side.sequences.get(sequence) if side is not None else None
        for known in () if state is None else (attrgetter(name)(state) for name in fact.kept):
            yield ByPacket(known) if fact.messages else known

    # ---- the whole stream

    def finish(self, sides: Sides, takers: Callable[[Record], tuple[Due, ...]]) -> None:
        """Judge what only all records show; more of them may follow."""
        for book in self._books.values():
            self._judge_moment(book, sides)
            for key in [key for key in book.words if not self._unproven(key, sides)]:
                del book.words[key]
            for key, place in book.words.items():
                record: Record = dict(zip(PLACE, place, strict=True))
                for low, high in self._unproven(key, sides):
                    cause = CAUSES_NAMED[key[0]]
                    self._at(record, cause.check, key[0], *takers(record), sequence=key[1], number=low, last=high)

    def _unproven(self, key: tuple[str, int, int, int], sides: Sides) -> list[Span]:
        evidence, sequence, *span = key
        cause = CAUSES_NAMED[evidence]
        left = self._lacking(cause.needs, self._books, sequence, (span[0], span[1]), sides)
        return [] if cause.of_one and left != [(span[0], span[1])] else left

    def join(self, other: Causes) -> None:
        """Take over what is known of other nodes."""
        self._books |= other._books
        self.waiting |= other.waiting

    def only(self, node: str, whole: Causes) -> None:
        """Take over what is known of one node."""
        if node in whole._books:
            self._books[node] = whole._books[node]
            self.waiting = whole.waiting & {node}
