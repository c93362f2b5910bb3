"""The datagrams of a search: every different one once, by number.

The network is a set: a datagram that was sent once can arrive at any later time, any number of times, or never. So
loss, repetition and reordering need no separate choices. A state of the network is an integer with one bit for each
datagram.
"""

from dataclasses import dataclass

from triack.base.datagram import HEADER_BYTES, Answer, Channel, Header, Kind, Opened, open_each, read_header
from triack.base.errors import ProtocolError
from triack.ordering import wire
from triack.queues.packing import unpack
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import (
    AckFrame,
    CloseFrame,
    Frame,
    PacketFrame,
    PieceFrame,
    PingFrame,
    ProbedFrame,
    ProbeFrame,
    RoundTripFrame,
    StoreAckFrame,
)


class Bare:
    """A channel that seals nothing: a search does not damage datagrams."""

    __slots__ = ("peer", "peer_key")
    overhead_bytes = HEADER_BYTES

    def __init__(self) -> None:
        self.peer = ""
        self.peer_key = b""

    def seal(self, kind: Kind, connection_id: int, counter: int, payload: bytes, now_ns: int) -> bytes:  # noqa: ARG002
        """Return header and payload."""
        return Header(kind, connection_id, counter).encode() + payload

    def seal_run(self, connection_id: int, counter: int, payloads: list[bytes], now_ns: int) -> list[bytes]:
        """Return the same for data that leaves together."""
        run = enumerate(payloads, counter)
        return [self.seal(Kind.DATA, connection_id, at, payload, now_ns) for at, payload in run]

    def open(self, datagram: bytes, header: Header, now_ns: int) -> bytes:  # noqa: ARG002
        """Return the payload."""
        return datagram[HEADER_BYTES:]

    def open_run(self, datagrams: list[bytes], counters: list[int], header: Header, now_ns: int) -> Opened:
        """Return the same for data that came together."""
        return open_each(lambda datagram, _: self.open(datagram, header, now_ns), datagrams, counters)


class BareChannels:
    """Gives each conversation a bare channel."""

    __slots__ = ()
    overhead_bytes = HEADER_BYTES
    seals = None

    def knows(self, peer: str) -> bool:  # noqa: ARG002
        """Any peer can be called."""
        return True

    def dial(self, peer: str, scheme: str) -> Channel:  # noqa: ARG002
        """Return a channel for a conversation that begins here."""
        return Bare()

    def answer(self, datagram: bytes, header: Header, sender: str, now_ns: int) -> Answer:  # noqa: ARG002
        """Return a channel for the conversation that a connect asks for, and the connect's payload."""
        return Answer(Bare(), datagram[HEADER_BYTES:])


@dataclass(slots=True)
class Datagram:
    """One datagram."""

    to: int
    data: bytes
    session: int
    kind: Kind
    connection: int
    counter: int
    frames: list[Frame]

    @classmethod
    def read(cls, to: int, data: bytes) -> "Datagram":
        """Take a datagram apart."""
        header, payload = read_header(data), data[HEADER_BYTES:]
        kind, connection, counter = header.kind, header.connection_id, header.counter
        if kind is Kind.DATA:
            return cls(to, data, 0, kind, connection, counter, BINARY.decode(payload))
        return cls(to, data, BINARY.decode_hello(payload).session_id, kind, connection, counter, [])

    @property
    def has_packet(self) -> bool:
        """Whether it brings a packet, so that an ack may echo its counter."""
        return any(isinstance(frame, PacketFrame) for frame in self.frames)

    @property
    def is_ack(self) -> bool:
        """Whether it brings acks and nothing else."""
        return bool(self.frames) and all(isinstance(frame, AckFrame | StoreAckFrame) for frame in self.frames)

    def forget_counter(self) -> None:
        """Make it equal to every other datagram with the same content."""
        self.counter = 0
        self.data = Header(self.kind, self.connection, 0).encode() + self.data[HEADER_BYTES:]

    def __str__(self) -> str:
        if self.kind is not Kind.DATA:
            return f"{self.kind.name} of session {self.session:x}"
        said = ", ".join(map(_describe, self.frames))
        return f"DATA of session {self.session:x} [{said}]"


