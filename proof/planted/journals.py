"""Mistakes of journals: ``queues/journals/journals.py`` and ``queues/streams/sent_copies.py``."""

from typing import Any

from proof.planted.bug import Bugs, Patch
from triack.ordering.outgoing import StreamPacket
from triack.queues.journals.journals import Journals
from triack.queues.mailboxes.local_commit import LocalTurn
from triack.queues.mailboxes.mailbox import Mailbox, QueuedPacket
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.sent_copies import SentCopies

BUGS = Bugs()


@BUGS.by_seeds("a copy for a journal is in the commit after the one that deletes")
def _one_commit_late(patch: Patch) -> None:
    """A crash between the two loses the message."""
    keep = Journals.keep
    held: list[object] = []

    def late(self: Journals, turn: LocalTurn) -> None:
        fresh = [one for one in self.ready if not any(one is other for other in held)]
        self.ready = [one for one in self.ready if any(one is other for other in held)]
        keep(self, turn)
        if fresh:
            held.extend(fresh)
            turn.waiters.append(lambda _: self.ready.extend(fresh))

    patch.setattr(Journals, "keep", late)


@BUGS.by_seeds("a message that was sent is copied twice", SentCopies, "take")
def _copied_twice(
    take: Any, self: SentCopies, outgoing: OutgoingStream, entries: list[StreamPacket]
) -> list[StreamPacket]:
    take(self, outgoing, entries)
    return take(self, outgoing, entries)


@BUGS.by_seeds("what expired in a queue is in its journal", Journals, "take")
def _not_taken(take: Any, self: Journals, mailbox: Mailbox, packet: QueuedPacket) -> bool:
    mailbox.reader.excluded.pop(packet.first_place, None)
    return take(self, mailbox, packet)
