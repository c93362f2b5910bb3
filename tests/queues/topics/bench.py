"""The topics of a node without the node: messages are put into them, and readers take and acknowledge them."""

from collections import Counter
from typing import Any

from triack.base.clock import WallClock
from triack.base.commit import HEAD_BYTES, Commit, MessageIndex, StoreContent
from triack.base.delivery import Delivery
from triack.base.news import NodeEvent
from triack.base.reasons import DropReason
from triack.queues.clock_jumps import ClockJumps
from triack.queues.mailboxes.local_commit import LocalCommit, LocalTurn
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.mailboxes.mailbox import Lease, QueuedPacket
from triack.queues.messages import Outgoing
from triack.queues.node_settings import NodeSettings, Topic
from triack.queues.packing import pack
from triack.queues.schedule import Phase, Schedule
from triack.queues.topics.subscription import Subscription
from triack.queues.topics.topic_root import TopicRoot
from triack.queues.topics.topics import Topics

ORIGIN = b"o" * 16
LARGEST = 60_000
"""Bytes of a packet."""


class Bench:
    """Topics, the rows that the store would have, and what was recorded."""

    def __init__(self, per_packet: int = 1, content: StoreContent | None = None, **topic: Any) -> None:
        settings = NodeSettings(topics={"Games": Topic(**topic)})
        self.per_packet = per_packet
        self.now_ns = 0
        self.drops = Counter[DropReason]()
        self.records: list[tuple[str, dict[str, Any]]] = []
        self.queues = LocalQueues(settings, None, WallClock(0), self.drops, self._record, lambda node_id: node_id)
        self.topics = Topics(settings, self.queues, self.drops, self._record)
        self.group = LocalCommit()
        self.rows: dict[int, MessageIndex] = {}
        self.bodies: dict[int, bytes] = {}
        self.read_from_disk = 0
        self.store = content or StoreContent(ORIGIN, 1)
        self._ordinal = self._number = 0
        self.schedule = Schedule()
        self.queues.register(self.schedule)
        self.topics.register(self.schedule)
        self.schedule.handle_restored(self.store, self.turn(), ClockJumps(None))
        self.step()

    def _record(self, event: str, now_ns: int, **fields: Any) -> None:
        assert now_ns == self.now_ns
        self.records.append((event, fields))

    def turn(self) -> LocalTurn:
        self.group.now_ns, self.group.now_ms = self.now_ns, self.now_ns // 1_000_000
        return self.group

    def subscribe(self, pattern: str = "Games.#", **more: Any) -> Subscription:
        return self.topics.subscribe(pattern, self.turn(), **more)

    @property
    def root(self) -> TopicRoot:
        (root,) = self.topics.roots
        return root

    def publish(
        self, count: int, below: str = "Cricket", delivery: Delivery = Delivery.EXPRESS, **properties: Any
    ) -> None:
        """Publish messages ``0``, ``1``, ... that come in packets of ``per_packet``, and commit them."""
        self.accept(count, below, delivery, **properties)
        self.step()

    def accept(
        self, count: int, below: str = "Cricket", delivery: Delivery = Delivery.TRANSACTIONAL, **properties: Any
    ) -> None:
        """Put such messages into the next commit; express ones are there without it."""
        messages = [Outgoing(b"%d" % (self._ordinal + at), topic=below, **properties) for at in range(count)]
        packed, self._ordinal = pack(messages, LARGEST, self._ordinal, self.turn().now_ms, self.per_packet)
        for item in packed:
            self._number += 1
            packet = QueuedPacket((), ORIGIN, 1, 1, self._number, delivery, 1, len(item.body), [item.body])
            self.queues.put("topic:Games", packet, item.body[:HEAD_BYTES], self.turn())

    def step(self) -> None:
        """A commit of all that is due, and what follows from it."""
        self.topics.advance(self.now_ns)
        group, self.group = self.group, LocalCommit()
        self.queues.complete(group)
        self.topics.complete(group)
        self._apply(group.commit)
        self.queues.handle_committed(group)
        self.topics.advance(self.now_ns)
        self.topics.note(self.now_ns)

    def news(self) -> list[NodeEvent]:
        """What the operator hears now."""
        self.schedule.run(Phase.NOTE, self.turn())
        news = list(self.topics.news)
        self.topics.news.clear()
        return news

    def rest(self) -> None:
        """Turns and commits until nothing is left to do."""
        self.step()
        while (at_ns := self.topics.next_deadline()) is not None and at_ns <= self.now_ns:
            self.step()
        self.step()

    def _apply(self, commit: Commit) -> None:
        for row in commit.messages:
            for one in row.packets():
                (body,) = one.bodies
                self.bodies[one.key] = body
                where = one.key, one.origin, one.stream, one.sequence, one.number
                head = body[:HEAD_BYTES]
                self.rows[one.key] = MessageIndex(*where, len(body), head, None, one.delivery, one.topic, one.place)
        for first, last in commit.message_deletes:
            for key in range(first, last + 1):
                del self.rows[key]
        store = self.store
        store.queues += commit.queues
        store.state.update({key: value for key, value in commit.state.items() if value is not None})
        kept = {row.id: row for row in store.subscriptions} | commit.subscriptions
        store.subscriptions = [row for row in kept.values() if row.id not in commit.subscription_deletes]
        store.messages = list(self.rows.values())

    def restart(self) -> "Bench":
        """The next process finds what was committed."""
        again = Bench(self.per_packet, self.store)
        again.rows, again.bodies = self.rows, self.bodies
        again._ordinal, again._number = self._ordinal, self._number
        return again

    def take(self, subscription: Subscription) -> Lease | None:
        """The next message of a subscription, from the disk if need be; nothing is settled."""
        now_ms = self.turn().now_ms
        run = subscription.mailbox.open_run(now_ms)
        if run is None and (fetch := self.queues.poll_fetch()) is not None:
            self.read_from_disk += len(fetch.keys)
            fetch.take({key: self.bodies[key] for key in fetch.keys})
            run = subscription.mailbox.open_run(now_ms)
        return None if run is None else run.lease(run.draw())

    def read(self, subscription: Subscription, most: int = 1_000_000) -> list[int]:
        """Take messages, and acknowledge each."""
        found: list[int] = []
        while len(found) < most and (lease := self.take(subscription)) is not None:
            found.append(int(lease.body))
            subscription.mailbox.acknowledge(lease)
            self.step()
        return found

    def of(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.records if name == event]
