"""A subscription to topics: a queue that reads the contents of a root, which other subscriptions read as well.

Promise: a subscription that is not read costs a few numbers, however many messages wait for it: how many there are, and
which places are done, as ranges. Handing out, failures, waits and expiry are those of a queue.

    ..after] too old for it | done, as ranges | handed out, or to be handed out ..limit] | not dispatched yet

A *durable* subscription has each message that matches from its arrival on: its limit is the place of the youngest
message. Any other one has a message from its dispatch on (``strategies``).
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol

from triack.base.commit import SubscriptionRow
from triack.base.errors import StoreDamaged
from triack.base.names import TOPIC_PREFIX
from triack.base.ranges import NumberSet, Range, as_ranges
from triack.queues.fetching import Fetch, arrived, fetch_packets
from triack.queues.mailboxes.handed import settled_runs
from triack.queues.mailboxes.mailbox import Lease, Mailbox, Notices, QueuedPacket, Run
from triack.queues.mailboxes.progress import Progress
from triack.queues.mailboxes.queued_packet import bits_of
from triack.queues.mailboxes.quotas import NO_LIMIT
from triack.queues.pauses import Pause
from triack.queues.topics.contents import Contents, OneLine, View

AHEAD_MAX = 64
"""Contents that a subscription reads from the disk together: few, so that thousands of slow ones need little memory."""
FETCH_AHEAD_BYTES = 256 * 1024
"""Bodies of them that are fetched together, for the same reason."""
BEHIND_LOOKS = 16
"""A subscription is behind if it would need this number of looks to read what is pending. At the pace of the topic that
is a small part of the cache, and much more than the difference between readers that alternate."""


@dataclass(slots=True)
class Peer:
    """The subscriber of a subscription, if that is another node.

    Attributes:
        name: of the node, as messages go there now: the way to a node may change, and it is the same subscriber.
        number: of the request that made it; later ones of that node have higher numbers.
        delivery: messages go there in this class, or in a weaker one if they were published in that.
        node: the id of the node, in hexadecimal digits.
    """

    name: str
    subscription: str
    number: int
    delivery: int
    node: str

    @property
    def title(self) -> str:
        """The initial name of its subscription, by which the node with the topics knows it from then on."""
        return f"{self.name}/{self.subscription}"


class Root(Protocol):
    """What a subscription needs of its topic's root.

    While ``mailbox``, where its messages arrive, is paused, no reader of a subscription gets anything. ``last_place``
    is the place of the youngest message, ``dispatched`` that of the last dispatched one.
    """

    mailbox: Mailbox
    topic: str
    last_place: int
    dispatched: int
    contents: Contents

    def takes(self, subscription: "Subscription", topic: str) -> bool:
        """Whether a subscription's pattern matches a topic."""

    def release(self, packet: QueuedPacket) -> None:
        """A subscription no longer wants a content."""

    def stir(self) -> None:
        """A subscription has room again."""


