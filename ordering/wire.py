"""The content of packets: the sequence header, and control packets of streams. Integers are big-endian.

    DATA       kind u8, flags u8, origin 16 bytes, stream u32, sequence u64, number u64, previous u64,
               queue length u8, queue, body
    ORDER_ACK  kind u8, flags u8, origin 16 bytes, stream u32, sequence u64, number u64
    REJECT     the same, then reason length u8, reason
    HOLD       kind u8, flags u8, origin 16 bytes, stream u32, turn u64, reason; flag 1 says stop, none says go
    END        kind u8, flags u8, origin 16 bytes, stream u32, sequence u64, since u64; flag 1 answers one without flags

``origin`` and ``stream`` name a stream; ``sequence`` only grows; ``number`` counts from 1 within it. No stream has
stream 0, which nodes give their dead letters. END comes from the origin: no stream of it to this destination with a
sequence from ``since`` to ``sequence`` is live, or ever will be. The answer says that the destination has forgotten
that of the stream (``queues.streams.retirement``). ``previous`` is the number before this one that is still wanted:
packets that expired leave no false gap ([MS-MQMQ] 2.2.20.5). For express and recoverable streams ``previous`` says that
numbers up to it are no longer wanted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason

__all__ = [
    "EndPacket",
    "HoldPacket",
    "OrderAckPacket",
    "Packet",
    "RejectPacket",
    "SequenceHeader",
    "decode",
    "encode_end",
    "encode_hold",
    "encode_order_ack",
    "encode_reject",
    "encode_run",
    "header_bytes",
    "is_data",
    "read_following",
]

_DATA = Struct("!BB16sIQQQB")
_ACK = Struct("!BB16sIQQ")
_HOLD = Struct("!BB16sIQ")
_END = Struct("!BB16sIQQ")
_KIND_DATA, _KIND_ORDER_ACK, _KIND_REJECT, _KIND_HOLD, _KIND_END = 1, 2, 3, 4, 5
_DATA_BEGIN = bytes([_KIND_DATA])
_FLAG_ASK = 0x01
"""The only flag of data."""
_FLAG_STOP = 0x01
"""Of a hold."""
_FLAG_ANSWER = 0x01
"""The only flag of an end."""

REASON_BYTES_MAX = 255
"""Of a hold, as of a rejection, whose reason has one byte for its length."""
NUMBER_MAX = 2**63 - 1
"""SQLite keeps no larger integer; no stream gets there."""


@dataclass(slots=True)
class SequenceHeader:
    """Which packet of which stream this is, and for which queue; ``ack_requested`` for an order ack at once."""

    origin: bytes
    stream: int
    sequence: int
    number: int
    previous: int
    queue: str
    ack_requested: bool
    body: bytes

    def encode(self) -> bytes:
        """Header and body as the content of a packet."""
        return encode_run(self, [self.previous], [self.ack_requested], [self.body])[0]


@dataclass(slots=True)
class OrderAckPacket:
    """Everything up to ``number`` of a sequence was accepted in order and is on disk."""

    origin: bytes
    stream: int
    sequence: int
    number: int


@dataclass(slots=True)
class RejectPacket:
    """The destination will not take packet ``number``, for a named reason. It was not accepted and never will be."""

    origin: bytes
    stream: int
    sequence: int
    number: int
    reason: str


@dataclass(slots=True)
class HoldPacket:
    """The destination has no room for a stream (``stop``), or has some again.

    It has no unacknowledged packet of the stream. ``turn`` grows with each hold. ``reason`` names the lack of room.
    """

    origin: bytes
    stream: int
    turn: int
    stop: bool
    reason: str = ""


@dataclass(slots=True)
class EndPacket:
    """A stream has ended, says its origin, and so have all others from ``since`` on; as ``answer``: it is forgotten."""

    origin: bytes
    stream: int
    sequence: int
    since: int
    answer: bool


Packet = SequenceHeader | OrderAckPacket | RejectPacket | HoldPacket | EndPacket
"""Every kind of content of a packet."""


def encode_run(
    first: SequenceHeader, previous: Sequence[int], ack_requested: Sequence[bool], bodies: Sequence[bytes]
) -> list[bytes]:
    """Packets of one stream, whose numbers follow each other, as the contents of packets of a session.

    Args:
        first: the header of the first; the other arguments take precedence.
        previous: the number of each that is wanted before it.
        ack_requested: which of them ask for an order ack.
        bodies: their contents.
    """
    queue, pack, origin, stream, sequence = first.queue.encode(), _DATA.pack, first.origin, first.stream, first.sequence
    length = len(queue)
    each = zip(range(first.number, first.number + len(bodies)), previous, ack_requested, bodies, strict=True)
    return [
        pack(_KIND_DATA, _FLAG_ASK if asked else 0, origin, stream, sequence, number, before, length) + queue + body
        for number, before, asked, body in each
    ]


def header_bytes(queue: str) -> int:
    """How much of a packet's content the sequence header takes."""
    return _DATA.size + len(queue.encode())


