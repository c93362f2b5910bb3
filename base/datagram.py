"""The layout of one datagram, and the channels that protect it.

    offset  0        1         2          4                12         20            20 + payload
            | kind   | version | reserved | connection id  | counter  | protected payload |
              1 byte   1         2          8                8          any, and what its channel adds

All numbers are big-endian. The connection id is the receiver's, so that a datagram finds its conversation whatever
address it comes from (as RFC 9000 section 5.1 has it); a connect, which finds none, has 0 there. The counter never
repeats in a direction of a connection: a channel that encrypts takes its nonce from it (RFC 5116, section 3.1).

Each conversation has a channel of its own. Whoever begins one makes it with ``Channels.dial`` and seals a CONNECT with
it; whoever is called makes its own from that datagram, with ``Channels.answer``, and seals the ACCEPT with it:

    CONNECT   dial(address).seal     --->   answer(datagram): a channel, and what the connect says
    ACCEPT    the same channel.open  <---   the same channel.seal
    DATA      both                   <-->   both

So the hello travels as the payload of these two datagrams, and a channel that agrees on keys sends its own two
handshake messages around it: the first is what it makes of a CONNECT, the second what it makes of an ACCEPT. Both may
be sealed more than once, as hellos are repeated.
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Protocol

from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason

__all__ = ["HEADER_BYTES", "Channel", "Channels", "Header", "Kind", "read_header"]

VERSION = 1
"""Of the protocol as a whole; a datagram of another one is dropped unread."""

_HEADER = Struct("!BBHQQ")
HEADER_BYTES = _HEADER.size
"""What stands before the payload, in the clear; a channel adds its own to it (``Channel.overhead_bytes``)."""


class Kind(IntEnum):
    """What a datagram is for."""

    CONNECT = 1
    ACCEPT = 2
    DATA = 3


# A dict lookup costs a third of ``Kind(value)``.
_KINDS = {int(kind): kind for kind in Kind}


@dataclass(slots=True)
class Header:
    """What everyone can read of a datagram; not frozen because one is made for every datagram received.

    Attributes:
        kind: what the datagram is for.
        connection_id: the receiver's, 64 bits; 0 in a connect.
        counter: 64 bits; nobody uses one twice in a direction of a connection.
    """

    kind: Kind
    connection_id: int
    counter: int

    def encode(self) -> bytes:
        """The header as bytes."""
        return _HEADER.pack(self.kind, VERSION, 0, self.connection_id, self.counter)


def read_header(datagram: bytes) -> Header:
    """Read whose datagram it is. Nothing in it is true before a channel has opened the datagram.

    Raises:
        ProtocolError: with reason ``too-short``, ``bad-version``, ``unknown-kind`` or ``bad-header``.
    """
    if len(datagram) < HEADER_BYTES:
        raise ProtocolError(DropReason.TOO_SHORT, f"{len(datagram)} bytes")
    code, version, reserved, connection_id, counter = _HEADER.unpack_from(datagram)
    if version != VERSION:
        raise ProtocolError(DropReason.BAD_VERSION, str(version))
    kind = _KINDS.get(code)
    if kind is None:
        raise ProtocolError(DropReason.UNKNOWN_KIND, str(code))
    if reserved:
        raise ProtocolError(DropReason.BAD_HEADER, f"reserved bits {reserved:#06x}")
    return Header(kind, connection_id, counter)


class Channel(Protocol):
    """Protects the datagrams of one conversation; what it covers is the whole datagram, its header included."""

    @property
    def overhead_bytes(self) -> int:
        """By how much a datagram is longer than its payload: the header, and what the channel adds."""

    def seal(self, kind: Kind, connection_id: int, counter: int, payload: bytes) -> bytes:
        """Return the whole datagram: header and protected payload.

        Args:
            kind: what it is for.
            connection_id: the receiver's; 0 in a connect.
            counter: never the same twice in a direction of a connection.
            payload: what it carries: the hello, or frames, or nothing.
        """

    def open(self, datagram: bytes) -> bytes:
        """Return the payload of a datagram whose header ``read_header`` has read.

        Raises:
            ProtocolError: ``too-short`` or ``bad-tag``, when the datagram is not what the peer sealed.
        """


class Channels(Protocol):
    """Makes the channels of a node's conversations."""

    @property
    def overhead_bytes(self) -> int:
        """That of every channel that is made here: packets are cut to size before there is a conversation."""

    def dial(self, address: str) -> Channel:
        """The channel of a conversation that begins here: it seals the connect, and opens the accept.

        Args:
            address: whom it is for.
        """

    def answer(self, datagram: bytes) -> tuple[Channel, bytes]:
        """The channel of a conversation that a connect asks for, and the payload of that connect.

        The caller may drop the channel, or seal one accept with it and then drop it: it holds nothing but memory.

        Args:
            datagram: a connect, by its header.

        Raises:
            ProtocolError: ``too-short`` or ``bad-tag``.
        """
