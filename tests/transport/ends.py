"""Two nodes that know each other, and the datagrams between them."""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

from tests.sure import sure
from triack.base.datagram import Answer, Channel, Header, Kind, read_header
from triack.base.errors import ProtocolError
from triack.base.peers import Directory, Peer
from triack.base.units import SECOND
from triack.transport.handshake_load import CONNECTS_PER_SECOND
from triack.transport.noise import AESGCM_SHA256, KeyPair, Suite
from triack.transport.secure import SecureChannels

A_KEY, B_KEY, OLD_KEY, FOREIGN_KEY = (bytes([n]) * 32 for n in (1, 2, 3, 4))
A_ID, B_ID = 0xAAAA, 0xBBBB
A_ADDRESS = "udp://192.0.2.1:7801"
NOW_NS = 1_000 * SECOND


def public(private: bytes) -> bytes:
    return KeyPair.of(private).public


A, B = Peer("a", (public(A_KEY),)), Peer("b", (public(B_KEY),))


def node(keys: Sequence[bytes], peers: Iterable[Peer], seed: int = 0, **more: Any) -> SecureChannels:
    return SecureChannels(keys, Directory(peers), entropy=Random(seed).randbytes, **more)


class Shaken(NamedTuple):
    """A connect, the channel of its answerer, and the accept."""

    connect: bytes
    answerer: Channel
    accept: bytes


class Ends:
    """Node a, which calls, and node b, which is called."""

    def __init__(
        self,
        *,
        suites: tuple[Suite, Suite] = (AESGCM_SHA256, AESGCM_SHA256),
        a_keys: Sequence[bytes] = (A_KEY,),
        b_keys: Sequence[bytes] = (B_KEY,),
        a_at_b: Peer = A,
        b_at_a: Peer = B,
        scheme: str = "udp",
    ) -> None:
        self.a_directory = Directory([b_at_a])
        self.b_directory = Directory([a_at_b])
        self.a = SecureChannels(a_keys, self.a_directory, entropy=Random(1).randbytes, suite=suites[0])
        self.b = SecureChannels(b_keys, self.b_directory, entropy=Random(2).randbytes, suite=suites[1])
        self.caller = self.a.dial("b", scheme)
        self.counters = {"a": 0, "b": 0}

    def connect(self, hello: bytes = b"hello", now_ns: int = NOW_NS) -> bytes:
        return self.caller.seal(Kind.CONNECT, A_ID, self.counter("a"), hello, now_ns)

    def answer(self, datagram: bytes, now_ns: int = NOW_NS, sender: str = A_ADDRESS) -> Answer:
        """The answer of b to a datagram that claims to be a connect."""
        return self.b.answer(datagram, read_header(datagram), sender, now_ns)

    def accept(self, answer: Answer, connect: bytes, hello: bytes = b"hello yourself", now_ns: int = NOW_NS) -> bytes:
        return sure(answer.channel).seal(Kind.ACCEPT, A_ID, read_header(connect).counter, hello, now_ns)

    def shake(self, hello: bytes = b"hello", back: bytes = b"hello yourself", now_ns: int = NOW_NS) -> "Shaken":
        """A calls, and b answers; a has not heard it yet."""
        connect = self.connect(hello, now_ns)
        answer = self.answer(connect, now_ns)
        assert answer.payload == hello
        return Shaken(connect, sure(answer.channel), self.accept(answer, connect, back, now_ns))

    def open(self) -> tuple[Channel, Channel]:
        _, answerer, accept = self.shake()
        assert take(self.caller, accept) == b"hello yourself"
        assert take(answerer, self.seal("a", self.caller)) == b"data"
        return self.caller, answerer

    def seal(
        self, end: str, channel: Channel, payload: bytes = b"data", kind: Kind = Kind.DATA, now_ns: int = NOW_NS
    ) -> bytes:
        return channel.seal(kind, B_ID if end == "a" else A_ID, self.counter(end), payload, now_ns)

    def counter(self, end: str) -> int:
        self.counters[end] += 1
        return self.counters[end]


def dialled(
    key: bytes = A_KEY,
    to: bytes = B_KEY,
    *,
    psk: bytes = bytes(32),
    suite: Suite = AESGCM_SHA256,
    scheme: str = "udp",
    seed: int = 7,
) -> Channel:
    """The channel of some node that calls b, or whom it takes for b."""
    return node([key], [Peer("b", (public(to),), psk=psk)], seed, suite=suite).dial("b", scheme)


def take(channel: Channel, datagram: bytes, now_ns: int = NOW_NS) -> bytes:
    return channel.open(datagram, read_header(datagram), now_ns)


def refusal(channels: SecureChannels, channel: Channel, datagram: bytes, now_ns: int = NOW_NS) -> str:
    """Why a node drops a datagram, with the channel of the conversation that it is for; empty when it does not."""
    try:
        header: Header = read_header(datagram)
        if header.kind is Kind.CONNECT:
            channels.answer(datagram, header, A_ADDRESS, now_ns)
        else:
            channel.open(datagram, header, now_ns)
    except ProtocolError as error:
        return error.reason
    return ""


def load(ends: Ends, now_ns: int = NOW_NS, to: bytes = B_KEY) -> None:
    """Enough connects for b to ask every initiator for a cookie."""
    connect = dialled(to=to, seed=3).seal(Kind.CONNECT, 1, 1, b"", now_ns)
    taken = 0
    while ends.answer(connect, now_ns).channel is not None:
        taken += 1
    assert taken <= CONNECTS_PER_SECOND


def flips(datagram: bytes) -> Iterable[bytes]:
    """It with each bit in turn turned around."""
    for bit in range(len(datagram) * 8):
        damaged = bytearray(datagram)
        damaged[bit // 8] ^= 1 << bit % 8
        yield bytes(damaged)
