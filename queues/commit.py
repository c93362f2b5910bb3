"""What goes to the store in one transaction, and what is read back.

Plain data: the engine fills it, the store applies it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from triack.ordering.outgoing import Entry
    from triack.queues.inbox import Stream
    from triack.queues.lane import Lane
    from triack.queues.link import Conversation
    from triack.queues.mailbox import Mailbox, Parcel

__all__ = [
    "Commit",
    "LaneRow",
    "MessageIndex",
    "MessageRow",
    "OutgoingIndex",
    "OutgoingRow",
    "PeerRow",
    "Pending",
    "PositionRow",
    "Read",
    "StoreContent",
    "key_of",
    "split_key",
]

KEY_BITS = 40


def key_of(group: int, number: int) -> int:
    """The row key of packet ``number`` of a lane or queue: ascending by group, then number."""
    return group << KEY_BITS | number


def split_key(key: int) -> tuple[int, int]:
    """The group and number of a row key."""
    return key >> KEY_BITS, key & ((1 << KEY_BITS) - 1)


class LaneRow(NamedTuple):
    """An outgoing stream: where to, in which class, and which number comes next."""

    lane: int
    address: str
    queue: str
    delivery: int
    sequence: int
    next_number: int


class OutgoingRow(NamedTuple):
    """An outgoing packet."""

    key: int
    completes: int
    tickets: int
    reach_by_ms: int
    body: bytes


class MessageRow(NamedTuple):
    """A packet in a queue of this node."""

    key: int
    origin: bytes
    lane: int
    sequence: int
    number: int
    body: bytes


class PositionRow(NamedTuple):
    """How far a stream was accepted; ``filter`` is the duplicate filter of a recoverable one."""

    origin: bytes
    lane: int
    delivery: int
    queue: str
    sequence: int
    number: int
    filter: bytes


class PeerRow(NamedTuple):
    """What is remembered of another store: how far its history had come when it last spoke."""

    node_id: bytes
    start: int
    serial: int


@dataclass(slots=True)
class Commit:
    """One store transaction. All of it becomes durable, or none of it.

    Attributes:
        serial: which commit of the store's life it is; 0 leaves the store's number as it was.
    """

    lanes: dict[int, LaneRow] = field(default_factory=dict)
    outgoing: list[OutgoingRow] = field(default_factory=list)
    outgoing_deletes: list[tuple[int, int]] = field(default_factory=list)
    queues: list[tuple[int, str]] = field(default_factory=list)
    messages: list[MessageRow] = field(default_factory=list)
    message_deletes: list[tuple[int, int]] = field(default_factory=list)
    progress: dict[int, bytes] = field(default_factory=dict)
    positions: dict[tuple[bytes, int], PositionRow] = field(default_factory=dict)
    state: dict[str, bytes | None] = field(default_factory=dict)
    peers: dict[bytes, PeerRow] = field(default_factory=dict)
    serial: int = 0

    def __bool__(self) -> bool:
        return bool(
            self.outgoing
            or self.messages
            or self.outgoing_deletes
            or self.message_deletes
            or self.positions
            or self.lanes
            or self.progress
            or self.queues
            or self.state
            or self.peers
        )


@dataclass(slots=True)
class OutgoingIndex:
    """An outgoing packet without its body."""

    key: int
    completes: int
    tickets: int
    reach_by_ms: int
    size_bytes: int


@dataclass(slots=True)
class MessageIndex:
    """A packet in a queue without its body; ``head`` is enough of the body to know its kind and count."""

    key: int
    origin: bytes
    lane: int
    sequence: int
    number: int
    size_bytes: int
    head: bytes
    progress: bytes | None


@dataclass(slots=True)
class StoreContent:
    """What a node finds when it starts.

    Attributes:
        incarnation: how many starts there were, this one included.
        start: the id of this start.
        serial: the last commit of the starts before.
        starts: earlier starts, by id: the last commit of each.
        peers: what is remembered of other stores, by node id.
    """

    node_id: bytes
    incarnation: int
    start: int = 0
    serial: int = 0
    starts: dict[int, int] = field(default_factory=dict)
    peers: dict[bytes, PeerRow] = field(default_factory=dict)
    lanes: list[LaneRow] = field(default_factory=list)
    outgoing: list[OutgoingIndex] = field(default_factory=list)
    queues: list[tuple[int, str]] = field(default_factory=list)
    messages: list[MessageIndex] = field(default_factory=list)
    positions: list[PositionRow] = field(default_factory=list)
    state: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Read:
    """Bodies to fetch: keys of one table, ``outgoing`` or ``messages``."""

    table: str
    keys: list[int]
    bodies: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Pending:
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
    started: list[tuple["Lane", list["Entry"]]] = field(default_factory=list)
    arrived: list[tuple["Mailbox", "Parcel", bytes]] = field(default_factory=list)
    accepted: dict["Stream", list[tuple[int, int, int]]] = field(default_factory=dict)
    buried: list[tuple["Lane", list["Entry"], str]] = field(default_factory=list)
    waiters: list[Callable[[Exception | None], None]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.commit or self.stored or self.waiters or self.accepted)
