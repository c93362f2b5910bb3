"""Pings: they open a session, take one round trip, and bring the peer's clock."""

import pytest

from tests.queues.bare import Bare, settle
from triack.base.datagram import Kind
from triack.base.errors import NodeClosed, TriackError
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.queues.manager.pings import Pong

ERROR = NodeClosed("the node was closed")


def ping(a: Bare, b: Bare) -> list[Pong]:
    answers: list[Pong] = []

    def take(answer: Pong | TriackError) -> None:
        assert isinstance(answer, Pong)
        answers.append(answer)

    a.engine.pings.begin(a.engine.outbox.links[b.address], take, a.now_ns)
    return answers


def test_a_ping_opens_a_session_and_is_answered() -> None:
    a, b = Bare("a"), Bare("b")
    first = ping(a, b)
    settle(a, b)
    second = ping(a, b)
    settle(a, b)
    assert [(it.address, it.handshake_ns is None) for it in (*first, *second)] == [
        (b.address, False),
        (b.address, True),
    ]
    assert a.engine.outbox.links[b.address].pings == 0


def test_the_clock_of_the_peer_is_told() -> None:
    a, b = Bare("a"), Bare("b")
    b.now_ns += 90 * SECOND  # the clocks of the two machines have nothing to do with each other
    answers = ping(a, b)
    settle(a, b)
    assert answers[0].clock_ahead_ms == pytest.approx(90_000, abs=2)


def test_a_round_trip_ends_with_its_own_answer() -> None:
    """Not with the first datagram that happens to come."""
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"x")
    settle(a, b)
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


def test_a_node_that_ends_answers_its_callers() -> None:
    """Whether it is closed, or its store fails."""
    for fails in (False, True):
        a, b = Bare("a"), Bare("b")
        told: list[Pong | TriackError] = []
        a.engine.pings.begin(a.engine.outbox.links[b.address], told.append, a.now_ns)
        if fails:
            a.engine.handle_store_failed(None, ERROR, a.now_ns)
        else:
            a.engine.stop(ERROR, a.now_ns)
        assert told == [ERROR]


def test_a_challenge_without_room_for_a_clock_is_refused() -> None:
    a, b = Bare("a"), Bare("b")
    a.submit(b.address, b"x")
    settle(a, b)
    (there,) = a.engine.handshakes.conversations.values()
    data = there.channel.seal(Kind.CHALLENGE, *there.session.take_counter(), b"short", a.now_ns)
    b.engine.handle_datagram(data, a.address, b.now_ns)
    assert b.engine.drops[DropReason.BAD_FRAME] == 1
