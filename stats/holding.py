"""The readers that have leases on messages of this node's queues: stats show them, and ``release`` ends the leases."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from triack.base.errors import HandOverEnded
from triack.queues.mailboxes.queued_packet import Lease, QueuedPacket

RELEASED = "somebody released the queue"
"""Why a message was taken back."""
OVERDUE = "its hand-over timeout was over"
"""Why a message was taken back."""


@dataclass(slots=True)
class Reader:
    """A reader of queues.

    Attributes:
        name: its name for people: of a task, a thread or a program.
        pid: its process, if that is another one.
        is_here: whether it dies with the process of the node.
        waits_for: why its handler failed with messages that wait now; empty if none wait.
        is_own: whether the node itself reads; it then takes back what its ``waits_for`` is about.
    """

    name: str = ""
    pid: int | None = None
    is_here: bool = True
    waits_for: str = ""
    is_own: bool = False


class HeldPacket(NamedTuple):
    """Leased messages of one packet: those whose bits are set, the first of them since ``since_ns``."""

    packet: QueuedPacket
    bits: int
    since_ns: int


class Holder(Protocol):
    """Something that has leases on messages of queues."""

    @property
    def reader(self) -> Reader:
        """The reader behind it."""

    def held(self, queue: str) -> list[HeldPacket]:
        """The leased messages of a queue."""

    def take_back(self, queue: str) -> int:
        """Take back the leased messages of a queue. Returns their number."""


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
        """The readers that have messages of a queue, or failed with messages that wait now."""
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
