"""What is said before a session is open: by whom, how often, and with which time in it."""

from tests.session.pair import make_hello
from triack.base.units import MS
from triack.session.frames import NO_ECHO
from triack.session.opening import Opening

CONNECT = make_hello(1, sent_at_ns=100)


def test_an_initiator_speaks_at_once_and_more_and_more_patiently() -> None:
    """Its hello says when it leaves; the wait doubles up to half a second and stays there."""
    opening, waits = Opening(make_hello(1), None), list[int | None]()
    assert opening.initiator
    for at_ns in range(5):
        assert opening.due
        assert opening.say(at_ns).sent_at_ns == at_ns
        assert not opening.due
        waits.append(opening.wait_ns)
        opening.handle_timer()
    assert waits == [200 * MS, 400 * MS, 500 * MS, 500 * MS, 500 * MS]


def test_an_acceptor_echoes_the_time_that_it_heard() -> None:
    """What it repeats unasked has none, as it has waited here."""
    opening = Opening(make_hello(2), CONNECT)
    assert not opening.initiator
    assert opening.say(5_000).sent_at_ns == 100
    opening.handle_timer()
    assert opening.say(6_000).sent_at_ns == NO_ECHO
    opening.handle_connect(make_hello(1, sent_at_ns=300))
    assert opening.say(7_000).sent_at_ns == 300
    opening.handle_connect(make_hello(1, sent_at_ns=200))
    assert opening.say(8_000).sent_at_ns == 300


def test_an_answer_that_is_due_keeps_its_echo() -> None:
    """A timer that runs out before the answer has left takes nothing away from it."""
    opening = Opening(make_hello(2), CONNECT)
    opening.handle_timer()
    assert opening.say(0).sent_at_ns == 100


def test_an_acceptor_falls_silent_until_it_is_asked() -> None:
    """Three times it repeats itself; to a connect it always answers."""
    opening, waits = Opening(make_hello(2), CONNECT), []
    for _ in range(4):
        opening.say(0)
        waits.append(opening.wait_ns)
        opening.handle_timer()
    assert waits == [200 * MS, 400 * MS, 500 * MS, None]
    opening.handle_connect(CONNECT)
    assert opening.due
    opening.say(0)
    assert opening.wait_ns is None


def test_something_new_is_said_at_once() -> None:
    """Nothing else of the hello changes."""
    opening = Opening(make_hello(1), None)
    before = opening.say(7)
    opening.introduce(b"something else")
    assert opening.due
    after = opening.say(7)
    assert (before.introduction, after.introduction) == (b"node-1", b"something else")
    assert (after.session_id, after.connection_id, after.window) == (7, 1, 64)


def test_for_a_search_only_the_wait_is_forgotten() -> None:
    """The next one is that of the second time."""
    opening = Opening(make_hello(1), None)
    for _ in range(6):
        opening.say(0)
    opening.normalize()
    opening.say(0)
    assert opening.wait_ns == 400 * MS
