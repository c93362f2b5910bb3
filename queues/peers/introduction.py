"""Introduction of a queue manager to another when they connect: the opaque part of a session's hello.

    node id 16 bytes, incarnation u64, point, receiver 16 bytes, remembered, checked, survives u4, rolled back u4,
    name length u8, address length u8, dialled length u8, positions u8, name, address, dialled,
    per position: stream u32, sequence u64, number u64

Every integer is big-endian; a point is two u64. No stream has number 0. If the first position has stream 0, its two
numbers say how long order acks of the sender's own streams may wait, in ns (``ordering.order_ack.AckWait``). A node
that does not know that looks for stream 0, and finds none. ``queues.peers.handshake`` uses all this.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from itertools import accumulate, pairwise
from struct import Struct
from typing import NamedTuple

from triack.base.errors import ProtocolError
from triack.base.printable import printable
from triack.base.reasons import DropReason
from triack.base.survival import SURVIVES, Survives
from triack.ordering.order_ack import AckWait
from triack.ordering.wire import NUMBER_MAX
from triack.session.protocol.frames import MARK_MAX

_HEAD = Struct("!16sQQQ16sQQQQBBBBB")
_POSITION = Struct("!IQQ")
_NO_STREAM = 0
"""Its position is an ``AckWait``."""
_HALF_BYTE_BITS, _HALF_BYTE_MAX = 4, 15
"""Two small codes share a byte."""
TEXT_BYTES_MAX = 255
"""The limit of a one-byte length; longer text is cut."""
INTRODUCTION_BYTES_MAX = 958
"""With the hello around it, and the overhead of a channel, an accept is no longer than the shortest connect, 1,200
bytes. Three texts of the greatest length leave room for four positions, the usual ones for forty."""
_KEPT = 64
"""Number of essences to cache: a node's essence is the same in nearly all its sessions, which share it."""
SERIAL_MAX = MARK_MAX
"""Sessions carry serials as marks, and a store keeps each as one integer, like the id of a start."""


class HistoryPoint(NamedTuple):
    """A point in the history of a store: the id of a start, and the serial of a commit. Start 0 is no point."""

    start: int
    serial: int


NO_POINT = HistoryPoint(0, 0)
NO_NODE = bytes(16)


class StreamPosition(NamedTuple):
    """Acknowledges a stream up to ``number`` of that sequence, like an order ack."""

    stream: int
    sequence: int
    number: int


class RolledBack(IntEnum):
    """Whose store was rolled back, as the sender of an introduction sees it. The value is the code on the wire."""

    NONE = 0
    SENDER = 1
    RECEIVER = 2
    UNKNOWN = 3

    @property
    def turned(self) -> "RolledBack":
        """The same as the receiver sees it."""
        return _TURNED.get(self, self)


