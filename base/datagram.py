"""The layout of one datagram: header, payload, tag.

    offset  0        1         2          4                12         20        len - 16
            | kind   | version | reserved | connection id  | counter  | payload | tag |
              1 byte   1         2          8                8          any       16

All numbers are big-endian. The connection id is the receiver's, so that a datagram finds its session whatever
address it comes from. The counter never repeats in a direction of a connection: a channel that encrypts takes its
nonce from it. The tag covers header and payload; its size is that of an AEAD tag (RFC 5116, section 5.1).
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Protocol

from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason

__all__ = [
    "HEADER",
    "HEADER_BYTES",
    "OVERHEAD_BYTES",
    "TAG_BYTES",
    "VERSION",
    "Channel",
    "Datagram",
    "Kind",
    "open_datagram",
    "seal",
]

VERSION = 1
HEADER = Struct("!BBHQQ")
HEADER_BYTES = HEADER.size
TAG_BYTES = 16
OVERHEAD_BYTES = HEADER_BYTES + TAG_BYTES


class Kind(IntEnum):
    """What a datagram is for."""

    CONNECT = 1
    ACCEPT = 2
    DATA = 3


# A dict lookup costs a third of ``Kind(value)``.
_KINDS = {int(kind): kind for kind in Kind}


@dataclass(slots=True)
class Datagram:
    """One opened datagram; not frozen because one is made for every datagram received."""

    kind: Kind
    connection_id: int
    counter: int
    payload: bytes


class Channel(Protocol):
    """Protects datagrams on their way; what it covers is the whole datagram, its header included."""

    def seal(self, header: bytes, payload: bytes) -> bytes:
        """Return the whole datagram: header, protected payload and tag."""

    def open(self, datagram: bytes) -> bytes:
        """Return the payload of a datagram that has at least ``OVERHEAD_BYTES``.

        Raises:
            ProtocolError: ``bad-tag``, when the datagram is not what the peer sealed.
        """


def seal(channel: Channel, kind: Kind, connection_id: int, counter: int, payload: bytes) -> bytes:
    """Return the datagram that carries ``payload``.

    Args:
        channel: what protects it.
        kind: what it is for.
        connection_id: the receiver's, 64 bits.
        counter: 64 bits; the caller never uses one twice in a direction of a connection.
        payload: what it carries, possibly nothing.
    """
    return channel.seal(HEADER.pack(kind, VERSION, 0, connection_id, counter), payload)


def open_datagram(channel: Channel, datagram: bytes) -> Datagram:
    """Check a datagram and take it apart.

    Raises:
        ProtocolError: with reason ``too-short``, ``bad-version``, ``unknown-kind``, ``bad-header`` or ``bad-tag``.
    """
    if len(datagram) < OVERHEAD_BYTES:
        raise ProtocolError(DropReason.TOO_SHORT, f"{len(datagram)} bytes")
    code, version, reserved, connection_id, counter = HEADER.unpack_from(datagram)
    if version != VERSION:
        raise ProtocolError(DropReason.BAD_VERSION, str(version))
    kind = _KINDS.get(code)
    if kind is None:
        raise ProtocolError(DropReason.UNKNOWN_KIND, str(code))
    if reserved:
        raise ProtocolError(DropReason.BAD_HEADER, f"reserved bits {reserved:#06x}")
    return Datagram(kind, connection_id, counter, channel.open(datagram))
