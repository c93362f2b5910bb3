"""What the strategy of a topic lets go, and for whom it drops what: judged by counting along.

| strategy | a message may go | a message that has been pending for ``delivery_timeout`` |
|---|---|---|
| ``discard_none`` | when a subscription has room, or there is none | stays |
| ``slowest_sub_rate`` | when all of them have room | stays |
| ``discard_allowed`` | as with ``discard_none`` | is dropped for the subscription |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from triack.tools.replay.checks.findings import LATE_NS, Record
from triack.tools.replay.log.ranges import Span
from triack.tools.replay.topics.contents import Contents
from triack.tools.replay.topics.subscription_check import Subscription

GRAINS: Final = 1_000
"""The age of a message may be too small by the timeout over this: so a topic need not keep a time for each."""
SLOWEST: Final = "slowest_sub_rate"
ALLOWED: Final = "discard_allowed"
RULES: Final = {"discard_none": "none_rule", SLOWEST: "slowest_rule", ALLOWED: "none_rule"}
"""By strategy, the check of what it lets go."""


def up_to(strategy: str, eligible: Sequence[Subscription], got: dict[str, int]) -> int | None:
    """Return how many messages may go to subscriptions that all get them; None for any number.

    ``got``: how many messages each gets at this moment already, by name.
    """
    if not eligible:
        return None
    rooms = (max(0, it.max_unacked - it.pending - got.get(it.name, 0)) for it in eligible)
    return min(rooms) if strategy == SLOWEST else max(rooms)


def too_old(subscription: Subscription, contents: Contents, now_ns: int, timeout_ns: int) -> list[Span]:
    """Return the messages that a subscription may lose under ``discard_allowed``, from its eldest on."""
    found: list[Span] = []
    for span in subscription.open:
        for first, last, at_ns in contents.dates(*span):
            if now_ns - at_ns < timeout_ns:
                return found
            found.append((first, last))
    return found


class Ages:
    """Finds what is pending for too long under ``discard_allowed``.

    Attributes:
        late_ns: from this age on a message is too old, with all that a topic and a busy machine may be late by.
    """

    def __init__(self) -> None:
        self.late_ns = 0
        self._begun_ns = self._young_until_ns = 0
        # By subscription: up to where that was told.
        self._told: dict[str, int] = {}

    def begin(self, now_ns: int, timeout_ns: int) -> None:
        """This timeout is in force from now on: what is older is dropped now."""
        self.late_ns = timeout_ns + timeout_ns // GRAINS + LATE_NS
        self._begun_ns, self._young_until_ns = now_ns - timeout_ns, 0

    def copy(self) -> Ages:
        """Another one that finds the same."""
        other = Ages()
        other.late_ns, other._begun_ns = self.late_ns, self._begun_ns
        other._young_until_ns, other._told = self._young_until_ns, dict(self._told)
        return other

    def overdue(
        self, subscriptions: Mapping[str, Subscription], contents: Contents, now_ns: int
    ) -> Iterator[tuple[Subscription, Span, int]]:
        """Yield what subscriptions should have lost, from the eldest on, and since when that is pending; each once."""
        if now_ns < self._young_until_ns:
            return
        self._young_until_ns = now_ns + self.late_ns
        for name, subscription in subscriptions.items():
            if subscription.durable or not subscription.open:
                continue
            first = subscription.open.lowest
            since_ns = max(next((at_ns for *_, at_ns in contents.dates(first, first)), now_ns), self._begun_ns)
            if now_ns - since_ns <= self.late_ns:
                self._young_until_ns = min(self._young_until_ns, since_ns + self.late_ns + 1)
            elif first > self._told.get(name, 0):
                last = self._told[name] = too_old(subscription, contents, now_ns, self.late_ns)[-1][1]
                yield subscription, (first, last), since_ns


class Owed:
    """What a ``dispatched`` is to be followed by at once."""

    def __init__(self, record: Record, counts: dict[str, int]) -> None:
        self.record = record
        self.counts = counts

    def is_of(self, record: Record) -> bool:
        """Whether an ``assigned`` names these messages."""
        return (record["first"], record["last"]) == (self.record["first"], self.record["last"])
