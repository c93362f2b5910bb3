"""Strangers who send a node as much as they can: ``make flood``.

Half of them send junk. The other half know the node's public key, as any host may, and send connects that look right,
each from another spoofed address; every other one of these claims to show a cookie. An invitation is open, and junk
enrolments come, too. The proof fails if memory grows, if an answer is longer than its request, or if a peer does not
get in.
"""

import gc
import time
import tracemalloc
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from triack.base.datagram import HEADER_BYTES, Header, Kind, read_header
from triack.base.errors import ProtocolError
from triack.base.peers import Directory, Peer
from triack.base.units import SECOND
from triack.transport.cookies import MAC_BYTES, mac, mac_key
from triack.transport.enrolment import EnrolmentServer
from triack.transport.invitation import Invitation
from triack.transport.noise import KeyPair
from triack.transport.secure import CONNECT_BYTES, SecureChannels

DATAGRAMS = 1_000_000
MEMORY_BYTES_MAX = 1 << 20
AMPLIFICATION_MAX = 1.0
PEER_EVERY = 5_000
"""Datagrams between two connects of a peer, which must get in: ten a second, half of what one host may."""
PER_SECOND = 50_000
"""By the node's clock: five hundred times what it accepts without a cookie."""
A_KEY, B_KEY = bytes([1]) * 32, bytes([2]) * 32
PEER_ADDRESS = "udp://192.0.2.1:7801"
CODE = Invitation(bytes(range(MAC_BYTES)), 1 << 62)


class Flooded(NamedTuple):
    """The result."""

    datagrams: int
    answered: int
    amplification: float
    memory_bytes: int
    peers_tried: int
    peers_failed: int
    violations: int
    seconds: float


class Victim:
    """A node that others know, with an open invitation."""

    def __init__(self) -> None:
        keys = [Peer("a", (KeyPair.of(A_KEY).public,))]
        self.channels = SecureChannels([B_KEY], Directory(keys), entropy=Random(1).randbytes)
        self.enrolment = EnrolmentServer(B_KEY, "b", [], entropy=Random(2).randbytes)
        self.enrolment.invite(CODE, 0)

    def answer(self, datagram: bytes, sender: str, now_ns: int) -> bytes:
        """The node's answer to a stranger."""
        try:
            header = read_header(datagram)
            if header.kind is Kind.ENROL:
                return self.enrolment.handle_datagram(datagram, header, sender, now_ns)
            return self.channels.answer(datagram, header, sender, now_ns).retry
        except ProtocolError:
            return b""


def flood(datagrams: int = DATAGRAMS, seed: int = 0) -> Flooded:
    """Send ``datagrams`` datagrams to a node, and let a peer connect now and then."""
    victim, started = Victim(), time.monotonic()
    answered, longest, tried, failed, now_ns = 0, 0.0, 0, 0, 0
    for _ in strangers(1_000, seed + 1):  # allocations that happen once, and the cost of making strangers
        now_ns += SECOND // PER_SECOND
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number, (datagram, sender) in enumerate(strangers(datagrams, seed)):
            now_ns += SECOND // PER_SECOND
            reply = victim.answer(datagram, sender, now_ns)
            if reply:
                answered += 1
                longest = max(longest, len(reply) / len(datagram))
            if number % PEER_EVERY == PEER_EVERY - 1:
                tried += 1
                failed += not gets_in(victim, now_ns)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    broken = (grown > MEMORY_BYTES_MAX) + (longest > AMPLIFICATION_MAX) + failed
    seconds = round(time.monotonic() - started, 1)
    return Flooded(datagrams, answered, round(longest, 3), grown, tried, failed, broken, seconds)


def strangers(count: int, seed: int) -> Iterator[tuple[bytes, str]]:
    """``count`` datagrams, each with the address that it comes from."""
    random, key = Random(seed), mac_key(b"triack mac1", KeyPair.of(B_KEY).public)
    for number in range(count):
        sender = (
            f"udp://10.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(256)}:{1 + number % 65_535}"
        )
        kind = Kind.ENROL if number % 8 == 0 else Kind.CONNECT
        header = Header(kind, random.getrandbits(64), 1 + number % 5).encode()
        size = random.choice((0, 1, HEADER_BYTES, 256, CONNECT_BYTES, CONNECT_BYTES + 200))
        if number % 2:
            said = header + random.randbytes(CONNECT_BYTES - HEADER_BYTES - 2 * MAC_BYTES)
            said += random.randbytes(MAC_BYTES) if number % 4 == 1 else bytes(MAC_BYTES)
            yield said + mac(key, said), sender
        elif number % 3:
            yield header + random.randbytes(size), sender
        else:
            yield random.randbytes(size), sender


def gets_in(victim: Victim, now_ns: int) -> bool:
    """Whether a peer that connects now gets in, after one request for a cookie at most."""
    directory = Directory([Peer("b", (KeyPair.of(B_KEY).public,))])
    caller = SecureChannels([A_KEY], directory, entropy=Random(now_ns).randbytes).dial("b", "udp")
    for attempt in (1, 2):
        connect = caller.seal(Kind.CONNECT, 1, attempt, b"hello", now_ns)
        try:
            answer = victim.channels.answer(connect, read_header(connect), PEER_ADDRESS, now_ns)
        except ProtocolError:
            return False
        if answer.channel is not None:
            accept = answer.channel.seal(Kind.ACCEPT, 1, attempt, b"hello", now_ns)
            return caller.open(accept, read_header(accept), now_ns) == b"hello"
        caller.open(answer.retry, read_header(answer.retry), now_ns)
    return False