class Datagrams:
    """All datagrams of a search, numbered as they appear."""

    def __init__(self) -> None:
        self.known: list[Datagram] = []
        self.to = [0, 0]
        self.connects = [0, 0]
        self.acks = 0
        self._numbers: dict[tuple[int, int, bytes], int] = {}
        self._by_connection: dict[tuple[int, int], int] = {}

    def number(self, datagram: Datagram) -> int:
        """The number of a datagram, a new one if it was never sent before."""
        key = (datagram.to, datagram.session, datagram.data)
        found = self._numbers.get(key)
        if found is not None:
            return found
        number = self._numbers[key] = len(self.known)
        self.known.append(datagram)
        self.to[datagram.to] |= 1 << number
        if datagram.is_ack:
            self.acks |= 1 << number
        if datagram.kind is Kind.CONNECT:
            self.connects[datagram.to] |= 1 << number
        place = (datagram.to, datagram.connection)
        self._by_connection[place] = self._by_connection.get(place, 0) | 1 << number
        return number

    def live(self, side: int, connections: tuple[int, ...]) -> int:
        """The datagrams to a side that can do anything there: connects, and those of its connections."""
        bits = self.connects[side]
        for connection in connections:
            bits |= self._by_connection.get((side, connection), 0)
        return bits


def _describe(frame: Frame) -> str:
    match frame:
        case PacketFrame():
            asks = ", asks" if frame.ask else ""
            return f"packet {frame.number}: {describe_packet(frame.content)}{asks}"
        case AckFrame():
            return f"session ack {_numbers(frame.cumulative, frame.ranges)}"
        case StoreAckFrame():
            return f"store ack {_numbers(frame.cumulative, frame.ranges)}"
        case PingFrame() | ProbeFrame() | ProbedFrame() | RoundTripFrame():
            return type(frame).__name__.removesuffix("Frame").lower()
        case CloseFrame():
            return f"goodbye: {frame.reason.value}"
        case PieceFrame():
            return f"bytes {frame.offset} to {frame.offset + len(frame.content)} of packet {frame.number}"


def _numbers(cumulative: int, ranges: list[tuple[int, int]]) -> str:
    above = "".join(f" {first}-{last}" for first, last in ranges)
    return f"to {cumulative}{above and ' and' + above}"


def describe_packet(content: bytes) -> str:  # noqa: PLR0911 - one for each kind
    """The content of a packet, in a few words."""
    try:
        packet = wire.decode(content)
    except ProtocolError:
        return "unreadable"
    if isinstance(packet, wire.OrderAckPacket):
        return f"order ack to {packet.number}"
    if isinstance(packet, wire.RejectPacket):
        return f"reject of {packet.number}: {packet.reason}"
    if isinstance(packet, wire.HoldPacket):
        return f"hold of stream {packet.stream}, turn {packet.turn}: {'stop' if packet.stop else 'go'}"
    if isinstance(packet, wire.EndPacket):
        what = "is forgotten" if packet.answer else f"has ended, and all from {packet.since} on"
        return f"sequence {packet.sequence} of stream {packet.stream} {what}"
    if isinstance(packet, wire.OnwardPacket):
        return f"{'waits' if packet.waits else 'waits no more'} up to {packet.here} of sequence {packet.sequence}"
    if isinstance(packet, wire.OnwardAckPacket):
        more = ", and store acks are enough" if packet.is_async else ""
        return f"passed on {packet.ranges} of sequence {packet.sequence}{more}"
    said = b" ".join(unpack(packet.body).bodies).decode()
    return f"number {packet.number} after {packet.previous} of sequence {packet.sequence}, {said}"
