"""What sessions say to each other: the frames inside a datagram, and the hello of a connection.

Every integer is big-endian. A datagram carries at most one frame of each kind, so that no datagram asks for more work
than a few frames; an ACK and a REFUSING are of one kind. A packet, if there is one, comes last.

    PACKET     type u8, flags u8, length u16, number u64, mark u64, content
    ACK        type u8, ranges u8, window u16, ack delay u32 in us, echo u64, cumulative u64,
               then per range: first u32, last u32
    REFUSING   an ACK with type 6, then: refused ranges u8, base u64, per range: first u32, last u32
    STORE_ACK  type u8, ranges u8, zero u16, zero u32, mark u64, cumulative u64, then the same ranges
    PING       type u8, flags u8: asks for every ack that is owed
    CLOSE      type u8, reason u8
    PROBE      type u8, zero u8, zero u16, number u32, zeros: all that is left of the datagram
    PROBED     type u8, zero u8, zero u16, number u32: the probe with that number has come
    PIECE      type u8, flags u8, length u16, number u64, mark u64, total u16, offset u16, content: of a packet that is
               longer than the path's datagrams (``pieces``)
    ROUND_TRIP type u8, zero u8, zero u16, round trip u64 in ns: what the initiator has measured with its connect

``echo`` is the counter of the newest datagram that brought a packet, and the ack delay the time since it arrived: as
numbers are kept on a resend, only the counter tells which sending was answered. Range bounds are relative to the
cumulative number. All acks are cumulative plus ranges (as RFC 9000 section 19.3 has them), so a lost one costs nothing.
A REFUSING ack names those of the packets that arrived whose rejections are on their way (``session_ack``).
``mark`` is a number of the sender's owner that only grows. A session only carries it.

The hello is the payload of a connect and of an accept:

    session id u64, connection id u64, sent at u64 in ns, largest datagram u32, policy (see there), introduction
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from struct import error as StructError

from triack.base.checks import DATAGRAM_MIN_BYTES
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.ranges import NumberSet, Range
from triack.base.reasons import DropReason
from triack.session.protocol.policy import POLICY_BYTES, Policy
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason

__all__ = [
    "CLOSE_BYTES",
    "MARK_MAX",
    "MAX_ACK_RANGES",
    "PACKET_HEADER_BYTES",
    "PIECE_HEADER_BYTES",
    "PING_BYTES",
    "PROBED_BYTES",
    "REFUSED_RANGES_MAX",
    "AckFrame",
    "Ask",
    "CloseFrame",
    "Frame",
    "Hello",
    "PacketFrame",
    "PacketRun",
    "PieceFrame",
    "PingFrame",
    "ProbeFrame",
    "ProbedFrame",
    "RoundTripFrame",
    "StoreAckFrame",
    "ack_bytes",
    "ack_ranges",
    "content_limit_bytes",
    "decode_frames",
    "decode_run",
    "encode_ack",
    "encode_close",
    "encode_packet",
    "encode_piece",
    "encode_ping",
    "encode_probe",
    "encode_probed",
    "encode_round_trip",
    "encode_store_ack",
]

_PACKET = Struct("!BBHQQ")
_ACK = Struct("!BBHIQQ")
_RANGE = Struct("!II")
_REFUSED = Struct("!BQ")
_SHORT = Struct("!BB")
_HELLO = Struct("!QQQI")
_PROBE = Struct("!BBHI")
_PIECE = Struct("!BBHQQHH")
_ROUND_TRIP = Struct("!BBHQ")

PACKET_HEADER_BYTES = _PACKET.size
"""Before the content of a packet."""
PIECE_HEADER_BYTES = _PIECE.size
"""Before the content of a piece."""
PING_BYTES = CLOSE_BYTES = _SHORT.size
"""Whole frames, for whoever asks whether one still fits."""
PROBED_BYTES = _PROBE.size
"""The answer to a probe, whole."""
ACK_ROOM_BYTES = 24
"""Left free in a full packet's datagram, so that an ack without ranges can ride on it."""
MAX_ACK_RANGES = 64
"""Ranges in one ack, and thereby the work that one ack can ask for. With all of them it has 536 bytes, and still fits
the smallest datagram, 576 bytes less the 36 of the insecure channel."""
REFUSED_RANGES_MAX = 16
"""Ranges of refused packets in one ack. An ack of what lies beyond them waits until some are settled."""
MARK_MAX = 2**63 - 1
"""What everything that may keep a mark takes as one signed integer, SQLite among them."""

