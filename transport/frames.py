"""Datagrams in a byte stream. Pure.

Triack's own framer puts each after its length, four bytes, big-endian. The TCP endpoint accepts another framer.
"""

from collections.abc import Iterable
from struct import Struct
from typing import ClassVar, Protocol

from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason

FRAME_BYTES_MAX = 65_536 + 1_024
"""64 KiB of payload, and the headers of every layer: a peer that announces more is cut off."""

_LENGTH = Struct("!I")
_LENGTH_BYTES = _LENGTH.size


def frame(datagrams: Iterable[bytes]) -> bytes:
    """Return all datagrams as frames, ready for one write."""
    parts: list[bytes] = []
    for datagram in datagrams:
        parts.append(_LENGTH.pack(len(datagram)))
        parts.append(datagram)
    return b"".join(parts)


class Framer(Protocol):
    """Puts the datagrams of one connection into its byte stream, and takes those of the peer out of the other.

    Attributes:
        max_datagram_bytes: the longest datagram that it accepts.
    """

    max_datagram_bytes: ClassVar[int]

    def __init__(self) -> None:
        """For a connection that begins."""

    def frame(self, datagrams: Iterable[bytes]) -> bytes:
        """Return all datagrams as framed in the stream, ready for one write."""

    @property
    def is_partial(self) -> bool:
        """Whether a datagram of the peer has begun and not ended."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the datagrams that ``data``, the next bytes from the peer, completes.

        Raises ProtocolError ``frame-too-large``: the stream cannot be read any further.
        """


class LengthFramer:
    """Triack's own framing. It cuts a byte stream, in whatever pieces it arrives, into datagrams."""

    max_datagram_bytes: ClassVar[int] = FRAME_BYTES_MAX
    __slots__ = ("_buffer", "_needed_bytes")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._needed_bytes = _LENGTH_BYTES

    def frame(self, datagrams: Iterable[bytes]) -> bytes:
        """Return all datagrams as frames, ready for one write."""
        return frame(datagrams)

    @property
    def is_partial(self) -> bool:
        """Whether a frame has begun and not ended."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the datagrams that ``data`` completes. Raises ProtocolError: see ``Framer``."""
        self._buffer += data
        # Bytes that arrive one by one must not cost a parse each.
        if len(self._buffer) < self._needed_bytes:
            return []
        return self._cut()

    def _cut(self) -> list[bytes]:
        buffer, start, datagrams = self._buffer, 0, []
        self._needed_bytes = _LENGTH_BYTES
        while len(buffer) - start >= _LENGTH_BYTES:
            (length,) = _LENGTH.unpack_from(buffer, start)
            if length > FRAME_BYTES_MAX:
                raise ProtocolError(DropReason.FRAME_TOO_LARGE, f"{length} bytes")
            end = start + _LENGTH_BYTES + length
            if end > len(buffer):
                self._needed_bytes = end - start
                break
            datagrams.append(bytes(buffer[start + _LENGTH_BYTES : end]))
            start = end
        del buffer[:start]
        return datagrams
