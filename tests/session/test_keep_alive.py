"""An end that sends nothing for its interval sends a ping; any other datagram puts that off."""

from triack.session.keep_alive import KeepAlive


def test_it_is_due_an_interval_after_what_was_sent_last() -> None:
    alive = KeepAlive(100)
    alive.sent_at_ns = 1_000
    assert [alive.is_due(at) for at in (1_000, 1_099, 1_100)] == [False, False, True]


def test_one_looks_again_when_it_may_be_due() -> None:
    alive = KeepAlive(100)
    alive.sent_at_ns = 1_000
    assert alive.look_again_ns(1_040) == 1_100
    assert alive.look_again_ns(1_100) == 1_200, "something leaves now"