_TYPE_PACKET, _TYPE_ACK, _TYPE_STORE_ACK, _TYPE_PING, _TYPE_CLOSE, _TYPE_REFUSING = 1, 2, 3, 4, 5, 6
_TYPE_PROBE, _TYPE_PROBED, _TYPE_PIECE, _TYPE_ROUND_TRIP = 7, 8, 9, 10
_KIND_OF = {_TYPE_REFUSING: _TYPE_ACK}
"""Types that are of the kind of another one."""
_FLAG_ASK, _FLAG_PATIENT = 0x80, 0x40
"""The highest bits of a packet's flags; the class has the lowest two."""
_CLASS_MASK = 0x03
"""Two bits hold three classes."""
# Looking up is several times as fast as making an enumeration's member from its value.
_DELIVERY = {int(member): member for member in Delivery}
_CLOSE_CODES = {reason: code for code, reason in enumerate(CloseReason, start=1)}
_CLOSE_REASONS = {code: reason for reason, code in _CLOSE_CODES.items()}


class Ask(IntEnum):
    """What a packet asks for."""

    NO = 0
    AT_ONCE = 1
    """Every ack as soon as there is something to acknowledge."""
    WITH_STORE = 2
    """The store ack at once, and the session ack with it: it may wait a little for that (``session_ack``)."""


_ASK_FLAGS: dict[int, int] = {Ask.NO: 0, Ask.AT_ONCE: _FLAG_ASK, Ask.WITH_STORE: _FLAG_ASK | _FLAG_PATIENT}
_ASK_MASK = _FLAG_ASK | _FLAG_PATIENT
_ASKED = {0: Ask.NO, _FLAG_PATIENT: Ask.NO, _FLAG_ASK: Ask.AT_ONCE, _ASK_MASK: Ask.WITH_STORE}


@dataclass(slots=True)
class PacketFrame:
    """One numbered packet, and what it asks the receiver for."""

    number: int
    delivery: Delivery
    ask: int
    content: bytes
    mark: int = 0


@dataclass(slots=True)
class PacketRun:
    """Packets of one class whose numbers follow each other, each the only frame of its datagram.

    Attributes:
        number: of the first.
        asks: the numbers of those that ask the receiver to acknowledge.
        contents: of each.
        size_bytes: of all contents.
        mark: the greatest.
        ask: what they ask for: at once if one of them does.
    """

    number: int
    delivery: Delivery
    asks: list[int]
    contents: list[bytes]
    size_bytes: int
    mark: int
    ask: Ask = Ask.NO


@dataclass(slots=True)
class AckFrame:
    """A session ack: all up to ``cumulative`` arrived, and ``ranges`` above it; ``echo`` came ``delay_ns`` ago.

    Of what arrived the ``refused`` will never be taken, and the rejections that say why have not been acknowledged.
    """

    cumulative: int
    ranges: list[Range]
    window: int
    echo: int
    delay_ns: int
    refused: Sequence[Range] = ()


@dataclass(slots=True)
class StoreAckFrame:
    """A store ack: everything up to ``cumulative`` is on disk, and ``ranges`` above it."""

    cumulative: int
    ranges: list[Range]
    mark: int = 0


@dataclass(slots=True)
class PingFrame:
    """Asks for every ack that is owed, order acks included."""


@dataclass(slots=True)
class CloseFrame:
    """The peer's goodbye."""

    reason: CloseReason


@dataclass(slots=True)
class ProbeFrame:
    """A datagram came in one piece whose frames have so many bytes, and nothing else in them."""

    number: int
    size_bytes: int


@dataclass(slots=True)
class ProbedFrame:
    """The peer has got the probe with that number."""

    number: int


@dataclass(slots=True)
class PieceFrame:
    """What stands at ``offset`` of the content of a packet, which has ``total_bytes``; the rest as in the packet."""

    number: int
    delivery: Delivery
    ask: Ask
    total_bytes: int
    offset: int
    content: bytes
    mark: int = 0


@dataclass(slots=True)
class RoundTripFrame:
    """What the initiator has measured, for delays that both ends reckon by it ([MS-MQQB] 3.1.5.3.2)."""

    rtt_ns: int


Frame = (
    PacketFrame
    | AckFrame
    | StoreAckFrame
    | PingFrame
    | CloseFrame
    | ProbeFrame
    | ProbedFrame
    | PieceFrame
    | RoundTripFrame
)


