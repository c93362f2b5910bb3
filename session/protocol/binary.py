"""Frames and hellos as bytes: the codec of Triack's own sessions.

Every integer is big-endian. An ACK and a REFUSING are of one kind.

    PACKET     type u8, flags u8, length u16, number u64, mark u64, content
    ACK        type u8, ranges u8, window u16, ack delay u32 in us, echo u64, cumulative u64,
               then per range: first u32, last u32
    REFUSING   an ACK with type 6, then: refused ranges u8, base u64, per range: first u32, last u32
    STORE_ACK  type u8, ranges u8, zero u16, zero u32, mark u64, cumulative u64, then the same ranges
    PING       type u8, flags u8: asks for every ack that is owed
    CLOSE      type u8, reason u8
    PROBE      type u8, zero u8, zero u16, number u32, zeros up to the end of the datagram
    PROBED     type u8, zero u8, zero u16, number u32: the probe with that number has come
    PIECE      type u8, flags u8, length u16, number u64, mark u64, total u16, offset u16, content: of a packet that is
               longer than the path's datagrams (``pieces``)
    ROUND_TRIP type u8, zero u8, zero u16, round trip u64 in ns: as the initiator has measured it with its connect

Range bounds are relative to the cumulative number. A REFUSING ack names the received packets whose rejections are still
in flight (``session_ack``).

The hello is the payload of a connect and of an accept:

    session id u64, connection id u64, sent at u64 in ns, largest datagram u32, policy (see there), introduction
"""

from collections.abc import Callable, Sequence
from struct import Struct
from struct import error as StructError
from typing import Any

from triack.base.checks import DATAGRAM_MIN_BYTES
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.ranges import Range
from triack.base.reasons import DropReason
from triack.session.protocol.frames import (
    MARK_MAX,
    MAX_ACK_RANGES,
    REFUSED_RANGES_MAX,
    AckFrame,
    Ask,
    CloseFrame,
    Frame,
    Hello,
    PacketFrame,
    PacketRun,
    PieceFrame,
    PingFrame,
    ProbedFrame,
    ProbeFrame,
    RoundTripFrame,
    StoreAckFrame,
)
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.policy import POLICY_BYTES, Policy
from triack.session.protocol.states import CloseReason

_PACKET = Struct("!BBHQQ")
_ACK = Struct("!BBHIQQ")
_RANGE = Struct("!II")
_REFUSED = Struct("!BQ")
_SHORT = Struct("!BB")
_HELLO = Struct("!QQQI")
_PROBE = Struct("!BBHI")
_PIECE = Struct("!BBHQQHH")
_ROUND_TRIP = Struct("!BBHQ")
_PACKET_BYTES = _PACKET.size

_TYPE_PACKET, _TYPE_ACK, _TYPE_STORE_ACK, _TYPE_PING, _TYPE_CLOSE, _TYPE_REFUSING = 1, 2, 3, 4, 5, 6
_TYPE_PROBE, _TYPE_PROBED, _TYPE_PIECE, _TYPE_ROUND_TRIP = 7, 8, 9, 10
_FLAG_ASK, _FLAG_PATIENT = 0x80, 0x40
"""The highest bits of a packet's flags; the class has the lowest two."""
_CLASS_MASK = 0x03
"""Two bits hold three classes."""
# Looking up is several times as fast as making an enumeration's member from its value.
_DELIVERY = {int(member): member for member in Delivery}
_CLOSE_CODES = {reason: code for code, reason in enumerate(CloseReason, start=1)}
_CLOSE_REASONS = {code: reason for reason, code in _CLOSE_CODES.items()}
_ASK_FLAGS: dict[int, int] = {Ask.NO: 0, Ask.AT_ONCE: _FLAG_ASK, Ask.WITH_STORE: _FLAG_ASK | _FLAG_PATIENT}
_ASK_MASK = _FLAG_ASK | _FLAG_PATIENT
_ASKED = {0: Ask.NO, _FLAG_PATIENT: Ask.NO, _FLAG_ASK: Ask.AT_ONCE, _ASK_MASK: Ask.WITH_STORE}


