"""The next commit, and what becomes true when it has returned."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from triack.base.commit import Commit

if TYPE_CHECKING:
    from triack.ordering.outgoing import Entry
    from triack.queues.inbox import IncomingTransfer
    from triack.queues.link import Conversation
    from triack.queues.mailbox import Mailbox, QueuedPacket
    from triack.queues.outgoing_queue import OutgoingQueue

__all__ = ["GroupCommit"]


@dataclass(slots=True)
class GroupCommit:
    """The next commit, and what becomes true when it has returned.

    Attributes:
        stored: received packets, by conversation, whose content or position it holds: store-ack them.
        started: outgoing packets it holds: send them.
        arrived: packets for local queues it holds: hand them out.
        accepted: numbers of incoming streams it holds, as (sequence, number, messages completed).
        buried: outgoing packets whose messages it moves to the dead-letter queue, with the reason.
        waiters: who waits for it; called with None, or with the error that ended the store.
    """

    commit: Commit = field(default_factory=Commit)
    stored: dict["Conversation", list[int]] = field(default_factory=dict)
    started: list[tuple["OutgoingQueue", list["Entry"]]] = field(default_factory=list)
    arrived: list[tuple["Mailbox", "QueuedPacket", bytes]] = field(default_factory=list)
    accepted: dict["IncomingTransfer", list[tuple[int, int, int]]] = field(default_factory=dict)
    buried: list[tuple["OutgoingQueue", list["Entry"], str]] = field(default_factory=list)
    waiters: list[Callable[[Exception | None], None]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.commit or self.stored or self.waiters or self.accepted)
