"""What a topic promises a subscription of another node: what it is done with is on its way there, once.

    IN HAND --passed on--> PASSED --its packet is queued--> SENT
    PASSED --start--> IN HAND, or SENT: its commit may have returned without a record

A packet of a stream to the queue of a subscription has what was passed on before it, in that order.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from triack.tools.replay.checks.findings import EVER, UNSENT_NS, Due, Record, awake
from triack.tools.replay.topics.subscription_check import Subscription

QUEUE: Final = "$sub."
"""How the name of the queue of a subscription begins, at the node to which it belongs."""

_Key = tuple[int, int]
_Waiting = tuple[Subscription, int, int, Record]
"""What was passed on and is in no packet: whose it is, the places, and the record."""


class Passing:
    """What the streams of one topic pass on, by stream and sequence."""

    def __init__(self) -> None:
        self._waiting: dict[_Key, deque[_Waiting]] = {}

    def handle_passed(self, subscription: Subscription, record: Record) -> None:
        """Messages of a subscription were passed on."""
        waiting = self._waiting.setdefault(_key(record), deque())
        for first, last in record["ranges"]:
            subscription.handle_passed(record, first, last)
            waiting.append((subscription, first, last, record))

    def handle_queued(self, record: Record) -> Record | None:
        """Packets are queued. Returns the record if they have more than was passed on."""
        waiting, left = self._waiting.get(_key(record), deque()), record["count"]
        while waiting and left:
            subscription, first, last, passed = waiting.popleft()
            taken = min(left, last - first + 1)
            assert subscription.away is not None  # as it was passed on
            subscription.away.sent.add(first, first + taken - 1)
            left -= taken
            if first + taken <= last:
                waiting.appendleft((subscription, first + taken, last, passed))
        if not waiting:
            self._waiting.pop(_key(record), None)
        return record if left else None

    def handle_time(self, record: Record) -> None:
        """A record of the node is written: what was passed on is in a packet soon."""
        for key, waiting in list(self._waiting.items()):
            while waiting and record["at_ns"] - waiting[0][3]["at_ns"] > UNSENT_NS:
                _report(waiting.popleft(), record["at_ns"])
            if not waiting:
                del self._waiting[key]

    def finish(self) -> None:
        """The log is over: what it shows of the time after what was passed on must show the packets."""
        for waiting in self._waiting.values():
            for one in waiting:
                passed = one[3]
                until_ns = passed["at_ns"] + UNSENT_NS
                _report(one, EVER, Due("log", passed["node"], passed["incarnation"], end_ns=until_ns))

    def handle_restart(self) -> None:
        """The node starts again: what its last commits held is not known."""
        self._waiting.clear()


def _report(waiting: _Waiting, until_ns: int, *dues: Due) -> None:
    subscription, first, last, passed = waiting
    due = awake(passed, passed["at_ns"], passed["at_ns"] + UNSENT_NS, until_ns)
    subscription.report(passed, "topic_lost", "passed on, and in no packet", first, last, due, *dues)


def _key(record: dict[str, Any]) -> _Key:
    return record["stream"], record["sequence"]
