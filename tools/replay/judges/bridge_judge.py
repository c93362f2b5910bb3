"""What one bridge of a node promises to its broker, and says of what it took and gave.

From the broker, counts are judged, as a broker's own numbers mean nothing here: what was acknowledged is at most what
was queued before, or known. To the broker, each message is judged:

    drawn -> IN HAND --the broker has acknowledged it--> GIVEN --a commit takes it out of its queue--> over
    drawn again, after a rollback, a crash or a commit that failed -> IN HAND: it may be given again
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import ClassVar, Final

from triack.base.printable import counted
from triack.tools.replay.checks.findings import Output, Record, settled
from triack.tools.replay.checks.side import OfNode, by_event
from triack.tools.replay.log.messages import PLACE_BITS, count_of, messages_of
from triack.tools.replay.log.ranges import RangeSet, Span, size

BRIDGED: Final = ("taken", "known", "acked", "given", "refused", "pending")
"""What is counted of a bridge. ``pending``: those to the broker that it has in hand at the end of the log."""
WHERE: Final = ("origin", "stream", "sequence", "topic", "subscription")
"""The fields of a record that a violation repeats."""

Lane = tuple[str, ...]
"""A sequence of a stream and a queue, or a subscription."""


class BridgeJudge(OfNode):
    """Judges one bridge."""

    def __init__(self, node: str, bridge: str, out: Output) -> None:
        super().__init__(node, out)
        self._bridge = bridge
        self._counts = dict.fromkeys(BRIDGED, 0)
        # How many messages were acknowledged in this start, less those that were queued or known before.
        self._ahead = 0
        # By sequence, the last message that was taken: they are queued in their order.
        self._last: dict[Lane, int] = {}
        self._hand: defaultdict[Lane, RangeSet] = defaultdict(RangeSet)
        self._given: defaultdict[Lane, RangeSet] = defaultdict(RangeSet)

    def _enter(self, start: int) -> None:
        super()._enter(start)
        self._ahead = 0
        self._hand.clear()
        self._given.clear()

    def _look(self, record: Record) -> None:
        self._SEES[record["event"]](self, record)

    def _on_bridge_took(self, record: Record) -> None:
        known, taken = record.get("known", 0), count_of(record)
        self._count(taken=taken, known=known)
        self._ahead -= taken + known
        if "stream" in record:
            lane, spans = (record["origin"], str(record["stream"]), str(record["sequence"])), list(_spans_of(record))
            if spans and spans[0][0] <= self._last.get(lane, -1):
                self._each(record, "claims", "taken twice, or out of their order", spans[:1])
            self._last[lane] = max([self._last.get(lane, -1), *(last for _, last in spans[-1:])])

    def _on_bridge_acked(self, record: Record) -> None:
        count, known = record["count"], record["known"]
        if known > count:
            self._report(record, "claims", f"acknowledged {counted(count, 'message')}, and {known} were known")
            return
        self._count(acked=count, known=known)
        self._ahead += count - known
        if self._ahead > 0:
            said = f"{self._ahead} of the messages were neither queued nor known before"
            self._report(record, "bridge_acked_early", said)
            self._ahead = 0

    def _on_bridge_drew(self, record: Record) -> None:
        lane = _lane_of(record)
        for first, last in _spans_of(record):
            self._hand[lane].add(first, last)
            self._given[lane].take(first, last)

    def _on_bridge_gave(self, record: Record) -> None:
        lane, refused = _lane_of(record), "reason" in record
        for first, last in _spans_of(record):
            self._count(**{"refused" if refused else "given": last - first + 1})
            said = "given, and the bridge did not have them"
            self._each(record, "claims", said, self._hand[lane].missing(first, last))
            said = "given again, and they had not come back"
            self._each(record, "bridge_gave_twice", said, self._given[lane].overlap(first, last))
            self._given[lane].add(first, last)

    def _on_bridge_let_go(self, record: Record) -> None:
        lane = _lane_of(record)
        said = "out of their queue, and the broker had not acknowledged them"
        for first, last in _spans_of(record):
            self._each(record, "bridge_let_go_early", said, self._given[lane].missing(first, last))
            self._hand[lane].take(first, last)
            self._given[lane].take(first, last)

    def _each(self, record: Record, check: str, said: str, spans: list[Span]) -> None:
        for span in spans:
            number = span[0] if "topic" in record else span[0] >> PLACE_BITS
            self._report(record, check, f"{counted(size([span]), 'message')} {said}", number=number)

    def _count(self, **counts: int) -> None:
        for what, count in counts.items():
            self._counts[what] += count

    def _report(self, record: Record, check: str, evidence: str, number: int = -1) -> None:
        where = {name: record[name] for name in WHERE if name in record}
        due = settled(self._node, self._start, self._start)
        self._out.report(record, check, f"bridge {self._bridge}: {evidence}", due, number=number, **where)

    def finish(self) -> None:
        """Say what it has done up to now; more may follow."""
        self._counts["pending"] = sum(size(known) for known in self._hand.values())
        for what, count in self._counts.items():
            if count or what == "taken":
                self._out.count(f"bridge\t{self._node}\t{self._bridge}\t{what}", count)

    _SEES: ClassVar[dict[str, Callable[[BridgeJudge, Record], None]]] = by_event(vars())


def _lane_of(record: Record) -> Lane:
    if "topic" in record:
        return record["topic"], record["subscription"]
    return record["origin"], str(record["stream"]), str(record["sequence"]), record["queue"]


def _spans_of(record: Record) -> Iterator[Span]:
    if "topic" in record:
        yield from ((first, last) for first, last in record["ranges"])
        return
    yield from messages_of(record, None)
