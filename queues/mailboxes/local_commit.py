"""The next commit, as far as it concerns the queues of this node."""

from collections.abc import Callable
from dataclasses import dataclass, field

from triack.base.commit import Commit
from triack.queues.mailboxes.mailbox import Mailbox, QueuedPacket


@dataclass(slots=True)
class LocalCommit:
    """The next commit, and the time of the call that adds to it now.

    Attributes:
        queued: packets to hand out. Either one, with the first bytes of its body, or neighbouring batches, with None.
        settled: packets that it acknowledges to the last message: none of their messages is leased.
        waiters: called when it has returned: with None, or with the error that ended the store.
    """

    now_ns: int = 0
    now_ms: int = 0
    commit: Commit = field(default_factory=Commit)
    queued: list[tuple[Mailbox, list[QueuedPacket], bytes | None]] = field(default_factory=list)
    settled: list[QueuedPacket] = field(default_factory=list)
    waiters: list[Callable[[Exception | None], None]] = field(default_factory=list)


LocalTurn = LocalCommit
"""One call into the queues of this node: its time, and the commit to which it adds."""
