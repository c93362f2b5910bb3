"""Copies of what readers acknowledged on this node, and of what it has sent (MSMQ's target and source journal).

Promise: a message that a reader has read is in its queue or in the journal, never in both and never in neither: one
commit deletes it there and adds it here. What expired, was purged, moved or became a dead letter is not copied. A
journal has a limit. What does not fit is counted, and reading continues. The same holds for messages that were sent
with ``journal=True`` and their outgoing stream, from which an acknowledgement frees them; ``streams/sent_copies.py``
finds these.

A packet is copied when its last message is done. If its body is only on the disk then, because another than a reader
has ended it, it waits for its body, and the commit that deletes it waits with it.

    TAKEN --its body is in memory--> READY --the commit begins--> a copy in the journal
    TAKEN --its body is on the disk--> MISSING --fetched--> TAKEN
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from triack.base.commit import HEAD_BYTES, StoreContent
from triack.base.delivery import DURABLE
from triack.base.errors import ProtocolError
from triack.base.news import JournalFull, NodeEvent
from triack.base.reasons import DropReason
from triack.base.session_log import Record
from triack.queues.body_head import kept_until
from triack.queues.clock_jumps import ClockJumps
from triack.queues.fetching import Fetch, arrived, fetch_packets
from triack.queues.mailboxes.handed import fields_of_runs, settled_runs
from triack.queues.mailboxes.local_commit import LocalTurn
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.mailboxes.queued_packet import QueuedPacket, bits_of, indices_of
from triack.queues.mailboxes.quotas import Fill
from triack.queues.mailboxes.system_queues import (
    DEAD_LETTER_STREAM,
    SENT_JOURNAL,
    is_journal,
    journal_limits,
    journal_of,
)
from triack.queues.messages import SENT_TO
from triack.queues.packing import pack_again
from triack.queues.schedule import Phase, Restore, Schedule


class _Taken(NamedTuple):
    """A packet that is done, and which of its messages are to be copied.

    Attributes:
        queue: the queue of the readers; the journal itself for messages that were sent.
        sent_to: where they were sent; empty for those that were read here.
        passed: those of its messages that no reader has read, and that therefore are not copied.
    """

    queue: str
    packet: QueuedPacket
    bits: int
    sent_to: str = ""
    passed: int = 0


DROPPED_MAX = 1_000
"""Copies that one commit drops beyond those that it adds: some milliseconds of work."""


@dataclass(eq=False, repr=False)
class Journals:
    """The journals of one node.

    Args:
        is_low: whether the disk has less room than its reserve.

    Attributes:
        express: express packets that were sent, and which of their messages to copy: they need no commit.
        missing: packets to copy whose bodies are only on the disk, and their queues.
    """

    queues: LocalQueues
    is_low: Callable[[], bool]
    drops: Counter[DropReason]
    record: Record

    def __post_init__(self) -> None:
        # Packets that the next commit copies, and which of their messages.
        self.ready: list[_Taken] = []
        self.express: list[_Taken] = []
        self.missing: dict[QueuedPacket, Mailbox] = {}
        self.news: list[NodeEvent] = []
        self._told: set[str] = set()
        self._names: dict[str, None] = {}
        self.queues.notices.keep_copy = self.take

    def register(self, schedule: Schedule) -> None:
        """Register what is done for journals, and when."""
        schedule.restore(Restore.FILLED, self._restore)
        schedule.step(Phase.ADD, self.handle_express, self.queues.notices.taken, self.express)
        schedule.step(Phase.BEGIN, self.keep, self.ready)
        schedule.step(Phase.READS, self.handle_committed)
        schedule.source(self.poll_fetch, self.missing)
        schedule.tell(self.news)

    def _restore(self, _content: StoreContent, turn: LocalTurn, _jumps: ClockJumps) -> None:
        """Read the journals of the store: report those that are full, and keep them within their limits."""
        self._names = {name: None for name in self.queues.mailboxes if is_journal(name)}
        self.handle_committed(turn)

    def take(self, mailbox: Mailbox, packet: QueuedPacket) -> bool:
        """Note a done packet of a journaled queue. Returns whether the next commit may delete it."""
        excluded = mailbox.reader.excluded
        passed = excluded.get(packet.first_place, 0)
        taken = bits_of(range(packet.count)) & ~passed
        if taken and not packet.pieces:
            self.missing[packet] = mailbox
            return False
        excluded.pop(packet.first_place, None)
        self.ready.append(_Taken(mailbox.name, packet, taken, passed=passed))
        return True

    def keep_sent(self, packet: QueuedPacket, bits: int, sent_to: str) -> None:
        """Copy messages, given as bits, of a packet that was sent: the next commit deletes it, or puts it in its queue.

        ``packet`` has its body, and its number of messages. ``sent_to`` is their destination.
        """
        ready = self.ready if packet.delivery in DURABLE else self.express
        ready.append(_Taken(SENT_JOURNAL, packet, bits, sent_to))

    # ---- bodies on the disk

    def poll_fetch(self) -> Fetch | None:
        """A fetch of the bodies that are needed next, or None."""
        return fetch_packets(self.missing, self._load)

    def _load(self, bodies: dict[int, bytes]) -> None:
        for packet, pieces in list(arrived(self.missing, bodies)):
            packet.pieces = pieces
            self.missing.pop(packet).note_change(packet)

    # ---- the commit

    def handle_express(self, turn: LocalTurn) -> None:
        """Copy express packets, which need no commit."""
        taken = self.queues.notices.taken
        done, ready = list(taken), list(self.express)
        taken.clear()
        self.express.clear()
        for mailbox, packet in done:
            passed = mailbox.reader.excluded.pop(packet.first_place, 0)
            ready.append(_Taken(mailbox.name, packet, bits_of(range(packet.count)) & ~passed, passed=passed))
        self._keep(ready, turn)
        self.handle_committed(turn)

    def keep(self, turn: LocalTurn) -> None:
        """The commit begins: add the copies of what it deletes."""
        ready = list(self.ready)
        self.ready.clear()
        self._keep(ready, turn)

    def _keep(self, ready: list[_Taken], turn: LocalTurn) -> None:
        # What is copied was handed out before.
        self.queues.note_runs(turn)
        for queue, some in groupby(ready, key=lambda one: one.queue):
            self._keep_of(queue, list(some), turn)

    def _keep_of(self, queue: str, done: list[_Taken], turn: LocalTurn) -> None:
        name = queue if queue == SENT_JOURNAL else journal_of(queue)
        limits = journal_limits(name, self.queues.limits)
        journal = self.queues.make_queue(name, turn.commit)
        self._names[name] = None
        until_ms = 0 if limits.keep_s is None else turn.now_ms + round(limits.keep_s * 1_000)
        kept: list[_Taken] = []
        for one in done:
            if one.passed:
                self._note(queue, [one._replace(bits=one.passed)], turn.now_ns, kept=False)
            if not one.bits:
                continue
            size_bytes = max(one.packet.size_bytes, one.packet.charged_bytes)
            bits = _that_fit(one, size_bytes, journal.fill) if limits.when_full == "stop" else one.bits
            if self.is_low() or (limits.when_full != "drop oldest" and self._are_over(size_bytes)):
                bits = 0
            if lost := one.bits & ~bits:
                self.drops[DropReason.JOURNAL_FULL] += lost.bit_count()
                self._note(queue, [one._replace(bits=lost)], turn.now_ns, kept=False)
                self._tell(journal, limits.when_full)
            if bits:
                kept.append(one._replace(bits=bits))
                if limits.when_full == "stop":
                    self._put(journal, kept[-1:], until_ms, turn)
        if limits.when_full != "stop":
            self._put(journal, kept, until_ms, turn)
        self._note(queue, kept, turn.now_ns, kept=True)

    def _put(self, journal: Mailbox, done: list[_Taken], until_ms: int, turn: LocalTurn) -> None:
        """Put copies into a journal; neighbours of one stream share a row of the store."""
        row: list[QueuedPacket] = []
        for one in done:
            packet = one.packet
            whole = len(packet.pieces) == 1 and one.bits == bits_of(range(packet.count)) and not one.sent_to
            whole = whole and not packet.large
            if not whole or packet.delivery not in DURABLE:
                self._put_row(journal, row, turn)
                row = []
                for body in _bodies_of(one, until_ms):
                    self.queues.put(journal.name, _copy(packet, packet.number, body), body[:HEAD_BYTES], turn)
                continue
            body = kept_until(packet.pieces[0], until_ms)
            copy = _copy(packet, packet.number, body)
            copy.count, copy.sent_at_ms, copy.receive_by_ms = packet.count, packet.sent_at_ms, until_ms
            if row and not _follows(row[-1], copy):
                self._put_row(journal, row, turn)
                row = []
            row.append(copy)
        self._put_row(journal, row, turn)

    def _put_row(self, journal: Mailbox, row: list[QueuedPacket], turn: LocalTurn) -> None:
        if row:
            journal.charge_copies(row)
            self.queues.add_rows(journal, row, None, turn)

    def _note(self, queue: str, done: Iterable[_Taken], now_ns: int, *, kept: bool) -> None:
        for fields in fields_of_runs(queue, settled_runs({one.packet: one.bits for one in done})):
            self.record("journaled", now_ns, **fields, kept=kept)

    def handle_committed(self, _group: LocalTurn) -> None:
        """The copies are in their journals: drop the oldest of those that exceed their quota."""
        for name in self._names:
            journal = self.queues.mailboxes.get(name)
            if journal is None:
                continue
            when_full, are_over = self.queues.when_full(name), self._are_over()
            if not journal.fill.is_full and not are_over:
                self._told.discard(name)
                continue
            self._tell(journal, when_full)
            if when_full == "drop oldest":
                self._drop_oldest(journal)

    def _are_over(self, coming_bytes: int = 0) -> bool:
        """Whether all journals together exceed what a node may have in its queues, for which they do not count."""
        mailboxes = self.queues.mailboxes
        kept_bytes = sum([mailboxes[name].fill.bytes.value for name in self._names if name in mailboxes])
        return kept_bytes + coming_bytes > self.queues.limits.node_quota_bytes

    def _drop_oldest(self, journal: Mailbox) -> None:
        messages = journal.fill.messages
        while not journal.fill.fits(0, 0) or (messages.value and self._are_over()):
            dropped = journal.drop_oldest(max(1, min(messages.value - messages.limit, DROPPED_MAX)))
            if not dropped:
                return  # readers have leased all of them
            self.drops[DropReason.JOURNAL_REPLACED] += len(dropped)

    # ---- the operator

    def _tell(self, journal: Mailbox, when_full: str) -> None:
        if journal.name not in self._told:
            self._told.add(journal.name)
            fill = journal.fill
            self.news.append(JournalFull(journal.name, fill.messages.value, fill.bytes.value, when_full))

    @property
    def full(self) -> Iterator[tuple[str, str]]:
        """The journals without room, and what happens to further copies."""
        are_over = self._are_over()
        for name, journal in self.queues.mailboxes.items():
            when_full = self.queues.when_full(name)
            if is_journal(name) and (_is_full(journal, when_full) or (are_over and journal.length)):
                yield name, when_full


def _is_full(journal: Mailbox, when_full: str) -> bool:
    """Whether a journal accepts no more; one that stops makes copies again as soon as the smallest one fits."""
    return not journal.fill.fits(1, 1) if when_full == "stop" else journal.fill.is_full


def _that_fit(one: _Taken, size_bytes: int, fill: Fill) -> int:
    room = fill.messages.limit - fill.messages.value
    if room <= 0 or not fill.fits(0, size_bytes):
        return 0
    return sum(1 << index for index in indices_of(one.bits)[:room])


def _bodies_of(one: _Taken, until_ms: int) -> list[bytes]:
    """The bodies of a copy: all pieces of a large message, or the messages that are to be copied."""
    packet = one.packet
    if one.bits == bits_of(range(packet.count)) and not one.sent_to:
        return [kept_until(piece, until_ms) for piece in packet.pieces]
    try:
        content = packet.open()
    except ProtocolError:
        return []  # no reader ever got it
    return pack_again(content, indices_of(one.bits), {SENT_TO: one.sent_to} if one.sent_to else {}, until_ms)


def _copy(packet: QueuedPacket, number: int, body: bytes) -> QueuedPacket:
    """A packet of a journal: of no stream, under the ids of its messages."""
    return QueuedPacket((), packet.origin, DEAD_LETTER_STREAM, 1, number, packet.delivery, 1, len(body), [body])


def _follows(before: QueuedPacket, copy: QueuedPacket) -> bool:
    same = before.origin == copy.origin and before.delivery == copy.delivery
    return same and copy.number == before.number + 1