class BinaryCodec:
    """The codec of Triack's own sessions; ``Codec`` says what each method promises."""

    __slots__ = ()

    @property
    def packet_header_bytes(self) -> int:
        """Before the content of a packet."""
        return _PACKET_BYTES

    @property
    def piece_header_bytes(self) -> int:
        """Before the content of a piece."""
        return _PIECE.size

    @property
    def ack_bytes(self) -> int:
        """An ack without ranges."""
        return _ACK.size

    def encode(self, frame: Frame) -> bytes:
        """One frame."""
        return _ENCODERS[type(frame)](frame)

    def encode_run(self, run: Sequence[SessionPacket], last_ask: int, mark: int) -> list[bytes]:
        """Each packet as a datagram of its own."""
        pack, flags = _PACKET.pack, _ASK_FLAGS
        payloads = [
            pack(_TYPE_PACKET, sent.delivery | flags[sent.ack_requested], len(sent.content), sent.number, mark)
            + sent.content
            for sent in run
        ]
        last = run[-1]
        if last_ask != last.ack_requested:
            head = pack(_TYPE_PACKET, last.delivery | flags[last_ask], len(last.content), last.number, mark)
            payloads[-1] = head + last.content
        return payloads

    def decode(self, payload: bytes) -> list[Frame]:
        """Read the frames of a datagram.

        Raises:
            ProtocolError: ``bad-frame``; ``repeated-frame`` when there are two of one kind, which is not read any
                further. Nothing of the datagram counts then.
        """
        frames: list[Frame] = []
        kinds = 0
        at, end = 0, len(payload)
        try:
            while at < end:
                code = payload[at]
                frame, at = _DECODERS[code](payload, at)
                kind = _KINDS[code]
                if kinds & kind:
                    raise ProtocolError(DropReason.REPEATED_FRAME, f"{type(frame).__name__} before byte {at}")
                kinds |= kind
                frames.append(frame)
        except (StructError, KeyError, IndexError) as cause:
            raise ProtocolError(DropReason.BAD_FRAME, f"at byte {at}") from cause
        return frames

    def decode_run(self, payloads: Sequence[bytes], number: int) -> PacketRun | None:
        """Read the run that begins with packet ``number`` in the first of these datagrams."""
        code = 0
        ack_requested: list[int] = []
        contents: list[bytes] = []
        size_bytes = greatest = 0
        ask = Ask.NO
        for payload in payloads:
            payload_bytes = len(payload)
            if payload_bytes < _PACKET_BYTES:
                break
            kind, flags, length, its_number, mark = _PACKET.unpack_from(payload)
            if kind != _TYPE_PACKET or its_number != number or _PACKET_BYTES + length != payload_bytes:
                break
            if not contents:
                code = flags & _CLASS_MASK
            if flags & _CLASS_MASK != code or mark > MARK_MAX:
                break
            if flags & _FLAG_ASK:
                ack_requested.append(number)
                if ask is not Ask.AT_ONCE:
                    ask = _ASKED[flags & _ASK_MASK]
            if mark > greatest:
                greatest = mark
            contents.append(payload[_PACKET_BYTES:])
            size_bytes += length
            number += 1
        delivery = _DELIVERY.get(code) if contents else None
        if delivery is None:
            return None
        return PacketRun(number - len(contents), delivery, ack_requested, contents, size_bytes, greatest, ask)

    def encode_hello(self, hello: Hello) -> bytes:
        """A hello."""
        head = _HELLO.pack(hello.session_id, hello.connection_id, hello.sent_at_ns, hello.max_datagram_bytes)
        return head + hello.policy.encode() + hello.introduction

    def decode_hello(self, data: bytes) -> Hello:
        """Read a hello. Raises ProtocolError ``bad-hello``."""
        if len(data) < _HELLO.size + POLICY_BYTES:
            raise ProtocolError(DropReason.BAD_HELLO, "too short")
        session_id, connection_id, sent_at_ns, datagram_bytes = _HELLO.unpack_from(data)
        if datagram_bytes < DATAGRAM_MIN_BYTES or not connection_id:
            raise ProtocolError(DropReason.BAD_HELLO, "value out of range")
        policy = Policy.decode(data[_HELLO.size :][:POLICY_BYTES])
        return Hello(session_id, connection_id, sent_at_ns, datagram_bytes, policy, data[_HELLO.size + POLICY_BYTES :])


