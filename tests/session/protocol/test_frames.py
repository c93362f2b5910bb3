"""Frames and their layout."""

import ast

import pytest

from tests.house import code
from tests.session.pair import make_hello
from triack.base.ranges import NumberSet
from triack.base.units import MS
from triack.session.protocol.frames import MAX_ACK_RANGES, AckFrame, StoreAckFrame
from triack.session.protocol.opening import Opening

# How a session depends on its codec, whatever the codec's layout is.


@pytest.mark.gate
def test_no_machine_of_a_session_names_a_codec_or_a_scheme() -> None:
    """A second dialect, or another kind of path, changes no machine."""
    for source in code():
        if source.path.startswith("session/") and source.path != "session/protocol/binary.py":
            assert "triack.session.protocol.binary" not in source.text, source.path
            texts = {node.value for node in source.nodes if isinstance(node, ast.Constant)}
            assert texts.isdisjoint({"udp", "tcp", "memory"}), source.path


# The content of typed frames, before any codec encodes them.


def test_an_ack_has_the_highest_ranges_and_fewer_when_it_names_refused_packets() -> None:
    """What came last is in no earlier ack, and would look lost. No loss is seen in a store ack: it has the lowest."""
    numbers = NumberSet(3, [(at, at) for at in range(5, 400, 2)])
    plain, refusing = AckFrame.of(numbers, 64, 9, 0), AckFrame.of(numbers, 64, 9, 0, [(5, 5), (7, 7)])
    assert plain.ranges == numbers.ranges[-MAX_ACK_RANGES:]
    assert refusing.ranges == plain.ranges[4:]
    assert StoreAckFrame.of(numbers).ranges == numbers.ranges[:MAX_ACK_RANGES]
    assert plain.cumulative == refusing.cumulative == 3


# The hellos before a session is open: which end sends them, how often, and with which time in them.

CONNECT = make_hello(1, sent_at_ns=100)


def test_an_initiator_whose_peer_was_away_for_long_waits_longer_from_the_first() -> None:
    """And no shorter than anybody else."""
    opening, short = Opening(make_hello(1), None, 3_000 * MS), Opening(make_hello(1), None, 10 * MS)
    for at_ns in range(3):
        opening.say(at_ns)
        short.say(at_ns)
        assert (opening.wait_ns, short.wait_ns) == (3_000 * MS, (200 + 20 * at_ns) * MS)


def test_an_acceptor_keeps_what_is_new_until_it_is_asked() -> None:
    """A connect brings it out."""
    opening = Opening(make_hello(2), CONNECT)
    opening.say(0)
    opening.introduce(b"something else")
    assert not opening.due
    opening.handle_connect(CONNECT)
    assert opening.say(0).introduction == b"something else"


def test_something_new_is_said_at_once() -> None:
    """Nothing else of the hello changes."""
    opening = Opening(make_hello(1), None)
    before = opening.say(7)
    opening.introduce(b"something else")
    assert opening.due
    after = opening.say(7)
    assert (before.introduction, after.introduction) == (b"node-1", b"something else")
    assert (after.session_id, after.connection_id, after.policy) == (7, 1, before.policy)
