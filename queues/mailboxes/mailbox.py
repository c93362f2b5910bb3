"""A queue of this node: messages that have arrived and wait for the application.

Promise: messages of a higher priority are handed out first, those of one priority in the order in which their packets
were put. Each stays until it is acknowledged. A message that is given back is redelivered before anything younger of
its priority. A queue knows packets and indices within them, not message objects. It keeps packets in memory up to a
limit (``priority_queue``); the others wait on the disk, and are fetched when their turn comes.

Messages are handed out by the run: neighbours in one packet. All readers of the queue draw from the same run, one
message at a time, so that nothing is set aside for a busy reader. The run itself is the record of what was handed out.
A message of a packet is WAITING, then OUT, then DONE; or OUT and WAITING again when it is given back. If it is given
back with a ``Wait``, it is not redelivered before that ends. Until then nothing younger of its priority is handed out
either, unless the wait allows it.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge as merge_sorted
from itertools import groupby, islice, takewhile
from typing import Protocol

from triack.base.clock import WallClock
from triack.base.commit import MessageIndex
from triack.base.delivery import DURABLE, PRIORITY_MAX, Delivery
from triack.base.names import StreamId
from triack.base.news import NodeEvent, QueueOverQuota
from triack.base.reasons import DropReason
from triack.queues.body_head import cares_of, count_of, fragment_range, large_of, priority_of, receive_by_of, sent_at_of
from triack.queues.deadlines import Deadlines
from triack.queues.fetching import Fetch
from triack.queues.mailboxes.incoming_run import IncomingRun
from triack.queues.mailboxes.large_bodies import Bodies
from triack.queues.mailboxes.leases import Leases
from triack.queues.mailboxes.partials import Partial, Partials
from triack.queues.mailboxes.priority_queue import Cache, Level, PriorityQueue, Share
from triack.queues.mailboxes.progress import Progress
from triack.queues.mailboxes.queued_packet import SIZE_OF, Lease, QueuedPacket, bits_of, merge
from triack.queues.mailboxes.quotas import NO_LIMIT, Account, Fill
from triack.queues.mailboxes.reader_state import ReaderState
from triack.queues.mailboxes.redelivery import Wait
from triack.queues.mailboxes.run import Run
from triack.queues.mailboxes.system_queues import SUBSCRIPTION_PREFIX, is_journal, is_subscribed
from triack.queues.node_settings import Quota
from triack.queues.pauses import Pause

__all__ = ["EXPRESS_OVERHEAD_BYTES", "Lease", "Mailbox", "Notices", "Owner", "QueuedPacket", "Run", "Sink", "rank_of"]

EXPRESS_OVERHEAD_BYTES = 1_024
"""Memory of an express packet without its body: measured, and some more."""
PARTIAL_MAX = 256
"""Most unfinished large express messages of one stream. Lost pieces are not resent, so the oldest messages are dropped.
"""


def _nobody_hears(_mailbox: "Mailbox") -> None:
    """For queues that stay when their readers leave."""


def no_copy_needed(_mailbox: "Mailbox", _packet: QueuedPacket) -> bool:
    """For queues without a journal."""
    return True


@dataclass(slots=True, eq=False)
class Notices:
    """Notices from the queues of a node to their owner. A queue enters each list once, when it begins to apply.

    Attributes:
        dirty: queues with something for the next commit, see ``Mailbox.take_changes``.
        wanting: queues whose next bodies are only on the disk, see ``Mailbox.poll_fetch``.
        read: queues from which something was handed out, see ``Mailbox.take_runs``.
        topical: the last queue made for a topic, or subscriptions of other nodes; without it topics have nothing to do.
        news: for the operator. A queue that becomes full is named once until it has room.
        purged: messages purged since the last log record, with the name of their queue.
        taken: express packets of journaled queues that are done.
        keep_copy: gets a durable packet of a journaled queue that is done; returns whether the commit may delete it.
        settled: durable messages that are done, as bits of their packets, and are in no commit that has begun.
        left: the same of messages with which readers of an earlier process were done when it died.
        whole: large messages that are whole now, and whose senders may have to know, see ``LocalQueues.tell_whole``.
        wall: the time of day, by which messages expire and waits end.
        expiring: when the waiting messages of a packet expire, see ``Mailbox.expire``; with None, the first packet that
            is only on the disk, see ``Mailbox.poll_expired``.
        resuming: when the next wait of a queue ends: interrupt it then.
        relieved: what has made room since the last check, such as a queue that has become shorter.
        keeping: queues of parts of large bodies that were not idle at that check; they may be when bodies are deleted.
        on_left: called with a queue that has not ended when its last listener has left.
        settles: whether nothing is handed out yet, because no commit holds the leases that the last start left.
    """

    drops: Counter[DropReason]
    disk: Account = field(default_factory=lambda: Account(NO_LIMIT, NO_LIMIT))
    express: Account = field(default_factory=lambda: Account(NO_LIMIT, NO_LIMIT))
    cache: Cache = field(default_factory=Cache)
    leases: Leases = field(default_factory=lambda: Leases(None))
    bodies: Bodies = field(default_factory=lambda: Bodies(Account(NO_LIMIT, NO_LIMIT)))
    wanting: "dict[Mailbox, None]" = field(default_factory=dict)
    expiring: "Deadlines[tuple[Mailbox, QueuedPacket | None]]" = field(default_factory=Deadlines)
    resuming: "Deadlines[Mailbox]" = field(default_factory=Deadlines)
    dirty: "dict[Mailbox, None]" = field(default_factory=dict)
    read: "dict[Mailbox, None]" = field(default_factory=dict)
    news: list[NodeEvent] = field(default_factory=list)
    purged: list[tuple[str, list[Lease]]] = field(default_factory=list)
    returned: list[tuple[str, list[Lease]]] = field(default_factory=list)
    taken: "list[tuple[Mailbox, QueuedPacket]]" = field(default_factory=list)
    keep_copy: "Callable[[Mailbox, QueuedPacket], bool]" = no_copy_needed
    on_left: "Callable[[Mailbox], None]" = _nobody_hears
    settled: "dict[Mailbox, dict[QueuedPacket, int]]" = field(default_factory=dict)
    left: "dict[Mailbox, dict[QueuedPacket, int]]" = field(default_factory=dict)
    whole: "deque[tuple[Mailbox, QueuedPacket]]" = field(default_factory=deque)
    idled: "dict[Mailbox, None]" = field(default_factory=dict)
    keeping: "dict[Mailbox, None]" = field(default_factory=dict)
    relieved: dict[object, None] = field(default_factory=dict)
    settles: bool = False
    topical: list[str] = field(default_factory=list)
    wall: WallClock = field(default_factory=lambda: WallClock(0))


class Sink(Protocol):
    """A queue's messages are read elsewhere: this keeps what arrives in it."""

    def handle_charged(self, packet: QueuedPacket, *, begins: bool, ends: bool) -> None:
        """A packet is counted, in the order of the commits. Flags: it is the first, or the last, of its messages."""

    def handle_put(self, packet: QueuedPacket) -> None:
        """A packet whose commit has returned, or an express one, was put."""

    def add(self, packet: QueuedPacket) -> None:
        """The messages of a packet are whole: keep them."""

    def keeps(self, packet: QueuedPacket) -> bool:
        """Whether messages in memory are still kept."""

    def expire(self, packets: Collection[QueuedPacket]) -> "Iterator[tuple[Mailbox, QueuedPacket]]":
        """Hand out no more of these packets. Yields the queues from which they are read, in which they expire."""


