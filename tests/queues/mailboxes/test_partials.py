"""Pieces of large messages: which are here, and which messages are dead."""

import pytest

from triack.base.names import StreamId
from triack.queues.mailboxes.partials import Partial, Partials
from triack.queues.mailboxes.queued_packet import QueuedPacket

ORIGIN, STREAM = b"o" * 16, 7
STREAM_ID = StreamId(ORIGIN, STREAM)


def piece(number: int) -> QueuedPacket:
    return QueuedPacket([number], ORIGIN, STREAM, 1, number, 2, 1, 100, [b"x"])


def test_a_message_is_whole_when_all_its_pieces_are_here() -> None:
    """In any order."""
    partial = Partial(total_bytes=250, begun_by=4)
    for number, offset, length in ((6, 200, 50), (4, 0, 100)):
        partial.add(piece(number), offset, length)
        assert not partial.is_whole
    partial.add(piece(5), 100, 100)
    assert partial.is_whole
    assert [partial.rows[at].number for at in sorted(partial.rows)] == [4, 5, 6]


@pytest.mark.parametrize(("number", "offset", "length"), [(4, 0, 100), (5, 100, 100), (6, 200, 50)])
def test_each_piece_tells_which_packet_is_the_last(number: int, offset: int, length: int) -> None:
    """Two of 100 bytes follow the first of 100, when there are 250: the others may have gone with another process."""
    partial = Partial(250, number)
    partial.add(piece(number), offset, length)
    assert partial.last_number == 6


def test_what_was_begun_is_expected_until_it_is_taken() -> None:
    """By its stream and ordinal."""
    partials = Partials()
    partials.begin(piece(9), 3, 250)
    assert partials.expects(ORIGIN, STREAM, 3)
    assert not partials.expects(ORIGIN, STREAM + 1, 3)
    assert partials.awaits_beyond(ORIGIN, STREAM, 8)
    assert not partials.awaits_beyond(ORIGIN, STREAM, 9)
    partials.pop(STREAM_ID, 3)
    assert not partials.expects(ORIGIN, STREAM, 3)
    assert partials.of(STREAM_ID) == {}


def test_what_follows_in_an_ordered_stream_overtakes_what_has_pieces() -> None:
    """One without any is younger: its packets wait for their commit."""
    partials = Partials()
    for ordinal in (1, 2, 3):
        partials.begin(piece(ordinal), ordinal, 250)
    for ordinal in (1, 2):
        partials.of(STREAM_ID)[ordinal].add(piece(ordinal), 100, 100)
    assert partials.overtaken(STREAM_ID, 2) == [1]
    assert partials.overtaken(STREAM_ID, None) == [1, 2]


def test_a_message_is_dead_when_nobody_sends_its_last_packet() -> None:
    """While that is not known, it is not."""
    partials = Partials()
    partials.begin(piece(4), 1, 250)
    assert partials.unsent(STREAM_ID, 1, 100) == []
    partials.of(STREAM_ID)[1].add(piece(4), 0, 100)
    assert partials.unsent(STREAM_ID, 1, 5) == partials.unsent(STREAM_ID, 7, 9) == []
    assert partials.unsent(STREAM_ID, 1, 6) == [1]


def test_the_streams_of_a_node_are_found() -> None:
    """Those alone in which something was begun and is not whole."""
    partials = Partials()
    for stream in (STREAM, STREAM + 1):
        partials.begin(QueuedPacket([1], ORIGIN, stream, 1, 1, 0, 1, 100, [b"x"]), 3, 250)
    assert partials.of_origin(b"p" * 16) == []
    partials.pop(STREAM_ID, 3)
    assert partials.of_origin(ORIGIN) == [(ORIGIN, STREAM + 1)]
