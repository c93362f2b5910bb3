"""What leaves and what comes: packets, pings, events of sessions."""

from typing import Any

import pytest

from tests.queues.bare import Bare, events, rest, settle
from tests.queues.keyed import peer
from triack.base.datagram import Kind
from triack.base.delivery import Delivery
from triack.base.errors import NodeClosed, StoreFailed, TriackError
from triack.base.news import LinkDown, LinkUp, NodeEvent, PeerSilent, PeerUnknown
from triack.base.peers import Peer
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.queues.manager.effects import Send, Tell
from triack.queues.manager.pings import Pong
from triack.queues.stages import Stage

# What conversations send: from links to sessions, from sessions to addresses.

EXPRESS = Delivery.EXPRESS


def sent(node: Bare) -> int:
    return sum(len(effect.datagrams) for effect in node.poll() if isinstance(effect, Send))


def acquainted() -> tuple[Bare, Bare]:
    """Two nodes with a session, in which a message has arrived."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"x")
    settle(a, b)
    return a, b


def test_a_node_that_closes_gives_answers_and_no_packets_of_its_own() -> None:
    """A packet that it has not given away stays for the next start; owed acks are sent."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"x")
    b.submit(a.address, b"x")
    rest(a, b)
    outgoing = a.submit(b.address, b"y", delivery=EXPRESS)
    a.engine.drain(a.now_ns)
    a.poll()
    assert len(outgoing.sequence.entries) == 1
    assert all(entry.sends == 0 for entry in outgoing.sequence.entries.values())


def test_a_node_whose_store_failed_says_goodbye_and_no_more() -> None:
    """Not one packet, though the window is open."""
    a, b = acquainted()
    rest(a, b)
    a.submit(b.address, b"y", delivery=EXPRESS)
    a.engine.handle_store_failed(None, StoreFailed("the disk"), a.now_ns)
    assert sent(a) == 1
    a.now_ns += 60 * SECOND
    assert sent(a) == 0


def test_one_datagram_answers_a_message_that_somebody_waits_for() -> None:
    """All three acks leave with it, when the commit has returned."""
    a, b = Bare("a"), Bare("b")
    outgoing = a.submit(b.address, b"x")
    rest(a, b)
    said: list[str | None] = []
    a.submit(b.address, b"y")
    a.engine.await_stage(outgoing, 1, Stage.ORDERED, said.append)
    a.poll()
    a.finish_job()
    b.hear(a.poll(), a)
    assert sent(b) == 0
    b.finish_job()
    answer = b.poll()
    assert [len(effect.datagrams) for effect in answer if isinstance(effect, Send)] == [1]
    a.hear(answer, b)
    assert said == [None]
    assert events(answer).count("ack_sent") == events(answer).count("store_ack_sent") == 1


# Pings: they open a session, take one round trip, and bring the peer's clock.


def ping(a: Bare, b: Bare) -> list[Any]:
    answers: list[Pong | TriackError] = []
    a.engine.pings.begin(a.engine.outbox.links[b.address], answers.append, a.now_ns)
    return answers


def test_a_ping_opens_a_session_and_is_answered() -> None:
    a, b = Bare("a"), Bare("b")
    first = ping(a, b)
    settle(a, b)
    second = ping(a, b)
    settle(a, b)
    found = [(it.address, it.handshake_ns is None) for it in (*first, *second)]
    assert found == [(b.address, False), (b.address, True)]
    assert a.engine.outbox.links[b.address].pings == 0


def test_the_clock_of_the_peer_is_told() -> None:
    a, b = Bare("a"), Bare("b")
    b.now_ns += 90 * SECOND  # the clocks of the two machines have nothing to do with each other
    answers = ping(a, b)
    settle(a, b)
    assert answers[0].clock_ahead_ms == pytest.approx(90_000, abs=2)