@dataclass(frozen=True, slots=True)
class Hello:
    """What each end says of itself when a session is made.

    Attributes:
        session_id: chosen by the initiator, the same at both ends.
        connection_id: where the sender of this hello wants to get the session's datagrams.
        sent_at_ns: the initiator's clock, echoed by the acceptor, who cannot read it ([MS-MQQB] 2.2.3.1 TimeStamp).
        max_datagram_bytes: largest datagram it takes.
        policy: what an initiator states; from an acceptor what is in force.
        introduction: what the session's owner says to the peer's; it means nothing to a session.
    """

    session_id: int
    connection_id: int
    sent_at_ns: int
    max_datagram_bytes: int
    policy: Policy
    introduction: bytes = b""

    @classmethod
    def of(
        cls,
        settings: SessionSettings,
        *,
        session_id: int,
        connection_id: int,
        sent_at_ns: int = 0,
        introduction: bytes = b"",
    ) -> "Hello":
        """The hello of an end with these settings."""
        return cls(
            session_id,
            connection_id,
            sent_at_ns,
            settings.max_datagram_bytes,
            Policy.of(settings),
            introduction,
        )

    def encode(self) -> bytes:
        """The hello as bytes."""
        head = _HELLO.pack(self.session_id, self.connection_id, self.sent_at_ns, self.max_datagram_bytes)
        return head + self.policy.encode() + self.introduction

    @classmethod
    def decode(cls, data: bytes) -> "Hello":
        """Read a hello. Raises ProtocolError ``bad-hello``."""
        if len(data) < _HELLO.size + POLICY_BYTES:
            raise ProtocolError(DropReason.BAD_HELLO, "too short")
        session_id, connection_id, sent_at_ns, datagram_bytes = _HELLO.unpack_from(data)
        if datagram_bytes < DATAGRAM_MIN_BYTES or not connection_id:
            raise ProtocolError(DropReason.BAD_HELLO, "value out of range")
        policy = Policy.decode(data[_HELLO.size :][:POLICY_BYTES])
        introduction = data[_HELLO.size + POLICY_BYTES :]
        return cls(session_id, connection_id, sent_at_ns, datagram_bytes, policy, introduction)


def content_limit_bytes(max_datagram_bytes: int, overhead_bytes: int) -> int:
    """The largest packet content that fits a datagram of that size.

    Args:
        max_datagram_bytes: the datagram, all of it.
        overhead_bytes: what its channel takes of it.
    """
    return max_datagram_bytes - overhead_bytes - PACKET_HEADER_BYTES - ACK_ROOM_BYTES


def encode_packet(number: int, delivery: Delivery, ask: int, content: bytes, mark: int = 0) -> bytes:
    """A PACKET frame; ``ask`` is an ``Ask``."""
    return _PACKET.pack(_TYPE_PACKET, delivery | _ASK_FLAGS[ask], len(content), number, mark) + content


