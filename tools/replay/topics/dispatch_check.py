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
from triack.tools.replay.log.ranges import RangeSet, Span, size
from triack.tools.replay.topics.contents import Contents
from triack.tools.replay.topics.subscription_check import Subscription

__all__ = ["GRAINS", "RULES", "Drop", "Owed", "to_drop", "up_to"]

GRAINS: Final = 1_000
"""The age of a message may be too small by the timeout over this: so a topic need not keep a time for each."""
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


class Drop:
    """What a subscription loses at one moment under ``discard_allowed``.

    Args:
        may: the messages that it may lose, from its eldest on.
        may_count: how many these are.
        must: how many of them it has to lose: the age of the others is within what a topic may be wrong by.

    Attributes:
        may: those of them that it has not lost yet.
        must: as given.
        taken: how many it has lost.
    """

    __slots__ = ("_left", "may", "must", "taken")

    def __init__(self, may: list[Span], may_count: int, must: int) -> None:
        self.may = may
        self._left = may_count
        self.must = must
        self.taken = 0

    def take(self, spans: list[Span]) -> bool:
        """Messages are dropped. Returns whether these are the eldest of what it may lose."""
        number = size(spans)
        if not 0 < number <= self._left:
            return False
        left = RangeSet(self.may)
        rest = RangeSet(self.may)
        for span in spans:
            rest.take(*span)
        if size(left) - size(rest) != number or (rest and rest.lowest < spans[-1][1]):
            return False
        self.may, self._left, self.taken = list(rest), self._left - number, self.taken + number
        return True


def to_drop(subscription: Subscription, got: int, contents: Contents, now_ns: int, timeout_ns: int) -> Drop:
    """Return what a subscription loses under ``discard_allowed``.

    One message for each by which it goes beyond its limit, as long as its eldest is old enough. A topic may keep the
    times of dispatch with an error of a thousandth of the timeout.

    Args:
        subscription: got the messages already.
        got: how many.
        contents: knows when messages were dispatched.
        now_ns: the moment.
        timeout_ns: the age beyond which a message may be dropped.
    """
    most = min(got, subscription.pending - subscription.max_unacked)
    may, must = list[Span](), 0
    for span in subscription.eldest(most):
        for first, last, at_ns in contents.dates(*span):
            if now_ns - at_ns <= timeout_ns:
                return Drop(may, size(may), must)
            may.append((first, last))
            must += last - first + 1 if now_ns - at_ns > timeout_ns + timeout_ns // GRAINS else 0
    return Drop(may, size(may), must)


class Owed:
    """What a ``dispatched`` is to be followed by at once.

    Args:
        record: the ``dispatched``.
        counts: how many messages each subscription got, by its name.
        drops: what each is to lose.
    """

    __slots__ = ("counts", "drops", "record")

    def __init__(self, record: Record, counts: dict[str, int], drops: dict[str, Drop]) -> None:
        self.record = record
        self.counts = counts
        self.drops = drops

    def is_of(self, record: Record) -> bool:
        """Whether an ``assigned`` names these messages."""
        return (record["first"], record["last"]) == (self.record["first"], self.record["last"])
