"""Mistakes with administration messages: ``queues/manager/administration.py`` and what calls it."""

from collections.abc import Iterable
from typing import Any

from proof.planted.bug import Bugs, Patch
from triack.base.delivery import Delivery
from triack.queues.admin_acks import Told
from triack.queues.body_head import fragment_range
from triack.queues.mailboxes.local_commit import LocalTurn
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.mailboxes.mailbox import Mailbox, QueuedPacket
from triack.queues.mailboxes.progress import Progress
from triack.queues.manager.administration import Administration
from triack.queues.message_classes import MessageClass
from triack.queues.packing import Unpacked
from triack.queues.streams.outgoing_stream import OutgoingStream

BUGS = Bugs()


@BUGS.by_seeds("an answer leaves before the commit that it tells of", Administration, "_way_to")
def _before_the_commit(
    way_to: Any, self: Administration, origin: bytes, queue: str, delivery: Delivery, *, seal: bool
) -> OutgoingStream | None:
    """As an express message; a crash repeats its cause, and with it the answer."""
    del delivery
    return way_to(self, origin, queue, Delivery.EXPRESS, seal=seal)


@BUGS.by_seeds("an answer is told again after a restart", Mailbox, "put")
def _after_a_restart(
    put: Any, self: Mailbox, packet: QueuedPacket, head: bytes, progress: Progress | None = None
) -> None:
    """Of each packet that a node finds on its disk, a node answers as if it had just come."""
    put(self, packet, head, progress)
    if packet.restored and packet.cares and fragment_range(head, packet.size_bytes) is None:
        self.notices.whole.append((self, packet))


@BUGS.by_seeds("readers are told of with the commit after theirs", LocalQueues, "tell_read")
def _one_commit_late(tell_read: Any, self: LocalQueues, turn: LocalTurn) -> None:
    """A crash between the two loses the answer."""
    before = getattr(LocalQueues, "late", {})
    LocalQueues.late = dict(self.untold)  # type: ignore[attr-defined]
    self.untold.clear()
    self.untold |= {packet: told for packet, told in before.items() if packet.keys}
    tell_read(self, turn)


@BUGS.by_seeds("senders are told what they did not ask for")
def _unasked(patch: Patch) -> None:
    """Those that want to know of the reader hear of the arrival."""
    tell = LocalQueues._tell

    def generous(
        self: LocalQueues,
        name: str,
        packet: QueuedPacket,
        content: Unpacked,
        indices: Iterable[int],
        message_class: MessageClass,
        now_ns: int,
    ) -> None:
        tell(self, name, packet, content, indices, message_class, now_ns)
        if message_class is MessageClass.ACK_REACH_QUEUE and content.properties is not None:
            properties = [{**own, "admin": {**own.get("admin", {}), "acks": 1}} for own in content.properties]
            asked = Unpacked(content.first_ordinal, 0, 0, content.bodies, properties)
            where = packet.origin, packet.stream, packet.sequence, packet.number
            self.tell(Told(*where, packet.delivery, name, asked, range(len(properties)), message_class), now_ns)

    patch.setattr(LocalQueues, "_tell", generous)
