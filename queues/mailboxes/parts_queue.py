"""The queue in which the parts of large bodies for another queue arrive; see ``large_bodies``. It has no readers."""

from collections.abc import Callable

from triack.base.names import StreamId
from triack.queues.body_head import HEAD, large_of
from triack.queues.mailboxes.large_bodies import ANNOUNCED_BYTES, Bodies
from triack.queues.mailboxes.mailbox import Mailbox, Notices
from triack.queues.mailboxes.progress import Progress
from triack.queues.mailboxes.queued_packet import QueuedPacket
from triack.queues.node_settings import Quota
from triack.queues.packing import part_bytes


def announced_bytes(head: bytes, size_bytes: int) -> int:
    """The size of the body that a packet announces, by its first ``HEAD_BYTES``; 0 for any other packet."""
    if not large_of(head) or part_bytes(size_bytes, 1) != ANNOUNCED_BYTES:
        return 0
    return int.from_bytes(head[HEAD.size : HEAD.size + ANNOUNCED_BYTES])


class PartsQueue(Mailbox):
    """The parts of the bodies for one queue; ``target`` gives that queue, if there is one.

    ``quota`` has the limits of that queue. Bodies that no message represents yet count for ``fill``.
    """

    __slots__ = ("_bodies", "_target")

    def __init__(
        self, queue_id: int, name: str, notices: Notices, quota: Quota, target: Callable[[], Mailbox | None]
    ) -> None:
        super().__init__(queue_id, name, notices, quota)
        self._bodies: Bodies = notices.bodies
        self._target = target

    def charge(self, packet: QueuedPacket, head: bytes, progress: Progress | None = None) -> None:
        """Reserve the room of a body with its announcement. Its parts count for nothing further."""
        if not packet.charged_bytes and (total_bytes := announced_bytes(head, packet.size_bytes)):
            packet.charged_bytes = packet.size_bytes
            self._bodies.reserve(packet.origin, self.fill, total_bytes)
        elif not large_of(head):
            super().charge(packet, head, progress)

    def _count(self, packet: QueuedPacket, messages: int, size_bytes: int, packets: int = 1) -> None:
        """Count nothing: a body has its room already."""

    def put(self, packet: QueuedPacket, head: bytes, progress: Progress | None = None) -> None:
        """Add a packet that is on the disk: an announcement, a notice that no more comes, a part or a piece of one."""
        ordinal = large_of(head)
        if not ordinal:
            super().put(packet, head, progress)
            return
        self.charge(packet, head)
        total_bytes = announced_bytes(head, packet.size_bytes)
        if not (total_bytes and self._bodies.announce(packet, ordinal, total_bytes, self.fill)):
            if not total_bytes:
                self._bodies.give_up((packet.origin, ordinal))
            self.discard(packet)
        self.notices.relieved[self] = None

    def _add(self, packet: QueuedPacket, progress: Progress | None) -> None:  # noqa: ARG002 - a part has none
        packet.pieces = []
        if not self._bodies.add(packet):
            self.discard(packet)

    @property
    def unfinished(self) -> list[StreamId]:
        """The streams that have an unfinished body, or an unfinished part."""
        return [*super().unfinished, *self._bodies.streams_of(self.fill)]

    def drop_stream(self, origin: bytes, stream: int) -> None:
        """A stream has ended: drop its unfinished body, and the unfinished part of that."""
        super().drop_stream(origin, stream)
        self._bodies.handle_end(StreamId(origin, stream))
        self.notices.relieved[self] = None

    def purge_bodies(self) -> int:
        """Free the bodies that no message represents. Returns how many there were."""
        self.notices.relieved[self] = None
        return self._bodies.purge(self.fill)

    @property
    def takes_runs(self) -> bool:
        """Packets are never put together: each has its own meaning."""
        return False

    @property
    def takes_arrivals(self) -> bool:
        """Whether messages may enter the queue of the messages."""
        target = self._target()
        return target is None or target.takes_arrivals

    @property
    def is_idle(self) -> bool:
        """Whether it has no bodies. Those that messages represent are its rows, too."""
        keeps_any = self._bodies.keeps_any(self.fill) or self._bodies.deletes_any
        return super().is_idle and not keeps_any and not self.partials

    def has_room_for(self, origin: bytes, total_bytes: int) -> bool:
        """Whether one more body fits, beside the messages and the other bodies."""
        target = self._target()
        coming, messages, used_bytes = self.fill.messages, self.fill.messages.value, self.fill.bytes.value
        if target is not None:
            messages += target.fill.messages.value
            used_bytes += target.fill.bytes.value
        full = (target is not None and target.fill.messages.is_full) or messages >= coming.limit
        return not full and used_bytes + total_bytes <= self.fill.bytes.limit and not self._bodies.is_full(origin)
