"""The interface between the machines of a session and the bytes of a datagram.

The machines make and take typed frames (``frames``). The codec of a session turns them into bytes and back. A second
dialect is another codec; no machine changes for it.
"""

from collections.abc import Sequence
from typing import Protocol

from triack.session.protocol.frames import Frame, Hello, PacketRun
from triack.session.protocol.packets import SessionPacket


class Codec(Protocol):
    """Encodes and decodes frames and hellos. A datagram is its encoded frames, one behind the other.

    The codec checks datagrams of a peer: fields in range, at most ``MAX_ACK_RANGES`` ranges in an ack, marks up to
    ``MARK_MAX``, no second frame of one kind.
    """

    @property
    def packet_header_bytes(self) -> int:
        """The most that a packet takes in a datagram beside its content."""

    @property
    def piece_header_bytes(self) -> int:
        """The most that a piece takes in a datagram beside its content."""

    @property
    def ack_bytes(self) -> int:
        """The length of an ack without ranges; the largest packet leaves room for it in its datagram."""

    def encode(self, frame: Frame) -> bytes:
        """One frame as bytes. A probe of the path is padded to its ``size_bytes``."""

    def encode_run(self, run: Sequence[SessionPacket], last_ask: int, mark: int) -> list[bytes]:
        """Each of these packets as a datagram of its own.

        Args:
            run: at least one packet; each asks for what its ``ack_requested`` says.
            last_ask: the ``Ask`` of the last one, in place of its own.
            mark: of the owner's.
        """

    def decode(self, payload: bytes) -> list[Frame]:
        """Read the frames of a datagram.

        Raises:
            ProtocolError: ``bad-frame``; ``repeated-frame`` when there are two of one kind. Nothing of the datagram
                counts then.
        """

    def decode_run(self, payloads: Sequence[bytes], number: int) -> PacketRun | None:
        """Read the run that begins with packet ``number`` in the first of these datagrams.

        Returns:
            The packets that follow each other, each alone in its datagram; None when there is not even one.
            ``decode`` reads the other datagrams. A codec may always return None: then each datagram is read by itself.
        """

    def encode_hello(self, hello: Hello) -> bytes:
        """The payload of a connect or an accept."""

    def decode_hello(self, data: bytes) -> Hello:
        """Read the payload of a connect or an accept. Raises ProtocolError ``bad-hello``."""


def content_limit_bytes(codec: Codec, max_datagram_bytes: int, overhead_bytes: int) -> int:
    """The largest packet content that fits a datagram of that size, with an ack beside it."""
    return max_datagram_bytes - overhead_bytes - codec.packet_header_bytes - codec.ack_bytes