def test_a_round_trip_ends_with_its_own_answer() -> None:
    """Not with the first datagram that happens to come."""
    a, b = acquainted()
    answers = ping(a, b)
    challenge = a.poll()
    b.hear(challenge, a)
    b.now_ns += 30 * MS
    a.now_ns += 30 * MS
    a.submit(b.address, b"y")
    a.poll()
    assert answers == []
    a.hear(b.poll(), b)
    assert answers[0].round_trip_ns == 30 * MS


def test_a_ping_that_was_given_up_needs_no_session_any_more() -> None:
    a, b = Bare("a"), Bare("b")
    link = a.engine.outbox.links[b.address]
    wanted = a.engine.pings.begin(link, lambda _: None, a.now_ns)
    assert link.busy
    for _ in range(2):
        a.engine.pings.end(wanted)
    assert (link.busy, link.pings) == (False, 0)


@pytest.mark.parametrize("fails", [False, True])
def test_a_node_that_ends_answers_its_callers(fails: bool) -> None:
    """Whether it is closed, or its store fails."""
    a, error = Bare("a"), NodeClosed("the node was closed")
    told = ping(a, Bare("b"))
    if fails:
        a.engine.handle_store_failed(None, error, a.now_ns)
    else:
        a.engine.stop(error, a.now_ns)
    assert told == [error]


def test_a_challenge_without_room_for_a_clock_is_refused() -> None:
    a, b = acquainted()
    (there,) = a.engine.handshakes.conversations.values()
    data = there.channel.seal(Kind.CHALLENGE, *there.session.take_counter(), b"short", a.now_ns)
    b.engine.handle_datagram(data, a.address, b.now_ns)
    assert b.engine.drops[DropReason.BAD_FRAME] == 1


# The engine tells of links what programs can use, once.


def told(node: Bare) -> list[NodeEvent]:
    return [effect.event for effect in node.effects if isinstance(effect, Tell)]


def test_a_link_goes_up_and_down() -> None:
    a, b = acquainted()
    a.engine.handle_path_lost(b.address, a.now_ns)
    a.poll()
    node_id = b.engine.node_id.hex()
    assert told(a) == [LinkUp(b.address, "b", node_id), LinkDown(b.address, "b", node_id, "path-lost")]


def test_trouble_with_an_address_is_reported_once_and_only_of_links() -> None:
    """A name that is not known any more does no harm while the link is up."""
    a, b = Bare("a"), Bare("b")
    a.engine.news.handle_trouble(b.address, "nobody wants to send there")
    a.submit(b.address, b"x", delivery=Delivery.EXPRESS)
    a.poll()
    for cause in ("cannot resolve b", "no answer"):
        a.engine.news.handle_trouble(b.address, cause)
    a.poll()
    assert told(a) == [PeerSilent(b.address, "cannot resolve b")]
    settle(a, b)
    a.effects.clear()
    a.engine.news.handle_trouble(b.address, "cannot resolve b")
    a.poll()
    assert told(a) == []


def test_a_peer_is_silent_when_it_is_so_everywhere() -> None:
    """Trouble with the first of its addresses is no news; the event that names the peer comes with the last one."""
    a = Bare("a")
    a.directory.replace([Peer("b", addresses=("memory://x", "memory://y"))])
    a.submit("b", b"x", delivery=Delivery.EXPRESS)
    a.poll()
    a.engine.news.handle_trouble("memory://x", "cannot resolve x")
    for _ in range(25):
        a.poll(100_000_000)
    assert told(a) == [PeerSilent("memory://y", "no answer from b")]


def test_messages_for_a_peer_that_is_not_trusted_are_reported_once_each_time() -> None:
    """And again when its trust was withdrawn again."""
    a, known = Bare("a", keyed=True), peer("b", "memory://b")
    unknown = PeerUnknown("b", "this node trusts no b, or has no key of it")
    for wanted in ([unknown], [], [unknown]):
        a.engine.handle_directory_changed(a.now_ns)
        a.submit("b", b"x", b"y", delivery=Delivery.EXPRESS)
        for _ in range(20):
            a.poll(100_000_000)
        assert [event for event in told(a) if isinstance(event, PeerUnknown)] == wanted
        a.effects.clear()
        a.directory.replace([] if a.directory.named("b") else [known])
