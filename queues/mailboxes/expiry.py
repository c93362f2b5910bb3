"""Messages that were not received in time go from their queue to the dead-letter queue ([MS-MQMQ] 2.2.19.2).

Promise: when the time to receive a waiting message ends, it is not handed out any more, whether the queue has readers
or not. It becomes a dead letter (``receive-timeout``) with the next commit that has room for it. A message that an
application has leased by then expires when it is given back. A packet without such a time costs nothing; one with it
costs an entry of a heap.

    WAITING --its time ends--> EXPIRED --its body is in memory--> a dead letter, in one commit
    OUT     --its time ends--> OUT --given back--> WAITING, and its time has ended

If the process dies before that commit, the next start finds the message again, expired.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from triack.base.reasons import DeadReason
from triack.base.session_log import Record
from triack.queues.fetching import Fetch, arrived, fetch_packets
from triack.queues.mailboxes.handed import as_runs, fields_of_runs
from triack.queues.mailboxes.local_commit import LocalTurn
from triack.queues.mailboxes.mailbox import Mailbox, Notices
from triack.queues.mailboxes.queued_packet import Lease, QueuedPacket
from triack.queues.schedule import Phase, Schedule

LETTERS_MAX = 200
"""Most dead letters in one commit, and packets that expire in one round: some milliseconds, which block the event loop.
"""


@dataclass(eq=False, repr=False)
class Expiry:
    """The expired messages of the queues, until they are dead letters.

    Args:
        dead_letter: moves a message to the dead-letter queue with the next commit: queue, message, reason, turn.

    Attributes:
        expired: messages that wait for their bodies or their commit.
    """

    notices: Notices
    dead_letter: Callable[[Mailbox, Lease, str, LocalTurn], None]
    record: Record

    def __post_init__(self) -> None:
        self.expired: deque[tuple[Mailbox, QueuedPacket, list[int]]] = deque()

    def register(self, schedule: Schedule) -> None:
        """Register when messages expire, and waits end."""
        schedule.timer(self.handle_timer, self.notices.expiring, self.notices.resuming)
        schedule.step(Phase.EXPIRE, self.dead_letter_expired, self.expired)
        schedule.source(self.poll_fetch, self.expired)

    def handle_timer(self, turn: LocalTurn) -> None:
        """Remove some expired messages from their queues, and let queues hand out what has waited long enough."""
        by_queue: dict[Mailbox, list[QueuedPacket]] = {}
        for mailbox, packet in self.notices.expiring.poll_due(turn.now_ns, LETTERS_MAX):
            found = mailbox.poll_expired(turn.now_ms, LETTERS_MAX) if packet is None else [packet]
            by_queue.setdefault(mailbox, []).extend(found)
        for mailbox, packets in by_queue.items():
            self.expire(mailbox, packets)
        for mailbox in self.notices.resuming.poll_due(turn.now_ns):
            mailbox.interrupt()

    def expire(self, mailbox: Mailbox, packets: list[QueuedPacket]) -> None:
        """Remove the messages of these packets that no reader has leased from their queue."""
        if mailbox.sink is not None:
            for one, packet in mailbox.sink.expire(packets):
                self.expire(one, [packet])
            return
        expired = mailbox.expire(packets)
        self.expired += [(mailbox, packet, indices) for packet, indices in expired.items() if indices]

    def forget(self, mailbox: Mailbox) -> None:
        """A subscription is about to end: its expired messages become no dead letters, and the log says so."""
        for of, packet, indices in self.expired:
            if of is mailbox and mailbox.owner is not None:
                mailbox.owner.note_expired(packet, indices)
        kept = [one for one in self.expired if one[0] is not mailbox]
        self.expired.clear()
        self.expired += kept

    def poll_fetch(self) -> Fetch | None:
        """A fetch of the bodies that are needed next, or None."""
        return fetch_packets((packet for _, packet, _ in self.expired), self._load)

    def _load(self, bodies: dict[int, bytes]) -> None:
        for packet, pieces in arrived((packet for _, packet, _ in self.expired), bodies):
            packet.pieces = pieces

    def dead_letter_expired(self, turn: LocalTurn) -> None:
        """Make dead letters of the next expired messages, with this commit."""
        letters = 0
        while self.expired and self.expired[0][1].pieces and letters < LETTERS_MAX:
            mailbox, packet, indices = self.expired.popleft()
            letters += len(indices)
            leases = [Lease(packet, index, packet.restored) for index in indices]
            # Log them before the commit: after a crash right after it there is no other trace of them.
            if mailbox.owner is not None:
                mailbox.owner.note_expired(packet, indices)
            else:
                for fields in fields_of_runs(mailbox.name, as_runs(leases)):
                    self.record("expired", turn.now_ns, **fields, receive_by_ms=packet.receive_by_ms)
            for lease in leases:
                self.dead_letter(mailbox, lease, DeadReason.RECEIVE_TIMEOUT, turn)