class Owner(Protocol):
    """A subscription that has the messages of a queue that is only read. It learns what readers do with them."""

    title: str

    def settle(self, done: list[tuple[QueuedPacket, int]]) -> None:
        """Messages of packets are done, as ``Mailbox.acknowledge_many`` has them."""

    def note_change(self, packet: QueuedPacket) -> None:
        """The next commit holds what was done with a packet."""

    def note_returned(self, lease: Lease, *, overdue: bool) -> None:
        """A reader's message returns. ``overdue``: the node has taken it back, as its time had ended."""

    def note_late(self, lease: Lease) -> None:
        """A reader acknowledges a message that it no longer has: that changes nothing, and is no error."""

    def handle_late(self, lease: Lease) -> bool:
        """A reader gives a message back. Returns whether it no longer had it, so that nothing changes."""

    def note_expired(self, packet: QueuedPacket, indices: list[int]) -> None:
        """Messages become dead letters, as they have expired."""

    def drop_expired(self, expired: dict[QueuedPacket, list[int]]) -> dict[QueuedPacket, list[int]]:
        """Messages have expired, by packets. Returns those that must become dead letters."""


class Mailbox:
    """One queue.

    Args:
        is_apart: whether its content counts for no other quota, as with dead letters.
        in_arrival_order: whether it is read in the order of arrival, whatever the priorities are.
        lines: the queue that it is read from, if not from its own.

    Attributes:
        length: number of unacknowledged messages; ``lengths`` has it by priority.
        last_place: the place of the youngest message that was ever stored, see ``reader_state``.
        pause: since when an operator has paused it, or None. While it is paused, no reader gets anything.
        journal: whether a journal keeps what readers acknowledge.
        holder: the journal whose lack of room holds its senders; None for none.
    """

    __slots__ = (
        "_changed",
        "_lines",
        "_orphans",
        "_run",
        "_runs",
        "_share",
        "_suspect",
        "fetching",
        "fill",
        "has_ended",
        "holder",
        "in_arrival_order",
        "is_apart",
        "journal",
        "last_place",
        "left",
        "length",
        "lengths",
        "listeners",
        "name",
        "next_position",
        "notices",
        "owner",
        "partials",
        "pause",
        "queue_id",
        "reader",
        "restored",
        "sink",
        "size_bytes",
    )

    def __init__(
        self,
        queue_id: int,
        name: str,
        notices: Notices,
        quota: Quota | None = None,
        *,
        is_apart: bool = False,
        in_arrival_order: bool = False,
        lines: PriorityQueue | None = None,
        sink: Sink | None = None,
        owner: Owner | None = None,
    ) -> None:
        self.queue_id = queue_id
        self.name = name
        self.next_position = 1
        self.length = 0
        self.lengths = [0] * (PRIORITY_MAX + 1)
        self.left = 0
        self.restored = 0
        self.size_bytes = 0
        self.fetching = False
        self.listeners: list[Callable[[], None]] = []
        self.fill = Fill(quota or Quota())
        self.is_apart = is_apart
        self.in_arrival_order = in_arrival_order
        self.sink = sink
        self.owner = owner
        self.has_ended = False
        self.pause: Pause | None = None
        self.notices = notices
        self._changed: dict[int, QueuedPacket] = {}
        self._orphans: list[int] = []
        self._share = Share(notices.cache)
        self._lines = lines or PriorityQueue(self._share, self.set_deadline)
        self._run: Run | None = None
        # A leased message whose reader died before: until it is done or back, nothing else is handed out.
        self._suspect: Lease | None = None
        self._runs: list[Run] = []
        self.partials = Partials()
        self.reader = ReaderState()
        self.journal = False
        self.holder: Mailbox | None = None
        self.last_place = 0
        notices.idled[self] = None

    # ---- filling

    def put(self, packet: QueuedPacket, head: bytes, progress: Progress | None = None) -> None:
        """Add a packet whose commit has returned (express: that has arrived).

        ``head``: the first ``HEAD_BYTES`` of its body. ``progress``: what an earlier process did with its messages.
        """
        packet.sent_at_ms = sent_at_of(head)
        packet.receive_by_ms = receive_by_of(head)
        packet.priority = 0 if self.in_arrival_order else priority_of(head)
        packet.cares, packet.large = cares_of(head), large_of(head)
        self.charge(packet, head, progress)
        fragment = fragment_range(head, packet.size_bytes)
        if packet.delivery == Delivery.TRANSACTIONAL:
            self._drop_overtaken(packet, fragment[0] if fragment else None)
        if fragment is None:
            self._add(packet, progress)
        else:
            self._put_fragment(packet, fragment, progress)
        if self.sink is not None:
            self.sink.handle_put(packet)

    def put_all(self, packets: list[QueuedPacket], head: bytes | None) -> None:
        """Add packets as ``put`` does: one, with its ``head``; or those of ``charge_run``, with None."""
        first = packets[0]
        if head is not None or (first.pieces and fragment_range(first.pieces[0], first.size_bytes)):
            for packet in packets:
                self.put(packet, head or packet.pieces[0])
            return
        if self.partials.by_stream and first.delivery == Delivery.TRANSACTIONAL:
            self._drop_overtaken(first, None)
        place = before = self.last_place
        for packet in packets:
            packet.first_place = place + 1
            place += packet.count
        self.last_place = place
        self._lines.of(first).extend(packets)
        self.length += place - before
        self.lengths[first.priority] += place - before
        self.size_bytes += sum(map(SIZE_OF, packets))
        self._give_way(first)
        self.wake()

    def put_restored(self, alike: list[tuple[MessageIndex, int, int]]) -> None:
        """Add packets of the store as ``put`` does, when they differ only in their numbers, counts and sending times.

        ``alike``: each with what ``read_plain`` says of it.
        """
        first = alike[0][0]
        priority = 0 if self.in_arrival_order else priority_of(first.head)
        cares, delivery = cares_of(first.head), Delivery(first.delivery)
        packets: list[QueuedPacket] = []
        for it, count, sent_at_ms in alike:
            key, size_bytes = it.key, it.size_bytes
            keys = range(key, key + 1)
            packet = QueuedPacket(
                keys, it.origin, it.stream, it.sequence, it.number, delivery, count, size_bytes, (), restored=True
            )
            packet.sent_at_ms, packet.charged_bytes, packet.priority = sent_at_ms, size_bytes, priority
            packet.cares, packet.topic = cares, it.topic
            packets.append(packet)
        size_bytes = sum([packet.size_bytes for packet in packets])
        self._count(packets[0], sum([packet.count for packet in packets]), size_bytes, len(packets))
        self.put_all(packets, None)

    def _give_way(self, packet: QueuedPacket) -> None:
        if self._run is not None and self._run.packet.priority < packet.priority:
            self.end_run()

    # ---- quotas

    def charge(self, packet: QueuedPacket, head: bytes, progress: Progress | None = None) -> None:
        """Count a packet against the quotas before it is put; a large message as a whole, with its first packet."""
        if packet.charged_bytes:
            return
        packet.charged_bytes = packet.size_bytes
        fragment = fragment_range(head, packet.size_bytes)
        large, ends = large_of(head), True
        if fragment is None:
            packet.count = count_of(head)
            if large:
                packet.charged_bytes += self.notices.bodies.claim(packet.origin, large)
            self._count(packet, packet.count - (progress.acked.bit_count() if progress else 0), packet.charged_bytes)
        elif not self.partials.expects(packet.origin, packet.stream, fragment[0]):
            ordinal, _, _, total_bytes = fragment
            more_bytes = self.notices.bodies.claim(packet.origin, large) if large else 0
            self.partials.begin(packet, ordinal, total_bytes, more_bytes)
            self._count(packet, 1, total_bytes + more_bytes)
        elif packet.delivery not in DURABLE:
            # A piece has the overhead of a whole message.
            self.partials.of(StreamId(packet.origin, packet.stream))[
                fragment[0]
            ].overhead_bytes += EXPRESS_OVERHEAD_BYTES
            self.notices.express.add(packet.origin, EXPRESS_OVERHEAD_BYTES)
        if self.sink is not None:
            if fragment is not None:
                ends = self.partials.of(StreamId(packet.origin, packet.stream))[fragment[0]].charge(fragment[2])
            self.sink.handle_charged(packet, begins=fragment is None or not fragment[1], ends=ends)

    def charge_run(self, run: IncomingRun, delivery: Delivery) -> list[QueuedPacket]:
        """Make packets of a run, and count them as ``charge`` does: the first piece of a message was charged for it."""
        packets = run.packets(delivery)
        if run.piece_of is None:
            self._count(packets[0], run.messages, run.body_bytes, len(packets))
        return packets

    def _count(self, packet: QueuedPacket, messages: int, size_bytes: int, packets: int = 1) -> None:
        fill = self.fill
        fill.messages.add(messages)
        if size_bytes:
            fill.bytes.add(size_bytes)
        if fill.is_full and not fill.is_told and not is_journal(self.name):
            fill.is_told = True
            self.notices.news.append(QueueOverQuota(self.name, fill.messages.value, fill.bytes.value))
        if not size_bytes:
            return
        if self.is_apart:
            return
        if packet.delivery in DURABLE:
            self.notices.disk.add(packet.origin, size_bytes)
        else:
            sign = 1 if size_bytes > 0 else -1
            self.notices.express.add(packet.origin, size_bytes + sign * packets * EXPRESS_OVERHEAD_BYTES)

    def release(self, packet: QueuedPacket, messages: int, size_bytes: int, packets: int = 1) -> None:
        """Messages leave, and whole packets of this size with them. All count for the same account."""
        self._count(packet, -messages, -size_bytes, packets)
        self.notices.relieved[self] = None
        self.fill.is_told = self.fill.is_told and self.fill.is_full
        if not self.fill.bytes.value:
            self.notices.idled[self] = None

    @property
    def is_idle(self) -> bool:
        """Whether it is empty, and has no listeners."""
        return not (self.fill.bytes.value or self._runs or self._changed or self._orphans or self.listeners)

    def discard(self, packet: QueuedPacket) -> None:
        """A packet is not kept: the next commit deletes its rows, whatever was done with it."""
        self._changed.pop(packet.first_place, None)
        if packet.keys:
            self._orphans += packet.keys
            self.notices.dirty[self] = None

    def charge_copies(self, packets: list[QueuedPacket]) -> None:
        """Count copies that a journal is about to get. Their message counts are set."""
        for packet in packets:
            packet.charged_bytes = packet.size_bytes
        self._count(packets[0], sum([packet.count for packet in packets]), sum(map(SIZE_OF, packets)), len(packets))

    # ---- putting

    def _drop_overtaken(self, packet: QueuedPacket, ordinal: int | None) -> None:
        """An ordered stream continues with a message: the rest of those before it has expired."""
        partials = self.partials.of(StreamId(packet.origin, packet.stream))
        # If the oldest one has no rows, all are younger: their packets wait for their commit.
        oldest = next(iter(partials), ordinal)
        if oldest is not None and oldest != ordinal and partials[oldest].rows:
            self._drop_partials(StreamId(packet.origin, packet.stream), lambda at, it: at != ordinal and bool(it.rows))

    def drop_unfinished(self, origin: bytes, stream: int, first: int, last: int) -> None:
        """Drop unfinished messages whose origin has given up packets with these numbers, the last one among them."""
        if first <= last:
            self._drop_partials(StreamId(origin, stream), lambda _, it: first <= it.last_number <= last)

    @property
    def unfinished(self) -> list[StreamId]:
        """The streams that have an unfinished message or body in this queue."""
        return self.partials.streams

    def drop_stream(self, origin: bytes, stream: int) -> None:
        """Drop the unfinished messages of a stream that has ended."""
        self._drop_partials(StreamId(origin, stream), lambda _, it: bool(it.rows))

    def drop_unfinished_express(self, origin: bytes) -> None:
        """Drop unfinished express messages of a process that is gone: the rest of them is lost."""
        for stream in self.partials.of_origin(origin):
            self._drop_partials(stream, lambda _, it: any(row.delivery == Delivery.EXPRESS for row in it.rows.values()))

    def _drop_partials(self, stream: StreamId, wanted: Callable[[int, Partial], bool]) -> None:
        for ordinal in [at for at, it in self.partials.of(stream).items() if wanted(at, it)]:
            partial = self.partials.pop(stream, ordinal)
            rows = list(partial.rows.values())
            self._orphans += [key for row in rows for key in row.keys]
            self._forget_pieces(partial, stream[0])
            self.release(rows[0], 1, partial.total_bytes + partial.more_bytes)
            if partial.more_bytes:
                self.notices.bodies.note_left(stream.origin, ordinal)
        if self._orphans:
            self.notices.dirty[self] = None

    def _forget_pieces(self, partial: Partial, origin: bytes) -> None:
        partial.forget(self._share)
        if partial.overhead_bytes:
            self.notices.express.add(origin, -partial.overhead_bytes)

    def _put_fragment(
        self, packet: QueuedPacket, fragment: tuple[int, int, int, int], progress: Progress | None
    ) -> None:
        ordinal, offset, length, total_bytes = fragment
        stream = StreamId(packet.origin, packet.stream)
        partials = self.partials.of(stream)
        partial = partials.get(ordinal)
        if partial is None or offset in partial.rows or partial.total_bytes != total_bytes:
            # Its message was dropped meanwhile, or its sender is faulty: it will never be read.
            self.discard(packet)
            return
        partial.add(packet, offset, length, progress)
        partial.keep(packet, self._share)
        if partial.is_whole:
            self._forget_pieces(self.partials.pop(stream, ordinal), packet.origin)
            if partial.progress is not None and partial.progress.acked:
                self.fill.messages.add(-1)  # its first piece was counted before its progress was known
            charged_bytes = partial.total_bytes + partial.more_bytes
            whole = merge([partial.rows[at] for at in sorted(partial.rows)], charged_bytes)
            whole.first_place = partial.place
            self._add(whole, partial.progress)
            if whole.cares and not (partial.progress is not None and partial.progress.told):
                self.notices.whole.append((self, whole))
        elif packet.delivery == Delivery.EXPRESS and len(partials) > PARTIAL_MAX:
            oldest = next(iter(partials))
            self._drop_partials(stream, lambda at, _: at == oldest)
            self.notices.drops[DropReason.PARTIAL_OVERFLOW] += 1

    def _add(self, packet: QueuedPacket, progress: Progress | None) -> None:
        if self.sink is not None:
            self.sink.add(packet)
            return
        packet.first_place = self.last_place + 1
        self.last_place += packet.count
        count = packet.count
        if progress is not None:
            self.reader.restore(packet, progress)
            count -= self.reader.acked(packet).bit_count()
            if left := progress.left & bits_of(range(packet.count)):
                self.notices.left.setdefault(self, {})[packet] = left
        self.length += count
        self.lengths[packet.priority] += count
        if progress is not None and self.reader.is_done(packet):
            self.note_change(packet)
            self.release(packet, 0, packet.charged_bytes)
            return
        self.size_bytes += packet.charged_bytes if packet.large else packet.size_bytes
        self._lines.of(packet).append(packet)
        self._give_way(packet)
        self.wake()

    @property
    def cached_bytes(self) -> int:
        """Memory of packets that were not handed out."""
        return self._share.used_bytes

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest waiting message was sent, by its sender's clock; None when none waits."""
        run = self._run
        waiting = [packet for line in self.reader.lines.values() for packet in line.returned.oldest()]
        for line in self._lines.by_rank:
            ahead = (it for it in line.walk(0) if run is None or run.packet is not it or run.next < it.count)
            waiting += islice(ahead, 1)
        return min((packet.sent_at_ms for packet in waiting), default=None)

    def leave(self, listener: Callable[[], None]) -> None:
        """Remove a listener."""
        self.listeners.remove(listener)
        self.notices.idled[self] = None
        if not (self.listeners or self.has_ended):
            self.notices.on_left(self)

    def end(self) -> None:
        """Nothing can be read from it any more."""
        self.has_ended = True
        self.interrupt()

    def wake(self) -> None:
        """Tell the listeners that there may be something to read."""
        for listener in self.listeners:
            listener()

    def interrupt(self) -> None:
        """Let all readers and listeners ask again: a wait has ended, or the node has."""
        self.end_run()
        self.wake()

    @property
    def takes_arrivals(self) -> bool:
        """Whether its operator, and its journal, allow arrivals."""
        return (self.pause is None or not self.pause.arrivals) and not self.is_held_by_journal

    @property
    def is_held_by_journal(self) -> bool:
        """Whether its journal has no room for copies, and is set to hold its senders."""
        return self.holder is not None and self.holder.fill.is_full

    # ---- bodies on the disk

    @property
    def awaits_disk(self) -> bool:
        """Whether a reader has to wait for the disk; the listeners are notified when that has been read."""
        return self.fetching or self in self.notices.wanting or self.notices.settles

    def poll_fetch(self) -> Fetch | None:
        """A fetch of the next bodies, or None."""
        if self.fetching:
            return None
        fetch = self._lines.poll_fetch(self.load)
        self.fetching = fetch is not None
        if fetch is None:
            self.wake()  # the awaited packets have left
        return fetch

    def load(self, bodies: dict[int, bytes]) -> None:
        """Store the bodies that were fetched."""
        self.fetching = False
        self._lines.load(bodies)
        self.wake()

    # ---- what it is

    @property
    def takes_runs(self) -> bool:
        """Whether packets that arrive together may be put together."""
        return self.sink is None

    @property
    def subscription(self) -> str:
        """The name of the subscription to topics whose messages it has; empty for none."""
        if self.owner is not None:
            return self.owner.title
        return self.name.removeprefix(SUBSCRIPTION_PREFIX) if is_subscribed(self.name) else ""

    # ---- handing out

    def open_run(self, now_ms: int) -> Run | None:
        """The open run, or the next one; None if none may begin now, or the next body is only on the disk."""
        if self.pause is not None:
            return None
        run = self._run
        if run is not None:
            if run.next < run.end:
                return run
            self.end_run()
        if self._suspect is not None:
            return None
        run = self._run = self._next_run(now_ms)
        if run is not None:
            self.notices.leases.open([run.packet])
            if not self._runs:
                self.notices.read[self] = None
            self._runs.append(run)
        # Only readers request the next bodies: a queue without a reader fetches nothing. If a run continues the queue,
        # the first waiting packet is the one being read, and its body is in memory.
        if (run is None or run.redelivered) and not self.fetching and self._lines.lacks_bodies:
            self.notices.wanting[self] = None
        return run

    def open_whole(self, limit: int, most_bytes: int) -> tuple[list[Run], int]:
        """The next packets, each as a run that is drawn to its end: what ``open_run`` gives one by one.

        Empty while something else may come first: a message that came back, or one of another priority.

        Args:
            limit: of their messages.
            most_bytes: once messages reach this size, no further one follows.

        Returns the runs, and what is left of ``most_bytes``: nothing if no other packets wait.
        """
        reader, lines, run = self.reader, self._lines.by_rank, self._run
        if self.pause is not None or self._suspect is not None or len(lines) != 1 or not reader.is_plain:
            return [], most_bytes
        if run is not None and run.next < run.end:
            return [], most_bytes
        self.end_run()
        its = reader.lines[lines[0].priority]
        if its.returned.coming or its.returned.passed or its.apart:
            return [], most_bytes
        packets, left_bytes = lines[0].take_whole(reader.next_place(its), limit, most_bytes)
        if not packets:
            return [], left_bytes
        its.next = packets[-1].last_place + 1
        self.notices.leases.open(packets)
        if not self._runs:
            self.notices.read[self] = None
        runs = [Run(packet, 0, packet.count, redelivered=False, drawn=True) for packet in packets]
        self._runs += runs
        return runs, left_bytes

    def _next_run(self, now_ms: int) -> Run | None:
        for line in self._lines.by_rank:
            run = self._next_run_of(line, now_ms)
            if run is not None:
                return run
            first, its = line.first(), self.reader.lines[line.priority]
            back = its.returned.coming
            if first is not None and not first.pieces and not (back and back[0][0] < its.next):
                # It is handed out when its body is in memory. Nothing of a lower priority passes it.
                return None
        return None

    def _next_run_of(self, line: Level, now_ms: int) -> Run | None:
        reader, its = self.reader, self.reader.lines[line.priority]
        returned, setbacks = its.returned, reader.setbacks
        until = 0
        if returned.coming or returned.passed:
            returned.handle_time(now_ms)
            self.set_resume(now_ms)
            if returned.coming:
                until = returned.coming[0][0]
                if until < its.next:
                    return reader.returned_run(its, now_ms)
        # A message that was chosen and came back stays in its place: older ones are first.
        while (packet := line.first()) is not None:
            if until and packet.first_place > until:
                break
            if not packet.pieces:
                return None
            first, end = reader.next_waiting(packet)
            if until and packet.first_place + first > until:
                break
            its.next = packet.first_place + first
            if first == packet.count:
                line.drop_first()
            elif its.next > line.limit:
                return None  # the rest may not go yet
            elif not setbacks.waits or (wait := self._wait_of(packet, first, now_ms)) is None:
                last = line.limit - packet.first_place + 1
                end = last if last < end else end
                return reader.run_of(packet, first, end, redelivered=packet.restored)
            elif wait.keep_order:
                return None
        return reader.returned_run(its, now_ms) if until else None

    def _wait_of(self, packet: QueuedPacket, index: int, now_ms: int) -> Wait | None:
        its, wait = self.reader.lines[packet.priority], self.reader.setbacks.wait_of(packet.first_place + index, now_ms)
        if wait is not None:
            its.next += 1
            its.returned.put(packet, index, wait)
            self.set_resume(now_ms)
        return wait

    def end_run(self) -> None:
        """End the open run; messages that were not drawn stay in the queue."""
        run, self._run = self._run, None
        if run is None:
            return
        run.stop()
        if run.killed and run.next > run.first:
            self._suspect = run.lease(run.first)
            self._look_at_suspect()
        packet, place = run.packet, run.packet.first_place
        its = self.reader.lines[packet.priority]
        if run.apart:
            # It was a returned message: the level itself continues where it was.
            if run.next == run.first:
                its.returned.put(packet, run.first, None)
            return
        its.next = place + run.next
        if run.next == packet.count:
            self._lines.of(packet).drop_first()

    def _look_at_suspect(self) -> None:
        """If the message that may have killed its reader is done, the next one of its kind may be handed out."""
        suspect = self._suspect
        if suspect is not None and self.reader.acked(suspect.packet) >> suspect.index & 1:
            self._suspect = None
            self.wake()

    def take_runs(self) -> list[Run]:
        """The runs that were handed out since the last call, in order. Ends the open run."""
        self.end_run()
        runs, self._runs = self._runs, []
        self.notices.idled[self] = None
        return [run for run in runs if run.next > run.first]

    # ---- out of turn

    def unindexed(self, after: int) -> Iterator[QueuedPacket]:
        """Waiting packets after a place, in order. Ends the open run."""
        self.end_run()
        return self._lines.walk(after + 1)

    def choose(self, place: int, pieces: Sequence[bytes], now_ms: int) -> Run | None:
        """Hand out the message at a place, whatever waits before it. ``pieces``: its packet, if only the disk has it.

        Returns a run of this message, already drawn; None when it is not there, has to wait, or the queue is paused.
        """
        self.end_run()
        reader = self.reader
        if self.pause is not None or reader.setbacks.wait_of(place, now_ms) is not None:
            return None
        back = next((packet for at, packet in reader.returned if at == place), None)
        packet = back or self._lines.find(place)
        if packet is None or packet.has_expired(now_ms):
            return None
        index = place - packet.first_place
        if back is not None:
            reader.keep_returned(lambda _, at: at != place)
        else:
            is_ready = self._lines.of(packet).supply(packet, pieces)
            if not packet.pieces or not reader.choose(packet, index):
                return None
            if is_ready:  # a temporary object gets no note, so that the death of its reader does not count
                self.notices.leases.open([packet])
        redelivered = packet.restored or back is not None
        run = reader.run_of(packet, index, index + 1, redelivered=redelivered, apart=True)
        run.draw()
        if not self._runs:
            self.notices.read[self] = None
        self._runs.append(run)
        return run

    def body_keys(self, place: int) -> Sequence[int]:
        """The keys of the bodies to fetch before the message at a place can be handed out; none if it is in memory."""
        packet = self._lines.find(place)
        return () if packet is None or packet.pieces else packet.keys

    # ---- coming back

    def acknowledge(self, lease: Lease) -> None:
        """A message is done. A second call does nothing."""
        self.notices.leases.let_go(lease.packet, 1 << lease.index)
        self.acknowledge_many([(lease.packet, 1 << lease.index)])

    def acknowledge_many(self, done: list[tuple[QueuedPacket, int]]) -> None:
        """Messages of packets are done, message i if bit i is set. A second call does nothing."""
        if self.owner is not None:
            self.owner.settle(done)
        elif len({(packet.origin, packet.delivery in DURABLE) for packet, _ in done}) == 1:
            self._acknowledge(done)
        else:
            for _, some in groupby(done, key=lambda it: (it[0].origin, it[0].delivery in DURABLE)):
                self._acknowledge(list(some))
        if self._suspect is not None:
            self._look_at_suspect()

    def _acknowledge(self, done: list[tuple[QueuedPacket, int]]) -> None:
        """The same for packets that count for the same account."""
        messages = packets = charged_bytes = 0
        notices = self.notices
        settled = notices.settled.get(self)
        if settled is None:
            settled = notices.settled[self] = {}
        reader, lengths = self.reader, self.lengths
        begun, setbacks, changed = reader.begun, reader.setbacks, self._changed
        for packet, bits in done:
            place = packet.first_place
            early = reader.chosen and place in reader.chosen
            fresh = reader.acknowledge(packet, bits)
            if not fresh:
                continue
            messages += (count := fresh.bit_count())
            lengths[packet.priority] -= count
            if place not in begun:  # the whole packet is done
                if early:
                    self.end_run()
                    self._lines.of(packet).remove(packet)
                if setbacks.failures or setbacks.waits:
                    setbacks.forget(packet.places)
                if packet.receive_by_ms:
                    self.set_deadline(packet, None)
                self.size_bytes -= packet.charged_bytes if packet.large else packet.size_bytes
                charged_bytes += packet.charged_bytes
                packets += packet.charged_bytes > 0
            if packet.keys:
                settled[packet] = settled.get(packet, 0) | fresh
                if not changed:
                    notices.dirty[self] = None
                changed[place] = packet
            elif self.journal and place not in begun:
                notices.taken.append((self, packet))
        if messages:
            self.length -= messages
            self.left += messages
            self.release(done[0][0], messages, charged_bytes, packets)

    def exclude(self, lease: Lease) -> None:
        """A message is about to be done that no reader acknowledged: its journal has no copy of it."""
        if self.journal and not self.reader.acked(lease.packet) >> lease.index & 1:
            excluded, place = self.reader.excluded, lease.packet.first_place
            excluded[place] = excluded.get(place, 0) | 1 << lease.index

    def count_failure(self, lease: Lease, *, died: bool = False) -> int:
        """A message could not be processed. Returns how often it has failed."""
        setbacks = self.reader.setbacks
        failures = setbacks.count_death(lease.place) if died else setbacks.count_failure(lease.place)
        self.note_change(lease.packet)
        return failures

    def note_told(self, packet: QueuedPacket) -> None:
        """The next commit tells the sender of a large message that it is stored."""
        if self.sink.keeps(packet) if self.sink is not None else not self.reader.is_done(packet):
            self.reader.told.add(packet.first_place)
            self.note_change(packet)

    def failures_of(self, lease: Lease) -> int:
        """Number of failures of a message, deaths of its reader included; 0 when its packet is done."""
        return self.reader.setbacks.failures.get(lease.place, 0)

    def note_returned(self, lease: Lease, *, overdue: bool) -> None:
        """A reader's message returns; see ``Owner``."""
        if self.owner is not None:
            self.owner.note_returned(lease, overdue=overdue)
        else:
            self.notices.returned.append((self.name, [lease]))

    def give_back(self, lease: Lease, wait: Wait | None = None) -> None:
        """Redeliver an unacknowledged message, before anything younger.

        ``wait`` begins now, may let younger messages pass, and is durable with the next commit.
        """
        packet, index = lease.packet, lease.index
        if self.reader.acked(packet) >> index & 1:
            return
        self.end_run()
        if self._suspect is not None and (self._suspect.packet, self._suspect.index) == (packet, index):
            self._suspect = None
        self.notices.leases.let_go(packet, 1 << index)
        self.reader.returned_to(packet).put(packet, index, wait)
        if packet.receive_by_ms:
            self.set_deadline(packet, packet.receive_by_ms)
        if wait is not None:
            self.reader.setbacks.waits[lease.place] = wait
            self.note_change(packet)
            self.set_resume(wait.until_ms - wait.length_ms)
        self.wake()

    def take_returned(self, lease: Lease) -> bool:
        """Remove a message that came back and was not handed out since. Returns whether it was such a message."""
        place, returned = lease.place, self.reader.returned_to(lease.packet)
        self.end_run()
        is_here = any(at == place for at, _ in returned.messages)
        if is_here:
            returned.keep(lambda _, at: at != place)
        return is_here

    def set_resume(self, now_ms: int) -> None:
        """Notify the listeners when the next wait ends."""
        self.notices.resuming.set(self, self.notices.wall.deadline_ns(self.reader.resume_ms(now_ms)))

    # ---- steering

    def waiting(self, after: tuple[int, int] = (0, 0)) -> Iterator[tuple[QueuedPacket, int]]:
        """The waiting messages that no reader has leased, in order. Ends the open run.

        Args:
            after: only messages after this rank and place; the highest priority has rank 0.

        Returns packets and indices; consume them before anything else happens to the queue.
        """
        self.end_run()
        after_rank, after_place = after
        for line in self._lines.by_rank:
            rank = rank_of(line.priority)
            if rank >= after_rank:
                yield from self._waiting_in(line, after_place if rank == after_rank else 0)

    def _waiting_in(self, line: Level, after: int) -> Iterator[tuple[QueuedPacket, int]]:
        """The same of one priority, after a place."""
        reader = self.reader
        back = sorted(reader.lines[line.priority].returned.messages)
        ahead = ((packet.first_place + index, packet) for packet in line.walk(after) for index in reader.ahead(packet))
        return ((packet, at - packet.first_place) for at, packet in merge_sorted(back, ahead) if at > after)

    def withdraw(self, wanted: Collection[int]) -> list[Lease]:
        """Remove those messages at these places that still wait, in order, as if they were acknowledged."""
        if not wanted:
            return []
        self.end_run()
        before, last = min(wanted) - 1, max(wanted)
        taken: list[Lease] = []
        for line in self._lines.by_rank:
            leases = (Lease(packet, index, packet.restored) for packet, index in self._waiting_in(line, before))
            taken += [lease for lease in takewhile(lambda one: one.place <= last, leases) if lease.place in wanted]
        self.notices.purged.append((self.name, taken))
        for lease in taken:
            self.exclude(lease)
            self.acknowledge(lease)
        self._forget_done(taken)
        return taken

    def drop_oldest(self, most: int) -> list[Lease]:
        """Remove the first messages that no reader has leased, in the order of reading. Returns them."""
        oldest = list(islice(self.waiting(), most))
        return self.withdraw({packet.first_place + index for packet, index in oldest})

    def _forget_done(self, taken: list[Lease]) -> None:
        """Removed messages must not be handed out, nor fetched from the disk."""
        reader = self.reader
        reader.keep_returned(lambda packet, place: not reader.acked(packet) >> (place - packet.first_place) & 1)
        for packet in {lease.packet.first_place: lease.packet for lease in taken}.values():
            if reader.is_done(packet):
                self._lines.of(packet).remove(packet)
        self.wake()

    # ---- expiring

    def set_deadline(self, packet: QueuedPacket | None, at_ms: int | None) -> None:
        """Set when a packet expires, in ms of the wall clock; for None, the next one that is only on the disk."""
        self.notices.expiring.set((self, packet), self.notices.wall.deadline_ns(at_ms))

    def poll_expired(self, now_ms: int, most: int) -> list[QueuedPacket]:
        """Expired packets that are only on the disk: ``expire`` them. More may be due."""
        return self._lines.poll_expired(now_ms, most)

    def expire(self, packets: Collection[QueuedPacket]) -> dict[QueuedPacket, list[int]]:
        """Hand out no more of these packets; leased messages stay leased.

        Returns the indices that no reader has leased: the queue has them no longer. Acknowledge them as dead letters.
        """
        self.end_run()
        reader = self.reader
        expired: dict[QueuedPacket, list[int]] = {packet: [] for packet in packets}
        for packet in packets:
            if self._lines.of(packet).remove(packet):
                expired[packet] += reader.ahead(packet)
        for place, packet in reader.returned:
            if packet in expired:
                expired[packet].append(place - packet.first_place)
        reader.keep_returned(lambda packet, _: packet not in expired)
        self.wake()
        expired = {packet: sorted(indices) for packet, indices in expired.items()}
        return expired if self.owner is None else self.owner.drop_expired(expired)

    # ---- the next commit

    def note_change(self, packet: QueuedPacket) -> None:
        """The next commit holds what was done with a packet."""
        if self.owner is not None:
            self.owner.note_change(packet)
            return
        if not self._changed:
            self.notices.dirty[self] = None
        self._changed[packet.first_place] = packet

    def take_changes(self) -> tuple[list[QueuedPacket], list[int]]:
        """The changes since the last call, for the next commit.

        Returns durable packets with messages that were acknowledged or failed, and keys of orphaned rows.
        """
        changed, self._changed = self._changed, {}
        orphans, self._orphans = self._orphans, []
        self.notices.idled[self] = None
        return [packet for packet in changed.values() if packet.keys], orphans


def rank_of(priority: int) -> int:
    """The rank of a priority in the order of reading: 0 for the highest."""
    return PRIORITY_MAX - priority
