"""Copies of what readers took from the queues of this node (MSMQ's target journal).

Promise: a message that a reader took is in its queue or in the journal, never in both and never in neither: one commit
deletes it there and adds it here. What expired, was purged, moved or became a dead letter is not copied. A journal has
a limit; what it cannot take is counted, and reading goes on.

A packet is copied when its last message is done. One whose body is only on the disk then, as another than a reader has
ended it, waits for its body, and the commit that deletes it waits with it.

    TAKEN --its body is here--> READY --the commit begins--> a copy in the journal
    TAKEN --its body is on the disk--> MISSING --fetched--> TAKEN
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from triack.base.commit import HEAD_BYTES, Read
from triack.base.delivery import DURABLE
from triack.base.errors import ProtocolError
from triack.base.news import JournalFull
from triack.base.reasons import DropReason
from triack.queues.mailboxes.handed import handed_fields, settled_runs
from triack.queues.mailboxes.local_commit import LocalTurn
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.mailboxes.queued_packet import QueuedPacket, bits_of, indices_of
from triack.queues.mailboxes.system_queues import DEAD_LETTER_STREAM, JOURNAL_PREFIX, journal_of
from triack.queues.node_settings import Journal
from triack.queues.packing import Outgoing, kept_until, pack_one

__all__ = ["JournalRead", "Journals"]

_Taken = tuple[Mailbox, QueuedPacket, int]
"""A packet that is done, and which of its messages readers took."""
FETCH_BYTES = 2 * 1024 * 1024
"""Bodies fetched from the store at a time, as a queue does for its readers."""
DROPPED_MAX = 1_000
"""Copies that give way in one commit beyond those that came: some milliseconds of work."""


class JournalRead(Read):
    """A read of bodies that a journal is to keep."""


class Journals:
    """The journals of one node.

    Args:
        queues: the queues of this node.
        is_low: whether the disk has less room than its reserve.
        drops: counts dropped copies, by reason.
        record: writes to the session log.
    """

    __slots__ = ("_drops", "_is_low", "_missing", "_names", "_news", "_queues", "_ready", "_record", "_told")

    def __init__(
        self,
        queues: LocalQueues,
        is_low: Callable[[], bool],
        drops: Counter[DropReason],
        record: Callable[..., None],
    ) -> None:
        self._queues = queues
        self._is_low = is_low
        self._drops = drops
        self._record = record
        # Packets that the next commit copies, and which of their messages.
        self._ready: list[_Taken] = []
        self._missing: dict[QueuedPacket, Mailbox] = {}
        self._news: list[JournalFull] = []
        self._told: set[str] = set()
        # The journals that got a copy in this process.
        self._names: dict[str, None] = {}
        queues.notices.keep_copy = self.take

    def take(self, mailbox: Mailbox, packet: QueuedPacket) -> bool:
        """Take a packet of a journaled queue that is done. Returns whether the next commit may delete it."""
        excluded = mailbox.reader.excluded
        taken = bits_of(range(packet.count)) & ~excluded.get(packet.first_place, 0)
        if taken and not packet.pieces:
            self._missing[packet] = mailbox
            return False
        excluded.pop(packet.first_place, None)
        if taken:
            self._ready.append((mailbox, packet, taken))
        return True

    # ---- bodies on the disk

    def poll_fetch(self) -> JournalRead | None:
        """The bodies that are needed next."""
        keys: list[int] = []
        size_bytes = 0
        for packet in self._missing:
            keys += packet.keys
            size_bytes += packet.size_bytes
            if size_bytes > FETCH_BYTES:
                break
        return JournalRead("messages", keys) if keys else None

    def handle_fetched(self, read: JournalRead) -> None:
        """Take the bodies that were asked for; the next commit deletes their packets."""
        for packet, mailbox in list(self._missing.items()):
            if all(key in read.bodies for key in packet.keys):
                del self._missing[packet]
                packet.pieces = [read.bodies[key] for key in packet.keys]
                mailbox.note_change(packet)

    # ---- the commit

    def handle_express(self, turn: LocalTurn) -> None:
        """Copy express packets, which need no commit."""
        taken = self._queues.notices.taken
        if taken:
            done, taken[:] = list(taken), []
            ready: list[_Taken] = []
            for mailbox, packet in done:
                excluded = mailbox.reader.excluded.pop(packet.first_place, 0)
                if bits := bits_of(range(packet.count)) & ~excluded:
                    ready.append((mailbox, packet, bits))
            self._keep(ready, turn)
            self.handle_committed()

    def keep(self, turn: LocalTurn) -> None:
        """The commit begins: add the copies of what it deletes."""
        if self._ready:
            ready, self._ready = self._ready, []
            self._keep(ready, turn)

    def _keep(self, ready: list[_Taken], turn: LocalTurn) -> None:
        for mailbox, some in groupby(ready, key=lambda one: one[0]):
            limits = self._queues.limits
            self._keep_of(mailbox, limits.queue_journal.get(mailbox.name, limits.journal), list(some), turn)

    def _keep_of(self, mailbox: Mailbox, limits: Journal, done: list[_Taken], turn: LocalTurn) -> None:
        name = journal_of(mailbox.name)
        journal = self._queues.make_queue(name, turn.commit)
        self._names[name] = None
        until_ms = 0 if limits.keep_s is None else turn.now_ms + round(limits.keep_s * 1_000)
        kept: list[tuple[QueuedPacket, int]] = []
        for _, packet, bits in done:
            count = bits.bit_count()
            if self._is_low() or (
                limits.when_full == "stop"
                and not journal.fill.takes(count, max(packet.size_bytes, packet.charged_bytes))
            ):
                self._drops[DropReason.JOURNAL_FULL] += count
                self._note(mailbox.name, [(packet, bits)], turn.now_ns, kept=False)
                self._tell(journal, limits.when_full)
            else:
                kept.append((packet, bits))
                if limits.when_full == "stop":
                    self._put(journal, [(packet, bits)], until_ms, turn)
        if limits.when_full != "stop":
            self._put(journal, kept, until_ms, turn)
        self._note(mailbox.name, kept, turn.now_ns, kept=True)

    def _put(self, journal: Mailbox, done: list[tuple[QueuedPacket, int]], until_ms: int, turn: LocalTurn) -> None:
        """Put copies into a journal; neighbours of one stream share a row of the store."""
        row: list[QueuedPacket] = []
        for packet, bits in done:
            whole = len(packet.pieces) == 1 and bits == bits_of(range(packet.count)) and not packet.large
            if not whole or packet.delivery not in DURABLE:
                self._put_row(journal, row, turn)
                row = []
                for body in _bodies_of(packet, bits, until_ms):
                    self._queues.put(journal.name, _copy(packet, packet.number, body), body[:HEAD_BYTES], turn)
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
            self._queues.add_rows(journal, row, None, turn)

    def _note(self, queue: str, done: Iterable[tuple[QueuedPacket, int]], now_ns: int, *, kept: bool) -> None:
        for fields in handed_fields(queue, settled_runs(dict(done)), in_arrival_order=True):
            del fields["redelivered"]
            self._record("journaled", now_ns, **fields, kept=kept)

    def handle_committed(self) -> None:
        """The copies are in their journals: drop the oldest of those that are over their quota."""
        for name in self._names:
            journal = self._queues.mailboxes.get(name)
            if journal is None:
                continue
            when_full = self._queues.when_full(name)
            if not journal.fill.is_full:
                self._told.discard(name)
                continue
            self._tell(journal, when_full)
            if when_full == "drop oldest":
                self._drop_oldest(journal)

    def _drop_oldest(self, journal: Mailbox) -> None:
        messages = journal.fill.messages
        while not journal.fill.fits(0, 0):
            dropped = journal.drop_oldest(max(1, min(messages.value - messages.limit, DROPPED_MAX)))
            if not dropped:
                return  # readers have all of them in hand
            self._drops[DropReason.JOURNAL_REPLACED] += len(dropped)

    # ---- the operator

    def _tell(self, journal: Mailbox, when_full: str) -> None:
        if journal.name not in self._told:
            self._told.add(journal.name)
            fill = journal.fill
            self._news.append(JournalFull(journal.name, fill.messages.value, fill.bytes.value, when_full))

    def take_news(self) -> list[JournalFull]:
        """News for the operator since the last call."""
        news, self._news = self._news, []
        return news

    @property
    def full(self) -> Iterator[tuple[str, str]]:
        """The journals without room, and what happens to further copies."""
        for name, journal in self._queues.mailboxes.items():
            if name.startswith(JOURNAL_PREFIX) and journal.fill.is_full:
                yield name, self._queues.when_full(name)


def _bodies_of(packet: QueuedPacket, bits: int, until_ms: int) -> list[bytes]:
    """The bodies of a copy: all pieces of a large message, or each message that was taken by itself."""
    if bits == bits_of(range(packet.count)):
        return [kept_until(piece, until_ms) for piece in packet.pieces]
    try:
        content = packet.open()
    except ProtocolError:
        return []  # no reader ever got it
    bodies: list[bytes] = []
    for index in indices_of(bits):
        properties = content.properties[index] if content.properties else None
        message = Outgoing(content.bodies[index], properties, receive_by_ms=until_ms)
        bodies.append(kept_until(pack_one(message, content.first_ordinal + index, content.sent_at_ms), until_ms))
    return bodies


def _copy(packet: QueuedPacket, number: int, body: bytes) -> QueuedPacket:
    """A packet of a journal: of no stream, under the ids of its messages."""
    return QueuedPacket((), packet.origin, DEAD_LETTER_STREAM, 1, number, packet.delivery, 1, len(body), [body])


def _follows(before: QueuedPacket, copy: QueuedPacket) -> bool:
    same = before.origin == copy.origin and before.delivery == copy.delivery
    return same and copy.number == before.number + 1
