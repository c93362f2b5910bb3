"""The readers that have messages of this node's queues in hand: stats show them, and ``release`` takes them back."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from triack.base.checks import check_kind
from triack.base.errors import HandOverEnded
from triack.queues.mailboxes.queued_packet import Lease, QueuedPacket

__all__ = [
    "WORKING",
    "HeldPacket",
    "Holder",
    "Holding",
    "Reader",
    "Working",
    "reader_of",
    "taken_back",
    "task_name",
    "works_for",
]

RELEASED = "somebody released the queue"
"""Why a message was taken back."""
OVERDUE = "its hand-over timeout was over"
"""The same."""


@dataclass(slots=True)
class Reader:
    """A reader of queues.

    Attributes:
        name: its name for people: of a task, a thread or a program.
        pid: its process, if that is another one.
        is_here: whether it dies with the process of the node.
        waits_for: why its handler failed with messages that wait now; empty when none does.
        is_own: whether the node itself reads, so that it takes back what it says it waits for.
    """

    name: str = ""
    pid: int | None = None
    is_here: bool = True
    waits_for: str = ""
    is_own: bool = False


def reader_of(queue: str, name: object) -> Reader:
    """A reader of this process with this name, or its task's for None. Raises UsageError unless the name is text."""
    check_kind(f"receive from {queue}: name", name, str | None)
    return Reader(str(name or ""))


def task_name() -> str:
    """The name of the task that runs now; empty when none does."""
    task = asyncio.current_task()
    return "" if task is None else task.get_name()


@dataclass(slots=True)
class Working:
    """What a handler that runs works on: its messages leave their queue when it returns.

    Attributes:
        queue: their queue.
        leaving: how many of them leave room that the handler has not used yet.
        on_wait: told what the handler waits for, for people.
        owner: the node or client that calls the handler; None once it has returned.
    """

    queue: str
    leaving: int
    on_wait: Callable[[str], None]
    owner: object


WORKING: ContextVar[Working | None] = ContextVar("triack-working", default=None)
"""Of the handler in whose call this is; None outside of handlers."""


def works_for(owner: object) -> bool:
    """Whether this is in a call of a handler of a node or client, which does not end before that call does."""
    working = WORKING.get()
    return working is not None and working.owner is owner


class HeldPacket(NamedTuple):
    """Messages of one packet that one reader has: those whose bits are set, the first of them since ``since_ns``."""

    packet: QueuedPacket
    bits: int
    since_ns: int


class Holder(Protocol):
    """Something that has messages of queues in hand."""

    @property
    def reader(self) -> Reader:
        """The reader with these hands."""

    def held(self, queue: str) -> list[HeldPacket]:
        """The messages of a queue in hand."""

    def take_back(self, queue: str) -> int:
        """Take back the messages of a queue in hand. Returns their number."""


class Holding:
    """All holders of a node, by the queues that they read."""

    __slots__ = ("_by_queue",)

    def __init__(self) -> None:
        self._by_queue: dict[str, dict[Holder, None]] = {}

    def enter(self, queue: str, holder: Holder) -> None:
        """A holder begins to read a queue."""
        self._by_queue.setdefault(queue, {})[holder] = None

    def leave(self, queue: str, holder: Holder) -> None:
        """A holder stops reading a queue."""
        holders = self._by_queue.get(queue, {})
        holders.pop(holder, None)
        if not holders:
            self._by_queue.pop(queue, None)

    def of(self, queue: str) -> list[tuple[Reader, list[HeldPacket]]]:
        """The readers that have messages of a queue in hand, or failed with messages that wait now."""
        held = [(holder.reader, holder.held(queue)) for holder in self._by_queue.get(queue, ())]
        return [(reader, packets) for reader, packets in held if packets or reader.waits_for]

    def take_back(self, queue: str) -> int:
        """Take back all messages of a queue from all holders. Returns their number."""
        return sum([holder.take_back(queue) for holder in list(self._by_queue.get(queue, ()))])


def taken_back(queue: str, lease: Lease, why: str) -> HandOverEnded:
    """The error for a reader that acknowledges a message that was taken back."""
    packet = lease.packet
    name = f"{packet.origin.hex()}-{packet.open().first_ordinal + lease.index}"
    return HandOverEnded(
        f"message {name} of queue {queue} was taken back, as {why}: it will be handed out again, "
        "and this does not acknowledge it"
    )
