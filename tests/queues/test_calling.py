"""Where a peer is looked for: in turn, with patience, and first where it answered."""

from triack.base.units import MS, SECOND
from triack.queues.calling import Calling

THREE = ("udp://b:1", "udp://b:2", "tcp://b:3")


def rounds(calling: Calling, times: int) -> list[tuple[str, int | None]]:
    """Where it is called and for how long, when nobody ever answers."""
    called = []
    for _ in range(times):
        try_ns = calling.choose(THREE, 0)
        called.append((calling.address, try_ns))
        calling.handle_missed()
    return called


def test_each_address_has_its_turn_and_each_round_takes_twice_as_long() -> None:
    tries = [SECOND] * 3 + [2 * SECOND] * 3 + [4 * SECOND]
    assert rounds(Calling(), 7) == list(zip((*THREE, *THREE, THREE[0]), tries, strict=True))


def test_one_address_is_called_for_as_long_as_a_connection_may_take() -> None:
    """There is nothing else to try."""
    calling = Calling()
    for _ in range(3):
        assert calling.choose(THREE[:1], 0) is None
        assert calling.address == THREE[0]
        calling.handle_missed()


def test_who_answered_is_called_there_again_and_first() -> None:
    calling = Calling()
    rounds(calling, 1)
    calling.choose(THREE, 0)
    calling.handle_opened()
    assert calling.choose(THREE, 0) == SECOND
    assert calling.address == THREE[1]
    calling.handle_missed()
    calling.choose(THREE, 0)
    assert calling.address == THREE[2]


def test_an_address_that_is_none_any_more_is_left() -> None:
    calling = Calling()
    rounds(calling, 2)
    calling.choose(THREE[2:], 0)
    assert calling.address == THREE[2]


def test_the_last_of_a_round_is_known() -> None:
    """An answer makes it begin anew."""
    calling = Calling()
    seen = []
    for _ in range(4):
        calling.choose(THREE, 0)
        seen.append(calling.is_last)
        calling.handle_missed()
    assert seen == [False, False, True, True]
    calling.handle_opened()
    assert not calling.is_last


def test_calls_are_fresh_for_a_second() -> None:
    """Since the first of them that was not answered, however many followed."""
    calling = Calling()
    assert not calling.is_fresh(0)
    calling.choose(THREE, 0)
    calling.handle_missed()
    calling.choose(THREE, 900 * MS)
    assert calling.is_fresh(999 * MS)
    assert not calling.is_fresh(SECOND)
    calling.handle_opened()
    calling.choose(THREE, SECOND)
    assert calling.is_fresh(SECOND)
    calling.forget_waits()
    assert not calling.is_fresh(SECOND)


def test_who_was_away_for_longer_is_called_more_rarely() -> None:
    """By a six-hundredth of that, up to a second, which its addresses share; until it answers, or nobody calls."""
    calling = Calling()
    assert calling.spacing_ns(100 * SECOND) == 0
    calling.choose(THREE[:1], 0)
    assert [calling.spacing_ns(away_s * SECOND) for away_s in (0, 300, 600, 10**6)] == [
        0,
        SECOND // 2,
        SECOND,
        SECOND,
    ]
    calling.choose(THREE[:2], 10**6 * SECOND)
    assert calling.spacing_ns(10**6 * SECOND) == SECOND // 2
    for end in (calling.handle_quiet, calling.handle_opened):
        end()
        assert calling.spacing_ns(10**6 * SECOND) == 0
        calling.choose(THREE, 0)
