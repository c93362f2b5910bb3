"""The content of one transaction of the store, and of reads: plain data that the engine fills and the store applies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from triack.base.clock import ClockJump
from triack.base.delivery import Delivery
from triack.base.lease_words import Marks
from triack.base.names import StreamId

OWN_STATE = "$"
"""Begins the node's own keys in the table of the application's values, and the names of the node's own queues."""

KEY_BITS = 40
"""Bits of a number within its stream or queue: a million packets a second for twelve days. 23 are the group's."""
HEAD_BYTES = 35
"""Bytes of a body in an index: enough for its kind, its count, its deadline, and its place in a large message."""
CARES = 0x80
"""Bit of a body's first byte: what happens to one of its messages has consequences that only the body tells."""


def key_of(group: int, number: int) -> int:
    """The row key of packet ``number`` of a stream or queue: ascending by group, then number."""
    return group << KEY_BITS | number


def split_key(key: int) -> tuple[int, int]:
    """The group and number of a row key."""
    return key >> KEY_BITS, key & ((1 << KEY_BITS) - 1)


def kept_under(state: Mapping[str, bytes], prefix: str) -> Iterator[tuple[str, bytes]]:
    """Yield what the store has under the keys of its state that begin so: the rest of each key, and the value."""
    return ((key.removeprefix(prefix), value) for key, value in state.items() if key.startswith(prefix))


class OutgoingStreamRow(NamedTuple):
    """An outgoing stream: its peer, its class, and its next number.

    ``relayed`` is 1 once packets of it may have gone through a relay. ``priority`` is that of all its messages.
    ``torn`` is 1 once a large message of it ended here when its destination may have had some pieces. ``sealed`` is 1
    if its packets leave sealed.
    """

    stream: int
    peer: str
    queue: str
    delivery: int
    sequence: int
    next_number: int
    relayed: int = 0
    priority: int = 0
    torn: int = 0
    sealed: int = 0


class OutgoingRow(NamedTuple):
    """An outgoing packet; ``messages`` end in it: all of a batch, or none in a fragment but the last."""

    key: int
    messages: int
    reach_by_ms: int
    body: bytes


class MessageRow(NamedTuple):
    """Consecutive packets in a queue of this node: ``key`` and ``number`` are those of the first.

    ``delivery`` is their class, which no other row may have, as their stream may end before they are read. A packet of
    a topic is a separate row, with the name of the ``topic`` and the ``place`` of its first message there.
    """

    key: int
    origin: bytes
    stream: int
    sequence: int
    number: int
    bodies: Sequence[bytes]
    delivery: int = Delivery.TRANSACTIONAL
    topic: str = ""
    place: int = 0

    def packets(self) -> Iterator["MessageRow"]:
        """Yield each packet as a separate row."""
        for step, body in enumerate(self.bodies):
            yield self._replace(key=self.key + step, number=self.number + step, bodies=(body,))


class SubscriptionRow(NamedTuple):
    """A durable subscription; ``queue`` is that of its topic, ``progress`` says which messages are done."""

    id: int
    name: str
    queue: int
    pattern: str
    progress: bytes


class PositionRow(NamedTuple):
    """How far a stream was accepted; ``filter`` is the duplicate filter of a recoverable one.

    Stream 0 is none: its row says that the durable streams of the origin up to ``sequence`` have ended, except those
    with rows.

    ``via`` is the neighbour that brings the stream as a relay, by name. ``from_name`` is the first relay's name for the
    origin. ``sealed`` is 1 if its packets come sealed, and are accepted in no other way.
    """

    origin: bytes
    stream: int
    delivery: int
    queue: str
    sequence: int
    number: int
    filter: bytes
    via: str = ""
    from_name: str = ""
    sealed: int = 0


class TransitStreamRow(NamedTuple):
    """A stream of another node that passes through this one; ``id`` is this node's number for it.

    ``final`` and ``from_name`` are as they came; ``via`` is the neighbour that brought it. Of the packets stored here
    up to ``highest``, all up to ``ordered`` are order-acknowledged. ``priority`` is that of its messages. ``trace``
    names the relays that its packets here have passed (``ordering.wire``).
    """

    id: int
    origin: bytes
    stream: int
    delivery: int
    sequence: int
    queue: str
    final: str
    from_name: str
    via: str
    highest: int
    ordered: int
    priority: int = 0
    trace: bytes = b""


class TransitRow(NamedTuple):
    """A packet in transit; see ``ordering.transit``. Its key is that of its place, as its number may come twice."""

    key: int
    number: int
    messages: int
    previous: int
    left_by_ms: int
    body: bytes


class PeerRow(NamedTuple):
    """The record of another store: the point of its history when it last spoke, and its peer.

    ``name`` is the peer whose key proved that the node is its; empty if none did.
    """

    node_id: bytes
    start: int
    serial: int
    name: str = ""


