"""Contents that ended subscriptions had wanted: released some at a time, as many subscriptions may end together.

Promise: each content that a subscription wanted when it ended is released once. Subscriptions that ended with the same
messages done, and with one pattern, cost one walk over the contents together.
"""

from collections.abc import Callable

from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.topics.contents import Contents
from triack.queues.topics.subscription import Subscription
from triack.queues.topics.trie import stands_for


class _Group:
    """Ended subscriptions that want the same contents.

    Attributes:
        one: one of them; ``count`` is their number.
        limit: the place of the last message that they may have.
        place: from here on nothing was released.
        takes: whether their pattern matches a topic, by its name.
    """

    __slots__ = ("count", "limit", "one", "place", "takes")

    def __init__(self, one: Subscription, limit: int) -> None:
        self.one = one
        self.limit = limit
        self.place = one.mailbox.reader.done.cumulative + 1
        self.count = 0
        self.takes: dict[str, bool] = {}

    def wants(self, packet: QueuedPacket) -> bool:
        if packet.first_place in self.one.mailbox.reader.done:
            return False
        takes = self.takes.get(packet.topic)
        if takes is None:
            takes = self.takes[packet.topic] = stands_for(self.one.pattern, packet.topic)
        return takes


class ReleaseBacklog:
    """The ended subscriptions of one root. ``release`` returns how many steps it needed."""

    def __init__(self, contents: Contents, release: Callable[[QueuedPacket, int], int]) -> None:
        self._contents = contents
        self._release = release
        # Those whose walk has begun, and all others, by what they want.
        self._begun: _Group | None = None
        self._groups: dict[object, _Group] = {}

    def __bool__(self) -> bool:
        return self._begun is not None or bool(self._groups)

    def add(self, one: Subscription) -> None:
        """A subscription is about to end."""
        done, limit = one.mailbox.reader.done, one.limit
        if done.cumulative >= limit:
            return
        key = one.pattern, limit, done.cumulative, *done.ranges
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(one, limit)
        group.count += 1

    def go(self, steps: int) -> None:
        """Release what some steps allow, and at least one content."""
        while steps > 0 and self:
            group, self._begun = self._begun or self._groups.pop(next(iter(self._groups))), None
            for packet in self._contents.walk(group.place):
                if packet.first_place > group.limit:
                    break
                if steps <= 0:
                    self._begun = group
                    return
                group.place = packet.last_place + 1
                steps -= 1
                if group.wants(packet):
                    steps -= self._release(packet, group.count)
            steps -= 1
