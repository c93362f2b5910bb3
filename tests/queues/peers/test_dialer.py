"""Where a peer is looked for: in turn, with patience, and first where it answered."""

import pytest

from proof.search import stillness
from triack.base.units import MS, SECOND
from triack.queues.node_settings import Reconnect
from triack.queues.peers.dialer import Dialer

THREE = ("udp://b:1", "udp://b:2", "tcp://b:3")


def rounds(calling: Dialer, times: int) -> list[tuple[str, int | None]]:
    """Where it is called and for how long, when nobody ever answers."""
    called = []
    for _ in range(times):
        try_ns = calling.choose(THREE, 0)
        called.append((calling.address, try_ns))
        calling.handle_missed()
    return called


def test_each_address_has_its_turn_and_each_round_takes_twice_as_long() -> None:
    tries = [SECOND] * 3 + [2 * SECOND] * 3 + [4 * SECOND]
    assert rounds(Dialer(Reconnect()), 7) == list(zip((*THREE, *THREE, THREE[0]), tries, strict=True))


def test_one_address_is_called_for_as_long_as_a_connection_may_take() -> None:
    """There is nothing else to try."""
    calling = Dialer(Reconnect())
    for _ in range(3):
        assert calling.choose(THREE[:1], 0) is None
        assert calling.address == THREE[0]
        calling.handle_missed()


def test_who_answered_is_called_there_again_and_first() -> None:
    calling = Dialer(Reconnect())
    rounds(calling, 1)
    calling.choose(THREE, 0)
    calling.handle_opened()
    assert calling.choose(THREE, 0) == SECOND
    assert calling.address == THREE[1]
    calling.handle_missed()
    calling.choose(THREE, 0)
    assert calling.address == THREE[2]


def test_an_address_that_is_none_any_more_is_left() -> None:
    calling = Dialer(Reconnect())
    rounds(calling, 2)
    calling.choose(THREE[2:], 0)
    assert calling.address == THREE[2]


def test_the_last_of_a_round_is_known() -> None:
    """An answer makes it begin anew."""
    calling = Dialer(Reconnect())
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
    calling = Dialer(Reconnect())
    assert not calling.is_fresh(0)
    calling.choose(THREE, 0)
    calling.handle_missed()
    calling.choose(THREE, 900 * MS)
    assert calling.is_fresh(999 * MS)
    assert not calling.is_fresh(SECOND)
    calling.handle_opened()
    calling.choose(THREE, SECOND)
    assert calling.is_fresh(SECOND)
    stillness.forget_calls(calling)
    assert not calling.is_fresh(SECOND)


def test_who_was_away_for_longer_is_called_more_rarely() -> None:
    """By a six-hundredth of that, up to a second, which its addresses share; until it answers, or moves."""
    calling = Dialer(Reconnect())
    assert calling.spacing_ns(100 * SECOND) == 0
    calling.choose(THREE[:1], 0)
    assert [calling.spacing_ns(away_s * SECOND) for away_s in (0, 300, 600, 3_599)] == [
        0,
        SECOND // 2,
        SECOND,
        SECOND,
    ]
    calling.choose(THREE[:2], 3_599 * SECOND)
    assert calling.spacing_ns(3_599 * SECOND) == SECOND // 2
    for end in (calling.handle_moved, calling.handle_opened):
        end()
        assert calling.spacing_ns(10**6 * SECOND) == 0
        calling.choose(THREE, 0)


def test_many_that_are_away_share_fifty_calls_a_second() -> None:
    """After a tenth of their absence; one that answers, moves or has no messages any more gives up its share."""
    away: set[Dialer] = set()
    every = [Dialer(Reconnect(), away) for _ in range(1_000)]
    for calling in every:
        calling.choose(THREE[:1], 0)
    assert [every[0].spacing_ns(at_s * SECOND) / SECOND for at_s in (0, 10, 100, 200, 3_000)] == [0, 1, 10, 20, 20]
    for calling in every[100:400]:
        calling.handle_opened()
    for calling in every[400:700]:
        calling.handle_unwanted()
    for calling in every[700:]:
        calling.handle_moved()
    assert every[0].spacing_ns(200 * SECOND) == 2 * SECOND
    assert Dialer(Reconnect(), away).spacing_ns(200 * SECOND) == 0
    patient = Dialer(Reconnect(away_most_s=1.5), away)
    patient.choose(THREE[:1], 0)
    assert patient.spacing_ns(200 * SECOND) == 3 * SECOND // 2


@pytest.mark.parametrize("addresses", [THREE[:1], THREE])
def test_after_an_hour_the_waits_double_up_to_two_minutes(addresses: tuple[str, ...]) -> None:
    """And all addresses together are called no more often than that."""
    calling = Dialer(Reconnect())
    calling.choose(addresses, 0)
    waits_s, at_s = [], 3_600
    for _ in range(10):
        waits_s.append(calling.spacing_ns(at_s * SECOND) // SECOND)
        at_s += waits_s[-1]
    assert waits_s == [1, 1, 2, 4, 8, 16, 32, 64, 120, 120]


def test_how_eager_it_is_can_be_set() -> None:
    calling = Dialer(Reconnect(eager_s=60, away_most_s=5))
    calling.choose(THREE[:1], 0)
    assert [calling.spacing_ns(at_s * SECOND) // SECOND for at_s in (59, 60, 63, 10**6)] == [0, 1, 3, 5]
    impatient = Dialer(Reconnect(eager_s=0, away_most_s=0.5))
    impatient.choose(THREE[:1], 0)
    assert impatient.spacing_ns(0) == SECOND // 2


def test_calls_are_frequent_again_for_a_while_when_the_peer_may_be_there() -> None:
    """As it has called, or as nobody has called it for an hour; an hour of frequent calls comes of neither."""
    calling, day_ns = Dialer(Reconnect()), 86_400 * SECOND
    calling.choose(THREE[:1], 0)
    calling.choose(THREE[:1], 120 * SECOND)
    calling.hasten(day_ns)
    assert calling.spacing_ns(day_ns) == SECOND
    assert calling.spacing_ns(day_ns + 19 * SECOND) == SECOND
    assert calling.spacing_ns(day_ns + 60 * SECOND) == 40 * SECOND
    calling.choose(THREE[:1], 2 * day_ns)
    assert calling.spacing_ns(2 * day_ns) == SECOND
    calling.choose(THREE[:1], 2 * day_ns + 3_000 * SECOND)
    assert calling.spacing_ns(2 * day_ns + 3_000 * SECOND) == 120 * SECOND


def test_a_call_that_lasts_for_long_is_no_quiet_time() -> None:
    """Nor is the longest wait, whatever it is."""
    calling = Dialer(Reconnect(eager_s=3, away_most_s=7_200))
    for at_s in (0, 10_000, 20_000):
        calling.choose(THREE[:1], at_s * SECOND)
    assert calling.spacing_ns(20_000 * SECOND) == 7_200 * SECOND


def test_who_is_called_without_pause_is_not_called_more_often_than_before() -> None:
    """To be heard does not make a new absence of an old one, nor an old one of a new."""
    calling = Dialer(Reconnect())
    calling.hasten(0)
    assert calling.since_ns is None
    calling.choose(THREE[:1], 0)
    calling.hasten(100 * SECOND)
    assert calling.since_ns == 0
