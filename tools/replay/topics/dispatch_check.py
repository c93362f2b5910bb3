"""What the strategy of a topic lets go, and for whom it drops what: judged by counting along.

| strategy | a message may go | afterwards, for each subscription that got it |
|---|---|---|
| ``discard_none`` | when a subscription has room, or there is none | |
| ``slowest_sub_rate`` | when all of them have room | |
| ``discard_allowed`` | as with ``discard_none`` | with more than ``max_unacked`` pending, the eldest of which was \
dispatched more than ``delivery_timeout`` ago, that one is dropped |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from triack.tools.replay.checks.findings import Record
from triack.tools.replay.log.ranges import Span
from triack.tools.replay.topics.contents import Contents
from triack.tools.replay.topics.subscription_check import Subscription

__all__ = ["RULES", "Owed", "to_drop", "up_to"]

SLOWEST: Final = "slowest_sub_rate"
ALLOWED: Final = "discard_allowed"
RULES: Final = {"discard_none": "none_rule", SLOWEST: "slowest_rule", ALLOWED: "none_rule"}
"""By strategy, the check of what it lets go."""


def up_to(strategy: str, eligible: Sequence[Subscription], got: dict[str, int]) -> int | None:
    """Return how many messages may go to subscriptions that all get them; None for any number.

    Args:
        strategy: that of the topic.
        eligible: the subscriptions.
        got: how many messages each gets at this moment already, by name.
    """
    if not eligible:
        return None
    rooms = (max(0, it.max_unacked - it.pending - got.get(it.name, 0)) for it in eligible)
    return min(rooms) if strategy == SLOWEST else max(rooms)


def to_drop(
    subscription: Subscription, got: int, contents: Contents, now_ns: int, timeout_ns: int
) -> tuple[list[Span], int]:
    """Return which of its messages a subscription loses under ``discard_allowed``, and when the last was dispatched.

    One for each message by which it goes beyond its limit, as long as its eldest is old enough.

    Args:
        subscription: got the messages already.
        got: how many.
        contents: knows when messages were dispatched.
        now_ns: the moment.
        timeout_ns: the age beyond which a message may be dropped.
    """
    most = min(got, subscription.pending - subscription.max_unacked)
    spans: list[Span] = []
    last_ns = now_ns
    for span in subscription.eldest(most):
        for first, last, at_ns in contents.dates(*span):
            if now_ns - at_ns <= timeout_ns:
                return spans, last_ns
            spans.append((first, last))
            last_ns = at_ns
    return spans, last_ns


class Owed:
    """What a ``dispatched`` is to be followed by at once.

    Args:
        record: the ``dispatched``.
        counts: how many messages each subscription got, by its name.
        drops: what each is to lose, and the age of the last of it.
    """

    __slots__ = ("counts", "drops", "record")

    def __init__(self, record: Record, counts: dict[str, int], drops: dict[str, tuple[list[Span], int]]) -> None:
        self.record = record
        self.counts = counts
        self.drops = drops

    def is_of(self, record: Record) -> bool:
        """Whether an ``assigned`` names these messages."""
        return (record["first"], record["last"]) == (self.record["first"], self.record["last"])
