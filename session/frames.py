"""What sessions say to each other: the frames inside a datagram, and the hello of a connection.

Every integer is big-endian. A datagram carries any number of frames; a packet, if there is one, comes last.

    PACKET     type u8, flags u8, length u16, number u64, serial u64, content
    ACK        type u8, ranges u8, window u16, ack delay u32 in us, echo u64, cumulative u64,
               then per range: first u32, last u32
    STORE_ACK  type u8, ranges u8, zero u16, zero u32, serial u64, cumulative u64, then the same ranges
    PING       type u8, flags u8: asks for every ack that is owed
    CLOSE      type u8, reason u8

``echo`` is the counter of the newest datagram that brought a packet, and the ack delay the time since it arrived: as
numbers are kept on a resend, only the counter tells which sending was answered. Range bounds are relative to the
cumulative number. All acks are cumulative plus ranges, so a lost one costs nothing. ``serial`` is the newest commit of
the sender's store: what the frame says is in it or in an earlier one. A session only carries it.
"""

from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate, pairwise
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from triack.base.checks import DATAGRAM_MIN_BYTES
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.ranges import NumberSet, Range
from triack.base.reasons import DropReason
from triack.session.settings import WINDOW_MAX
from triack.session.states import CloseReason

__all__ = [
    "CLOSE_BYTES",
    "MAX_ACK_RANGES",
    "NO_ECHO",
    "NO_NODE",
    "NO_POINT",
    "PACKET_HEADER_BYTES",
    "PING_BYTES",
    "SERIAL_MAX",
    "AckFrame",
    "CloseFrame",
    "Frame",
    "Hello",
    "HistoryPoint",
    "PacketFrame",
    "PingFrame",
    "RolledBack",
    "StoreAckFrame",
    "decode_frames",
    "encode_ack",
    "encode_close",
    "encode_packet",
    "encode_ping",
    "encode_store_ack",
    "numbers_bytes",
]

_PACKET = Struct("!BBHQQ")
_ACK = Struct("!BBHIQQ")
_RANGE = Struct("!II")
_SHORT = Struct("!BB")
_HELLO = Struct("!16sQQQIIQQQ16sQQQQBBBB")

PACKET_HEADER_BYTES = _PACKET.size
PING_BYTES = CLOSE_BYTES = _SHORT.size
MAX_ACK_RANGES = 64
"""Ranges in one ack, and thereby the work that one ack can ask for."""
SERIAL_MAX = 2**63 - 1
"""What a store keeps as one integer; no start id and no serial is greater."""

_TYPE_PACKET, _TYPE_ACK, _TYPE_STORE_ACK, _TYPE_PING, _TYPE_CLOSE = 1, 2, 3, 4, 5
_FLAG_ASK = 0x80
_CLASS_MASK = 0x03
_DELIVERY = {int(member): member for member in Delivery}
_CLOSE_CODES = {reason: code for code, reason in enumerate(CloseReason, start=1)}
_CLOSE_REASONS = {code: reason for reason, code in _CLOSE_CODES.items()}


class HistoryPoint(NamedTuple):
    """A point in the history of a store: one of its starts, by id, and a commit, by serial. Start 0 is no point."""

    start: int
    serial: int


NO_POINT = HistoryPoint(0, 0)
"""No point: nothing is known, or nothing is claimed."""
NO_NODE = bytes(16)
"""No node's id."""


class RolledBack(IntEnum):
    """Whose store was rolled back, as the sender of a hello sees it. The value is the code on the wire."""

    NONE = 0
    SENDER = 1
    RECEIVER = 2
    UNKNOWN = 3

    @property
    def turned(self) -> "RolledBack":
        """The same as the receiver sees it."""
        return _TURNED.get(self, self)


_TURNED = {RolledBack.SENDER: RolledBack.RECEIVER, RolledBack.RECEIVER: RolledBack.SENDER}
_VERDICTS = {int(member): member for member in RolledBack}


@dataclass(slots=True)
class PacketFrame:
    """One numbered packet. ``ask`` asks the receiver to acknowledge at once."""

    number: int
    delivery: Delivery
    ask: bool
    content: bytes
    serial: int = 0


@dataclass(slots=True)
class AckFrame:
    """A session ack: all up to ``cumulative`` arrived, and ``ranges`` above it; ``echo`` came ``delay_ns`` ago."""

    cumulative: int
    ranges: list[Range]
    window: int
    echo: int
    delay_ns: int


@dataclass(slots=True)
class StoreAckFrame:
    """A store ack: everything up to ``cumulative`` is on disk, and ``ranges`` above it."""

    cumulative: int
    ranges: list[Range]
    serial: int = 0


