"""What a topic promises one subscription: each message that is its own, once, in order, and none that is not.

A subscription that is not durable has a message once that is dispatched, a durable one once that is placed:

    AHEAD --handed--> IN HAND --settled--> DONE
    IN HAND --returned--> TRIED --handed--> IN HAND
    IN HAND --start--> TRIED
    AHEAD, TRIED --settled--> DONE
    AHEAD, TRIED --expired--> DONE, if it is not durable; otherwise it is settled after that
    AHEAD, IN HAND, TRIED --discarded--> DROPPED
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from triack.tools.replay.checks.findings import EVER, LATE_NS, Due, Output, Record, awake, settled
from triack.tools.replay.log.ranges import RangeSet, Span, size

_EVER: Final = 1 << 63
"""A place behind all that a record can name."""


@dataclass(slots=True)
class Away:
    """What was passed on to another node: the places of the messages; of ``sent``, their packets are queued."""

    passed: RangeSet = field(default_factory=RangeSet)
    sent: RangeSet = field(default_factory=RangeSet)


class Subscription:
    """One subscription of a topic.

    Attributes:
        name: the node's name for it.
        after: the last place that it gets nothing of.
        max_unacked: how many messages may be pending before it has no room.
        ack_wait_ns: how long a message may be in hand; 0: without limit.
        since: the start in which it began. The first one if a start found it and no log says when it began: then it may
            be done with anything that was found with it.
        kept: whether it is known to be on the disk: a commit has followed, or a start has found it.
        pending: how many messages are its own and not done.
        delivered: how many were handed out, each once.
        open: the places of the messages that are its own and not done.
        expired: the places of messages that have expired before they were dispatched to it.
        away: what was passed on to the node to which it belongs; None if that is its own.
    """

    def __init__(self, record: Record, out: Output) -> None:
        self._out = out
        self._topic: str = record["topic"]
        self.name: str = record["subscription"]
        self.pattern: str = record["pattern"]
        self.durable: bool = record["durable"]
        self.after: int = record["after"]
        self.max_unacked: int = record["max_unacked"]
        self.ack_wait_ns: int = record["ack_wait_ns"]
        self.kept: bool = record.get("recovered", False)
        self.since: int = 1 if self.kept else record["incarnation"]
        self.away = Away() if "peer_name" in record else None
        self._begun_ns: int = record["at_ns"]
        self.pending = self.delivered = self.settled = self.discarded = 0
        self.open = RangeSet()
        self.expired = RangeSet()
        # Of these: those that were never handed out, that are in hand, and that were in hand at some time.
        self._ahead = RangeSet()
        self._hand = RangeSet()
        self._tried = RangeSet()
        self._dropped = RangeSet()
        # Of those that are its own: which came back at some time.
        self._back = RangeSet()
        # The highest place that was handed out, and since when messages are in hand, where that is limited.
        self._top = 0
        # What was passed over, with the record that shows it.
        self._passed: list[tuple[int, int, Record]] = []
        self._noted = RangeSet()
        self._held: list[tuple[int, int, Record]] = []
        # What was settled, and when, that no commit is known to have. If the process dies, it may come again.
        self._unsure: list[tuple[int, Span]] = []
        self._maybe = RangeSet()

    @property
    def room(self) -> int:
        """How many messages more it has room for."""
        return max(0, self.max_unacked - self.pending)

    def take(self, first: int, last: int) -> None:
        """Messages are its own from now on."""
        for low, high in self.open.put(first, last):
            self.pending += high - low + 1
            self._ahead.add(low, high)

    def eldest(self, number: int) -> list[Span]:
        """Return the places of that many of its eldest messages."""
        spans: list[Span] = []
        for first, last in self.open:
            if number <= 0:
                break
            spans.append((first, min(last, first + number - 1)))
            number -= last - first + 1
        return spans

    def forget(self, first: int, last: int) -> list[Span]:
        """Messages are its own no longer. Returns those that were."""
        taken = self.open.take(first, last)
        self.pending -= size(taken)
        for messages in (self._ahead, self._tried, self._back):
            messages.take(first, last)
        self._let_go(first, last)
        return taken

    def _let_go(self, first: int, last: int) -> list[Span]:
        taken = self._hand.take(first, last)
        if self._held and taken:
            self._held = [
                (low, high, record)
                for begin, end, record in self._held
                for low, high in ((begin, min(end, first - 1)), (max(begin, last + 1), end))
                if low <= high
            ]
        return taken

    # ---- records

    def handle_handed(self, record: Record, limit: int) -> list[tuple[str, Span]]:
        """Messages were handed to the application; ``limit`` is the last place that it may have.

        Returns what is not its own, with the name of the check that says so; without one where only its name can tell.
        """
        foreign: list[tuple[str, Span]] = []
        for first, last in record["ranges"]:
            self._revive(first, last)
            foreign += self._foreign(first, last, limit)
            for low, high in self.open.overlap(first, last):
                self._hand_out(record, low, high)
        return foreign

    def _hand_out(self, record: Record, first: int, last: int) -> None:
        evidence = "handed out again while it was in hand"
        self.report_each(record, "topic_twice", evidence, self._hand.overlap(first, last))
        fresh = self._ahead.take(first, last)
        old = self._tried.overlap(first, last)
        if old and not record["redelivered"]:
            self.report(record, "topic_twice", "handed out again as if it were new", *_ends(old))
        if fresh:
            self._judge_order(record, fresh)
            self.delivered += size(fresh)
        self._hand.add(first, last)
        self._tried.add(first, last)
        if self.ack_wait_ns:
            self._held.append((first, last, record))

    def _judge_order(self, record: Record, fresh: Sequence[Span]) -> None:
        first = fresh[0][0]
        if first < self._top:
            self.report(record, "topic_order", f"handed out behind {self._top}", *_ends(fresh))
        for low, high in self._ahead.overlap(0, first - 1):
            self._passed += [(begin, end, record) for begin, end in self._noted.put(low, high)]
        self._top = max(self._top, fresh[-1][1])

    def handle_settled(self, record: Record, limit: int) -> list[tuple[str, Span]]:
        """It is done with messages. Arguments and result are those of ``handle_handed``."""
        foreign: list[tuple[str, Span]] = []
        for first, last in record["ranges"]:
            self._revive(first, last)
            foreign += self._foreign(first, last, limit)
            evidence = "settled, and never handed out, expired or passed on"
            self.report_each(
                record, "claims", evidence, self._ahead.overlap(first, last) if record.get("event") == "settled" else ()
            )
            taken = self.forget(first, last)
            self.settled += size(taken)
            self._unsure += [(record["at_ns"], span) for span in taken] if self.durable else []
        return foreign

    def handle_passed(self, record: Record, first: int, last: int) -> None:
        """Messages are on their way to the node to which it belongs."""
        away = self.away = self.away or Away()
        for low, high in away.passed.overlap(first, last):
            after = ", after its packet was queued" if away.sent.overlap(low, high) else ""
            self.report(record, "topic_twice", f"passed on again{after}", low, high)
        self.report_each(record, "claims", "passed on, and was not in hand", self._hand.missing(first, last))
        away.passed.add(first, last)

    def judge_passed(self, record: Record) -> None:
        """What a subscription of another node is done with was passed on."""
        if self.away is None:
            return
        for first, last in record["ranges"]:
            for low, high in self.open.overlap(first, last):
                evidence = "settled, and not passed on"
                self.report_each(record, "topic_lost", evidence, self.away.passed.missing(low, high))

    def handle_commit(self, before_ns: int) -> None:
        """A commit has returned that began after this time: what was settled until then is done for good."""
        self.kept = self.kept or self._begun_ns < before_ns
        sure = 0
        while sure < len(self._unsure) and self._unsure[sure][0] < before_ns:
            sure += 1
        del self._unsure[:sure]

    def handle_expired(self, record: Record, limit: int) -> list[tuple[str, Span]]:
        """Messages were too old, and are its own no longer. Arguments and result are those of ``handle_handed``."""
        for first, last in record["ranges"]:
            self.report_each(record, "topic_lost", "expired while it was in hand", self._hand.overlap(first, last))
        if record["wall_ns"] < record["receive_by_ms"] * 1_000_000:
            evidence = f"expired {record['receive_by_ms'] - record['wall_ns'] // 1_000_000} ms too early"
            self.report(record, "topic_lost", evidence, *_ends(record["ranges"]))
        if self.durable:
            for first, last in record["ranges"]:
                self._ahead.take(first, last)  # nobody gets them any more, so nobody passes them over
                if self.away is not None:
                    self.away.passed.add(first, last)  # they become dead letters here, and are not passed on
            return []  # it is done with them once they are dead letters: a `settled` follows
        for first, last in record["ranges"]:
            ahead = max(first, limit + 1), last
            evidence = "expired again, before it was dispatched"
            self.report_each(record, "topic_twice", evidence, self.expired.overlap(*ahead))
            self.expired.add(*ahead)
        ranges = [(first, min(last, limit)) for first, last in record["ranges"] if first <= limit]
        return self.handle_settled({**record, "ranges": ranges}, limit)

    def handle_returned(self, record: Record) -> None:
        """Messages came back from the application."""
        for first, last in record["ranges"]:
            self.report_each(record, "claims", "came back, and was not in hand", self._hand.missing(first, last))
            if record["overdue"]:
                self._judge_overdue(record, first, last)
            self._let_go(first, last)
            self._back.add(first, last)

    def _judge_overdue(self, record: Record, first: int, last: int) -> None:
        if not self.ack_wait_ns:
            self.report(record, "ack_wait", "given back as overdue, and there is no limit", first, last)
        for begin, end, handed in self._held:
            low, high, length_ns = max(begin, first), min(end, last), record["at_ns"] - handed["at_ns"]
            if low <= high and length_ns + LATE_NS < self.ack_wait_ns:
                evidence = f"given back as overdue after {length_ns} ns, and {self.ack_wait_ns} ns are allowed"
                self.report(record, "ack_wait", evidence, low, high)

    def handle_late(self, record: Record) -> None:
        """The application acknowledged messages that are its no longer. It may have got them again meanwhile."""
        for first, last in record["ranges"]:
            kept = [part for span in self._hand.overlap(first, last) for part in self._back.missing(*span)]
            self.report_each(record, "topic_lost", "acknowledged while it was in hand, and ignored", kept)

    def handle_discarded(self, spans: Iterable[Span], kept: RangeSet) -> None:
        """Messages were dropped for it; ``kept`` are those that are there."""
        for span in spans:
            taken = self.forget(*span)
            self.discarded += size(taken)
            self._dropped.join(taken)
        self._dropped.take(0, kept.lowest - 1 if kept else self._top)

    def handle_time(self, record: Record) -> bool:
        """A record of its node is written: a message in hand may be there for too long.

        Returns:
            Whether something is in hand that is to come back in time.
        """
        while self._held and record["at_ns"] > self._until_ns(self._held[0][2]):
            first, last, handed = self._held.pop(0)
            self._report_held(handed, first, last, record["at_ns"])
        return bool(self._held)

    def _until_ns(self, handed: Record) -> int:
        return int(handed["at_ns"]) + self.ack_wait_ns + LATE_NS

    def _report_held(self, handed: Record, first: int, last: int, until_ns: int, *dues: Due) -> None:
        evidence = f"in hand for longer than {self.ack_wait_ns} ns, and did not come back"
        due = awake(handed, handed["at_ns"], self._until_ns(handed), until_ns)
        self.report(handed, "ack_wait", evidence, first, last, due, *dues)

    def finish(self, record: Record) -> None:
        """Judge what holds at the end of a log whose last record of the topic is this one."""
        self.end()
        for first, last, handed in self._held:
            due = Due("log", record["node"], record["incarnation"], end_ns=self._until_ns(handed))
            self._report_held(handed, first, last, EVER, due)

    def end(self) -> None:
        """Judge what holds when it has ended."""
        for first, last, handed in self._passed:
            for low, high in self._ahead.overlap(first, last):
                evidence = f"passed over: {handed['ranges'][0][0]} was handed out, and this never"
                self.report(handed, "topic_lost", evidence, low, high)

    # ---- starts

    def restart(self, gone: Iterable[Span]) -> None:
        """The node starts again, and has the durable subscription still."""
        for span in gone:
            self.forget(*span)
        self._hand = RangeSet()
        self._held.clear()
        if self.away is not None:
            self.away.passed = RangeSet(self.away.sent)
        for _, (low, high) in self._unsure:
            self._maybe.add(low, high)
        self._unsure = []

    def cut(self, first: int) -> None:
        """The places from one on are given anew: express messages had them, which are gone."""
        self.forget(first, _EVER)
        away = () if self.away is None else (self.away.passed, self.away.sent)
        for messages in (self._maybe, self._noted, self._dropped, self.expired, *away):
            messages.take(first, _EVER)
        self._passed = [(low, min(high, first - 1), record) for low, high, record in self._passed if low < first]
        self._top = min(self._top, first - 1)

    def missing(self, there: RangeSet) -> list[Span]:
        """Return which of its messages a start has not found, and forget them."""
        lost = [part for span in list(self.open) for part in there.missing(*span)]
        for span in lost:
            self.forget(*span)
        return lost

    def _revive(self, first: int, last: int) -> None:
        """Messages that a crash may have kept from being settled are its own again."""
        for low, high in self._maybe.take(first, last):
            self.settled -= high - low + 1
            self.pending += high - low + 1
            self.open.add(low, high)
            self._tried.add(low, high)

    # ---- what is not its own

    def _foreign(self, first: int, last: int, limit: int) -> list[tuple[str, Span]]:
        """Return which of these are not its own, each with the check that says why, where that is known."""
        found: list[tuple[str, Span]] = []
        for begin, end in self.open.missing(first, last):
            rest = RangeSet([(begin, end)])
            for check, spans in (
                ("topic_before_join", [(begin, self.after)]),
                ("discard_rule", self._dropped.overlap(begin, end)),
                ("topic_order", [(limit + 1, end)]),
                ("", [(begin, end)]),
            ):
                found += [(check, span) for low, high in spans for span in rest.take(low, high)]
        return found

    def report(self, record: Record, check: str, evidence: str, first: int, last: int, *dues: Due) -> None:
        """Report a violation about messages of it."""
        mine = settled(record["node"], self.since, record["incarnation"])
        where = {"topic": self._topic, "subscription": self.name, "number": first, "last": last}
        self._out.report(record, check, evidence, mine, *dues, **where)

    def report_each(self, record: Record, check: str, evidence: str, spans: Iterable[Span]) -> None:
        """Report each range of messages of it."""
        for span in spans:
            self.report(record, check, evidence, *span)


def _ends(spans: Sequence[Sequence[int]]) -> tuple[int, int]:
    return spans[0][0], spans[-1][1]
