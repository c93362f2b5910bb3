"""The layout of one datagram, and the channels that protect it.

    offset  0        1         2       4                12         20            20 + payload
            | kind   | version | epoch | connection id  | counter  | protected payload |
              1 byte   1         2       8                8          any, and what its channel adds

All numbers are big-endian. The connection id is the receiver's, so that a datagram finds its conversation from any
address (as in RFC 9000 section 5.1); a connect has its sender's, for the answer. The counter never repeats in a
direction of a connection: a channel that encrypts makes its nonce of it (RFC 5116, section 3.1). An accept has the
counter of the connect that it answers. The epoch says which of a direction's successive keys sealed the data.

Each conversation has its own channel. The initiator makes one with ``Channels.dial`` and seals a CONNECT with it; the
acceptor makes one from that datagram, with ``Channels.answer``, and seals the ACCEPT with it:

    CONNECT   dial(peer).seal        --->   answer(datagram): a channel, and what the connect says
    RETRY     the same channel.open  <---   or, under load: prove your address first
    ACCEPT    the same channel.open  <---   the channel.seal
    DATA, CHALLENGE, RESPONSE        <-->   both

So the hello travels as the payload of these two datagrams, and a channel that agrees on keys makes them its two
handshake messages. A connect may be sealed again, as hellos are repeated: each one is a new handshake, and each that is
answered has its own channel at the acceptor. The initiator's channel has the keys of the accept that it opened last,
until it seals its first DATA; from then on it opens no other accept.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct, unpack
from typing import NamedTuple, Protocol

from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason

VERSION = 9
"""Of the protocol as a whole; a datagram of another version is dropped unread."""

HEADER = Struct("!BBHQQ")
HEADER_BYTES = HEADER.size
"""The bytes before the payload, in the clear; a channel adds more (``Channel.overhead_bytes``)."""
_COUNTER_BYTES = Struct("!Q").size
_COUNTER_AT = HEADER_BYTES - _COUNTER_BYTES
_CONNECTION_AT = _COUNTER_AT - _COUNTER_BYTES


class Kind(IntEnum):
    """The purpose of a datagram."""

    CONNECT = 1
    ACCEPT = 2
    DATA = 3
    RETRY = 4
    CHALLENGE = 5
    RESPONSE = 6
    ENROL = 7


# A dict lookup costs a third of ``Kind(value)``.
_KINDS = {int(kind): kind for kind in Kind}


@dataclass(slots=True)
class Header:
    """The part of a datagram that everyone can read; not frozen because one is made for every datagram received.

    Attributes:
        connection_id: the receiver's, 64 bits; in a connect the sender's.
        counter: 64 bits; never used twice in a direction of a connection.
        epoch: 16 bits: which key of its direction; 0 in any other kind than data.
    """

    kind: Kind
    connection_id: int
    counter: int
    epoch: int = 0

    def encode(self) -> bytes:
        """The header as bytes."""
        return encode_header(self.kind, self.connection_id, self.counter, self.epoch)


def encode_header(kind: Kind, connection_id: int, counter: int, epoch: int = 0) -> bytes:
    """A ``Header`` as bytes, for callers that make many."""
    return HEADER.pack(kind, VERSION, epoch, connection_id, counter)


def read_header(datagram: bytes) -> Header:
    """Read the header of a datagram. Nothing in it is proved before a channel has opened the datagram.

    Raises ProtocolError: with reason ``too-short``, ``bad-version`` or ``unknown-kind``.
    """
    if len(datagram) < HEADER_BYTES:
        raise ProtocolError(DropReason.TOO_SHORT, f"{len(datagram)} bytes")
    code, version, epoch, connection_id, counter = HEADER.unpack_from(datagram)
    if version != VERSION:
        raise ProtocolError(DropReason.BAD_VERSION, f"{version}, and this node speaks {VERSION}")
    if code not in _KINDS:
        raise ProtocolError(DropReason.UNKNOWN_KIND, str(code))
    return Header(_KINDS[code], connection_id, counter, epoch)


def connection_id_of(datagram: bytes) -> int:
    """The connection that a datagram names; any number if it is too short to name one."""
    return int.from_bytes(datagram[_CONNECTION_AT : _CONNECTION_AT + _COUNTER_BYTES])


def one_of_each_connection(datagrams: Iterable[bytes]) -> Iterable[bytes]:
    """One datagram for each connection that any of these names."""
    return {datagram[_CONNECTION_AT:_COUNTER_AT]: datagram for datagram in datagrams}.values()


def counters_of(burst: Sequence[bytes]) -> list[int]:
    """The counters of the first datagrams of a burst, as long as they are whole and their headers otherwise equal."""
    alike, counters = burst[0][:_COUNTER_AT], b""
    for datagram in burst:
        if datagram[:_COUNTER_AT] != alike or not datagram[HEADER_BYTES - 1 :]:
            break
        counters += datagram[_COUNTER_AT:HEADER_BYTES]
    return list(unpack(f"!{len(counters) // _COUNTER_BYTES}Q", counters))


class Opened(NamedTuple):
    """The result of opening a run of data."""

    counters: list[int]
    payloads: list[bytes]
    errors: list[ProtocolError]


def open_each(open_one: Callable[[bytes, int], bytes], datagrams: list[bytes], counters: list[int]) -> Opened:
    """Open data that came together, one by one: ``open_one(datagram, counter)`` may raise."""
    opened = Opened([], [], [])
    for datagram, counter in zip(datagrams, counters, strict=True):
        try:
            payload = open_one(datagram, counter)
        except ProtocolError as error:
            opened.errors.append(error)
        else:
            opened.counters.append(counter)
            opened.payloads.append(payload)
    return opened


class Channel(Protocol):
    """Protects the datagrams of one conversation: each as a whole, its header included.

    Attributes:
        peer: the proved peer's name in this node's directory; empty without keys.
        peer_key: the public key that proved it; empty without keys.
    """

    peer: str
    peer_key: bytes

    @property
    def overhead_bytes(self) -> int:
        """By how much a datagram is longer than its payload: the header, and the bytes of the channel."""

    def seal(self, kind: Kind, connection_id: int, counter: int, payload: bytes, now_ns: int) -> bytes:
        """Return the whole datagram: header and protected payload."""

    def seal_run(self, connection_id: int, counter: int, payloads: list[bytes], now_ns: int) -> list[bytes]:
        """The same for data that leaves together; the counters are consecutive from the first one."""

    def open(self, datagram: bytes, header: Header, now_ns: int) -> bytes:
        """Return the payload of a datagram; that of a RETRY is empty: seal the connect once more.

        Raises:
            ProtocolError: the datagram is not what the peer sealed, came before, or is of no use in this state; nothing
                has changed then. The reason is ``too-short``, ``bad-header``, ``bad-mac``, ``bad-tag``, ``replayed``,
                ``key-expired``, ``not-open``, ``unexpected-accept``, or ``too-many-forgeries`` (close the
                conversation).
        """

    def open_run(self, datagrams: list[bytes], counters: list[int], header: Header, now_ns: int) -> Opened:
        """Open data that came together."""


class Answer(NamedTuple):
    """The result of a connect.

    Attributes:
        channel: of the new conversation; None if the sender must first prove its address.
        payload: the content of the connect.
        retry: the datagram that asks for that proof, to be sent when there is no channel, or instead of an accept.
            Empty: the sender has proved its address, or cannot be asked.
    """

    channel: Channel | None
    payload: bytes
    retry: bytes = b""


class Seals(Protocol):
    """Seals messages end to end, so that nodes that pass them on cannot read them."""

    def seal(self, to: bytes, text: bytes, bound: bytes) -> bytes:
        """Seal a text for the owner of a public key; both ends must agree on ``bound``."""

    def open(self, sealed: bytes, bound: bytes) -> tuple[bytes, bytes]:
        """The public key of the sealer, and the text. Raises ProtocolError if this node's keys do not open it."""

    def mac(self, peer: bytes, said: bytes) -> bytes:
        """A proof, 16 bytes, that this node says that to the owner of a public key. Raises ProtocolError."""

    def fits(self, peers: Iterable[bytes], said: bytes, mac: bytes) -> bool:
        """Whether the owner of one of these keys made a proof for this node."""


class Channels(Protocol):
    """Makes the channels of a node's conversations."""

    @property
    def seals(self) -> Seals | None:
        """Seals messages with the node's keys; None without keys."""

    @property
    def overhead_bytes(self) -> int:
        """The overhead of every channel made here: packets are cut to size before there is a conversation."""

    def knows(self, peer: str) -> bool:
        """Whether a peer of the directory can be called: without keys any, with keys if one of its keys is known."""

    def dial(self, peer: str, scheme: str) -> Channel:
        """The channel of a conversation that begins here: it seals the connect, and opens the accept.

        Raises ProtocolError ``no-key``: the directory has no usable key of that peer, or no longer has the peer.
        """

    def answer(self, datagram: bytes, header: Header, sender: str, now_ns: int) -> Answer:
        """The channel of a conversation that a connect asks for, and the payload of that connect.

        The caller may drop the channel, or seal accepts with it and then drop it: it holds only memory.

        Raises:
            ProtocolError: nothing is answered then. The reason is ``too-short``, ``bad-mac``, ``too-many-connects``,
                ``other-suite``, ``bad-tag``, ``untrusted`` (its detail is the caller's key in hex, if known),
                ``own-node`` or ``bad-hello``.
        """
