"""What one queue of a node promises over all of its streams: a message of a higher priority is handed out first.

The judge sees in which order messages came into the queue and were handed out. What was drawn from the queue is logged
in batches: all records of one moment. So a message may have come while the batch before was drawn. It certainly waited
from the second batch on that was logged after its commit. It is accused of nothing before it is handed out itself: a
message that expired, or was purged, has left its queue before its record says so.

    WAITING --second batch after its commit--> DUE --handed out, a lower one was handed out meanwhile--> a violation

No order is promised while a message of the priority waits for its next attempt.
"""

from __future__ import annotations

from typing import Final

from triack.tools.replay.checks.findings import Output, Record, settled
from triack.tools.replay.checks.side import OfNode
from triack.tools.replay.log.messages import count_of, last_of
from triack.tools.replay.log.schema import OF_TOPIC, is_system, priority_in

EVENTS: Final = frozenset({"committed", "handed", "returned"})
"""What a queue's judge looks at."""
BATCHES: Final = 2
"""So many batches after its commit a message certainly waits."""
WAITING_MAX: Final = 65_536
"""Ranges of one stream that are remembered. The oldest are judged no more: a damaged log must not fill the memory."""
PRIORITIES: Final = 8
"""How many there are."""

Stream = tuple[str, int]
"""Its origin, and its number there."""


def is_judged(record: Record) -> bool:
    """Whether the judge of a queue must see a record."""
    queue = record.get("queue", "")
    # The node's own queues, and topics, have no priorities, and dead letters are read without regard to them.
    return record["event"] in EVENTS and not is_system(queue) and not queue.startswith(OF_TOPIC)


class QueueJudge(OfNode):
    """Judges one queue."""

    def __init__(self, node: str, out: Output) -> None:
        super().__init__(node, out)
        # Priorities that cannot be judged in this start: their messages may wait since an earlier one.
        self._excused: set[int] = set()
        self._batch = 0
        self._batch_ns = -1
        # By stream: first and last number of what came, and the batch before that; in the order of coming.
        self._waiting: dict[Stream, list[tuple[int, int, int]]] = {}
        self._highest: dict[Stream, int] = {}
        # Each stream has one priority, whatever becomes of its messages.
        self._priorities: dict[Stream, int] = {}
        # The last batch before which a gap was filled. A large message waits once all of its packets are there.
        self._filled: dict[Stream, int] = {}
        # By priority: the last batch with a message of it, and that record's serial.
        self._handed: dict[int, tuple[int, int]] = {}
        # By priority: how many messages came back and were not handed out since; the last batch with any of these.
        self._back: dict[int, int] = {}
        self._back_until: dict[int, int] = {}

    def _look(self, record: Record) -> None:
        event, stream = record["event"], (record["origin"], record["stream"])
        if event == "returned":  # which does not say it
            priority = self._priorities.get(stream, priority_in(record))
        else:
            priority = self._priorities[stream] = priority_in(record)
        if event == "committed":
            self._come(stream, record["first"], record["last"])
        elif record.get("chosen"):
            # A reader has asked for it by its id, whatever waited before it.
            return
        elif event == "handed":
            self._hand(stream, priority, record)
        else:
            self._take_back(priority, record)

    def _enter(self, start: int) -> None:
        follows = start == self._start + 1
        self._excused |= self._handed.keys() | self._back.keys() if follows else set(range(PRIORITIES))
        super()._enter(start)
        self._batch, self._batch_ns = 0, -1
        for known in (self._waiting, self._highest, self._filled, self._handed, self._back, self._back_until):
            known.clear()

    def _come(self, stream: Stream, first: int, last: int) -> None:
        rows = self._waiting.setdefault(stream, [])
        highest = self._highest.get(stream, 0)
        if first <= highest:
            self._filled[stream] = self._batch
        self._highest[stream] = max(highest, last)
        rows.append((first, last, self._batch))
        del rows[:-WAITING_MAX]

    def _hand(self, stream: Stream, priority: int, record: Record) -> None:
        if record["at_ns"] != self._batch_ns:
            self._batch, self._batch_ns = self._batch + 1, record["at_ns"]
        since = self._leave(stream, record["number"], last_of(record))
        if since is not None:
            self._judge(priority, max(since, self._filled.get(stream, 0)), record)
        self._handed[priority] = self._batch, record["n"]
        if record["redelivered"] and priority in self._back:
            self._back[priority] = max(0, self._back[priority] - count_of(record))
            self._back_until[priority] = self._batch

    def _leave(self, stream: Stream, first: int, last: int) -> int | None:
        """Packets are handed out: return the batch before which the first of them came; None if that is unknown."""
        rows, since = self._waiting.get(stream), None
        while rows and rows[0][0] <= last:
            _, high, batch = rows.pop(0)
            if high >= first:
                since = batch if since is None else min(since, batch)
            if high > last:
                rows.insert(0, (last + 1, high, batch))
        return since

    def _judge(self, priority: int, since: int, record: Record) -> None:
        """A message of a priority is handed out that came after batch ``since``."""
        if priority in self._excused or self._back.get(priority) or self._back_until.get(priority, -1) >= since:
            return
        for lower, (batch, n) in self._handed.items():
            if lower < priority and batch >= since + BATCHES:
                evidence = f"priority {priority} waited while priority {lower} was handed out, in record {n}"
                where = {name: record[name] for name in ("origin", "stream", "sequence", "number")}
                due = settled(record["node"], self._start, self._start)
                self._out.report(record, "priority_order", evidence, due, **where)
                return

    def _take_back(self, priority: int, record: Record) -> None:
        self._back[priority] = self._back.get(priority, 0) + count_of(record)
        if self._start > 1:
            # What comes again of an earlier start is redelivered, too: the two cannot be told apart.
            self._excused.add(priority)
