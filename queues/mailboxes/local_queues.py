"""The queues of this node, and the messages that enter and leave them.

Promise: an application gets a message only after the commit that holds it has returned. A message that is acknowledged,
given back or expired leaves the queue in one commit with its consequences, such as a dead letter.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter

from triack.base.clock import UNSET_BEFORE_MS, WallClock
from triack.base.commit import HEAD_BYTES, KEY_BITS, Commit, MessageIndex, MessageRow, StoreContent, key_of, split_key
from triack.base.delivery import Delivery
from triack.base.errors import AddressError, ProtocolError
from triack.base.names import TOPIC_PREFIX, StreamId, check_name
from triack.base.news import DeadLettersWaiting
from triack.base.ranges import as_ranges
from triack.base.reasons import EXPIRED, DeadReason, DropReason
from triack.base.session_log import Record, record_nothing
from triack.queues.admin_acks import Tell, Told, nobody_told
from triack.queues.body_head import cares_of, fragment_range, read_plain
from triack.queues.clock_jumps import ClockJumps, head_here
from triack.queues.fetching import Fetch
from triack.queues.histogram import WAIT_BOUNDS_S, Histogram
from triack.queues.mailboxes.expiry import LETTERS_MAX, Expiry
from triack.queues.mailboxes.handed import as_runs, fields_of_runs, handed_fields, settled_runs
from triack.queues.mailboxes.large_bodies import Bodies
from triack.queues.mailboxes.leases import Leases
from triack.queues.mailboxes.local_commit import LocalCommit, LocalTurn
from triack.queues.mailboxes.mailbox import Lease, Mailbox, Notices, QueuedPacket
from triack.queues.mailboxes.parts_queue import PartsQueue
from triack.queues.mailboxes.priority_queue import Cache
from triack.queues.mailboxes.progress import Progress
from triack.queues.mailboxes.queued_packet import SIZE_OF, indices_of
from triack.queues.mailboxes.quotas import Account, PayerOf
from triack.queues.mailboxes.redelivery import Return, Wait, wait_after_death_ms, wait_ms
from triack.queues.mailboxes.run import Run
from triack.queues.mailboxes.system_queues import (
    DEAD_LETTER_QUEUE,
    DEAD_LETTER_STREAM,
    SENT_JOURNAL,
    STANDING_QUEUES,
    SUBSCRIPTIONS_QUEUE,
    is_journal,
    is_reserved,
    is_subscribed,
    journal_limits,
    journal_of,
    large_queue,
    large_target,
    owner_of,
    system_queue,
)
from triack.queues.message_classes import MessageClass, class_at_queue
from triack.queues.messages import (
    CLASS,
    DEAD_LETTER,
    DEATH,
    MAX_PROPERTIES_BYTES,
    NO_DEAD_LETTER,
    LargeMessage,
    Outgoing,
    Properties,
    write_properties,
)
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.queues.packing import Unpacked, pack_one, unpack
from triack.queues.pauses import Pauses
from triack.queues.schedule import Phase, Restore, Schedule
from triack.queues.set_quotas import SetQuotas

ALIKE_MAX = 1_024
"""Packets that are restored together, to share what is done once for all of them."""


class LocalQueues:
    """All queues of a node.

    Args:
        declared: the only queues besides the system queues, or None to create a queue on arrival.
        words: memory for the notes of leases; None for no notes.

    Attributes:
        is_fixed: whether only declared queues may exist.
        waiting: packets in memory that wait for their commit.
        removed: ids of queues whose rows the next commit deletes.
        declined_letters: number of messages that were given up without a dead letter, as their senders want none, by
            reason.
        waits: from sending to the first lease, by the senders' clocks and this node's.
        make_topic: makes the queue in which the messages of a topic arrive, of its number and its name.
        windows: the messages that such a queue accepts, by its name; that subscription continues.
        untold: packets that care which messages were acknowledged since the last commit began: their queue, and which
            messages.
        tell: gets what happens to messages whose senders may want to know.
        admits: whether a node may send to a local queue, by the queue's name, its stream there, and whether that comes
            sealed.
        may_leave: whether a node may have its dead letters put into a queue, by its id and the queue's name.
    """

    def __init__(
        self,
        settings: NodeSettings,
        declared: list[str] | None,
        wall: WallClock,
        drops: Counter[DropReason],
        record: Record,
        payer_of: PayerOf,
        *,
        words: memoryview | None = None,
    ) -> None:
        limits = settings.limits
        self._settings = settings
        self._declared = declared or []
        self.is_fixed = declared is not None
        self._wall = wall
        self._drops = drops
        self._record = record
        self.leases = Leases(words)
        self.pauses = Pauses()
        self.set_quotas = SetQuotas()
        self.mailboxes: dict[str, Mailbox] = {}
        self._next_queue_id = 1
        self.notices = Notices(
            drops,
            wall=wall,
            disk=Account(limits.peer_quota_bytes, limits.node_quota_bytes, payer_of),
            express=Account(limits.peer_memory_bytes // 4, limits.memory_bytes // 4, payer_of),
            cache=Cache(settings.body_cache_bytes),
            leases=self.leases,
            bodies=Bodies(
                Account(limits.peer_quota_bytes, limits.node_quota_bytes, payer_of),
                Account(limits.peer_memory_bytes // 4, limits.memory_bytes // 4, payer_of),
                drops,
            ),
        )
        self.bodies = self.notices.bodies
        self.waiting = Account(limits.peer_memory_bytes // 4, limits.memory_bytes // 4, payer_of)
        self.expiry = Expiry(self.notices, self.dead_letter, record)
        self.removed: list[int] = []
        self._freeing: Commit | None = None
        self.dead_letters: Counter[str] = Counter()
        self.waits = Histogram(WAIT_BOUNDS_S)
        self.declined_letters: Counter[str] = Counter()
        # Whether the operator was told that there are many dead letters.
        self._warned = False
        self.on_removed: Callable[[str], None] = lambda _: None
        self.make_topic: Callable[[int, str], Mailbox] = partial(Mailbox, notices=self.notices)
        self.windows: dict[str, int] = {}
        self.untold: dict[QueuedPacket, tuple[str, int]] = {}
        self.tell: Tell = nobody_told
        self.may_leave: Callable[[bytes, str], bool] = lambda *_: True
        self.admits: Callable[[str, StreamId, bool], bool] = lambda *_: True

    def register(self, schedule: Schedule) -> None:
        """Register what queues do, and when."""
        notices, bodies = self.notices, self.bodies
        schedule.restore(Restore.QUEUES, self.restore)
        self.expiry.register(schedule)
        schedule.step(Phase.ANSWER, self.tell_read, self.untold)
        schedule.step(Phase.ADD, self.complete, notices.dirty, self.removed, bodies.at_once, bodies.dying)
        schedule.step(Phase.FREE, bodies.free_left, bodies.left, bodies.at_once, bodies.dying)
        schedule.step(Phase.NOTE_COMMIT, self.note_settled, notices.settled, notices.left)
        schedule.step(Phase.READS, self.handle_committed)
        schedule.step(Phase.NOTE, self.note_runs, notices.read, notices.returned, notices.purged)
        schedule.source(self.poll_fetch, notices.wanting)
        schedule.tell(notices.news)

    # ---- starting

    def restore(self, content: StoreContent, turn: LocalTurn, jumps: ClockJumps) -> None:
        """Restore the queues from the store, and create the declared ones."""
        self.pauses.restore(content.state)
        self.set_quotas.restore(content.state)
        for queue_id, name in content.queues:
            self.mailboxes[name] = self._new_mailbox(queue_id, name)
            self._next_queue_id = max(self._next_queue_id, queue_id + 1)
        by_id = {mailbox.queue_id: mailbox for mailbox in self.mailboxes.values()}
        for name in (*self._declared, *STANDING_QUEUES):
            self.make_queue(name, turn.commit)
        for alike in _alike(self._bodies_first(content, by_id), content.left):
            queue_id, last = split_key(alike[-1][0].key)
            mailbox = by_id[queue_id]
            mailbox.next_position = max(mailbox.next_position, last + 1)
            if len(alike) > 1 and mailbox.takes_runs:
                if jumps.any or alike[0][2] < UNSET_BEFORE_MS:
                    alike = [(it, count, jumps.date_queued(at_ms, turn.now_ms)) for it, count, at_ms in alike]  # noqa: PLW2901
                mailbox.put_restored(alike)
                continue
            for index, *_ in alike:
                self._restore_one(index, mailbox, content, turn, jumps)
        for mailbox in self.mailboxes.values():
            mailbox.restored = mailbox.length
            if not is_journal(mailbox.name) and system_queue(mailbox.name) is None:
                self._set_journal(mailbox)
        if self.notices.settles:
            turn.waiters.append(self._handle_settled)
        else:
            self.leases.forget_left()

    def _restore_one(
        self, index: MessageIndex, mailbox: Mailbox, content: StoreContent, turn: LocalTurn, jumps: ClockJumps
    ) -> None:
        packet = QueuedPacket(
            keys=range(index.key, index.key + 1),
            origin=index.origin,
            stream=index.stream,
            sequence=index.sequence,
            number=index.number,
            delivery=Delivery(index.delivery),
            count=1,
            size_bytes=index.size_bytes,
            pieces=[],
            restored=True,
            first_place=index.place,
            topic=index.topic,
        )
        progress: Progress | None = None
        if index.progress is not None:
            progress = Progress.decode(index.progress, index.number, turn.now_ms, jumps.by_ms)
        if index.key in content.left:
            progress = progress or Progress()
            self._count_left(mailbox.name, progress, *content.left[index.key], turn.now_ms)
            self.notices.settles = True
        if progress is not None and (encoded := progress.encode()) != index.progress:
            # Store the corrected waits: no further start derives them from the clock again.
            turn.commit.progress[index.key] = encoded
        mailbox.put(packet, head_here(jumps.move_queued(index.head), turn.now_ms), progress)

    def _bodies_first(self, content: StoreContent, by_id: dict[int, Mailbox]) -> Iterator[MessageIndex]:
        """All packets; those of large bodies before the messages that represent them."""
        parts_queues = {queue_id for queue_id, mailbox in by_id.items() if isinstance(mailbox, PartsQueue)}
        for first in (True, False) if parts_queues else ():
            yield from (index for index in content.messages if (split_key(index.key)[0] in parts_queues) is first)
        if not parts_queues:
            yield from content.messages

    def _count_left(self, queue: str, progress: Progress, held: int, acked: int, now_ms: int) -> None:
        progress.left = acked & ~progress.acked
        progress.acked |= acked
        redelivery, setbacks = self._settings.redelivery_of(queue), progress.setbacks
        for index in indices_of(held & ~progress.acked):
            length_ms = wait_after_death_ms(redelivery, setbacks.count_death(index))
            if length_ms:
                setbacks.waits[index] = Wait(now_ms + length_ms, length_ms, redelivery.keep_order)

    def _handle_settled(self, error: Exception | None) -> None:
        if error is None:
            self.notices.settles = False
            self.leases.forget_left()
            for mailbox in self.mailboxes.values():
                mailbox.wake()

    # ---- which queues there are

    def make_queue(self, name: str, commit: Commit) -> Mailbox:
        """The queue of that name, created with the next commit if there is none."""
        mailbox = self.mailboxes.get(name)
        if mailbox is None:
            if len(self.mailboxes) >= self._settings.max_queues:
                self.make_room()
            # A removed queue gets a new number: rows under the old one may still have to be deleted.
            mailbox = self.mailboxes[name] = self._new_mailbox(self._next_queue_id, name)
            self._next_queue_id += 1
            commit.queues.append((mailbox.queue_id, name))
            self._handle_made(name)
        return mailbox

    def _handle_made(self, name: str) -> None:
        """A queue was made: if it is a journal, its owner may have to wait for its room."""
        owner = self.mailboxes.get(owner_of(name))
        if owner is not None:
            self._set_journal(owner)

    def _new_mailbox(self, queue_id: int, name: str) -> Mailbox:
        limits, system, notices = self._settings.limits, system_queue(name), self.notices
        if name.startswith(TOPIC_PREFIX) or is_subscribed(name) or name == SUBSCRIPTIONS_QUEUE:
            notices.topical[:] = [name]
        if name.startswith(TOPIC_PREFIX):
            return self.make_topic(queue_id, name)
        if is_subscribed(name):
            return Mailbox(queue_id, name, self.notices, self.quota_of(name))
        if target := large_target(name):
            return PartsQueue(queue_id, name, self.notices, self.quota_of(target), partial(self.mailboxes.get, target))
        if system is None:
            mailbox = Mailbox(queue_id, name, self.notices, self.quota_of(name))
            mailbox.pause = self.pauses.of_queue(name)
            self._set_journal(mailbox)
            return mailbox
        return Mailbox(
            queue_id,
            name,
            self.notices,
            system.quota(limits),
            is_apart=system.is_apart,
            in_arrival_order=system.in_arrival_order,
        )

    def quota_of(self, name: str) -> Quota:
        """Limits of a queue: those that an operator has set, or else those of the settings."""
        if is_subscribed(name):
            quota = self._settings.quota_of(name)
            return replace(quota, messages=self.windows.get(name, quota.messages), when_full="hold")
        return self.set_quotas.by_name.get(name) or self._settings.quota_of(name)

    def when_full(self, name: str) -> str:
        """What happens to messages for a queue that is full."""
        is_letters = name == DEAD_LETTER_QUEUE
        if is_journal(name):
            return journal_limits(name, self._settings.limits).when_full
        return self._settings.limits.dead_letters.when_full if is_letters else self.quota_of(name).when_full

    def handle_quota(self, name: str) -> None:
        """The quota of a queue was set; what is in it stays there."""
        if (parts := self.mailboxes.get(large_queue(name))) is not None:
            parts.fill.set_quota(self.quota_of(name))
        if (mailbox := self.mailboxes.get(name)) is not None:
            mailbox.fill.set_quota(self.quota_of(name))
            mailbox.fill.is_told = mailbox.fill.is_told and mailbox.fill.is_full
        self.notices.relieved[self] = None

    @property
    def holds_copies(self) -> bool:
        """Whether messages wait for room in a journal that is set to hold them."""
        journal = self.mailboxes.get(SENT_JOURNAL)
        return journal is not None and journal.fill.is_full and self.limits.journal.when_full == "hold"

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self._settings.limits

    def _set_journal(self, mailbox: Mailbox) -> None:
        journal = self._settings.limits.queue_journal.get(mailbox.name)
        mailbox.journal = journal is not None
        holds = journal is not None and journal.when_full == "hold"
        mailbox.holder = self.mailboxes.get(journal_of(mailbox.name)) if holds else None

    def handle_paused(self, name: str) -> None:
        """A queue of this node was paused or resumed."""
        mailbox = self.mailboxes[name]
        mailbox.pause = self.pauses.of_queue(name)
        mailbox.interrupt()
        self.notices.relieved[self] = None

    def handle_settings(self, settings: NodeSettings) -> None:
        """Other quotas and other waits of failed messages are in force; what is in the queues stays there."""
        self._settings = settings
        limits = settings.limits
        self.notices.disk.set_limits(limits.peer_quota_bytes, limits.node_quota_bytes)
        self.bodies.held.set_limits(limits.peer_quota_bytes, limits.node_quota_bytes)
        for mailbox in self.mailboxes.values():
            system, target = system_queue(mailbox.name), large_target(mailbox.name)
            if system is None or target or is_subscribed(mailbox.name):
                mailbox.fill.set_quota(self.quota_of(target or mailbox.name))
            else:
                mailbox.fill.set_quota(system.quota(limits))
            if system is None:
                self._set_journal(mailbox)
        self.notices.relieved[self] = None

    def make_room(self) -> None:
        """Remove the empty queues that have no listeners."""
        kept = (*STANDING_QUEUES, *self._declared, *self.windows)
        idled, self.notices.idled = self.notices.idled, {}
        for mailbox in idled:
            name = mailbox.name
            if mailbox.is_idle and name not in kept and self.mailboxes.get(name) is mailbox:
                self.removed.append(self.mailboxes.pop(name).queue_id)
                self._handle_made(name)
                self.on_removed(name)
            elif isinstance(mailbox, PartsQueue) and self.mailboxes.get(name) is mailbox:
                self.notices.keeping[mailbox] = None

    def drop_queue(self, name: str) -> bool:
        """Purge a queue that has ended, and remove it. Returns whether it is gone."""
        mailbox = self.mailboxes.get(name)
        if mailbox is None:
            return True
        while mailbox.drop_oldest(LETTERS_MAX):
            pass
        if mailbox.is_idle:
            self.removed.append(self.mailboxes.pop(name).queue_id)
            self.on_removed(name)
        return name not in self.mailboxes

    # ---- arrivals

    def put(self, name: str, packet: QueuedPacket, head: bytes, turn: LocalTurn) -> None:
        """Put a packet into a queue: an express one now, any other with the next commit. ``head`` begins its body."""
        mailbox = self.make_queue(name, turn.commit)
        mailbox.charge(packet, head)
        if cares_of(head) and fragment_range(head, packet.size_bytes) is None:
            content = unpack(packet.pieces[0])
            indices = range(len(content.bodies))
            self._tell(name, packet, content, indices, MessageClass.ACK_REACH_QUEUE, turn.now_ns)
        if packet.delivery == Delivery.EXPRESS:
            mailbox.put(packet, head)
            return
        self.add_rows(mailbox, [packet], head, turn)

    def add_rows(self, mailbox: Mailbox, packets: list[QueuedPacket], head: bytes | None, turn: LocalTurn) -> None:
        """Put successive packets that were charged into the next commit; see ``LocalCommit.queued``."""
        first, first_key = packets[0], key_of(mailbox.queue_id, mailbox.next_position)
        for key, packet in enumerate(packets, first_key):
            packet.keys = range(key, key + 1)
        bodies = [packet.pieces[0] for packet in packets]
        turn.commit.messages.append(
            MessageRow(
                first_key,
                first.origin,
                first.stream,
                first.sequence,
                first.number,
                bodies,
                first.delivery,
                first.topic,
                first.first_place,
            )
        )
        mailbox.next_position += len(packets)
        self.waiting.add(packets[0].origin, sum(map(SIZE_OF, packets)))
        turn.queued.append((mailbox, packets, head))

    # ---- what senders want to know

    def tell_whole(self, mailbox: Mailbox, packet: QueuedPacket, now_ns: int) -> None:
        """A large message is in its queue, whole, since the last commit or an earlier one."""
        mailbox.note_told(packet)
        self._tell(mailbox.name, packet, packet.open(), (0,), MessageClass.ACK_REACH_QUEUE, now_ns)

    def note_read(self, mailbox: Mailbox, done: list[tuple[QueuedPacket, int]]) -> None:
        """Messages are about to be acknowledged. The next commit tells their senders."""
        for packet, bits in done:
            if packet.cares and not mailbox.subscription:
                fresh = bits & ~mailbox.reader.acked(packet)
                if fresh and not is_reserved(mailbox.name):
                    _, before = self.untold.get(packet, ("", 0))
                    self.untold[packet] = mailbox.name, before | fresh

    def take(self, mailbox: Mailbox, done: list[tuple[QueuedPacket, int]]) -> None:
        """Messages that a transaction received are done when its commit returns, and no earlier."""
        self.note_read(mailbox, done)
        for packet, bits in done:
            self.leases.let_go(packet, bits)
        mailbox.acknowledge_many(done)

    def tell_read(self, turn: LocalTurn) -> None:
        """The next commit begins: tell the senders of acknowledged messages with it."""
        untold = list(self.untold.items())
        self.untold.clear()
        for packet, (name, bits) in untold:
            self._tell(name, packet, packet.open(), indices_of(bits), MessageClass.ACK_RECEIVE, turn.now_ns)

    def _tell(
        self,
        name: str,
        packet: QueuedPacket,
        content: Unpacked,
        indices: Iterable[int],
        message_class: MessageClass,
        now_ns: int,
    ) -> None:
        if not is_reserved(name):
            where = packet.origin, packet.stream, packet.sequence, packet.number
            self.tell(Told(*where, packet.delivery, name, content, indices, message_class), now_ns)

    # ---- dead letters

    def put_dead_letter(self, message: Outgoing, origin: bytes, ordinal: int, turn: LocalTurn) -> None:
        """Keep, with the next commit and under its own id, a message that ended before it arrived."""
        if CLASS in (message.properties or {}):
            self._drops[DropReason.ADMIN_ACK_LOST] += 1
            return
        self._keep_letter(message, origin, ordinal, turn)

    def _keep_letter(self, message: Outgoing, origin: bytes, ordinal: int, turn: LocalTurn) -> None:
        """Keep an undeliverable message, unless its sender, or the settings of this node, want no dead letter of it."""
        properties = message.properties or {}
        if NO_DEAD_LETTER in properties and origin == self.notices.disk.own:
            self._drops[DropReason.REQUEST_ENDED] += 1
            return
        letters = self._settings.limits.dead_letters
        reason = str(properties["dead_reason"])
        if properties.get(DEAD_LETTER) is False:
            self._drops[DropReason.LETTER_DECLINED] += 1
            self.declined_letters[reason] += 1
            return
        self.dead_letters[reason] += 1
        if letters.when_full == "discard expired" and reason in EXPIRED:
            self._drops[DropReason.EXPIRED_DISCARDED] += 1
            return
        if len(write_properties(properties)) > MAX_PROPERTIES_BYTES:
            message.properties = {name: value for name, value in properties.items() if name in DEATH}
        body = pack_one(message, ordinal, turn.now_ms)
        packet = QueuedPacket((), origin, DEAD_LETTER_STREAM, 1, ordinal, Delivery.RECOVERABLE, 1, len(body), [body])
        own = self._own_letters(properties, origin, len(body))
        if own:
            self.put(own, packet, body[:HEAD_BYTES], turn)
            return
        if letters.when_full == "keep" and not self.mailboxes[DEAD_LETTER_QUEUE].fill.fits(1, len(body)):
            self._drops[DropReason.DEAD_LETTERS_FULL] += 1
            return
        self.put(DEAD_LETTER_QUEUE, packet, body[:HEAD_BYTES], turn)

    def _own_letters(self, properties: Properties, origin: bytes, size_bytes: int) -> str:
        """The queue that a sender wants for a dead letter, if it may have it there; else empty.

        If such a queue has no room, the dead-letter queue of the node keeps it, so that none is lost.
        """
        name = properties.get(DEAD_LETTER)
        try:
            if not isinstance(name, str) or is_reserved(name := check_name(name)) or not self.may_leave(origin, name):
                return ""
        except AddressError:
            return ""
        mailbox = self.mailboxes.get(name)
        if mailbox is not None:
            return name if mailbox.fill.fits(1, size_bytes) else ""
        if len(self.mailboxes) >= self._settings.max_queues:
            self.make_room()
        return "" if self.is_fixed or len(self.mailboxes) >= self._settings.max_queues else name

    def _drop_oldest_letters(self) -> None:
        mailbox = self.mailboxes[DEAD_LETTER_QUEUE]
        messages = mailbox.fill.messages
        while not mailbox.fill.fits(0, 0):
            dropped = mailbox.drop_oldest(max(1, min(messages.value - messages.limit, LETTERS_MAX)))
            if not dropped:
                return  # readers have leased all of them
            self._drops[DropReason.DEAD_LETTER_REPLACED] += len(dropped)

    @property
    def many_letters(self) -> int:
        """The number of dead letters, if it has reached ``DeadLetters.warn_at``; else 0."""
        value, limit = self.mailboxes[DEAD_LETTER_QUEUE].fill.messages.value, self._settings.limits.dead_letters.warn_at
        return value if value >= limit else 0

    def _count_letters(self) -> None:
        many = self.many_letters
        if many and not self._warned:
            self.notices.news.append(DeadLettersWaiting(DEAD_LETTER_QUEUE, many))
        waiting = self.mailboxes[DEAD_LETTER_QUEUE].fill.messages.value
        self._warned = bool(many) or (self._warned and 2 * waiting >= self._settings.limits.dead_letters.warn_at)

    # ---- commits

    def complete(self, group: LocalCommit) -> None:
        """Add to a commit what was acknowledged, failed or removed, before it goes to the disk."""
        for mailbox in self.notices.dirty:
            changed, gone = mailbox.take_changes()
            for packet in changed:
                if packet.first_place in mailbox.reader.done:
                    if mailbox.journal and not self.notices.keep_copy(mailbox, packet):
                        # Its body is read first. Until then the row says that all of it is done.
                        group.commit.progress[packet.keys[0]] = mailbox.reader.progress_of(packet).encode()
                        continue
                    gone += packet.keys
                    if packet.large:
                        self.bodies.note_left(packet.origin, packet.large)
                    if packet in self.leases.cells:
                        group.settled.append(packet)
                else:
                    group.commit.progress[packet.keys[0]] = mailbox.reader.progress_of(packet).encode()
            group.commit.message_deletes += as_ranges(sorted(gone))
        self.notices.dirty.clear()
        if self._freeing is not group.commit and (self.bodies.at_once or self.bodies.dying):
            # One commit deletes some of them, however often this is called for it.
            self._freeing = group.commit
            group.commit.message_deletes += self.bodies.poll_deletes()
            if self.notices.keeping and not self.bodies.deletes_any:
                self.notices.idled |= self.notices.keeping
                self.notices.keeping = {}
        if self.removed:
            commit, removed = group.commit, self.removed
            commit.queues = [row for row in commit.queues if row[0] not in removed]
            commit.queue_deletes += removed
            removed.clear()

    def handle_committed(self, group: LocalCommit) -> None:
        """The commit has returned: applications may see what it holds."""
        self.leases.close(group.settled)
        for mailbox, packets, head in group.queued:
            self.waiting.add(packets[0].origin, -sum(map(SIZE_OF, packets)))
            mailbox.put_all(packets, head)
            self.notices.relieved[mailbox] = None
        if self._warned or self.mailboxes[DEAD_LETTER_QUEUE].fill.messages.value:
            self._drop_oldest_letters()
            self._count_letters()

    # ---- bodies on the disk

    def poll_fetch(self) -> Fetch | None:
        """A fetch of the bodies that a queue needs next, or None."""
        wanting = self.notices.wanting
        while wanting:
            mailbox = next(iter(wanting))
            del wanting[mailbox]
            if (fetch := mailbox.poll_fetch()) is not None:
                return fetch
        return None

    # ---- returned messages

    def give_back(self, mailbox: Mailbox, lease: Lease, way: Return, turn: LocalTurn) -> None:
        """A message was not processed: redeliver it, or dead-letter it when it has failed too often."""
        if mailbox.owner is not None and mailbox.owner.handle_late(lease):
            return
        died = way.reason is DeadReason.READER_DIED
        failures = mailbox.count_failure(lease, died=died) if way.failed else 0
        system = system_queue(mailbox.name)
        if (way.dead and (system is None or system.gives_up)) or self.is_over(mailbox, failures):
            self.dead_letter(mailbox, lease, DeadReason.READER_REFUSED if way.dead else way.reason, turn)
            return
        redelivery = way.redelivery or self._settings.redelivery_of(mailbox.name)
        length_ms = (wait_after_death_ms if died else wait_ms)(redelivery, failures) if failures else 0
        if way.delay_ms is not None:
            length_ms = way.delay_ms
        wait = Wait(turn.now_ms + length_ms, length_ms, redelivery.keep_order) if length_ms else None
        mailbox.note_returned(lease, overdue=way.reason is DeadReason.HAND_OVER_TIMEOUT)
        mailbox.give_back(lease, wait)

    def is_over(self, mailbox: Mailbox, failures: int) -> bool:
        """Whether a message of a queue has failed too often to be handed out again."""
        system = system_queue(mailbox.name)
        return failures > self._settings.max_redeliveries and (system is None or system.gives_up)

    def why_dead(self, mailbox: Mailbox, run: Run) -> DeadReason | None:
        """Why the next message of a run is not handed out, or None."""
        packet = run.packet
        try:
            packet.open()
        except ProtocolError:
            return DeadReason.BAD_BODY
        # A dead letter may represent a body that never arrived, also in a queue that its sender has chosen.
        needs_body = packet.large and not is_reserved(mailbox.name) and packet.stream != DEAD_LETTER_STREAM
        if needs_body and not self.bodies.fits(packet):
            return DeadReason.BODY_LOST
        # A message that failed too often is dead at once; deaths of its readers are known only at the next start.
        if mailbox.reader.setbacks.deaths and run.killed and self.is_over(mailbox, run.failures_of(run.first)):
            return DeadReason.READER_DIED
        return None

    def dead_letter(self, mailbox: Mailbox, lease: Lease, reason: str, turn: LocalTurn) -> None:
        """Move a message from a queue to the dead-letter queue, or where its sender wants it, in one commit."""
        packet, index = lease.packet, lease.index
        if is_journal(mailbox.name):
            mailbox.acknowledge(lease)
            self._drops[DropReason.JOURNAL_EXPIRED] += 1
            return
        mailbox.exclude(lease)
        topic = packet.topic
        try:
            content = packet.open()
            topic = topic or content.topic or ""
            body, ordinal = content.bodies[index], content.first_ordinal + index
            origin = content.publisher or packet.origin
            properties = dict(content.properties[index]) if content.properties else {}
            priority = content.priority
            if packet.cares and not mailbox.subscription:
                self.tell_read(turn)  # in the order in which it happened
                self._tell(mailbox.name, packet, content, (index,), class_at_queue(reason), turn.now_ns)
        except ProtocolError:
            body, ordinal, properties, priority = b"".join(packet.pieces), packet.number, {}, packet.priority
            origin = packet.origin
        if "dead_reason" in properties:
            properties.pop(DEAD_LETTER, None)  # it has died before: it was there
        properties.update(dead_reason=reason, dead_attempts=mailbox.failures_of(lease))
        properties["dead_destination"] = f"{TOPIC_PREFIX}{topic}" if mailbox.subscription and topic else mailbox.name
        if mailbox.subscription:
            properties["dead_subscription"] = mailbox.subscription
        mailbox.acknowledge(lease)
        letter = Outgoing(body, properties, priority=priority)
        if packet.large:
            letter = LargeMessage(body, properties, priority=priority, ordinal=packet.large)
        self._keep_letter(letter, origin, ordinal, turn)

    # ---- the session log

    def note_runs(self, turn: LocalTurn) -> None:
        """Log what was handed out, came back or was purged since the last call. Ends every open run."""
        notices, now_ns = self.notices, turn.now_ns
        for mailbox in notices.read:
            handed = handed_fields(mailbox.name, mailbox.take_runs(), in_arrival_order=mailbox.in_arrival_order)
            for fields in handed if self._record is not record_nothing else ():
                self._record("handed", now_ns, **fields)
        notices.read.clear()
        for event, taken in (("returned", notices.returned), ("purged", notices.purged)):
            if not taken:
                continue
            for queue, several in groupby(taken, key=itemgetter(0)):
                self._note(event, queue, as_runs([lease for _, leases in several for lease in leases]), now_ns)
            taken.clear()

    def note_settled(self, turn: LocalTurn) -> None:
        """Log the messages that the commit that begins now removes from their queues, after their handing out."""
        notices, now_ns = self.notices, turn.now_ns
        if notices.read or notices.returned or notices.purged:
            self.note_runs(turn)
        for mailbox, left in notices.left.items():
            self._note("settled", mailbox.name, settled_runs(left), now_ns, recovered=True)
        notices.left.clear()
        for mailbox, settled in notices.settled.items() if self._record is not record_nothing else ():
            done: dict[QueuedPacket, int] = {}
            if mailbox.journal:
                done = {it: bits for it, bits in settled.items() if it.pieces and mailbox.reader.is_done(it)}
                self._note("settled", mailbox.name, settled_runs(done), now_ns, journaled=True)
            self._note("settled", mailbox.name, settled_runs(_without(settled, done)), now_ns)
        notices.settled.clear()

    def _note(self, event: str, queue: str, runs: Iterable[Run], now_ns: int, **more: bool) -> None:
        for fields in fields_of_runs(queue, runs):
            self._record(event, now_ns, **fields, **more)


def _without(settled: dict[QueuedPacket, int], done: dict[QueuedPacket, int]) -> dict[QueuedPacket, int]:
    return {packet: bits for packet, bits in settled.items() if packet not in done} if done else settled


def _alike(indices: Iterable[MessageIndex], left: Container[int]) -> Iterator[list[tuple[MessageIndex, int, int]]]:
    """Yield neighbours of a queue that differ only in their numbers, counts and sending times; all others singly.

    A packet of which an earlier process has done a part, or leased one, is single.
    """
    alike: list[tuple[MessageIndex, int, int]] = []
    before: object = None
    for index in indices:
        head, key = index.head, index.key
        plain = read_plain(head) if index.progress is None and key not in left else None
        if plain is None:
            if alike:
                yield alike
            yield [(index, 0, 0)]
            alike = []
            continue
        about = key >> KEY_BITS, head[0], index.origin, index.stream, index.sequence, index.delivery, index.topic
        if alike and (about != before or len(alike) == ALIKE_MAX):
            yield alike
            alike = []
        before = about
        alike.append((index, *plain))
    if alike:
        yield alike
