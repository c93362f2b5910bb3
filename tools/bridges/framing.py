"""Packets of MQTT in what a broker sends. Of one that is too large only the beginning is kept. Pure."""

from typing import NamedTuple

HAS_MORE, LOW_BITS = 0x80, 0x7F
"""Of a byte of a length: whether another follows, and its part of the number."""
LENGTH_BYTES_MAX = 4
"""A length has no more."""
BEGINNING_BYTES = 2 + 0xFFFF + 2
"""Of a packet that is too large: the length of its topic, the longest topic, and a packet id."""


class Packet(NamedTuple):
    """A packet.

    Attributes:
        first: its first byte.
        content: what follows its length; of one that is too large, the beginning of that.
        too_large: how many bytes follow its length, if that is too many; 0 otherwise.
    """

    first: int
    content: bytes
    too_large: int = 0


class PacketReader:
    """Cuts what comes into packets.

    Args:
        most: bytes that may follow the length of one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # The beginning of a packet whose length has not come.
        self._rest = b""
        # Of a packet whose length has come: its first byte, its length, what is still to come, and what has.
        self._first = self._size = self._missing = 0
        self._parts: list[bytes] = []
        self._is_between = True

    def feed(self, data: bytes) -> list[Packet]:
        """The packets that end in what has come. Raises ValueError: it is not MQTT."""
        data, at = self._rest + data, 0
        found: list[Packet] = []
        while True:
            if self._is_between:
                while at + 1 < len(data) and (end := at + 2 + data[at + 1]) <= len(data) and data[at + 1] < HAS_MORE:
                    found.append(Packet(data[at], data[at + 2 : end]))  # a short one, as acknowledgements are
                    at = end
                length = length_at(data, at + 1)
                if length is None:
                    self._rest = data[at:]
                    return found
                self._first, (self._size, at) = data[at], length
                self._missing, self._is_between = self._size, False
            part = data[at : at + self._missing]
            at += len(part)
            if self._size <= self._most or self._size - self._missing < BEGINNING_BYTES:
                self._parts.append(part)
            self._missing -= len(part)
            if self._missing:
                self._rest = b""
                return found
            is_too_large = self._size > self._most
            found.append(Packet(self._first, b"".join(self._parts), self._size if is_too_large else 0))
            self._parts.clear()
            self._is_between = True


def length_at(data: bytes, at: int) -> tuple[int, int] | None:
    """A length, and where what follows it begins; None if it has not come."""
    size = shift = 0
    for place in range(at, min(len(data), at + LENGTH_BYTES_MAX)):
        byte = data[place]
        size |= (byte & LOW_BITS) << shift
        if byte < HAS_MORE:
            return size, place + 1
        shift += 7
    if len(data) >= at + LENGTH_BYTES_MAX:
        raise ValueError("a packet has no length")
    return None


def packed_length(size: int) -> bytes:
    """A length, as packets and properties have it: seven bits in a byte, the lowest first."""
    found = bytearray()
    while size > LOW_BITS:
        found.append(size & LOW_BITS | HAS_MORE)
        size >>= 7
    found.append(size)
    return bytes(found)