def encode_order_ack(origin: bytes, stream: int, sequence: int, number: int) -> bytes:
    """An order ack as the content of an express packet."""
    return _ACK.pack(_KIND_ORDER_ACK, 0, origin, stream, sequence, number)


def encode_reject(header: SequenceHeader, reason: str) -> bytes:
    """A rejection as the content of an express packet."""
    name = reason.encode()
    head = _ACK.pack(_KIND_REJECT, 0, header.origin, header.stream, header.sequence, header.number)
    return head + bytes([len(name)]) + name


def encode_hold(origin: bytes, stream: int, turn: int, *, stop: bool, reason: str = "") -> bytes:
    """A hold as the content of an express packet."""
    return _HOLD.pack(_KIND_HOLD, _FLAG_STOP if stop else 0, origin, stream, turn) + reason.encode()


def encode_end(origin: bytes, stream: int, sequence: int, since: int, *, answer: bool) -> bytes:
    """The end of a stream, or the answer to it, as the content of an express packet."""
    return _END.pack(_KIND_END, _FLAG_ANSWER if answer else 0, origin, stream, sequence, since)


def decode(content: bytes) -> Packet:
    """Read a packet's content. Raises ProtocolError ``bad-packet``."""
    try:
        return _DECODERS[content[0]](content)
    except (StructError, KeyError, IndexError, UnicodeDecodeError) as cause:
        raise ProtocolError(DropReason.BAD_PACKET, "not a sequence packet") from cause


def is_data(content: bytes) -> bool:
    """Whether it is no control packet."""
    return content[:1] == _DATA_BEGIN


def read_following(first: SequenceHeader, content: bytes) -> tuple[int, int, bool, bytes] | None:
    """Read a packet of the stream of ``first``: number, previous, whether it asks, body. None for any other content."""
    try:
        kind, flags, origin, stream, sequence, number, previous, queue_bytes = _DATA.unpack_from(content)
    except StructError:
        return None
    at = _DATA.size + queue_bytes
    if kind != _KIND_DATA or stream != first.stream or sequence != first.sequence or origin != first.origin:
        return None
    if content[_DATA.size : at] != first.queue.encode() or not previous < number <= NUMBER_MAX:
        return None
    return number, previous, bool(flags & _FLAG_ASK), content[at:]


def _decode_data(content: bytes) -> SequenceHeader:
    _, flags, origin, stream, sequence, number, previous, queue_bytes = _DATA.unpack_from(content)
    at = _DATA.size + queue_bytes
    if at > len(content) or not (stream and sequence) or previous >= number or max(sequence, number) > NUMBER_MAX:
        raise ProtocolError(DropReason.BAD_PACKET, "sequence header out of range")
    queue = content[_DATA.size : at].decode()
    return SequenceHeader(origin, stream, sequence, number, previous, queue, bool(flags & _FLAG_ASK), content[at:])


def _decode_order_ack(content: bytes) -> OrderAckPacket:
    _, _, origin, stream, sequence, number = _ACK.unpack(content)
    return OrderAckPacket(origin, stream, sequence, number)


def _decode_reject(content: bytes) -> RejectPacket:
    _, _, origin, stream, sequence, number = _ACK.unpack_from(content)
    reason = content[_ACK.size + 1 :]
    if len(reason) != content[_ACK.size]:
        raise ProtocolError(DropReason.BAD_PACKET, "reason length")
    return RejectPacket(origin, stream, sequence, number, reason.decode())


def _decode_hold(content: bytes) -> HoldPacket:
    _, flags, origin, stream, turn = _HOLD.unpack_from(content)
    reason = content[_HOLD.size :]
    if flags & ~_FLAG_STOP or not turn or len(reason) > REASON_BYTES_MAX:
        raise ProtocolError(DropReason.BAD_PACKET, "hold out of range")
    return HoldPacket(origin, stream, turn, bool(flags & _FLAG_STOP), reason.decode())


def _decode_end(content: bytes) -> EndPacket:
    _, flags, origin, stream, sequence, since = _END.unpack(content)
    if flags & ~_FLAG_ANSWER or not stream or not 0 < since <= sequence <= NUMBER_MAX:
        raise ProtocolError(DropReason.BAD_PACKET, "end out of range")
    return EndPacket(origin, stream, sequence, since, bool(flags & _FLAG_ANSWER))


_DECODERS: dict[int, Callable[[bytes], Packet]] = {
    _KIND_DATA: _decode_data,
    _KIND_ORDER_ACK: _decode_order_ack,
    _KIND_REJECT: _decode_reject,
    _KIND_HOLD: _decode_hold,
    _KIND_END: _decode_end,
}
