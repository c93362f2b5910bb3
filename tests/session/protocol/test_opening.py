"""The hellos before a session is open: which end sends them, how often, and with which time in them."""

from proof.search import stillness
from tests.session.pair import make_hello
from triack.base.units import MS
from triack.session.protocol.opening import Opening

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