_TURNED = {RolledBack.SENDER: RolledBack.RECEIVER, RolledBack.RECEIVER: RolledBack.SENDER}
_CODES = {int(member): member for member in RolledBack}


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a queue manager says of itself, and of the other one, when they connect.

    Attributes:
        dialled: the initiator's name for the acceptor, echoed. The initiator has one link by that name, so a newer
            session from the same node to the same name replaces an older one.
        point: the latest point of the sender's store on its disk.
        receiver: the expected node id of the receiver; ``NO_NODE`` when the sender does not know it.
        remembered: the latest point of the receiver that the sender knows of.
        checked: the receiver's ``remembered`` that the sender has found in the history of its own store.
        rolled_back: whose store was rolled back; if one was, there will be no session.
        survives: what the sender's store survives, which is what its store acks guarantee.
        positions: positions on the sender's disk of streams of the receiver (``queues.streams.owed_acks``).
        incarnation: number of the sender's start (``queues.peers.freshness``).
        ack_wait: how long order acks of the sender's streams may wait; None when it does not say.
    """

    node_id: bytes
    name: str
    address: str
    dialled: str
    point: HistoryPoint = NO_POINT
    receiver: bytes = NO_NODE
    remembered: HistoryPoint = NO_POINT
    checked: HistoryPoint = NO_POINT
    rolled_back: RolledBack = RolledBack.NONE
    survives: Survives = "power loss"
    positions: tuple[StreamPosition, ...] = ()
    incarnation: int = 0
    ack_wait: AckWait | None = None

    @property
    def essence(self) -> "Introduction":
        """The part that is still needed once a session is open."""
        return _essence(self.node_id, self.name, self.dialled, self.point.start, self.survives, self.ack_wait)

    @property
    def room(self) -> int:
        """Number of positions that fit in."""
        return (INTRODUCTION_BYTES_MAX - len(replace(self, positions=()).encode())) // _POSITION.size

    def encode(self) -> bytes:
        """The introduction as bytes."""
        texts = [text.encode()[:TEXT_BYTES_MAX] for text in (self.name, self.address, self.dialled)]
        positions = self.positions
        if self.ack_wait is not None:
            positions = (StreamPosition(_NO_STREAM, *self.ack_wait), *positions)
        head = _HEAD.pack(
            self.node_id,
            self.incarnation,
            *self.point,
            self.receiver,
            *self.remembered,
            *self.checked,
            self.rolled_back | SURVIVES.index(self.survives) << _HALF_BYTE_BITS,
            *map(len, texts),
            len(positions),
        )
        return head + b"".join(texts) + b"".join(_POSITION.pack(*position) for position in positions)

    @classmethod
    def decode(cls, data: bytes) -> "Introduction":
        """Read an introduction. Raises ProtocolError ``bad-hello``."""
        if len(data) < _HEAD.size:
            raise ProtocolError(DropReason.BAD_HELLO, "introduction too short")
        (
            node_id,
            incarnation,
            start,
            serial,
            receiver,
            *points,
            code,
            name_bytes,
            address_bytes,
            dialled_bytes,
            count,
        ) = _HEAD.unpack_from(data)
        ends = list(accumulate((name_bytes, address_bytes, dialled_bytes), initial=_HEAD.size))
        if ends[-1] + count * _POSITION.size != len(data):
            raise ProtocolError(DropReason.BAD_HELLO, "lengths do not add up")
        rolled_back, survives = code & _HALF_BYTE_MAX, code >> _HALF_BYTE_BITS
        if rolled_back not in _CODES or survives >= len(SURVIVES) or max(start, serial, *points) > SERIAL_MAX:
            raise ProtocolError(DropReason.BAD_HELLO, "history out of range")
        positions = tuple(map(StreamPosition._make, _POSITION.iter_unpack(data[ends[-1] :])))
        if any(max(position.sequence, position.number) > NUMBER_MAX for position in positions):
            raise ProtocolError(DropReason.BAD_HELLO, "position out of range")
        ack_wait = None
        if positions and positions[0].stream == _NO_STREAM:
            ack_wait, positions = AckWait(*positions[0][1:]), positions[1:]
        name, address, dialled = [printable(data[begin:end].decode(errors="replace")) for begin, end in pairwise(ends)]
        return cls(
            node_id,
            name,
            address,
            dialled,
            point=HistoryPoint(start, serial),
            receiver=receiver,
            remembered=HistoryPoint(*points[:2]),
            checked=HistoryPoint(*points[2:]),
            rolled_back=_CODES[rolled_back],
            survives=SURVIVES[survives],
            positions=positions,
            incarnation=incarnation,
            ack_wait=ack_wait,
        )


@lru_cache(maxsize=_KEPT)
def _essence(
    node_id: bytes, name: str, dialled: str, start: int, survives: Survives, ack_wait: AckWait | None
) -> Introduction:
    point = HistoryPoint(start, 0)
    return Introduction(node_id, name, "", dialled, point, survives=survives, ack_wait=ack_wait)