class _Line(View):
    """The messages that a subscription has still to read. From ``place`` on only the first packet was handed out."""

    __slots__ = ("_ahead", "_gone", "_of", "_root", "_seen", "place")

    def __init__(self, subscription: "Subscription", root: Root, after: int) -> None:
        self.priority, self.limit = 0, NO_LIMIT  # it has no packets of its own, nor memory for them
        self._of = subscription
        self._root = root
        self.place = after + 1
        # The first packet, if it is in memory for all subscriptions.
        self._seen: QueuedPacket | None = None
        # Packets that this subscription has read from the disk, by their places.
        self._ahead: dict[int, QueuedPacket] = {}
        # Packets that expired.
        self._gone: dict[int, None] = {}  # a set needs three times as much

    def first(self) -> QueuedPacket | None:
        """See ``Level``."""
        reader = self._of.mailbox.reader
        limit = self.limit = self._of.limit
        while self.place <= limit:
            packet = self._seen or next(iter(self._ahead.values()), None) or self._look(limit)
            if packet is None:
                return None
            if packet.first_place in reader.done or packet.first_place in self._gone:
                self._pass(packet)
                continue
            return packet if max(reader.lines[0].next, packet.first_place) <= limit else None
        return None

    def _look(self, limit: int) -> QueuedPacket | None:
        """Find the next packet; those before it are not for this subscription."""
        root, ahead, done = self._root, self._ahead, self._of.mailbox.reader.done
        self.place = max(self.place, done.cumulative + 1)
        for packet in root.contents.walk(self.place):
            if packet.first_place > limit:
                break
            if packet.first_place in done:  # it was missed: there may be any number of those
                self._gone.pop(packet.first_place, None)
                continue
            if not root.takes(self._of, packet.topic):
                continue
            if root.contents.is_ready(packet):
                if not ahead:
                    self._sweep(packet.first_place - 1)
                    self._seen = packet
                break
            if not ahead:
                self._sweep(packet.first_place - 1)
            ahead[packet.first_place] = root.contents.take(packet)
            if len(ahead) == AHEAD_MAX:
                break
        if self._seen is None and not ahead:
            self._sweep(limit)
            return None
        return self._seen or next(iter(ahead.values()))

    def _sweep(self, last: int) -> None:
        """Nothing up to a place waits for this subscription: its done messages become one range."""
        if last >= self.place:
            self._of.mailbox.reader.done.add_run(self.place, last)
            self.place = last + 1

    def end(self) -> None:
        """Nothing is read any more."""
        for packet in self._ahead.values():
            self._root.contents.let_go(packet)
        self._ahead.clear()

    def _pass(self, packet: QueuedPacket) -> None:
        self._seen = None
        if self._ahead.pop(packet.first_place, None) is not None:
            self._root.contents.let_go(packet)
        self._gone.pop(packet.first_place, None)
        self.place = packet.last_place + 1

    def drop_first(self) -> None:
        """See ``Level``."""
        packet = self._seen or next(iter(self._ahead.values()))
        self._pass(packet)

    def remove(self, packet: QueuedPacket) -> bool:
        """See ``Level``."""
        if packet.last_place < self.place or packet.first_place in self._gone:
            return False
        self._gone[packet.first_place] = None
        return True

    def walk(self, place: int) -> Iterator[QueuedPacket]:
        """See ``Level``."""
        for packet in self._root.contents.walk(max(place, self.place)):
            if packet.first_place > self._of.limit:
                return
            if self._root.takes(self._of, packet.topic) and packet.first_place not in self._gone:
                yield packet

    @property
    def _coming(self) -> Iterable[QueuedPacket]:
        return [self._seen] if self._seen is not None else self._ahead.values()

    def poll_fetch(self, take: Callable[[dict[int, bytes]], None]) -> Fetch | None:
        """See ``Level``."""
        return fetch_packets(self._coming, take, FETCH_AHEAD_BYTES)

    def load(self, bodies: dict[int, bytes]) -> None:
        """See ``Level``."""
        for packet, pieces in arrived(self._coming, bodies):
            self._root.contents.supply(packet, pieces)


class Records:
    """What the readers of a subscription got and gave back, until the session log has it.

    ``fields``: those of the subscription in each record.
    """

    def __init__(self, mailbox: Mailbox, fields: dict[str, Any]) -> None:
        self.fields = fields
        self._mailbox = mailbox
        self._told: list[tuple[str, dict[str, Any]]] = []

    def note(self, event: str, ranges: list[Range], stream: dict[str, Any] | None = None, **more: Any) -> None:
        """Log what became of messages, behind what was handed out before; ``stream``: by which they are passed on."""
        self._told += [*self._handed(), (event, {**(stream or {}), **self.fields, "ranges": ranges, **more})]
        self._mailbox.notices.read[self._mailbox] = None

    def take(self) -> list[tuple[str, dict[str, Any]]]:
        """What was handed out and came back since the last call, in order."""
        told, self._told = [*self._told, *self._handed()], []
        return told

    def _handed(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            ("handed", {**self.fields, "ranges": ranges, "redelivered": redelivered})
            for redelivered, some in groupby(self._mailbox.take_runs(), key=attrgetter("redelivered"))
            for ranges in _ascending(ranges_of(some))
        ]


