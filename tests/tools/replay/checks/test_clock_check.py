"""The clocks of two ends: what honest ones may do, and what none does."""

from collections.abc import Callable

import pytest

from tests.tools.replay.builder import MS, Record, World
from tests.tools.replay.faults import TX, ready
from tests.tools.replay.judging import verdict_of
from triack.tools.replay.checks.clock_check import Pair, arrivals_before, loses

SECOND = 1_000 * MS
TRIP_NS = 20 * MS
Clock = Callable[[int], int]


def talk(here: Clock, there: Clock, seconds: int = 20, gap_ns: int = 100 * MS) -> tuple[list[Pair], list[Pair]]:
    """Something goes to and fro all the time, each 20 ms on its way; the clocks make of true time what they show."""
    times = range(0, seconds * SECOND, gap_ns)
    out = [Pair(here(at), there(at + TRIP_NS)) for at in times]
    back = [Pair(there(at + gap_ns // 2), here(at + gap_ns // 2 + TRIP_NS)) for at in times]
    return out, back


def right(at_ns: int) -> int:
    return at_ns


def faulty(out: list[Pair], back: list[Pair]) -> bool:
    return any(list(arrivals_before(*way)) or loses(*way) for way in ((out, back), (back, out)))


@pytest.mark.parametrize(
    "clock",
    [
        right,
        lambda at: at + 10**18,  # another machine, which has run for longer
        lambda at: at + at // 2_000,  # 500 ppm, ntpd
        lambda at: int(at * 0.917),  # chrony at its fastest
        lambda at: int(at * 1.083),
        lambda at: at - max(0, min(at - 5 * SECOND, 3 * SECOND)),  # a virtual machine that is paused for 3 s
        lambda at: at - max(0, min(at - 5 * SECOND, 3 * SECOND)) - max(0, min(at - 12 * SECOND, SECOND)),
        lambda at: at + (60 * SECOND if at > 9 * SECOND else 0),  # suspended, and its peer was not
    ],
)
def test_honest_clocks_are_believed(clock: Clock) -> None:
    assert not faulty(*talk(right, clock))
    assert not faulty(*talk(clock, right))


def test_two_clocks_that_are_set_right_in_opposite_directions_are_believed() -> None:
    assert not faulty(*talk(lambda at: int(at * 0.917), lambda at: int(at * 1.083)))


@pytest.mark.parametrize("seconds", [10, 20, 3_600])
def test_a_clock_that_loses_a_quarter_is_found(seconds: int) -> None:
    out, back = talk(right, lambda at: at * 3 // 4, seconds, gap_ns=seconds * 5 * MS)
    assert 0.2 < loses(out, back) < 0.26
    assert not loses(back, out)


def test_a_pause_is_no_slow_clock() -> None:
    """A tenth of the session is gone at once."""
    out, back = talk(right, lambda at: at - max(0, min(at - 5 * SECOND, 2 * SECOND)))
    assert not loses(out, back)


def test_an_arrival_before_its_send_is_found() -> None:
    out, back = talk(right, right)
    out[100] = out[100]._replace(came_ns=out[100].came_ns - SECOND)
    ((pair, by_ns),) = arrivals_before(out, back)
    assert pair == out[100]
    assert 0.9 * SECOND < by_ns < SECOND


def test_what_nothing_surrounds_says_nothing() -> None:
    out, back = talk(right, right, seconds=1)
    out.append(Pair(5 * SECOND, 2 * SECOND))
    assert not list(arrivals_before(out, back))


def busy() -> World:
    """Packets and acks go to and fro for 20 seconds."""
    world = ready()
    for _ in range(100):
        world.clock.tick(200 * MS)
        world.deliver(TX, 1)
    return world


def shift(records: list[Record], by: Callable[[int], int]) -> None:
    for record in records:
        change = by(record["at_ns"]) - record["at_ns"]
        record.update(at_ns=record["at_ns"] + change, wall_ns=record["wall_ns"] + change)


def test_the_judge_compares_clocks() -> None:
    assert verdict_of(busy()).violations == {}
    slow = busy()
    shift(slow.beta.records, lambda at: at * 3 // 4)
    assert verdict_of(slow).violations == {"clocks": 1}


def test_the_judge_finds_an_arrival_before_its_send() -> None:
    """After a pause of both a packet comes a second before it left; the ack that follows is in time."""
    world = ready()
    for _ in range(4):
        world.clock.tick(50 * MS)
        world.deliver(TX, 1)
    world.clock.tick(2 * SECOND)
    sent = world.queue(TX, 1)
    arrived = world.send(TX, sent)
    world.beta.records[-1].update({name: world.beta.records[-1][name] - SECOND for name in ("at_ns", "wall_ns")})
    world.commit(TX, sent)
    world.ack(arrived)
    assert verdict_of(world).violations["clocks"] == 1