BINARY = BinaryCodec()
"""It has no state, so that all sessions share it."""


def _encode_packet(frame: PacketFrame) -> bytes:
    flags = frame.delivery | _ASK_FLAGS[frame.ask]
    return _PACKET.pack(_TYPE_PACKET, flags, len(frame.content), frame.number, frame.mark) + frame.content


def _encode_ack(frame: AckFrame) -> bytes:
    delay_us, refused = min(frame.delay_ns // 1_000, 0xFFFFFFFF), frame.refused
    kind = _TYPE_REFUSING if refused else _TYPE_ACK
    ack = _encode_numbers(kind, frame.cumulative, frame.ranges, frame.window, delay_us, frame.echo)
    if not refused:
        return ack
    base = refused[0][0] - 1
    spans = b"".join(_RANGE.pack(first - base, last - base) for first, last in refused)
    return ack + _REFUSED.pack(len(refused), base) + spans


def _encode_store_ack(frame: StoreAckFrame) -> bytes:
    return _encode_numbers(_TYPE_STORE_ACK, frame.cumulative, frame.ranges, 0, 0, frame.mark)


def _encode_numbers(kind: int, base: int, ranges: list[Range], window: int, delay_us: int, echo_or_mark: int) -> bytes:
    head = _ACK.pack(kind, len(ranges), window, delay_us, echo_or_mark, base)
    if not ranges:
        return head
    return head + b"".join(_RANGE.pack(first - base, last - base) for first, last in ranges)


def _encode_ping(_frame: PingFrame) -> bytes:
    return _SHORT.pack(_TYPE_PING, 0)


def _encode_close(frame: CloseFrame) -> bytes:
    return _SHORT.pack(_TYPE_CLOSE, _CLOSE_CODES[frame.reason])


def _encode_probe(frame: ProbeFrame) -> bytes:
    return _PROBE.pack(_TYPE_PROBE, 0, 0, frame.number).ljust(frame.size_bytes, b"\0")


def _encode_probed(frame: ProbedFrame) -> bytes:
    return _PROBE.pack(_TYPE_PROBED, 0, 0, frame.number)


def _encode_piece(piece: PieceFrame) -> bytes:
    flags = piece.delivery | _ASK_FLAGS[piece.ask]
    place = piece.total_bytes, piece.offset
    return _PIECE.pack(_TYPE_PIECE, flags, len(piece.content), piece.number, piece.mark, *place) + piece.content


def _encode_round_trip(frame: RoundTripFrame) -> bytes:
    return _ROUND_TRIP.pack(_TYPE_ROUND_TRIP, 0, 0, frame.rtt_ns)


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    PacketFrame: _encode_packet,
    AckFrame: _encode_ack,
    StoreAckFrame: _encode_store_ack,
    PingFrame: _encode_ping,
    CloseFrame: _encode_close,
    ProbeFrame: _encode_probe,
    ProbedFrame: _encode_probed,
    PieceFrame: _encode_piece,
    RoundTripFrame: _encode_round_trip,
}


def _decode_packet(payload: bytes, at: int) -> tuple[Frame, int]:
    _, flags, length, number, mark = _PACKET.unpack_from(payload, at)
    start = at + _PACKET_BYTES
    end = start + length
    if end > len(payload) or number == 0 or mark > MARK_MAX:
        raise ProtocolError(DropReason.BAD_FRAME, "packet too long, numbered 0, or with an impossible mark")
    delivery = _DELIVERY[flags & _CLASS_MASK]
    return PacketFrame(number, delivery, _ASKED[flags & _ASK_MASK], payload[start:end], mark), end


def _decode_numbers(payload: bytes, at: int) -> tuple[int, list[Range], int, int, int, int]:
    _, count, window, delay_us, echo, base = _ACK.unpack_from(payload, at)
    if count > MAX_ACK_RANGES:
        raise ProtocolError(DropReason.BAD_FRAME, "too many ranges")
    ranges, at = list[Range](), at + _ACK.size
    if count:
        ranges, at = _decode_ranges(payload, at, count, base, 1)
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
_KINDS = {code: 1 << code for code in _DECODERS} | {_TYPE_REFUSING: 1 << _TYPE_ACK}
"""A bit for each kind of frame, of which a datagram has one at most."""
