"""Checks one by one: clocks, tiers, silences, windows, store acks."""

from collections.abc import Callable

import pytest

from tests.tools.replay.builder import MS, Record, World, ready
from tests.tools.replay.faults import TX
from tests.tools.replay.judging import verdict_of
from triack.tools.replay.checks.clock_check import Pair, arrivals_before, loses
from triack.tools.replay.checks.findings import Output
from triack.tools.replay.checks.silence_check import Silence, judge_patience, judge_timeout
from triack.tools.replay.checks.store_ack_check import RUNS_MAX, Debt, StoreAcks
from triack.tools.replay.checks.tier_check import Tiers
from triack.tools.replay.log.ranges import RangeSet

# The resend tiers, by the settings in force and the clock.

OF_FIRST: Record = {"node": "a", "incarnation": 1, "n": 1, "wall_ns": 0, "sequence": 1, "number": 1, "packets": 1}
OF_FIRST |= {"resend": False, "previous": 0, "first": 1, "last": 1}
"""What records of the first packet of a stream say."""


def of_interval(resend_ms: int) -> tuple[Tiers, Output]:
    """The tiers of a node that sends again after that time, and what they find."""
    out = Output()
    tiers = Tiers("a", 1, out)
    tiers.handle_settings({"seq_resend_13_ns": resend_ms * MS})
    return tiers, out


@pytest.mark.parametrize("at_ms", [None, 299, 300])
def test_an_order_ack_of_what_was_given_up_at_that_moment_is_no_progress(at_ms: int | None) -> None:
    """The wait goes on. Its packets are removed at that time: the record of it may follow that of the next attempt."""
    tiers, out = of_interval(300)
    tiers.handle_sent({**OF_FIRST, "at_ns": 0}, RangeSet())
    tiers.handle_progress({**OF_FIRST, "at_ns": 300 * MS}, outstanding=True)
    again = {**OF_FIRST, "number": 2, "first": 2, "last": 2, "attempt": 1, "interval_ns": 300 * MS}
    tiers.handle_scheduled({**again, "at_ns": 300 * MS})
    if at_ms is not None:
        tiers.handle_removed({**OF_FIRST, "at_ns": at_ms * MS}, outstanding=True)
    tiers.finish()
    assert [found.violation.check for found in out.findings] == ["resend_tiers"] * (at_ms != 300)


@pytest.mark.parametrize("held", [False, True])
def test_while_nothing_is_on_its_way_no_tier_runs_out(held: bool) -> None:
    """The next hop has given all back; what its session had taken before does not count."""
    tiers, out = of_interval(300)
    sent = OF_FIRST
    tiers.handle_sent({**sent, "at_ns": 1}, RangeSet())
    tiers.handle_arrived({**sent, "at_ns": 100 * MS}, 1, 1)
    tiers.handle_withdrawn(RangeSet([(1, 1)]), held=held)
    if held:
        tiers.handle_sent({**sent, "at_ns": 200 * MS}, RangeSet())
        tiers.handle_arrived({**sent, "at_ns": 250 * MS}, 1, 1)
        tiers.handle_withdrawn(RangeSet([(1, 1)]))
    tiers.handle_sent({**sent, "at_ns": 5_000 * MS}, RangeSet())
    tiers.handle_arrived({**sent, "at_ns": 5_100 * MS}, 1, 1)
    tiers.handle_scheduled({**sent, "at_ns": 5_300 * MS, "attempt": 1, "interval_ns": 300 * MS})
    assert out.findings == []
    tiers.handle_sent({**sent, "at_ns": 5_300 * MS}, RangeSet())
    tiers.handle_arrived({**sent, "at_ns": 5_400 * MS}, 1, 1)
    tiers.handle_failed({**sent, "at_ns": 5_450 * MS}, RangeSet([(1, 1)]))
    tiers.handle_progress({**sent, "at_ns": 9_000 * MS}, outstanding=True)
    assert out.findings == []
    tiers.handle_sent({**sent, "at_ns": 9_000 * MS}, RangeSet())
    tiers.handle_arrived({**sent, "at_ns": 9_100 * MS}, 1, 1)
    tiers.handle_progress({**sent, "at_ns": 9_900 * MS}, outstanding=True)
    assert [found.violation.check for found in out.findings] == ["resend_tiers"]


@pytest.mark.parametrize("attempt", [1, 3])
def test_another_way_begins_at_the_first_tier(attempt: int) -> None:
    """Also by a session that was open before, as its node serves other streams."""
    tiers, out = of_interval(300)
    sent = {**OF_FIRST, "interval_ns": 300 * MS}
    tiers.handle_sent({**sent, "at_ns": 1}, RangeSet())
    for before in (1, 2):
        tiers.handle_scheduled({**sent, "at_ns": 1 + before * 300 * MS, "attempt": before})
    tiers.handle_rerouted(700 * MS, RangeSet([(1, 1)]))
    tiers.handle_sent({**sent, "at_ns": 700 * MS}, RangeSet())
    tiers.handle_opened("c", MS, rerouted=True)
    tiers.handle_arrived({**sent, "at_ns": 800 * MS}, 1, 1)
    tiers.handle_scheduled({**sent, "at_ns": 1_000 * MS, "attempt": attempt})
    assert [found.violation.check for found in out.findings] == ["resend_tiers"] * (attempt == 3)


