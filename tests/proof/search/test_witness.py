"""The witness by itself: what it refuses although no planted bug of the search leads there first."""

from dataclasses import replace

import pytest

from proof.planted.worlds import PLAIN
from proof.search.datagrams import Datagram
from proof.search.witness import Violation
from tests.proof.search.hosts import opened
from triack.session.protocol.frames import PacketFrame, StoreAckFrame


def packet(datagram: Datagram) -> PacketFrame:
    """The packet that it brings."""
    (found,) = (frame for frame in datagram.frames if isinstance(frame, PacketFrame))
    return found


def test_a_packet_of_another_session_is_not_to_be_taken() -> None:
    """Although it comes to the right connection."""
    _, second, (datagram, _) = opened(PLAIN)
    with pytest.raises(Violation, match="session a01 took a packet of session bad"):
        second.act(("deliver", None), replace(datagram, session=0xBAD))


def test_nothing_leaves_for_a_connection_without_a_session() -> None:
    """Nobody could have given it that number."""
    first, _, (datagram, _) = opened(PLAIN)
    with pytest.raises(Violation, match="a datagram leaves for connection bad, which no session has"):
        first.witness.note_sending(replace(datagram, connection=0xBAD))


def test_a_packet_never_changes() -> None:
    """A resend is equal to the original, and the sentence says what both are, even when one says nothing."""
    first, _, datagrams = opened(PLAIN)
    one, two = map(packet, datagrams)
    for content, now in ((two.content, "number 2 after 1 of sequence 1, a2"), (b"\xff", "unreadable")):
        other = replace(datagrams[0], frames=[replace(one, content=content)])
        with pytest.raises(Violation) as caught:
            first.witness.note_sending(other)
        was = "packet 1 of session a01 was number 1 after 0 of sequence 1, a1"
        assert str(caught.value) == f"{was}, and is now {now}"


def test_what_never_arrived_is_not_stored() -> None:
    """A store ack of it would let the sender forget it."""
    _, second, datagrams = opened(PLAIN)
    (ack,) = second.act(("deliver", None), datagrams[0])
    with pytest.raises(Violation, match="store ack of packet 2, which never arrived in session a01"):
        second.witness.note_sending(replace(ack, frames=[StoreAckFrame(0, [(2, 2)])]))
