"""Mistakes of topics: ``queues/topics/``."""

from collections.abc import Iterable
from typing import Any

from proof.planted.bug import Bugs, Patch
from triack.base.commit import StoreContent
from triack.base.ranges import NumberSet
from triack.queues.clock_jumps import ClockJumps
from triack.queues.mailboxes.local_commit import LocalTurn
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.topics import topic_root
from triack.queues.topics.strategies import room_of
from triack.queues.topics.subscription import Subscription
from triack.queues.topics.topic_root import Discarded, TopicRoot
from triack.queues.topics.topics import Topics
from triack.tools.chaos.topics import TOPICS_FROM

BUGS = Bugs(first=TOPICS_FROM)


@BUGS.by_seeds("a subscription gets messages that arrived before it and had not been dispatched", TopicRoot, "enter")
def _joiner(enter: Any, self: TopicRoot, subscription: Subscription) -> None:
    if not subscription.durable:
        subscription.after = self.dispatched
        subscription.mailbox.reader.done = NumberSet(self.dispatched)
    enter(self, subscription)


@BUGS.by_seeds(
    "a subscription gets messages that were accepted before it, if their commit had not returned", TopicRoot, "enter"
)
def _early(enter: Any, self: TopicRoot, subscription: Subscription) -> None:
    if subscription.after > self.last_place:
        subscription.after = self.last_place
        subscription.mailbox.reader.done = NumberSet(self.last_place)
    enter(self, subscription)


@BUGS.by_seeds("messages that are too old are discarded only when another one arrives", TopicRoot, "discard")
def _no_timer(discard: Any, self: TopicRoot, now_ns: int) -> list[Discarded]:
    if self.last_place == self.dispatched:
        self.discard_at_ns = None
        return []
    self.discard_at_ns = 0
    return discard(self, now_ns)


@BUGS.by_seeds("the newest message is discarded, not the eldest", Subscription, "eldest")
def _newest(_right: Any, self: Subscription) -> tuple[QueuedPacket, int] | None:
    root = self.root
    assert isinstance(root, TopicRoot)
    waiting = [
        packet
        for packet in root.contents.walk(self.mailbox.reader.done.cumulative + 1)
        if packet.last_place <= self.limit and packet.first_place not in self.mailbox.reader.done
    ]
    mine = [packet for packet in waiting if root.takes(self, packet.topic)]
    return (mine[-1], mine[-1].count - 1) if mine and not self.mailbox.reader.acked(mine[-1]) else None


@BUGS.by_seeds("a message of a topic is deleted once one subscription is done with it")
def _freed(patch: Patch) -> None:
    patch.setattr(TopicRoot, "release", lambda self, packet, subscriptions=1: self.free(packet, "all"))


@BUGS.by_seeds("the slowest subscription stops nobody", topic_root, "room_of")
def _slowest(_right: Any, strategy: str, pending: Iterable[tuple[int, int]], most: int) -> int:
    del strategy
    return room_of("discard_none", pending, most)


@BUGS.by_seeds("durable subscriptions end with their node", Topics, "restore")
def _forgotten(restore: Any, self: Topics, content: StoreContent, _turn: LocalTurn, _jumps: ClockJumps) -> None:
    content.subscriptions = []
    restore(self, content, _turn, _jumps)


@BUGS.by_seeds("a subscription that stalls stops those that have room", topic_root, "room_of")
def _stalls(_right: Any, strategy: str, pending: Iterable[tuple[int, int]], most: int) -> int:
    """As if each topic had the strategy of the slowest one."""
    del strategy
    return room_of("slowest_sub_rate", pending, most)