# The clocks of two ends: what honest ones may do, and what none does.

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


@pytest.mark.parametrize("seconds", [10, 20, 3_600])
def test_a_clock_that_loses_a_quarter_is_found(seconds: int) -> None:
    out, back = talk(right, lambda at: at * 3 // 4, seconds, gap_ns=seconds * 5 * MS)
    assert 0.2 < loses(out, back) < 0.26
    assert not loses(back, out)


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


# How long an end may be silent, must be, and what counts as a sign of life.


def at(ms: int) -> dict[str, int]:
    return {"at_ns": ms * MS}


def test_an_initiator_waits_for_its_confirmation() -> None:
    """Packets that it sends meanwhile do not begin the wait anew; any sign of life ends it."""
    silence = Silence()
    silence.ask(at(1_000))
    silence.send(1, at(1_006))
    assert judge_timeout(silence, at(1_010), 10 * MS, "ack") == ""
    silence.hear(at(1_010), acked=1)
    assert "nothing unacknowledged" in judge_timeout(silence, at(1_030), 10 * MS, "ack")


def test_the_longest_silence_counts_only_while_something_waits() -> None:
    silence = Silence()
    silence.send(1, at(1_000))
    silence.hear(at(1_300), acked=1)
    silence.hear(at(9_000))
    assert silence.longest_ns == 300 * MS
    assert judge_patience(silence, 150 * MS) == ""
    assert "open for 300 ms" in judge_patience(silence, 149 * MS)


def test_a_ping_waits_for_its_answer() -> None:
    """As a packet waits for its ack; one that an initiator sends before it was heard waits as its connect does."""
    silence = Silence()
    silence.ping(at(1_000))
    silence.ping(at(1_200))
    assert judge_timeout(silence, at(1_300), 300 * MS, "ack") == ""
    silence.hear(at(1_300))
    assert "open for 300 ms" in judge_patience(silence, 149 * MS)
    assert "nothing unacknowledged" in judge_timeout(silence, at(9_000), 300 * MS, "ack")
    initiator = Silence()
    initiator.ask(at(1_000))
    initiator.ping(at(1_200))
    initiator.hear(at(9_000))
    assert judge_patience(initiator, MS) == ""


def test_a_packet_of_an_initiator_that_was_not_heard_yet_waits_from_when_it_left() -> None:
    """A request from before may wait as a connect does; the session closes no sooner than that allows, and no later."""
    silence = Silence()
    silence.ask(at(1_000))
    silence.ping(at(1_200))
    silence.send(1, at(1_600))
    silence.send(1, at(1_800))
    assert judge_timeout(silence, at(1_900), 900 * MS, "ack") == ""
    silence.hear(at(1_900), acked=1)
    assert (judge_patience(silence, 150 * MS), silence.longest_ns) == ("", 300 * MS)
    silence.measure(at(2_250))
    assert "open for 350 ms" in judge_patience(silence, 199 * MS)


def record(at_ms: int, first: int, last: int, size: int = 0) -> Record:
    """What brings packets, or commits them."""
    where = {"node": "b", "incarnation": 1, "n": at_ms, "session": "s", "sequence": 1, "class": "recoverable"}
    times = {"at_ns": at_ms * MS, "wall_ns": at_ms * MS}
    return {**where, **times, "number": first, "packets": last - first + 1, "first": first, "last": last, "size": size}


def test_what_is_never_committed_is_forgotten() -> None:
    """A node that refuses everything makes nobody remember it."""
    debt = Debt(500 * MS, 0, 1_000)
    for number in range(1, 10_000):
        debt.bring(record(number, number, number, 100))
    debt.arrived[1].add(1, 10_000)
    debt.commit(record(10_001, 1, 5_000))
    assert debt.size_bytes == 0
    debt.commit(record(10_002, 5_001, 10_000))
    assert debt.size_bytes == 100 * min(RUNS_MAX, 4_999)


def test_a_packet_that_came_in_two_sessions_is_owed_in_the_later_one() -> None:
    """Its first copy may have been refused, as it came too early: the session that brought it owes nothing for it."""
    out = Output()
    acks = StoreAcks("a", 1, out)
    for at_ms, session in enumerate(["s", "t"]):
        brings = {**record(at_ms, 1, 1), "session": session}
        acks.handle_record()
        acks.handle_arrived(brings, 1, 1, [])
        acks.handle_taking({**brings, "delay_ns": 500 * MS, "threshold": 0, "most_bytes": 0})
    acks.handle_committed(record(2, 1, 1))
    acks.finish()
    assert [it.violation.session for it in out.findings] == ["t"]


def test_nothing_is_owed_for_a_packet_that_was_refused() -> None:
    """Its store ack may have left long before the commit that passes it over."""
    out = Output()
    acks = StoreAcks("a", 1, out)
    acks.handle_arrived(record(0, 1, 2), 1, 2, [])
    acks.handle_taking({**record(0, 1, 2), "delay_ns": 500 * MS, "threshold": 0, "most_bytes": 0})
    acks.handle_refused(1, 2)
    acks.handle_committed(record(1, 2, 2))
    acks.finish()
    assert out.findings == []
