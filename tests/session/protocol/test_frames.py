"""Frames and their layout."""

import ast

import pytest

from proof.search import stillness
from tests.house import code
from tests.session.pair import OVERHEAD_BYTES, Pair, make_hello
from triack.base.delivery import Delivery
from triack.base.ranges import NumberSet
from triack.base.units import MS
from triack.session.protocol.binary import BINARY
from triack.session.protocol.codec import content_limit_bytes
from triack.session.protocol.events import PacketsAcked
from triack.session.protocol.frames import MAX_ACK_RANGES, AckFrame, Hello, StoreAckFrame
from triack.session.protocol.opening import Opening
from triack.session.protocol.packets import PacketState
from triack.session.protocol.policy import Policy
from triack.session.protocol.settings import SessionSettings

# How a session depends on its codec, whatever the codec's layout is.


def test_the_largest_content_leaves_room_for_an_ack() -> None:
    """The acceptor opens with a packet that fills its datagram, and owes the ack of another."""
    pair = Pair.opened(SessionSettings(max_datagram_bytes=1_200))
    content = bytes(content_limit_bytes(BINARY, 1_200, OVERHEAD_BYTES))
    pair.b.ack_sender.session_ack.debt.handle_request()
    pair.b.send_packet(Delivery.EXPRESS, content, None)
    pair.run_until(lambda: content in pair.fresh("a"))
    (sent,) = [sent for _, sent in pair.sent["b"] if sent.packet is not None]
    assert len(sent.payload) + OVERHEAD_BYTES == 1_200
    assert sent.ack is not None


@pytest.mark.gate
def test_no_machine_of_a_session_names_a_codec_or_a_scheme() -> None:
    """A second dialect, or another kind of path, changes no machine."""
    for source in code():
        if source.path.startswith("session/") and source.path != "session/protocol/binary.py":
            assert "triack.session.protocol.binary" not in source.text, source.path
            texts = {node.value for node in source.nodes if isinstance(node, ast.Constant)}
            assert texts.isdisjoint({"udp", "tcp", "memory"}), source.path


# The content of typed frames, before any codec encodes them.


def test_an_ack_has_the_lowest_ranges_and_fewer_when_it_names_refused_packets() -> None:
    """Packets above them are in a later ack."""
    numbers = NumberSet(3, [(at, at) for at in range(5, 400, 2)])
    plain, refusing = AckFrame.of(numbers, 64, 9, 0), AckFrame.of(numbers, 64, 9, 0, [(5, 5), (7, 7)])
    assert plain.ranges == StoreAckFrame.of(numbers).ranges == numbers.ranges[:MAX_ACK_RANGES]
    assert refusing.ranges == numbers.ranges[: MAX_ACK_RANGES - 4]
    assert plain.cumulative == refusing.cumulative == 3


def test_a_hello_says_what_its_settings_are() -> None:
    """The largest datagram and the policy are what the peer must know of them."""
    settings = SessionSettings(max_unacked_packet=5, max_datagram_bytes=600, idle_ack_delay_s=0.000000007)
    hello = Hello.of(settings, session_id=1, connection_id=2, sent_at_ns=3, introduction=b"x")
    assert hello == Hello(1, 2, 3, 600, Policy.of(settings), b"x")


# The record that a session keeps of a packet.


def test_an_ack_brings_back_the_packet_with_its_context_and_its_sendings() -> None:
    """The first datagram of the packet is lost, so that it is sent twice under one number."""
    pair = Pair.opened()
    pair.lose = lambda end, sent: sent.packet is not None and sent.packet.sends == 1
    context = object()
    number = pair.a.send_packet(Delivery.EXPRESS, b"x", context)
    pair.run_until(lambda: any(isinstance(event, PacketsAcked) and event.packets for event in pair.events["a"]))
    (packet,) = [sent for event in pair.events["a"] if isinstance(event, PacketsAcked) for sent in event.packets]
    assert (packet.number, packet.sends, packet.state) == (number, 2, PacketState.ACKED)
    assert packet.context is context


# The hellos before a session is open: which end sends them, how often, and with which time in them.

CONNECT = make_hello(1, sent_at_ns=100)


def test_an_initiator_speaks_at_once_and_more_and_more_patiently() -> None:
    """Its hello says when it leaves; the wait grows, up to half a second, and stays there."""
    opening, waits = Opening(make_hello(1), None), list[int | None]()
    assert opening.initiator
    for at_ns in range(18):
        assert opening.due
        assert opening.say(at_ns).sent_at_ns == at_ns
        assert not opening.due
        waits.append(opening.wait_ns)
        opening.repeat()
    assert waits == [*range(200 * MS, 500 * MS, 20 * MS), 500 * MS, 500 * MS, 500 * MS]


def test_an_initiator_whose_peer_was_away_for_long_waits_longer_from_the_first() -> None:
    """And no shorter than anybody else."""
    opening, short = Opening(make_hello(1), None, 3_000 * MS), Opening(make_hello(1), None, 10 * MS)
    for at_ns in range(3):
        opening.say(at_ns)
        short.say(at_ns)
        assert (opening.wait_ns, short.wait_ns) == (3_000 * MS, (200 + 20 * at_ns) * MS)


def test_an_acceptor_answers_each_connect_once() -> None:
    """With the time of that one, and never unasked: nobody else's wait is its own."""
    opening = Opening(make_hello(2), CONNECT)
    assert not opening.initiator
    for sent_at_ns in (100, 300, 200):
        assert opening.due
        assert opening.say(5_000).sent_at_ns == sent_at_ns
        assert not opening.due
        assert opening.wait_ns is None
        opening.handle_connect(make_hello(1, sent_at_ns={100: 300}.get(sent_at_ns, 200)))


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


def test_for_a_search_only_the_wait_is_forgotten() -> None:
    """The next one is that of the second time."""
    opening = Opening(make_hello(1), None)
    for _ in range(6):
        opening.say(0)
    stillness.normalize_opening(opening)
    opening.say(0)
    assert opening.wait_ns == 220 * MS
