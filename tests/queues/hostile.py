"""A peer that knows the protocol and keeps to none of it."""

from random import Random
from typing import NamedTuple

from tests.queues.world import PlainWorld, SimNode, World
from triack.base.ack_trigger import AckTrigger
from triack.base.datagram import Kind, read_header
from triack.base.delivery import Delivery
from triack.base.units import SECOND
from triack.ordering.wire import SequenceHeader
from triack.queues.messages import Outgoing
from triack.queues.node_settings import NodeSettings
from triack.queues.packing import pack
from triack.queues.peers.introduction import Introduction
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import CloseFrame, Hello, PacketFrame, PingFrame
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.states import CloseReason
from triack.tools.sim.network import Port
from triack.transport.insecure import InsecureChannel

CHANNEL = InsecureChannel()
ORIGIN = b"\xee" * 16
POLICY = Policy.of(SessionSettings(ack_trigger=AckTrigger(delay_s=0.001)))


class Opened(NamedTuple):
    kind: Kind
    connection_id: int
    counter: int
    payload: bytes

    @property
    def hello(self) -> Hello:
        return BINARY.decode_hello(self.payload)

    @property
    def introduction(self) -> Introduction:
        """What its sender says of itself there."""
        return Introduction.decode(self.hello.introduction)


def open_datagram(datagram: bytes) -> Opened:
    header = read_header(datagram)
    return Opened(header.kind, header.connection_id, header.counter, CHANNEL.open(datagram, header, 0))


def make_connect(introduction: Introduction, session_id: int, counter: int = 1) -> bytes:
    """A connect that says what the test wants said."""
    hello = make_hello(introduction, session_id)
    return CHANNEL.seal(Kind.CONNECT, hello.connection_id, counter, BINARY.encode_hello(hello), 0)


def make_hello(introduction: Introduction, session_id: int, connection_id: int = 6) -> Hello:
    """A hello that says what the test wants said, and else what most say."""
    return Hello(session_id, connection_id, 0, 1_200, POLICY, introduction.encode())


class Hostile:
    """An open session with a victim, whose frames are written by hand. It never acknowledges anything by itself."""

    def __init__(
        self, world: World, victim: SimNode, name: str = "evil", session_id: int = 77, dialled: str = ""
    ) -> None:
        self.world = world
        self.victim = victim
        self.address = f"udp://{name}:1"
        self.answers: list[bytes] = []
        self.packets = 0
        self._counter = 0
        world.network.tap = self._listen
        hello = make_hello(Introduction(ORIGIN, name, "", dialled or victim.address), session_id, 4_242)
        self.datagram(Kind.CONNECT, BINARY.encode_hello(hello), 0)
        accepts = [opened for opened in self.heard() if opened[0] is Kind.ACCEPT]
        self.connection_id = BINARY.decode_hello(accepts[0][1]).connection_id
        self.frames(BINARY.encode(PingFrame()))

    def _listen(self, datagram: bytes, sender: str, to: str) -> None:
        if to == self.address:
            self.answers.append(datagram)

    def heard(self) -> list[tuple[Kind, bytes]]:
        """Kind and payload of every datagram that the victim sent us."""
        opened = [open_datagram(answer) for answer in self.answers]
        return [(datagram.kind, datagram.payload) for datagram in opened]

    def seal(self, kind: Kind, payload: bytes, connection_id: int) -> bytes:
        """A datagram with a good tag."""
        self._counter += 1
        return CHANNEL.seal(kind, connection_id, self._counter, payload, 0)

    def raw(self, data: bytes) -> None:
        """Throw bytes at the victim."""
        self.victim.live.handle_datagram(data, self.address, self.world.now_ns)
        self.victim.drain()

    def datagram(self, kind: Kind, payload: bytes, connection_id: int) -> None:
        """Send a well-sealed datagram."""
        self.raw(self.seal(kind, payload, connection_id))

    def frames(self, *frames: bytes) -> None:
        self.datagram(Kind.DATA, b"".join(frames), self.connection_id)

    def each(self, *frames: bytes) -> None:
        """Send frames in the session, each in a datagram of its own."""
        for frame in frames:
            self.frames(frame)

    def burst(self, *frames: bytes) -> None:
        """Send frames in the session, in datagrams that arrive together."""
        datagrams = [self.seal(Kind.DATA, frame, self.connection_id) for frame in frames]
        self.victim.live.handle_datagrams(datagrams, self.address, self.world.now_ns)
        self.victim.drain()

    def packet(self, content: bytes, delivery: Delivery = Delivery.TRANSACTIONAL) -> bytes:
        """The next packet of the session, as a frame."""
        self.packets += 1
        return BINARY.encode(PacketFrame(self.packets, delivery, False, content))

    def message(
        self,
        number: int,
        *,
        previous: int | None = None,
        queue: str = "q",
        stream: int = 1,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        **more: object,
    ) -> bytes:
        """The next packet of the session with a message of a stream, as a frame."""
        header = SequenceHeader(
            ORIGIN, stream, 1, number, number - 1 if previous is None else previous, queue, False, batch(b"hello")
        )
        for name, value in more.items():
            setattr(header, name, value)
        return self.packet(header.encode(), delivery)


class Curt:
    """A peer that answers every connect, and says goodbye at once, for a reason."""

    def __init__(self, world: World, reason: CloseReason, scheme: str = "udp") -> None:
        self.address = f"{scheme}://curt:1"
        self.reason = reason
        self._network = world.network
        self._network.attach(self.address, Port(self._receive, lambda _address: None))

    def _receive(self, datagram: bytes, sender: str) -> None:
        opened = open_datagram(datagram)
        if opened.kind is not Kind.CONNECT:
            return
        there = opened.hello.connection_id
        hello = make_hello(Introduction(ORIGIN, "curt", self.address, self.address), opened.hello.session_id)
        said = (
            (Kind.ACCEPT, opened.counter, BINARY.encode_hello(hello)),
            (Kind.DATA, 2, BINARY.encode(CloseFrame(self.reason))),
        )
        for kind, counter, payload in said:
            self._network.send(CHANNEL.seal(kind, there, counter, payload, 0), self.address, sender)


def batch(*bodies: bytes) -> bytes:
    """A packet body with these messages."""
    return pack([Outgoing(body) for body in bodies], 60_000, 1, 1)[0][0].body


def mangle(datagram: bytes, random: Random) -> bytes:
    """A datagram with something wrong: cut, a bit flipped, or bytes added."""
    kind = random.randrange(3)
    if kind == 0:
        return datagram[: random.randrange(len(datagram))]
    if kind == 1:
        at = random.randrange(len(datagram) * 8)
        flipped = bytearray(datagram)
        flipped[at // 8] ^= 1 << at % 8
        return bytes(flipped)
    return datagram + random.randbytes(random.randrange(1, 40))


def victim(settings: NodeSettings | None = None, queues: list[str] | None = None) -> tuple[World, SimNode, Hostile]:
    world = PlainWorld(1)
    node = world.node("b", settings, queues)
    return world, node, Hostile(world, node)


def still_works(world: World, node: SimNode) -> None:
    """An honest peer is served as ever."""
    honest = world.node("honest")
    honest.send(node, "honest", b"hello")
    assert world.run(10 * SECOND, lambda: not honest.busy)
    assert node.read_all("honest") == [b"hello"]


def answers_waiting(node: SimNode) -> int:
    """Order acks and rejections that wait in any session."""
    return max(len(conversation.control or ()) for conversation in node.live.handshakes.conversations.values())
