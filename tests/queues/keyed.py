"""A toy channel that proves names: a peer that knows a key is the peer with that key. It hides nothing.

connect: header, key of the caller (8 bytes), nonce (8 bytes), payload, tag. All that follows is sealed with that nonce.
"""

from hashlib import blake2b
from itertools import count

from triack.base.datagram import HEADER_BYTES, Answer, Header, Kind, Opened, open_each
from triack.base.errors import ProtocolError
from triack.base.peers import Directory, Peer
from triack.base.reasons import DropReason

TAG_BYTES = 20
KEY_BYTES = 8


def key_of(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=KEY_BYTES).digest()


def peer(name: str, *addresses: str) -> Peer:
    return Peer(name, keys=(key_of(name),), addresses=addresses)


class Keyed:
    """Of one conversation: each connect draws a nonce, and the accept opened last before any data says which counts."""

    overhead_bytes = HEADER_BYTES + TAG_BYTES

    def __init__(self, own: bytes, draw: "count[int]") -> None:
        self.peer, self.peer_key = "", b""
        self.nonces: dict[int, bytes] = {}
        self.nonce = b""
        self._own = own
        self._draw = draw

    def seal(self, kind: Kind, connection_id: int, counter: int, payload: bytes, now_ns: int) -> bytes:
        said = Header(kind, connection_id, counter).encode()
        nonce = self.nonce
        if kind is Kind.CONNECT:
            nonce = self.nonces[counter] = next(self._draw).to_bytes(8, "big")
            said += self._own + nonce
        elif kind is Kind.DATA:
            self.nonces.clear()
        return self.tag(said + payload, nonce)

    def seal_run(self, connection_id: int, counter: int, payloads: list[bytes], now_ns: int) -> list[bytes]:
        run = enumerate(payloads, counter)
        return [self.seal(Kind.DATA, connection_id, at, payload, now_ns) for at, payload in run]

    @staticmethod
    def tag(said: bytes, nonce: bytes) -> bytes:
        return said + blake2b(said, key=nonce, digest_size=TAG_BYTES).digest()

    def open(self, datagram: bytes, header: Header, now_ns: int) -> bytes:
        if header.kind is Kind.RETRY:
            return b""
        nonce = self.nonces.get(header.counter, b"") if header.kind is Kind.ACCEPT else self.nonce
        if not nonce or self.tag(datagram[:-TAG_BYTES], nonce) != datagram:
            raise ProtocolError(DropReason.BAD_TAG)
        self.nonce = nonce
        return datagram[HEADER_BYTES:-TAG_BYTES]

    def open_run(self, datagrams: list[bytes], counters: list[int], header: Header, now_ns: int) -> Opened:
        return open_each(lambda datagram, _: self.open(datagram, header, now_ns), datagrams, counters)


class KeyedChannels:
    """Those of one node.

    Attributes:
        retries: connects that are answered with a request to say them again.
    """

    overhead_bytes = Keyed.overhead_bytes
    seals = None

    def __init__(self, name: str, directory: Directory) -> None:
        self.name = name
        self.directory = directory
        self.retries = 0
        self._draw = count(int.from_bytes(key_of(name)[:6]) << 12)

    def knows(self, peer: str) -> bool:
        known = self.directory.named(peer)
        return known is not None and bool(known.keys)

    def dial(self, peer: str, scheme: str) -> Keyed:
        known = self.directory.named(peer)
        if known is None or not known.keys:
            raise ProtocolError(DropReason.NO_KEY)
        channel = Keyed(key_of(self.name), self._draw)
        channel.peer, channel.peer_key = known.name, known.keys[0]
        return channel

    def answer(self, datagram: bytes, header: Header, sender: str, now_ns: int) -> Answer:
        if self.retries:
            self.retries -= 1
            return Answer(None, b"", Keyed.tag(Header(Kind.RETRY, header.connection_id, header.counter).encode(), b""))
        key, nonce = datagram[HEADER_BYTES:][:8], datagram[HEADER_BYTES:][8:16]
        known = self.directory.with_key(key)
        if known is None:
            raise ProtocolError(DropReason.UNTRUSTED)
        if Keyed.tag(datagram[:-TAG_BYTES], nonce) != datagram:
            raise ProtocolError(DropReason.BAD_TAG)
        channel = Keyed(key_of(self.name), self._draw)
        channel.peer, channel.peer_key, channel.nonce = known.name, key, nonce
        return Answer(channel, datagram[HEADER_BYTES + 16 : -TAG_BYTES])
