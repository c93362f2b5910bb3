"""A neighbour with a key that sends the worst that its key permits, by hand, over a real socket.

Each session has one kind of packets, with streams, nodes, names and bodies that it has invented. It sends as much as
the node acknowledges, and never acknowledges anything itself.
"""

import time
from collections.abc import Callable, Iterator
from itertools import count
from random import Random

from proof.by_hand import ANSWER_S, Session
from triack.base.delivery import Delivery
from triack.base.peers import Directory, Peer
from triack.ordering import wire
from triack.queues.admin_acks import write_request
from triack.queues.message_classes import Acks
from triack.queues.messages import ADMIN, LargeMessage, Outgoing
from triack.queues.packing import pack
from triack.queues.peers.introduction import Introduction
from triack.queues.remote.requests import Live, Subscribe, Unsubscribe
from triack.session.protocol import frames
from triack.transport.secure import SecureChannels

FAR = "far"
UNACKED_MAX = 48
"""Packets that it sends before the node has acknowledged them: below the window of 64."""
TURN_S = 2.0

Said = Iterator[tuple[Delivery, bytes]]
_TX, _RC, _EX = Delivery.TRANSACTIONAL, Delivery.RECOVERABLE, Delivery.EXPRESS
_EXPRESS_STREAMS = 1 << 31


class Liar:
    """What it says as one of the many nodes that it claims to be."""

    def __init__(self, random: Random, own: bytes, victim: bytes) -> None:
        self.random, self.own, self.victim = random, own, victim

    def message(self, number: int = 1, **more: object) -> bytes:
        """A message of a stream that it has invented."""
        header = wire.SequenceHeader(self.own, self.number(), 1, number, number - 1, "q", False, _body(b"x"))
        for name, value in more.items():
            setattr(header, name, value)
        return header.encode()

    def relayed(self, number: int = 1, final: str = "", **more: object) -> bytes:
        """A message that it brings for another node."""
        first = wire.SequenceHeader(self.random.randbytes(16), self.number(), 1, 1, 0, "q", False, b"")
        for name, value in more.items():
            setattr(first, name, value)
        packet = wire.RelayedPacket(number, number - 1, 1 << 40, False, _body(b"x"))
        return wire.encode_relayed_run(first, final, self.name(), [packet], trace=self.own[: wire.MARK_BYTES])[0]

    def number(self) -> int:
        """Of a stream, or of anything else."""
        return self.random.randrange(1, _EXPRESS_STREAMS)

    def name(self) -> str:
        """Of a node, a queue or a subscription."""
        return f"n{self.random.getrandbits(40)}"

    def streams(self) -> Said:
        """New ones, of each class."""
        for _ in count():
            yield self.random.choice((_TX, _RC)), self.message()
            yield _EX, self.message(stream=_EXPRESS_STREAMS + self.number())

    def gaps(self) -> Said:
        """Packets that do not follow each other."""
        for number in count(3, 2):
            for delivery, stream in ((_TX, 1), (_RC, 2), (_TX, 3 + number % 100)):
                yield delivery, self.message(number * (1 + self.random.randrange(1_000)), stream=stream)

    def queues(self) -> Said:
        """New ones, and those that are not for peers."""
        for _ in count():
            yield _TX, self.message(queue=self.name())
            named = ("$journal.", "$sub.", "$large.", "topic:", "$", "dead-letter", "reply", "")
            yield _TX, self.message(queue=self.random.choice(named) + self.name())

    def unread(self) -> Said:
        """Messages to a queue without a reader."""
        for number in count(1):
            yield _RC, self.message(number, stream=7)
            yield _EX, self.message(number, stream=_EXPRESS_STREAMS + 7, body=_body(bytes(900)))

    def answers_wanted(self) -> Said:
        """Messages about which the node must tell it all, in queues of any name."""
        for number in count(1):
            admin = {ADMIN: write_request(self.random.choice(("a", self.name())), Acks(15))}
            yield _TX, self.message(number, stream=8, queue="work", body=_body(Outgoing(b"x", admin)))

    def bodies(self) -> Said:
        """Large ones without a message that represents them, whole or not."""
        for number in count(1):
            stream, size_bytes = self.number(), self.random.choice((1, 300, 1 << 30))
            announced = LargeMessage(size_bytes.to_bytes(6), ordinal=self.number())
            yield _TX, self.message(stream=stream, queue="$large.q", body=_body(announced))
            for part in range(2, 2 + number % 9):
                yield _TX, self.message(part, stream=stream, queue="$large.q", body=_body(bytes(300)))

    def requests(self) -> Said:
        """Subscriptions that begin and end, and that never were."""
        for number in count(1):
            name, asked = self.name(), self.random.randrange(4)
            message = (
                Subscribe(name, number, f"{self.name()}.#", True, _TX, 1_000_000),
                Subscribe(name, number, "t.#", False, _TX, 1_000_000),
                Unsubscribe(name, number),
                Live({self.name(): it for it in range(20)}),
            )[asked]
            yield _TX, self.message(number, stream=9, queue="$subscriptions", body=_body(message.encode()))

    def ends(self) -> Said:
        """Of streams that never were, its own and others', for this node and for others."""
        for _ in count():
            yield _EX, wire.EndPacket(self.own, self.number(), 1, 1, answer=False).encode()
            for final in ("", FAR, self.name()):
                origin, last = self.random.choice((self.own, self.random.randbytes(16))), self.number()
                end = wire.RelayedEnd(
                    origin, self.number(), 1, 1, False, last, self.own[: wire.MARK_BYTES], origin, final, self.name()
                )
                yield _EX, end.encode()

    def words(self) -> Said:
        """Acks of what never was: of the node's streams, of its own, and of others'."""
        for _ in count():
            origin = self.random.choice((self.own, self.victim, self.random.randbytes(16)))
            named = origin, self.random.choice((1, 2, self.number())), 1, self.number()
            store = wire.StoreWord(self.number(), 1, 9, tuple((self.number(), 1) for _ in range(8)))
            yield _EX, wire.OrderAckPacket(*named).encode()
            yield _EX, wire.HoldPacket(*named[:2], named[3], True, "queue-full").encode()
            yield _EX, wire.RelayedOrderAck(*named, 1, self.random.randbytes(16), store).encode()
            yield _EX, wire.RelayedReject(*named, self.name() * 10, 1, self.own).encode()
            yield _EX, wire.OnwardPacket(*named, named[3], waits=True).encode()
            ranges = [(number, number) for number in range(1, 127, 2)]
            yield _EX, wire.OnwardAckPacket(*named, False, ranges).encode()
            yield _EX, wire.EndPacket(*named[:2], 1, 1, answer=True).encode()

    def origins(self) -> Said:
        """Messages of nodes that it has invented."""
        for _ in count():
            yield self.random.choice((_TX, _RC)), self.relayed()

    def transit(self) -> Said:
        """Messages for a node that is away, and for nodes that there are not."""
        for number in count(1):
            yield _TX, self.relayed(final=FAR)
            yield _RC, self.relayed(number, FAR, origin=self.own, stream=6)
            yield _EX, self.relayed(final=FAR, stream=_EXPRESS_STREAMS + self.number())
            yield _TX, self.relayed(final=self.name())
            yield _TX, self.relayed((1 << 40) - number, FAR, origin=self.own, stream=5)

    def nodes(self) -> Said:
        """A node's only statement: there is another one in the next session."""
        yield _EX, wire.EndPacket(self.own, 1, 1, 1, answer=False).encode()
        yield _TX, self.message(stream=2)

    def pieces(self) -> Said:
        """Nothing: what needs no packets is sent beside them (``_make_noise``)."""
        yield from ()


