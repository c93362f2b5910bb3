"""Which subscriptions of a root match a topic: remembered by name, for thousands of names and of subscriptions.

Promise: a name's entry has the patterns that match it, not their subscriptions. So it needs little memory, and does not
change when a subscription begins or ends under a pattern that others have.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from triack.queues.topics.subscription import Subscription
from triack.queues.topics.trie import Trie, stands_for

MATCHES_MAX = 4_096
"""Names that are remembered: more than most applications publish to in turns. Any other is matched."""

_Patterns = list[dict[Subscription, None]]
"""The subscriptions of each pattern that matches a topic, as they are now."""


class Found(NamedTuple):
    """The subscriptions that match a topic, by their patterns: those that are durable, and all others."""

    by_durable: _Patterns
    by_other: _Patterns

    @property
    def durable(self) -> Iterator[Subscription]:
        """Those that are durable."""
        return chain.from_iterable(self.by_durable)

    @property
    def others(self) -> Iterator[Subscription]:
        """Those that are not."""
        return chain.from_iterable(self.by_other)

    @property
    def number(self) -> int:
        """How many they are."""
        return _count(self.by_durable) + _count(self.by_other)


class SubscriberCache:
    """The subscriptions of one root."""

    def __init__(self) -> None:
        self._durable = Trie[Subscription]()
        self._others = Trie[Subscription]()
        self._found: dict[str, Found] = {}

    def _trie(self, one: Subscription) -> Trie[Subscription]:
        return self._durable if one.durable else self._others

    def add(self, one: Subscription) -> None:
        """A subscription begins."""
        if self._trie(one).add(one.pattern, one):
            self._found.clear()

    def remove(self, one: Subscription) -> None:
        """A subscription ends."""
        self._trie(one).remove(one.pattern, one)

    def of(self, topic: str) -> Found:
        """Those that match a topic. Valid until another subscription begins."""
        found = self._found.get(topic)
        if found is None:
            if len(self._found) >= MATCHES_MAX:
                self._found.clear()
            found = self._found[topic] = Found(self._durable.match(topic), self._others.match(topic))
        return found

    def takes(self, one: Subscription, topic: str) -> bool:
        """Whether the pattern of a subscription matches a topic."""
        found = self._found.get(topic)
        if found is None:
            return stands_for(one.pattern, topic)
        return any(one in some for some in (found.by_durable if one.durable else found.by_other))


def _count(patterns: Iterable[dict[Subscription, None]]) -> int:
    return sum([len(some) for some in patterns])
