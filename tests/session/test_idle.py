"""A session ends when there was no packet for the interval, to the nanosecond."""

from proof.search import stillness
from triack.session.idle import Idle


def test_it_is_over_at_the_end_of_the_interval() -> None:
    """Which begins again with each packet."""
    idle = Idle(100, 1_000)
    assert [idle.is_over(at) for at in (1_000, 1_099, 1_100)] == [False, False, True]
    idle.handle_packet(1_050)
    assert [idle.is_over(at) for at in (1_149, 1_150)] == [False, True]


def test_one_looks_again_at_its_end_or_half_an_interval_later() -> None:
    """Something else may keep the session when it has passed; that need not be asked all the time."""
    idle = Idle(100, 1_000)
    assert idle.look_again_ns(1_040) == 1_100
    assert idle.look_again_ns(1_100) == 1_150
    assert idle.look_again_ns(5_000) == 5_050


def test_a_search_sets_it_as_it_likes() -> None:
    """Long ago, or just now."""
    idle = Idle(100, 1_000)
    stillness.expire_idle(idle)
    assert idle.is_over(1_000)
    idle.handle_packet(1_000)
    assert not idle.is_over(1_099)