def encode_ack(received: NumberSet, window: int, echo: int, delay_ns: int, refused: Sequence[Range] = ()) -> bytes:
    """An ACK frame for what was received, of which some is ``refused``; datagram ``echo`` came ``delay_ns`` ago."""
    delay_us = min(delay_ns // 1_000, 0xFFFFFFFF)
    ranges = ack_ranges(received, refused)
    if not refused:
        return _encode_numbers(_TYPE_ACK, received.cumulative, ranges, window, delay_us, echo)
    base = refused[0][0] - 1
    spans = b"".join(_RANGE.pack(first - base, last - base) for first, last in refused)
    ack = _encode_numbers(_TYPE_REFUSING, received.cumulative, ranges, window, delay_us, echo)
    return ack + _REFUSED.pack(len(refused), base) + spans


def encode_store_ack(stored: NumberSet, mark: int = 0) -> bytes:
    """A STORE_ACK frame for what is on disk."""
    return _encode_numbers(_TYPE_STORE_ACK, stored.cumulative, stored.lowest_ranges(MAX_ACK_RANGES), 0, 0, mark)


def ack_ranges(received: NumberSet, refused: Sequence[Range]) -> list[Range]:
    """The ranges above the cumulative number that an ack has room for."""
    # What names the refused takes the bytes of two ranges, and one each.
    return received.lowest_ranges(MAX_ACK_RANGES - len(refused) - 2 if refused else MAX_ACK_RANGES)


def ack_bytes(numbers: NumberSet, refused: Sequence[Range] = ()) -> int:
    """How long an ACK or STORE_ACK frame for these numbers is."""
    tail_bytes = _REFUSED.size + _RANGE.size * len(refused) if refused else 0
    return _ACK.size + _RANGE.size * len(ack_ranges(numbers, refused)) + tail_bytes


def encode_ping() -> bytes:
    """A PING frame."""
    return _SHORT.pack(_TYPE_PING, 0)


def encode_probe(number: int, size_bytes: int) -> bytes:
    """A PROBE frame of that length."""
    return _PROBE.pack(_TYPE_PROBE, 0, 0, number).ljust(size_bytes, b"\0")


def encode_probed(number: int) -> bytes:
    """A PROBED frame."""
    return _PROBE.pack(_TYPE_PROBED, 0, 0, number)


def encode_piece(piece: PieceFrame) -> bytes:
    """A PIECE frame."""
    flags = piece.delivery | _ASK_FLAGS[piece.ask]
    place = piece.total_bytes, piece.offset
    return _PIECE.pack(_TYPE_PIECE, flags, len(piece.content), piece.number, piece.mark, *place) + piece.content


def encode_round_trip(rtt_ns: int) -> bytes:
    """A ROUND_TRIP frame."""
    return _ROUND_TRIP.pack(_TYPE_ROUND_TRIP, 0, 0, rtt_ns)


def encode_close(reason: CloseReason) -> bytes:
    """A CLOSE frame."""
    return _SHORT.pack(_TYPE_CLOSE, _CLOSE_CODES[reason])


def _encode_numbers(kind: int, base: int, ranges: list[Range], window: int, delay_us: int, echo_or_mark: int) -> bytes:
    head = _ACK.pack(kind, len(ranges), window, delay_us, echo_or_mark, base)
    if not ranges:
        return head
    return head + b"".join(_RANGE.pack(first - base, last - base) for first, last in ranges)


def decode_frames(payload: bytes) -> list[Frame]:
    """Read the frames of a datagram.

    Raises:
        ProtocolError: ``bad-frame``; ``repeated-frame`` when there are two of one kind, which is not read any further.
            Nothing of the datagram counts then.
    """
    frames: list[Frame] = []
    kinds = 0
    at, end = 0, len(payload)
    try:
        while at < end:
            code = payload[at]
            frame, at = _DECODERS[code](payload, at)
            kind = 1 << _KIND_OF.get(code, code)
            if kinds & kind:
                raise ProtocolError(DropReason.REPEATED_FRAME, f"{type(frame).__name__} before byte {at}")
            kinds |= kind
            frames.append(frame)
    except (StructError, KeyError, IndexError) as cause:
        raise ProtocolError(DropReason.BAD_FRAME, f"at byte {at}") from cause
    return frames


def decode_run(payloads: Sequence[bytes], number: int) -> PacketRun | None:
    """Read the run that begins with packet ``number`` in the first of these datagrams.

    Returns:
        As many packets as follow each other; None when there is not even one. ``decode_frames`` reads what is left.
    """
    code = 0
    asks: list[int] = []
    contents: list[bytes] = []
    size_bytes = greatest = 0
    ask = Ask.NO
    for payload in payloads:
        if len(payload) < PACKET_HEADER_BYTES:
            break
        kind, flags, length, its_number, mark = _PACKET.unpack_from(payload)
        if kind != _TYPE_PACKET or its_number != number or PACKET_HEADER_BYTES + length != len(payload):
            break
        if not contents:
            code = flags & _CLASS_MASK
        if flags & _CLASS_MASK != code or mark > MARK_MAX:
            break
        if flags & _FLAG_ASK:
            asks.append(number)
            if ask is not Ask.AT_ONCE:
                ask = _ASKED[flags & _ASK_MASK]
        greatest = max(greatest, mark)
        contents.append(payload[PACKET_HEADER_BYTES:])
        size_bytes += length
        number += 1
    delivery = _DELIVERY.get(code)
    if not contents or delivery is None:
        return None
    return PacketRun(number - len(contents), delivery, asks, contents, size_bytes, greatest, ask)


def _decode_packet(payload: bytes, at: int) -> tuple[Frame, int]:
    _, flags, length, number, mark = _PACKET.unpack_from(payload, at)
    start = at + _PACKET.size
    end = start + length
    if end > len(payload) or number == 0 or mark > MARK_MAX:
        raise ProtocolError(DropReason.BAD_FRAME, "packet too long, numbered 0, or with an impossible mark")
    delivery = _DELIVERY[flags & _CLASS_MASK]
    return PacketFrame(number, delivery, _ASKED[flags & _ASK_MASK], payload[start:end], mark), end


def _decode_numbers(payload: bytes, at: int) -> tuple[int, list[Range], int, int, int, int]:
    _, count, window, delay_us, echo, base = _ACK.unpack_from(payload, at)
    if count > MAX_ACK_RANGES:
        raise ProtocolError(DropReason.BAD_FRAME, "too many ranges")
    ranges, at = _decode_ranges(payload, at + _ACK.size, count, base, 1)
    return base, ranges, window, delay_us, echo, at


def _decode_ranges(payload: bytes, at: int, count: int, base: int, floor: int) -> tuple[list[Range], int]:
    ranges = []
    for _ in range(count):
        first, last = _RANGE.unpack_from(payload, at)
        if not floor < first <= last:
            raise ProtocolError(DropReason.BAD_FRAME, "ranges not ascending or not disjoint")
        ranges.append((base + first, base + last))
        floor = last + 1
        at += _RANGE.size
    return ranges, at


def _decode_ack(payload: bytes, at: int) -> tuple[Frame, int]:
    base, ranges, window, delay_us, echo, at = _decode_numbers(payload, at)
    return AckFrame(base, ranges, window, echo, delay_us * 1_000), at


def _decode_refusing(payload: bytes, at: int) -> tuple[Frame, int]:
    base, ranges, window, delay_us, echo, at = _decode_numbers(payload, at)
    count, refused_base = _REFUSED.unpack_from(payload, at)
    if not 0 < count <= REFUSED_RANGES_MAX:
        raise ProtocolError(DropReason.BAD_FRAME, "nothing refused, or too much")
    refused, at = _decode_ranges(payload, at + _REFUSED.size, count, refused_base, 0)
    return AckFrame(base, ranges, window, echo, delay_us * 1_000, refused), at


def _decode_store_ack(payload: bytes, at: int) -> tuple[Frame, int]:
    base, ranges, _, _, mark, at = _decode_numbers(payload, at)
    if mark > MARK_MAX:
        raise ProtocolError(DropReason.BAD_FRAME, "store ack with an impossible mark")
    return StoreAckFrame(base, ranges, mark), at


def _decode_ping(payload: bytes, at: int) -> tuple[Frame, int]:
    _SHORT.unpack_from(payload, at)
    return PingFrame(), at + _SHORT.size


def _decode_close(payload: bytes, at: int) -> tuple[Frame, int]:
    _, code = _SHORT.unpack_from(payload, at)
    return CloseFrame(_CLOSE_REASONS.get(code, CloseReason.PEER_CLOSED)), at + _SHORT.size


def _decode_probe(payload: bytes, at: int) -> tuple[Frame, int]:
    _, _, _, number = _PROBE.unpack_from(payload, at)
    return ProbeFrame(number, len(payload) - at), len(payload)


def _decode_probed(payload: bytes, at: int) -> tuple[Frame, int]:
    _, _, _, number = _PROBE.unpack_from(payload, at)
    return ProbedFrame(number), at + _PROBE.size


def _decode_round_trip(payload: bytes, at: int) -> tuple[Frame, int]:
    _, _, _, rtt_ns = _ROUND_TRIP.unpack_from(payload, at)
    return RoundTripFrame(rtt_ns), at + _ROUND_TRIP.size


def _decode_piece(payload: bytes, at: int) -> tuple[Frame, int]:
    _, flags, length, number, mark, total_bytes, offset = _PIECE.unpack_from(payload, at)
    start = at + _PIECE.size
    end = start + length
    if end > len(payload) or number == 0 or mark > MARK_MAX or not 0 < length <= total_bytes - offset:
        raise ProtocolError(DropReason.BAD_FRAME, "piece empty or too long, numbered 0, or with an impossible mark")
    delivery = _DELIVERY[flags & _CLASS_MASK]
    piece = PieceFrame(number, delivery, _ASKED[flags & _ASK_MASK], total_bytes, offset, payload[start:end], mark)
    return piece, end


_DECODERS = {
    _TYPE_PACKET: _decode_packet,
    _TYPE_ACK: _decode_ack,
    _TYPE_STORE_ACK: _decode_store_ack,
    _TYPE_PING: _decode_ping,
    _TYPE_CLOSE: _decode_close,
    _TYPE_REFUSING: _decode_refusing,
    _TYPE_PROBE: _decode_probe,
    _TYPE_PROBED: _decode_probed,
    _TYPE_PIECE: _decode_piece,
    _TYPE_ROUND_TRIP: _decode_round_trip,
}