class Subscription:
    """One subscription.

    Args:
        durable: its number in the store; 0: not durable. A durable one continues without readers.
        shared: whether it may have several holders at a time.
        after: the place of the last message that is too old for it.
        max_unacked: how many messages may be pending before it has no room.
        ack_wait_ns: how long a message may be leased; 0: without limit.

    Attributes:
        late_acks: number of acknowledgements, and returns, of messages that their reader no longer had.
        overdue: number of those that the node took back, as they were leased for too long.
        mailbox: the queue that its readers read: nothing arrives there, and its messages are contents of the root.
        suspended_at: of one that is not durable and is suspended, the place of the last message dispatched before; None
            otherwise.
    """

    def __init__(
        self,
        root: Root,
        notices: Notices,
        title: str,
        pattern: str,
        *,
        durable: int = 0,
        shared: bool = False,
        peer: Peer | None = None,
        after: int,
        max_unacked: int,
        ack_wait_ns: int = 0,
    ) -> None:
        self._view = _Line(self, root, after)
        self.mailbox = Mailbox(
            root.mailbox.queue_id,
            f"{TOPIC_PREFIX}{pattern}/{title}",
            notices,
            in_arrival_order=True,
            lines=OneLine(self._view),
            owner=self,
        )
        self.mailbox.reader.begin(NumberSet(after))
        self.root = root
        self.title = title
        self.pattern = pattern
        self.row_id = durable
        self.shared = shared
        self.peer = peer
        self.after = after
        self.max_unacked = max_unacked
        self.ack_wait_ns = ack_wait_ns
        # How many messages had left at the last look, and how many recently did from look to look.
        self._left_before = self._pace = 0
        self.suspended_at: int | None = None
        # Packets that are partly done, or had setbacks; the store has their progress.
        self._partly: dict[int, QueuedPacket] = {}
        self._restored: dict[int, bytes] = {}
        self.discarded = self.late_acks = self.redelivered = self.overdue = 0
        self.records = Records(self.mailbox, {"topic": root.topic, "subscription": title})

    @property
    def durable(self) -> bool:
        """Whether it continues without readers."""
        return self.row_id > 0

    @property
    def subscriber(self) -> Peer:
        """The node to which it belongs; only of one that belongs to another node."""
        assert self.peer is not None
        return self.peer

    @property
    def limit(self) -> int:
        """The place of the last message that it may have."""
        if self.row_id:
            return self.root.last_place
        return self.root.dispatched if self.suspended_at is None else self.suspended_at

    def handle_pause(self) -> None:
        """It, or its topic, was paused or resumed."""
        suspended = None if self.suspended_at is None else Pause(0, arrivals=False)
        self.mailbox.pause = self.root.mailbox.pause or suspended
        self.mailbox.interrupt()

    def end(self) -> None:
        """It has ended: nothing can be read from it."""
        self.mailbox.end_run()
        self._view.end()
        self.mailbox.length = 0
        self.mailbox.end()

    # ---- filling

    def wants(self, packet: QueuedPacket) -> bool:
        """Whether a content with a matching topic, which it may have, is not done."""
        place, until = packet.first_place, self.suspended_at
        return place > self.after and place not in self.mailbox.reader.done and (until is None or place <= until)

    def lose(self, packet: QueuedPacket, index: int) -> None:
        """A content expires, from one message on, before it is dispatched: the subscription never gets that part."""
        if packet.first_place > self.after and packet.first_place not in self.mailbox.reader.done:
            self.note_expired(packet, list(range(index, packet.count)))
            self.mailbox.reader.acknowledge(packet, bits_of(range(packet.count)))

    def lacks(self, packet: QueuedPacket, index: int, count: int) -> int:
        """How many neighbours in a packet are not done: the others have expired before their dispatch."""
        return (bits_of(range(index, index + count)) & ~self.mailbox.reader.acked(packet)).bit_count()

    def look_behind(self) -> bool:
        """Whether it has no reader, or has no room and is slow. What only such subscriptions want is not in memory.

        One that has no room for a moment soon reads what is pending.
        """
        box = self.mailbox
        self._pace, self._left_before = (self._pace + box.left - self._left_before) // 2, box.left
        return not box.listeners or (box.length > self.max_unacked and self._pace * BEHIND_LOOKS < box.length)

    def suspend(self) -> None:
        """It gets nothing from now on, and is not asked for room. What is dispatched meanwhile is not for it."""
        self.suspended_at = self.root.dispatched
        self.handle_pause()

    def miss(self, packet: QueuedPacket, index: int, count: int) -> None:
        """It is suspended, and misses messages of a packet. It has those before them."""
        self.mailbox.reader.acknowledge(packet, bits_of(range(index, index + count)))
        if packet.first_place in self.mailbox.reader.done:
            self._handle_done(packet)

    def resume(self) -> QueuedPacket | None:
        """It gets what is dispatched from now on. Returns a packet if it gets only the rest of that."""
        since, last = self.suspended_at, self.root.dispatched
        assert since is not None
        self.suspended_at = None
        head = self.root.contents.following(last + 1)
        if head is None or head.first_place > last:
            self.mailbox.reader.done.take_run(since + 1, last)
            return None
        self.mailbox.reader.done.take_run(since + 1, head.first_place - 1)
        known = head.first_place <= max(since, self.after) or head.first_place in self.mailbox.reader.done
        if known or not self.root.takes(self, head.topic):
            return None
        self.mailbox.reader.acknowledge(head, bits_of(range(last + 1 - head.first_place)))
        self.mailbox.size_bytes += head.size_bytes
        return head

    def assign(self, packet: QueuedPacket, messages: int, *, first: bool) -> None:
        """It gets messages of a content; ``first``: they are the first of it."""
        self.mailbox.length += messages
        self.mailbox.last_place = packet.last_place
        if first:
            self.mailbox.size_bytes += packet.size_bytes

    def pending(self, packet: QueuedPacket) -> bool:
        """At the start: it has a content of earlier processes. Returns whether it wants that."""
        if not self.wants(packet):
            return False
        self.assign(packet, packet.count, first=True)
        progress = self._restored.pop(packet.first_place, None)
        if progress is not None:
            known = Progress.decode(progress, packet.number, 0)
            self.mailbox.reader.restore(packet, known)
            self._partly[packet.first_place] = packet
            self.mailbox.length -= self.mailbox.reader.acked(packet).bit_count()
        return True

    # ---- what its readers do

    def note_returned(self, lease: Lease, *, overdue: bool) -> None:
        """See ``Owner``."""
        self.redelivered += 1
        self.overdue += overdue
        self.records.note("returned", [(lease.place, lease.place)], overdue=overdue)

    def settle(self, done: list[tuple[QueuedPacket, int]]) -> None:
        """See ``Owner``."""
        mailbox, reader = self.mailbox, self.mailbox.reader
        settled = mailbox.notices.settled.setdefault(mailbox, {})
        messages = 0
        for packet, bits in done:
            fresh = 0 if mailbox.has_ended else reader.acknowledge(packet, bits)
            if fresh != bits:
                self._note_late(packet, bits ^ fresh)
            if not fresh:
                continue
            messages += fresh.bit_count()
            settled[packet] = settled.get(packet, 0) | fresh
            self._handle_done(packet)
        mailbox.length -= messages
        mailbox.left += messages
        if messages and not self.row_id:
            self.root.stir()

    def _handle_done(self, packet: QueuedPacket) -> None:
        reader = self.mailbox.reader
        place, setbacks = packet.first_place, reader.setbacks
        if place in reader.begun:
            self.note_change(packet)
            return
        if setbacks.failures or setbacks.waits:
            setbacks.forget(packet.places)
        self._partly.pop(place, None)
        self.mailbox.size_bytes -= packet.size_bytes
        if self.row_id:
            self.note_changed()
        self.root.release(packet)

    def _note_late(self, packet: QueuedPacket, bits: int) -> None:
        self.late_acks += bits.bit_count()
        self.records.note("late_ack", ranges_of(settled_runs({packet: bits})))

    def note_late(self, lease: Lease) -> None:
        """See ``Owner``."""
        self._note_late(lease.packet, 1 << lease.index)

    def handle_late(self, lease: Lease) -> bool:
        """See ``Owner``."""
        if self.mailbox.has_ended:
            return True
        if self.mailbox.reader.acked(lease.packet) >> lease.index & 1:
            self._note_late(lease.packet, 1 << lease.index)
            return True
        return False

    def note_change(self, packet: QueuedPacket) -> None:
        """See ``Owner``: its row holds failures and waits, too. One that is not durable has none."""
        if self.row_id and packet.keys:
            self._partly[packet.first_place] = packet
            self.note_changed()

    def note_changed(self) -> None:
        """The next commit holds its row, if it is durable."""
        self.mailbox.notices.dirty[self.mailbox] = None

    # ---- dropping

    def eldest(self) -> tuple[QueuedPacket, int] | None:
        """The oldest pending message, packet and index."""
        done = self.mailbox.reader.done
        for packet in self.root.contents.walk(done.cumulative + 1):
            if packet.first_place > self.limit:
                return None
            if packet.first_place in done or not self.root.takes(self, packet.topic):
                continue
            if packet.first_place > done.cumulative + 1:
                done.take_run(done.cumulative + 1, packet.first_place - 1)  # nothing there waits for it
            acked = self.mailbox.reader.acked(packet)
            return packet, (~acked & (acked + 1)).bit_length() - 1
        return None

    def discard(self, packet: QueuedPacket, index: int) -> None:
        """Drop a message for this subscription."""
        self.mailbox.end_run()
        place = packet.first_place + index
        self.mailbox.reader.keep_returned(lambda _, at: at != place)
        self.mailbox.reader.acknowledge(packet, 1 << index)
        self.mailbox.length -= 1
        self.mailbox.left += 1
        self.discarded += 1
        self._handle_done(packet)

    def drop_expired(self, expired: dict[QueuedPacket, list[int]]) -> dict[QueuedPacket, list[int]]:
        """See ``Owner``. Without a dead letter if it is not durable: it would have lost the message in any case."""
        if self.mailbox.has_ended:
            return {}  # a message had come back to it
        if self.row_id:
            return expired
        for packet, indices in expired.items():
            if not indices:
                continue
            self.note_expired(packet, indices)
            self.mailbox.reader.acknowledge(packet, sum([1 << index for index in indices]))
            # It has got none of the others yet.
            assigned = sum([packet.first_place + index <= self.limit for index in indices])
            self.mailbox.length -= assigned
            self.mailbox.left += assigned
            self._handle_done(packet)
        self.root.stir()
        return {}

    def note_expired(self, packet: QueuedPacket, indices: list[int]) -> None:
        """See ``Owner``."""
        ranges = as_ranges([packet.first_place + index for index in indices])
        self.records.note("expired", ranges, receive_by_ms=packet.receive_by_ms)

    # ---- the disk

    def row(self) -> SubscriptionRow:
        """What the store keeps of it."""
        done = self.mailbox.reader.done
        partly = {place: self.mailbox.reader.progress_of(it).encode().decode() for place, it in self._partly.items()}
        peer = None if self.peer is None else list(astuple(self.peer))
        limits = [self.shared, self.max_unacked, self.ack_wait_ns]
        progress = [*limits, self.after, done.cumulative, done.ranges, partly, peer]
        return SubscriptionRow(
            self.row_id, self.title, self.root.mailbox.queue_id, self.pattern, json.dumps(progress).encode()
        )

    @classmethod
    def restore(cls, row: SubscriptionRow, root: Root, notices: Notices) -> "Subscription":
        """A subscription of the store, before its contents are ``pending``. Raises StoreDamaged."""
        try:
            shared, max_unacked, ack_wait_ns, after, cumulative, ranges, partly, peer = json.loads(row.progress)
            found = cls(
                root,
                notices,
                row.name,
                row.pattern,
                durable=row.id,
                shared=shared,
                peer=None if peer is None else Peer(*peer),
                after=after,
                max_unacked=max_unacked,
                ack_wait_ns=ack_wait_ns,
            )
            found.mailbox.reader.begin(NumberSet(cumulative, [(first, last) for first, last in ranges]))
            found._view.place = cumulative + 1
            found._restored = {int(place): progress.encode() for place, progress in partly.items()}
        except (ValueError, TypeError, AttributeError, RecursionError) as cause:
            raise StoreDamaged(f"subscription {row.name} cannot be read") from cause
        return found


def _ascending(ranges: list[Range]) -> Iterator[list[Range]]:
    part: list[Range] = []
    for one in ranges:
        if part and one[0] <= part[-1][1]:
            yield part
            part = []
        part.append(one)
    if part:
        yield part


def ranges_of(runs: Iterable[Run]) -> list[Range]:
    """The places of messages that were drawn, as ranges; neighbours are joined."""
    ranges: list[Range] = []
    for run in runs:
        first, last = run.packet.first_place + run.first, run.packet.first_place + run.next - 1
        if ranges and ranges[-1][1] + 1 == first:
            ranges[-1] = ranges[-1][0], last
        elif last >= first:
            ranges.append((first, last))
    return ranges