@dataclass(slots=True)
class PingFrame:
    """Asks for every ack that is owed, order acks included."""


@dataclass(slots=True)
class CloseFrame:
    """The peer's goodbye."""

    reason: CloseReason


NO_ECHO = (1 << 64) - 1
"""In place of a time: what has waited here would count as round trip."""

Frame = PacketFrame | AckFrame | StoreAckFrame | PingFrame | CloseFrame


@dataclass(slots=True)
class Hello:
    """What each end says of itself when a session is made.

    Attributes:
        node_id: 16 bytes that name the queue manager for ever.
        session_id: chosen by the initiator, the same at both ends.
        connection_id: where the sender of this hello wants to get the session's datagrams.
        sent_at_ns: the initiator's clock, echoed by the acceptor, who cannot read it ([MS-MQQB] 2.2.3.1 TimeStamp);
            ``NO_ECHO`` when the acceptor repeats itself unasked.
        window: packets the sender of this hello is ready to have unacknowledged towards it.
        max_datagram_bytes: largest datagram it takes.
        idle_ack_delay_ns: longest it holds an ack back.
        name: a label for people.
        address: where it listens, empty when it does not.
        dialled: the address that the initiator connected to, echoed by the acceptor; a newer session from the same node
            to the same address takes the place of an older one.
        point: where the sender's store is now, on its disk.
        receiver: whom the sender takes the receiver for, by node id; ``NO_NODE`` when it does not know.
        remembered: the latest point of the receiver that the sender knows of.
        checked: which ``remembered`` of the receiver the sender has found in the history of its own store.
        verdict: whose store was rolled back, if one was: there will be no session then.
    """

    node_id: bytes
    session_id: int
    connection_id: int
    sent_at_ns: int
    window: int
    max_datagram_bytes: int
    idle_ack_delay_ns: int
    name: str
    address: str
    dialled: str
    point: HistoryPoint = NO_POINT
    receiver: bytes = NO_NODE
    remembered: HistoryPoint = NO_POINT
    checked: HistoryPoint = NO_POINT
    verdict: RolledBack = RolledBack.NONE

    def encode(self) -> bytes:
        """The hello as bytes."""
        texts = [text.encode()[:255] for text in (self.name, self.address, self.dialled)]
        head = _HELLO.pack(
            self.node_id,
            self.session_id,
            self.connection_id,
            self.sent_at_ns,
            self.window,
            self.max_datagram_bytes,
            self.idle_ack_delay_ns,
            *self.point,
            self.receiver,
            *self.remembered,
            *self.checked,
            self.verdict,
            *map(len, texts),
        )
        return head + b"".join(texts)

    @classmethod
    def decode(cls, data: bytes) -> "Hello":
        """Read a hello. Raises ProtocolError ``bad-hello``."""
        if len(data) < _HELLO.size:
            raise ProtocolError(DropReason.BAD_HELLO, "too short")
        *fixed, verdict, name_bytes, address_bytes, dialled_bytes = _HELLO.unpack_from(data)
        ends = list(accumulate((name_bytes, address_bytes, dialled_bytes), initial=_HELLO.size))
        if ends[-1] != len(data):
            raise ProtocolError(DropReason.BAD_HELLO, "lengths do not add up")
        texts = [data[start:end].decode(errors="replace") for start, end in pairwise(ends)]
        hello = cls(*fixed[:7], *texts)
        hello.point, hello.receiver = HistoryPoint(*fixed[7:9]), fixed[9]
        hello.remembered, hello.checked = HistoryPoint(*fixed[10:12]), HistoryPoint(*fixed[12:])
        if verdict not in _VERDICTS or max(*hello.point, *hello.remembered, *hello.checked) > SERIAL_MAX:
            raise ProtocolError(DropReason.BAD_HELLO, "history out of range")
        hello.verdict = _VERDICTS[verdict]
        if (
            not 1 <= hello.window <= WINDOW_MAX
            or hello.max_datagram_bytes < DATAGRAM_MIN_BYTES
            or not hello.connection_id
        ):
            raise ProtocolError(DropReason.BAD_HELLO, "value out of range")
        return hello


def encode_packet(number: int, delivery: Delivery, ask: bool, content: bytes, serial: int = 0) -> bytes:
    """A PACKET frame."""
    return _PACKET.pack(_TYPE_PACKET, delivery | (_FLAG_ASK if ask else 0), len(content), number, serial) + content


