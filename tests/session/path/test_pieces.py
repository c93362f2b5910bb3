"""Packets that no datagram holds: cut, lost in part, and reassembled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.session.path.pieces import PIECE_COST_BYTES, PIECES_BYTES_MAX, Pieces, count, cut
from triack.session.protocol.frames import Ask, PacketFrame, PieceFrame
from triack.session.protocol.packets import SessionPacket


def packet(content: bytes, number: int = 1) -> SessionPacket:
    return SessionPacket(number, Delivery.TRANSACTIONAL, content, None, Ask.NO, len(content))


def piece(number: int, total: int, offset: int, content: bytes) -> PieceFrame:
    return PieceFrame(number, Delivery.EXPRESS, Ask.NO, total, offset, content)


@given(content=st.binary(min_size=1, max_size=5_000), piece_bytes=st.integers(1, 1_200), data=st.data())
def test_a_packet_is_whole_when_all_pieces_came_in_any_order_and_any_number(
    content: bytes, piece_bytes: int, data: st.DataObject
) -> None:
    piece_bytes = max(piece_bytes, len(content) // 40 + 1)
    frames = cut(packet(content), piece_bytes, 7, ack_requested=Ask.WITH_STORE)
    assert len(frames) == count(packet(content), piece_bytes)
    assert all(len(frame.content) <= piece_bytes for frame in frames)
    pieces, whole = Pieces(), None
    for frame in data.draw(st.permutations(frames + frames[:-1])):
        whole = whole or pieces.handle_piece(frame)
    assert whole == PacketFrame(1, Delivery.TRANSACTIONAL, Ask.WITH_STORE, content, 7)


def test_only_the_last_piece_asks() -> None:
    ack_requested = [frame.ask for frame in cut(packet(bytes(3_000)), 1_000, 0, ack_requested=Ask.WITH_STORE)]
    assert ack_requested == [Ask.NO, Ask.NO, Ask.WITH_STORE]
    assert not any(frame.ask for frame in cut(packet(bytes(3_000)), 1_000, 0, ack_requested=Ask.NO))


def test_what_came_is_kept_until_the_rest_comes_with_another_sending() -> None:
    pieces, sent = Pieces(), cut(packet(bytes(range(200)) * 20), 1_000, 0, ack_requested=Ask.NO)
    for frame in sent[::2]:
        assert pieces.handle_piece(frame) is None
    whole = [pieces.handle_piece(frame) for frame in sent[1::2]]
    assert whole[-1] is not None
    assert whole[-1].content == bytes(range(200)) * 20
    assert pieces.cost_bytes == 0


def test_pieces_that_make_no_packet_are_refused_and_forgotten() -> None:
    """They overlap, or do not begin at the beginning."""
    pieces = Pieces()
    pieces.handle_piece(piece(1, 6, 2, b"abc"))
    with pytest.raises(ProtocolError, match="do not make a packet"):
        pieces.handle_piece(piece(1, 6, 3, b"abc"))
    assert pieces.cost_bytes == 0


def test_unfinished_packets_are_bounded_and_the_lowest_numbers_stay() -> None:
    pieces, length = Pieces(), 50_000
    limit = PIECES_BYTES_MAX // (length + PIECE_COST_BYTES)
    for number in range(2 * limit, 0, -1):
        pieces.handle_piece(piece(number, length + 1, 0, bytes(length)))
        assert pieces.cost_bytes <= PIECES_BYTES_MAX
    assert pieces.handle_piece(piece(1, length + 1, length, b"x")) is not None
    assert pieces.handle_piece(piece(2 * limit, length + 1, length, b"x")) is None


def test_what_came_whole_is_forgotten() -> None:
    pieces = Pieces()
    pieces.handle_piece(piece(4, 100, 0, b"half"))
    pieces.forget(4)
    pieces.forget(5)
    assert pieces.cost_bytes == 0


def test_many_tiny_pieces_cost_what_they_take() -> None:
    """No correct peer sends such pieces, and a peer that does fills no more memory by it."""
    pieces = Pieces()
    for number in range(1, 4):
        for offset in range(10_000):
            pieces.handle_piece(piece(number, 60_000, offset, b"x"))
            assert pieces.cost_bytes <= PIECES_BYTES_MAX
    assert pieces.cost_bytes < 30_000 * PIECE_COST_BYTES