KINDS: tuple[Callable[[Liar], Said], ...] = (
    *(Liar.streams, Liar.gaps, Liar.queues, Liar.unread, Liar.answers_wanted, Liar.bodies, Liar.requests),
    *(Liar.ends, Liar.words, Liar.origins, Liar.transit, Liar.nodes, Liar.pieces),
)


def _body(message: bytes | Outgoing) -> bytes:
    one = message if isinstance(message, Outgoing) else Outgoing(message)
    return pack([one], 60_000, 1, int(time.time() * 1_000))[0][0].body


def do_worst(address: str, own_key: bytes, its_key: bytes, its_node: bytes, seed: int = 1) -> Iterator[tuple[str, int]]:
    """Send one kind after the other, without end; yields the kind, and how many packets it was."""
    random = Random(seed)
    channels = SecureChannels([own_key], Directory([Peer("b", (its_key,))]), entropy=random.randbytes)
    for turn in count():
        say, sent = KINDS[turn % len(KINDS)], 0
        until_s, own = time.monotonic() + TURN_S, random.randbytes(16)
        while time.monotonic() < until_s:
            own = random.randbytes(16) if say is Liar.nodes or random.random() < 0.5 else own  # noqa: PLR2004
            introduction = Introduction(own, "evil", "", address, incarnation=random.getrandbits(30))
            number = random.getrandbits(62) + 1
            with Session(address, channels.dial("b", "udp"), number, introduction, 1_200) as session:
                session.says_goodbye = random.random() < 0.5  # noqa: PLR2004 - the others are left behind
                if session.is_open:
                    session.say(frames.PingFrame())
                if say is Liar.pieces:
                    sent += _make_noise(session, random, until_s)
                else:
                    sent += _send(session, say(Liar(random, own, its_node)), until_s)
        yield say.__name__, sent


def _send(session: Session, said: Said, until_s: float) -> int:
    """Send packets as long as the node acknowledges them. Returns how many."""
    sent = 0
    for delivery, content in said:
        while sent - session.acked >= UNACKED_MAX and session.is_open and session.hear(ANSWER_S):
            pass
        if not session.is_open or sent - session.acked >= UNACKED_MAX or time.monotonic() >= until_s:
            break
        sent += 1
        ask = frames.Ask.NO if sent % 16 else frames.Ask.AT_ONCE
        session.say(frames.PacketFrame(sent, delivery, ask, content))
    return sent


def _make_noise(session: Session, random: Random, until_s: float) -> int:
    """Send pieces of packets that are never whole, and probes, pings and acks of what was never sent."""
    sent = 0
    while session.is_open and time.monotonic() < until_s:
        number, offset = random.randrange(1, 64), random.randrange(60_000)
        session.say(frames.PieceFrame(number, _EX, frames.Ask.NO, 61_000, offset, bytes(900)))
        session.say(frames.PingFrame())
        session.say(frames.ProbeFrame(number, 1_000))
        sent += 3
        session.hear(0.001)
    return sent