def encode_ack(received: NumberSet, window: int, echo: int, delay_ns: int) -> bytes:
    """An ACK frame for what was received; datagram ``echo`` was the newest, and came ``delay_ns`` ago."""
    delay_us = min(delay_ns // 1_000, 0xFFFFFFFF)
    return _encode_numbers(_TYPE_ACK, received, window, delay_us, echo)


def encode_store_ack(stored: NumberSet, serial: int = 0) -> bytes:
    """A STORE_ACK frame for what is on disk."""
    return _encode_numbers(_TYPE_STORE_ACK, stored, 0, 0, serial)


def numbers_bytes(numbers: NumberSet) -> int:
    """How long an ACK or STORE_ACK frame for these numbers is."""
    return _ACK.size + _RANGE.size * len(numbers.lowest_ranges(MAX_ACK_RANGES))


def encode_ping() -> bytes:
    """A PING frame."""
    return _SHORT.pack(_TYPE_PING, 0)


def encode_close(reason: CloseReason) -> bytes:
    """A CLOSE frame."""
    return _SHORT.pack(_TYPE_CLOSE, _CLOSE_CODES[reason])


def _encode_numbers(kind: int, numbers: NumberSet, window: int, delay_us: int, echo_or_serial: int) -> bytes:
    ranges = numbers.lowest_ranges(MAX_ACK_RANGES)
    base = numbers.cumulative
    head = _ACK.pack(kind, len(ranges), window, delay_us, echo_or_serial, base)
    if not ranges:
        return head
    return head + b"".join(_RANGE.pack(first - base, last - base) for first, last in ranges)


def decode_frames(payload: bytes) -> list[Frame]:
    """Read the frames of a datagram. Raises ProtocolError ``bad-frame``; then nothing of the datagram counts."""
    frames: list[Frame] = []
    at, end = 0, len(payload)
    try:
        while at < end:
            frame, at = _DECODERS[payload[at]](payload, at)
            frames.append(frame)
    except (StructError, KeyError, IndexError) as cause:
        raise ProtocolError(DropReason.BAD_FRAME, f"at byte {at}") from cause
    return frames


def _decode_packet(payload: bytes, at: int) -> tuple[Frame, int]:
    _, flags, length, number, serial = _PACKET.unpack_from(payload, at)
    start = at + _PACKET.size
    end = start + length
    if end > len(payload) or number == 0 or serial > SERIAL_MAX:
        raise ProtocolError(DropReason.BAD_FRAME, "packet too long, numbered 0, or of no possible commit")
    delivery = _DELIVERY[flags & _CLASS_MASK]
    return PacketFrame(number, delivery, bool(flags & _FLAG_ASK), payload[start:end], serial), end


def _decode_numbers(payload: bytes, at: int) -> tuple[int, list[Range], int, int, int, int]:
    _, count, window, delay_us, echo, base = _ACK.unpack_from(payload, at)
    at += _ACK.size
    if count > MAX_ACK_RANGES:
        raise ProtocolError(DropReason.BAD_FRAME, "too many ranges")
    ranges = []
    floor = 1
    for _ in range(count):
        first, last = _RANGE.unpack_from(payload, at)
        if not floor < first <= last:
            raise ProtocolError(DropReason.BAD_FRAME, "ranges not ascending or not disjoint")
        ranges.append((base + first, base + last))
        floor = last + 1
        at += _RANGE.size
    return base, ranges, window, delay_us, echo, at


def _decode_ack(payload: bytes, at: int) -> tuple[Frame, int]:
    base, ranges, window, delay_us, echo, at = _decode_numbers(payload, at)
    return AckFrame(base, ranges, window, echo, delay_us * 1_000), at


def _decode_store_ack(payload: bytes, at: int) -> tuple[Frame, int]:
    base, ranges, _, _, serial, at = _decode_numbers(payload, at)
    if serial > SERIAL_MAX:
        raise ProtocolError(DropReason.BAD_FRAME, "store ack of an impossible commit")
    return StoreAckFrame(base, ranges, serial), at


def _decode_ping(payload: bytes, at: int) -> tuple[Frame, int]:
    _SHORT.unpack_from(payload, at)
    return PingFrame(), at + _SHORT.size


def _decode_close(payload: bytes, at: int) -> tuple[Frame, int]:
    _, code = _SHORT.unpack_from(payload, at)
    return CloseFrame(_CLOSE_REASONS.get(code, CloseReason.PEER_CLOSED)), at + _SHORT.size


_DECODERS = {
    _TYPE_PACKET: _decode_packet,
    _TYPE_ACK: _decode_ack,
    _TYPE_STORE_ACK: _decode_store_ack,
    _TYPE_PING: _decode_ping,
    _TYPE_CLOSE: _decode_close,
}
