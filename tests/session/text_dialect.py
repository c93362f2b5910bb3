"""A second wire protocol, made of text: all that a dialect must provide, with nothing of it in the product.

It has only the frames that a session over TCP
sends, where nothing is probed and nothing is cut into pieces.
"""

from collections.abc import Sequence

from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.ranges import Range
from triack.base.reasons import DropReason
from triack.session.protocol.frames import AckFrame, CloseFrame, Frame, Hello, PacketFrame, PingFrame, StoreAckFrame
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.policy import Policy
from triack.session.protocol.states import CloseReason

REASONS = {reason.value.encode(): reason for reason in CloseReason}
LONGEST_HEADER = "PACKET 18446744073709551615 TRANSACTIONAL 2 9223372036854775807 "


class TextCodec:
    """Frames end with a semicolon; a packet comes last, and its content is the rest of the line."""

    packet_header_bytes = piece_header_bytes = len(LONGEST_HEADER)
    ack_bytes = 100

    def encode(self, frame: Frame) -> bytes:
        match frame:
            case PacketFrame():
                return (
                    f"PACKET {frame.number} {frame.delivery.name} {frame.ask:d} {frame.mark} ".encode() + frame.content
                )
            case AckFrame():
                fields = frame.cumulative, frame.window, frame.echo, frame.delay_ns, _text(frame.ranges)
                return _line("ACK", *fields, _text(frame.refused))
            case StoreAckFrame():
                return _line("STORED", frame.cumulative, frame.mark, _text(frame.ranges))
            case PingFrame():
                return b"PING;"
            case CloseFrame():
                return _line("BYE", frame.reason.value)
        raise AssertionError(f"no session over TCP says {frame}")

    def encode_run(self, run: Sequence[SessionPacket], last_ask: int, mark: int) -> list[bytes]:
        ack_requested = [*(sent.ack_requested for sent in run[:-1]), last_ask]
        return [
            self.encode(PacketFrame(sent.number, sent.delivery, ask, sent.content, mark))
            for sent, ask in zip(run, ack_requested, strict=True)
        ]

    def decode(self, payload: bytes) -> list[Frame]:
        frames: list[Frame] = []
        try:
            while payload:
                end = len(payload) if payload.startswith(b"PACKET ") else payload.index(b";")
                frames.append(_read(payload[:end]))
                payload = payload[end + 1 :]
        except (KeyError, ValueError) as cause:
            raise ProtocolError(DropReason.BAD_FRAME, repr(payload)) from cause
        if len({type(frame) for frame in frames}) < len(frames):
            raise ProtocolError(DropReason.REPEATED_FRAME)
        return frames

    def decode_run(self, _payloads: Sequence[bytes], _number: int) -> None:
        """Each datagram is read by itself."""

    def encode_hello(self, hello: Hello) -> bytes:
        numbers = f"{hello.session_id} {hello.connection_id} {hello.sent_at_ns} {hello.max_datagram_bytes}"
        return f"{numbers} {hello.policy.encode().hex()} ".encode() + hello.introduction

    def decode_hello(self, data: bytes) -> Hello:
        session_id, connection_id, sent_at_ns, most_bytes, policy, introduction = data.split(b" ", 5)
        numbers = int(session_id), int(connection_id), int(sent_at_ns), int(most_bytes)
        return Hello(*numbers, Policy.decode(bytes.fromhex(policy.decode())), introduction)


def _line(*fields: object) -> bytes:
    return " ".join(map(str, fields)).encode() + b";"


def _text(ranges: Sequence[Range]) -> str:
    return ",".join(f"{first}-{last}" for first, last in ranges) or "none"


def _ranges(text: bytes) -> list[Range]:
    pairs = [] if text == b"none" else [part.split(b"-") for part in text.split(b",")]
    return [(int(first), int(last)) for first, last in pairs]


def _read(text: bytes) -> Frame:
    verb, *fields = text.split(b" ")
    match verb:
        case b"PACKET":
            number, delivery, ask, mark, content = text.split(b" ", 5)[1:]
            return PacketFrame(int(number), Delivery[delivery.decode()], int(ask), content, int(mark))
        case b"ACK":
            cumulative, window, echo, delay_ns, ranges, refused = fields
            numbers = int(window), int(echo), int(delay_ns)
            return AckFrame(int(cumulative), _ranges(ranges), *numbers, _ranges(refused))
        case b"STORED":
            cumulative, mark, ranges = fields
            return StoreAckFrame(int(cumulative), _ranges(ranges), int(mark))
        case b"PING":
            return PingFrame()
        case b"BYE":
            return CloseFrame(REASONS[fields[0]])
    raise ValueError(verb)
