"""The size of datagrams, and packets that are larger."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sure import sure
from triack.base.delivery import Delivery
from triack.base.errors import ProtocolError
from triack.base.units import SECOND
from triack.session.congestion.pacing import NetworkShare
from triack.session.congestion.rtt import RoundTrip
from triack.session.congestion.send_window import SendWindow
from triack.session.path.path_mtu import (
    BLACK_HOLE_LOSSES,
    ETHERNET_BYTES,
    JUMBO_BYTES,
    MAX_PROBES,
    RAISE_NS,
    MtuState,
    PathMtu,
)
from triack.session.path.path_size import FLIGHT_PACKETS, PathSize
from triack.session.path.pieces import PIECE_COST_BYTES, PIECES_BYTES_MAX, Pieces, count, cut
from triack.session.protocol.events import Event, ProbeAnswered, SizeChanged
from triack.session.protocol.frames import Ask, PacketFrame, PieceFrame, ProbedFrame
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.path_traits import UDP, PathTraits
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.timers import Timer, Timers

# The largest datagram of a path: probes, the sizes that they prove, and the events that undo that.

BASE = 1_200


def wanting(ceiling: int = 9_000) -> PathMtu:
    path = PathMtu(BASE, ceiling)
    path.handle_sending(ceiling, 0)
    return path


def search(path: PathMtu, carried: int, now_ns: int = 0) -> list[int]:
    """Let a path that carries so much answer every probe, or not. Returns the sizes that were tried."""
    tried: list[int] = []
    while (probe := path.poll_probe()) is not None:
        tried.append(probe.size_bytes)
        assert len(tried) < 200, "the search has no end"
        if probe.size_bytes <= carried:
            path.handle_answer(probe.number, now_ns)
        else:
            path.handle_timer(now_ns)
    return tried


def test_jumbo_frames_are_used_at_once() -> None:
    """And not after a search up to the most that is wanted: each size that is too large takes three seconds."""
    path = wanting(32_000)
    assert search(path, 9_000 - 28)[:4] == [BASE, ETHERNET_BYTES, JUMBO_BYTES, 32_000]
    assert JUMBO_BYTES <= path.size_bytes <= 9_000 - 28
    assert search(wanting(32_000), ETHERNET_BYTES)[:5] == [BASE, ETHERNET_BYTES, *[JUMBO_BYTES] * MAX_PROBES]
    assert search(wanting(32_000), 60_000) == [BASE, ETHERNET_BYTES, JUMBO_BYTES, 32_000]


def test_nothing_is_probed_before_something_is_sent_nor_where_nothing_more_is_wanted() -> None:
    path = PathMtu(BASE, 9_000)
    path.handle_moved()
    path.handle_silence()
    path.handle_timer(SECOND)
    assert (path.state, path.poll_probe()) == (MtuState.DISABLED, None)
    small = wanting(1_200)
    assert (small.state, small.poll_probe(), small.size_bytes) == (MtuState.DISABLED, None, BASE)
    assert PathMtu(BASE, 576).size_bytes == 576


def test_a_peer_that_answers_nothing_is_asked_again_after_ten_minutes_of_use() -> None:
    path = wanting()
    assert search(path, 0) == [BASE] * MAX_PROBES
    assert (path.state, path.size_bytes) == (MtuState.ERROR, BASE)
    path.handle_sending(0, RAISE_NS - 1)
    assert path.poll_probe() is None
    path.handle_sending(0, RAISE_NS)
    assert path.state is MtuState.BASE
    search(path, 9_000, RAISE_NS)
    assert path.size_bytes == 9_000


def test_a_path_that_carries_more_later_is_found_out_when_it_is_used() -> None:
    path = wanting()
    search(path, 1_472)
    path.handle_sending(0, RAISE_NS - 1)
    assert path.poll_probe() is None
    path.handle_sending(0, RAISE_NS)
    assert search(path, 9_000) == [9_000]
    assert (path.state, path.size_bytes) == (MtuState.SEARCH_COMPLETE, 9_000)
    path.handle_sending(0, 3 * RAISE_NS)
    assert path.poll_probe() is None, "there is nothing more to find"


def test_large_ones_that_are_lost_in_a_row_are_a_black_hole() -> None:
    """Small ones that are lost say nothing, and one large one that arrives proves the path."""
    path = wanting()
    search(path, 9_000)
    for _ in range(BLACK_HOLE_LOSSES - 1):
        path.handle_lost(9_000)
    for _ in range(BLACK_HOLE_LOSSES):
        path.handle_lost(BASE)
        path.handle_acked(BASE)
    assert path.is_suspect
    path.handle_acked(5_000)
    assert not path.is_suspect
    for _ in range(BLACK_HOLE_LOSSES):
        assert path.size_bytes == 9_000
        path.handle_lost(8_000)
    assert (path.state, path.size_bytes) == (MtuState.BASE, BASE)
    assert search(path, 1_472)[:2] == [BASE, ETHERNET_BYTES]


@pytest.mark.parametrize("carried", [1_200, 9_000])
@pytest.mark.parametrize("again", [PathMtu.handle_moved, PathMtu.handle_silence])
def test_another_path_is_searched_from_the_base(again: Callable[[PathMtu], None], carried: int) -> None:
    """Answers to what was sent before prove nothing of it."""
    path = wanting()
    path.handle_answer(1, 0)
    path.poll_probe()
    path.handle_answer(2, 0)
    old = sure(path.poll_probe())
    again(path)
    assert (path.state, path.size_bytes) == (MtuState.BASE, BASE)
    path.handle_answer(old.number, 0)
    assert path.state is MtuState.BASE
    search(path, carried)
    assert path.size_bytes == carried


def test_no_probe_is_longer_than_all_that_was_sent_before_it() -> None:
    path, sent = PathMtu(BASE, 9_000), 0
    for size_bytes in (BASE, ETHERNET_BYTES, 9_000):
        path.handle_sending(size_bytes - 1 - sent, 0)
        assert path.poll_probe() is None
        path.handle_timer(RAISE_NS)
        path.handle_sending(1, 0)
        sent = size_bytes
        probe = sure(path.poll_probe())
        assert probe.size_bytes == size_bytes
        path.handle_answer(probe.number, 0)
    assert path.size_bytes == 9_000


# The machines that get the size of datagrams in force.


class Told:
    """The machine for the size, and all its notifications."""

    def __init__(self, traits: PathTraits = UDP, limit: int = 9_000, window: int = 64) -> None:
        self.events: list[Event] = []
        self.timers = Timers()
        self.share = NetworkShare(SessionSettings(), 1_200, 0, 0)
        self.window = SendWindow(window, RoundTrip(), self.share.window)
        self.path_size = PathSize(
            traits,
            limit,
            overhead_bytes=36,
            packet_header_bytes=20,
            share=self.share,
            window=self.window,
            rtt=RoundTrip(),
            timers=self.timers,
            tell=self.events.append,
        )

    def answer(self) -> int:
        """Let the probe that is due leave, and come back. Returns how long it was."""
        probe = sure(self.path_size.poll_probe(0))
        self.path_size.handle_probed(ProbedFrame(probe.number), 0)
        return probe.size_bytes + 36


def packet(size: int) -> SessionPacket:
    return SessionPacket(1, Delivery.EXPRESS, b"", None, False, size)


def test_of_large_packets_fewer_wait_than_the_window_takes() -> None:
    """Queued packets leave even when the peer has no room left; with small packets the bytes stay within its room."""
    told = Told(window=1_024, limit=32_000)
    assert told.window.room == 1_024
    told.path_size.handle_departed([packet(32_000)], 0)
    while told.path_size.size_bytes < 32_000:
        told.answer()
    assert told.window.room == FLIGHT_PACKETS


def test_everyone_hears_of_a_proved_size() -> None:
    told = Told()
    told.path_size.handle_departed([packet(9_000)], 0)
    assert [told.answer() for _ in range(3)] == [1_200, 1_452, 9_000]
    answered = ProbeAnswered()
    assert told.events == [answered, answered, SizeChanged(1_452), answered, SizeChanged(9_000)]
    assert (told.share.window.window_bytes, told.window.most_bytes) == (4 * 9_000, FLIGHT_PACKETS * 9_000)
    assert Timer.PATH_MTU not in told.timers
    assert (told.path_size.room_bytes, told.path_size.piece_room_bytes) == (9_000 - 36, 1_200 - 36)
    assert [told.path_size.fits(packet(size)) for size in (9_000, 9_001)] == [True, False]


def test_what_is_sent_is_counted_until_any_probe_is_worth_its_bytes() -> None:
    told = Told()
    told.path_size.handle_departed([packet(300)] * 3, 0)
    assert told.path_size.poll_probe(0) is None
    told.path_size.handle_departed([packet(1_000)] * 10, 0)
    assert [told.answer() for _ in range(3)] == [1_200, 1_452, 9_000]


# Packets that no datagram holds: cut, lost in part, and reassembled.


def piece(number: int, total: int, offset: int, content: bytes) -> PieceFrame:
    return PieceFrame(number, Delivery.EXPRESS, Ask.NO, total, offset, content)


@given(content=st.binary(min_size=1, max_size=5_000), piece_bytes=st.integers(1, 1_200), data=st.data())
def test_a_packet_is_whole_when_all_pieces_came_in_any_order_and_any_number(
    content: bytes, piece_bytes: int, data: st.DataObject
) -> None:
    """The last piece alone asks, if any does."""
    piece_bytes = max(piece_bytes, len(content) // 40 + 1)
    whole = SessionPacket(1, Delivery.TRANSACTIONAL, content, None, Ask.NO, len(content))
    frames = cut(whole, piece_bytes, 7, ack_requested=Ask.WITH_STORE)
    assert len(frames) == count(whole, piece_bytes)
    assert all(len(frame.content) <= piece_bytes for frame in frames)
    assert [frame.ask for frame in frames] == [*[Ask.NO] * (len(frames) - 1), Ask.WITH_STORE]
    assert not any(frame.ask for frame in cut(whole, piece_bytes, 7, ack_requested=Ask.NO))
    pieces, found = Pieces(), None
    for frame in data.draw(st.permutations(frames + frames[:-1])):
        found = found or pieces.handle_piece(frame)
    assert found == PacketFrame(1, Delivery.TRANSACTIONAL, Ask.WITH_STORE, content, 7)


def test_pieces_that_make_no_packet_are_refused_and_forgotten() -> None:
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


def test_many_tiny_pieces_cost_what_they_take() -> None:
    """No correct peer sends such pieces, and a peer that does fills no more memory by it."""
    pieces = Pieces()
    for number in range(1, 4):
        for offset in range(10_000):
            pieces.handle_piece(piece(number, 60_000, offset, b"x"))
            assert pieces.cost_bytes <= PIECES_BYTES_MAX
    assert pieces.cost_bytes < 30_000 * PIECE_COST_BYTES