@dataclass(slots=True)
class Commit:
    """One store transaction. All of it becomes durable, or none of it.

    Attributes:
        addresses: where peers say that they listen, by their names, when no other source says so.
        serial: its number among all commits of the store; 0 keeps the store's number.
        clock: the clocks when it began (``ClockReading.pack``); empty keeps the store's value.
        records: how many records the session log of this start had when the commit began; 0 without a log.
        synced: whether it is on the disk when it returns. Otherwise the system has it, and writes it at the latest with
            the next commit that is synced.
    """

    stream_deletes: list[int] = field(default_factory=list)
    streams: dict[int, OutgoingStreamRow] = field(default_factory=dict)
    outgoing: list[OutgoingRow] = field(default_factory=list)
    outgoing_deletes: list[tuple[int, int]] = field(default_factory=list)
    queues: list[tuple[int, str]] = field(default_factory=list)
    queue_deletes: list[int] = field(default_factory=list)
    messages: list[MessageRow] = field(default_factory=list)
    message_deletes: list[tuple[int, int]] = field(default_factory=list)
    progress: dict[int, bytes] = field(default_factory=dict)
    subscriptions: dict[int, SubscriptionRow] = field(default_factory=dict)
    subscription_deletes: list[int] = field(default_factory=list)
    positions: dict[StreamId, PositionRow] = field(default_factory=dict)
    position_deletes: list[StreamId] = field(default_factory=list)
    transit_streams: dict[int, TransitStreamRow] = field(default_factory=dict)
    transit_stream_deletes: list[int] = field(default_factory=list)
    transit: list[TransitRow] = field(default_factory=list)
    transit_deletes: list[tuple[int, int]] = field(default_factory=list)
    state: dict[str, bytes | None] = field(default_factory=dict)
    peers: dict[bytes, PeerRow] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    serial: int = 0
    clock: bytes = b""
    records: int = 0
    synced: bool = True

    def __bool__(self) -> bool:
        return self.adds or self.removes

    @property
    def removes(self) -> bool:
        """Whether it deletes rows, or notes which messages of a packet or of a subscription were read."""
        return bool(
            self.outgoing_deletes
            or self.message_deletes
            or self.progress
            or self.subscriptions
            or self.subscription_deletes
            or self.queue_deletes
            or self.stream_deletes
            or self.position_deletes
            or self.transit_deletes
            or self.transit_stream_deletes
        )

    @property
    def adds(self) -> bool:
        """Whether it does more than that."""
        return bool(
            self.outgoing
            or self.messages
            or self.positions
            or self.transit
            or self.transit_streams
            or self.streams
            or self.queues
            or self.state
            or self.peers
            or self.addresses
        )


@dataclass(slots=True)
class OutgoingIndex:
    """An outgoing packet without its body; see ``OutgoingRow``. ``cares``: whether its body has the bit ``CARES``.

    ``head`` is the first ``HEAD_BYTES`` of its row. That begins with this body or one of the same commit, so it tells
    when the packet was sent.
    """

    key: int
    messages: int
    reach_by_ms: int
    size_bytes: int
    cares: bool = False
    head: bytes = b""


@dataclass(slots=True)
class TransitIndex:
    """A packet in transit without its body; see ``TransitRow``. ``head`` is as in ``OutgoingIndex``."""

    key: int
    number: int
    messages: int
    previous: int
    left_by_ms: int
    size_bytes: int
    head: bytes = b""


@dataclass(slots=True)
class MessageIndex:
    """A packet in a queue without its body; ``head`` is enough of the body to know its kind and count."""

    key: int
    origin: bytes
    stream: int
    sequence: int
    number: int
    size_bytes: int
    head: bytes
    progress: bytes | None
    delivery: int
    topic: str = ""
    place: int = 0


@dataclass(slots=True)
class StoreContent:
    """The content of the store when a node starts.

    Attributes:
        clock: the clocks at the last commit that recorded them; empty if none did.
        jump: how the time of day was set since then, if it was.
        records: how many records the session log of the start before had when its last commit began.
        starts: earlier starts, by id: the last commit of each.
        room_bytes: how many more bytes the disk accepts; None: unknown.
        disk_bytes: the same if the disk had only the files of a store without messages.
        peers: by node id.
        addresses: where peers said that they listen, by their names.
        left: messages that were leased when the start before ended, and that no commit holds.
        leases: where this start notes its leases; None: nowhere.
    """

    node_id: bytes
    incarnation: int
    start: int = 0
    serial: int = 0
    starts: dict[int, int] = field(default_factory=dict)
    room_bytes: int | None = None
    disk_bytes: int | None = None
    peers: dict[bytes, PeerRow] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    streams: list[OutgoingStreamRow] = field(default_factory=list)
    outgoing: Iterable[OutgoingIndex] = ()
    queues: list[tuple[int, str]] = field(default_factory=list)
    messages: Iterable[MessageIndex] = ()
    positions: list[PositionRow] = field(default_factory=list)
    subscriptions: list[SubscriptionRow] = field(default_factory=list)
    transit_streams: list[TransitStreamRow] = field(default_factory=list)
    transit: Iterable[TransitIndex] = ()
    state: dict[str, bytes] = field(default_factory=dict)
    clock: bytes = b""
    jump: ClockJump | None = None
    left: Marks = field(default_factory=dict)
    leases: memoryview | None = None
    records: int = 0


@dataclass(slots=True)
class Read:
    """Bodies to fetch: keys of one table, ``outgoing``, ``messages`` or ``transit``."""

    table: str
    keys: list[int]
    bodies: dict[int, bytes] = field(default_factory=dict)
