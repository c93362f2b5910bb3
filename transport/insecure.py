"""The channel of nodes that run without keys, on loopback: it finds damage and keeps no secret.

header (20 bytes), payload, digest (16 bytes)
"""

from hashlib import blake2b

from triack.base.datagram import HEADER_BYTES, Answer, Channel, Header, Kind, Opened, encode_header, open_each
from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason

DIGEST_BYTES = 16
"""As long as the tag of a channel that keeps secrets (RFC 5116, section 5.1), so that the same packets fit."""


class InsecureChannel:
    """Finds damage, but neither hides nor authenticates anything: anyone can make its digest."""

    __slots__ = ()
    peer = ""
    peer_key = b""

    @property
    def overhead_bytes(self) -> int:
        """Header and digest."""
        return HEADER_BYTES + DIGEST_BYTES

    def seal(self, kind: Kind, connection_id: int, counter: int, payload: bytes, _now_ns: int) -> bytes:
        """Return header, payload and their BLAKE2b digest (RFC 7693)."""
        header = encode_header(kind, connection_id, counter)
        digest = blake2b(header, digest_size=DIGEST_BYTES)
        digest.update(payload)
        return b"".join((header, payload, digest.digest()))

    def seal_run(self, connection_id: int, counter: int, payloads: list[bytes], now_ns: int) -> list[bytes]:
        """The same for data that leaves together."""
        run = enumerate(payloads, counter)
        return [self.seal(Kind.DATA, connection_id, at, payload, now_ns) for at, payload in run]

    def open(self, datagram: bytes, _header: Header, _now_ns: int) -> bytes:
        """Return the payload. Raises ProtocolError: ``too-short``, or ``bad-tag`` if the digest does not fit."""
        if len(datagram) < HEADER_BYTES + DIGEST_BYTES:
            raise ProtocolError(DropReason.TOO_SHORT, f"{len(datagram)} bytes")
        if blake2b(memoryview(datagram)[:-DIGEST_BYTES], digest_size=DIGEST_BYTES).digest() != datagram[-DIGEST_BYTES:]:
            raise ProtocolError(DropReason.BAD_TAG)
        return datagram[HEADER_BYTES:-DIGEST_BYTES]

    def open_run(self, datagrams: list[bytes], counters: list[int], header: Header, now_ns: int) -> Opened:
        """The same for data that came together."""
        return open_each(lambda datagram, _counter: self.open(datagram, header, now_ns), datagrams, counters)


_CHANNEL = InsecureChannel()


class InsecureChannels:
    """Gives every conversation the same channel, as there is nothing to keep apart."""

    __slots__ = ()
    seals = None

    @property
    def overhead_bytes(self) -> int:
        """Header and digest."""
        return _CHANNEL.overhead_bytes

    def knows(self, _peer: str) -> bool:
        """Any peer can be called."""
        return True

    def dial(self, _peer: str, _scheme: str) -> Channel:
        """The channel of a conversation that begins here."""
        return _CHANNEL

    def answer(self, datagram: bytes, header: Header, _sender: str, now_ns: int) -> Answer:
        """The channel of a conversation that a connect asks for, and the payload of that connect."""
        return Answer(_CHANNEL, _CHANNEL.open(datagram, header, now_ns))
