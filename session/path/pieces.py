"""Packets that are longer than the datagrams of the path: cut into pieces when they leave, and reassembled.

The size of a packet is fixed when its messages are packed; it then keeps its number and its bytes. A stored packet may
meet a path that carries less: the peer has moved, the node was started elsewhere, the path has shrunk. Then it travels
as pieces, each the only frame of a datagram of the base's size; packets, not pieces, are acknowledged, lost and resent.

Promise: a packet arrives here when all its pieces have, of whichever sending: those that came are kept. Memory for
pieces is bounded; the packets with the lowest numbers, which the peer resends first, stay longest.
"""

from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason
from triack.session.protocol.frames import Ask, PacketFrame, PieceFrame
from triack.session.protocol.packets import SessionPacket

PIECES_BYTES_MAX = 4 * 1024 * 1024
"""Of unfinished packets of one session: a window of 64 that all lack a piece."""
PIECES_KEPT_BYTES = PIECES_BYTES_MAX * 7 // 8
"""The part that stays when packets are dropped: finding the highest numbers costs the same for many as for one."""
PIECE_COST_BYTES = 256
"""Memory of a piece beside its bytes (120 were measured), so that many tiny pieces cannot get around the bound."""


def cut(sent: SessionPacket, piece_bytes: int, mark: int, *, ack_requested: int) -> list[PieceFrame]:
    """The pieces of a packet, in order; the last one asks for an ack if the packet does."""
    content, total_bytes = sent.content, len(sent.content)
    pieces: list[PieceFrame] = []
    for offset in range(0, total_bytes, piece_bytes):
        piece = content[offset : offset + piece_bytes]
        ask = Ask(ack_requested) if offset + piece_bytes >= total_bytes else Ask.NO
        pieces.append(PieceFrame(sent.number, sent.delivery, ask, total_bytes, offset, piece, mark))
    return pieces


def count(sent: SessionPacket, piece_bytes: int) -> int:
    """How many pieces there are of a packet."""
    return -(-len(sent.content) // piece_bytes)


class _Unfinished:
    """The pieces of one packet that have come."""

    __slots__ = ("ask", "cost_bytes", "mark", "size_bytes", "some")

    def __init__(self) -> None:
        self.some: dict[int, bytes] = {}
        self.size_bytes = 0
        self.cost_bytes = 0
        self.ask = Ask.NO
        self.mark = 0

    def join(self) -> bytes | None:
        """The whole content; None when the pieces do not follow each other."""
        content = bytearray()
        for offset in sorted(self.some):
            if offset != len(content):
                return None
            content += self.some[offset]
        return bytes(content)


class Pieces:
    """The unfinished packets of one direction of one session."""

    __slots__ = ("_unfinished", "cost_bytes")

    def __init__(self) -> None:
        self._unfinished: dict[int, _Unfinished] = {}
        self.cost_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._unfinished)

    def handle_piece(self, piece: PieceFrame) -> PacketFrame | None:
        """Take a piece of a packet that has not come yet. Returns the packet when that was the last one missing.

        Raises:
            ProtocolError: ``bad-frame``: its pieces do not make a packet; they are dropped.
        """
        unfinished = self._unfinished.setdefault(piece.number, _Unfinished())
        if piece.offset not in unfinished.some:
            unfinished.some[piece.offset] = piece.content
            unfinished.size_bytes += len(piece.content)
            unfinished.cost_bytes += len(piece.content) + PIECE_COST_BYTES
            self.cost_bytes += len(piece.content) + PIECE_COST_BYTES
        unfinished.ask = piece.ask or unfinished.ask
        unfinished.mark = max(unfinished.mark, piece.mark)
        if unfinished.size_bytes < piece.total_bytes:
            self._bound()
            return None
        self.forget(piece.number)
        content = unfinished.join()
        if content is None or len(content) != piece.total_bytes:
            raise ProtocolError(DropReason.BAD_FRAME, "pieces that do not make a packet")
        return PacketFrame(piece.number, piece.delivery, unfinished.ask, content, unfinished.mark)

    def forget(self, number: int) -> None:
        """Drop the pieces of a packet: it has come, or room is needed."""
        unfinished = self._unfinished.pop(number, None)
        if unfinished is not None:
            self.cost_bytes -= unfinished.cost_bytes

    def _bound(self) -> None:
        """Drop more than necessary, so that the next piece finds room without a search."""
        if self.cost_bytes <= PIECES_BYTES_MAX:
            return
        for number in sorted(self._unfinished, reverse=True):
            if self.cost_bytes <= PIECES_KEPT_BYTES:
                return
            self.forget(number)
