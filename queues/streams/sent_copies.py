"""Which of the messages that this node has sent go into its journal (MSMQ's source journal).

Promise: a message that was sent with ``journal=True`` is copied once, in the commit that deletes it from its outgoing
stream, when the acknowledgement of its class frees it. A message for a queue of this node is copied in the commit that
puts it there. What became a dead letter is not copied, nor is what a relay answers for.

If the body of a packet is only on the disk when it is freed, it waits for its body, and its deletion waits with it. If
the node dies meanwhile it resends the packet, and the destination, which has it, acknowledges it again.

    FREED --all bodies are in memory--> a copy in the journal
    FREED --a body is on the disk--> MISSING --fetched--> a copy in the journal
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from triack.base.commit import key_of
from triack.base.errors import ProtocolError
from triack.base.names import LEVEL_END
from triack.ordering.outgoing import StreamPacket
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.messages import JOURNAL
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.outgoing_stream import OutgoingStream

KeepSent = Callable[[QueuedPacket, int, str], None]
"""Copies messages of a packet, given as bits, with the next commit; and where they were sent."""


@dataclass(slots=True)
class _Missing:
    """The packets of one message, or the one packet of several, whose bodies are only on the disk."""

    outgoing: OutgoingStream
    entries: list[StreamPacket]

    @property
    def is_here(self) -> bool:
        return all(entry.body is not None for entry in self.entries)


class SentCopies:
    """The freed packets of a node that its journal wants.

    Attributes:
        keep: gets what is to be copied.
        asking: outgoing streams to which a message was sent in this process that asks for a copy.
        waiting: messages whose bodies are only on the disk, the oldest first.
    """

    def __init__(self, node_id: bytes) -> None:
        self._node_id = node_id
        self.asking: dict[OutgoingStream, None] = {}
        self.waiting: deque[_Missing] = deque()
        self.keep: KeepSent = lambda *_: None

    def take(self, outgoing: OutgoingStream, entries: list[StreamPacket]) -> list[StreamPacket]:
        """Packets were freed, the parts of a large message together. Returns those that the next commit may delete."""
        done: list[StreamPacket] = []
        parts: list[StreamPacket] = []
        for entry in entries:
            parts.append(entry)
            if not entry.messages:
                continue  # the others of a large message follow
            if not entry.cares:
                done += parts
            elif all(part.body is not None for part in parts):
                self._copy(outgoing, parts)
                done += parts
            else:
                self.waiting.append(_Missing(outgoing, parts))
                outgoing.senders += 1
            parts = []
        return done

    def _copy(self, outgoing: OutgoingStream, parts: list[StreamPacket]) -> None:
        pieces = [part.body or b"" for part in parts]
        where = self._node_id, outgoing.stream_number, outgoing.sequence.sequence, parts[-1].number
        packet = QueuedPacket((), *where, outgoing.delivery, 1, sum(map(len, pieces)), pieces)
        try:
            content = packet.open()
        except ProtocolError:
            return  # the disk has changed it: it is unreadable
        packet.count = len(content.bodies)
        bits = sum(1 << at for at, own in enumerate(content.properties or ()) if own.get(JOURNAL) is True)
        if bits:
            below = content.topic
            destination = f"{outgoing.destination}{LEVEL_END}{below}" if below else outgoing.destination
            self.keep(packet, bits, destination)

    # ---- bodies on the disk

    def missing(self, limit: int) -> Iterator[tuple[OutgoingStream, StreamPacket]]:
        """The packets of the next ``limit`` messages whose bodies are only on the disk."""
        for item in islice(self.waiting, limit):
            yield from ((item.outgoing, entry) for entry in item.entries if entry.body is None)

    def complete(self, turn: Turn) -> None:
        """Copy the packets whose bodies have been read, and delete them, with the next commit."""
        while self.waiting and self.waiting[0].is_here:
            item = self.waiting.popleft()
            outgoing, entries = item.outgoing, item.entries
            self._copy(outgoing, entries)
            outgoing.senders -= 1
            turn.commit.outgoing_deletes += [
                (key, key) for entry in entries for key in (key_of(outgoing.stream_number, entry.number),)
            ]
            for entry in entries:
                entry.body = None
