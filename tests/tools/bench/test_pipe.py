"""One direction of a link: how long a packet takes, and which never arrive."""

from random import Random

from triack.tools.bench.pipe import LinkPlan, Pipe

MS = 1_000_000


def test_a_packet_takes_its_time_on_the_link_and_half_a_round_trip() -> None:
    pipe = Pipe(LinkPlan(rate_bps=8_000_000, round_trip_ns=10 * MS), Random(1))
    assert pipe.offer(1_000, 0) == 1 * MS + 5 * MS


def test_packets_wait_for_each_other_and_then_no_longer() -> None:
    pipe = Pipe(LinkPlan(rate_bps=8_000_000, round_trip_ns=0), Random(1))
    assert [pipe.offer(1_000, 0) for _ in range(3)] == [1 * MS, 2 * MS, 3 * MS]
    assert pipe.offer(1_000, 10 * MS) == 11 * MS


def test_what_finds_the_queue_full_is_lost() -> None:
    pipe = Pipe(LinkPlan(rate_bps=8_000_000, round_trip_ns=0, queue_bytes=2_000), Random(1))
    arrived = [pipe.offer(1_000, 0) for _ in range(10)]
    assert arrived == [1 * MS, 2 * MS, 3 * MS, *[None] * 7]
    assert (pipe.offered, pipe.passed, pipe.overflowed, pipe.lost, pipe.passed_bytes) == (10, 3, 7, 0, 3_000)


def test_chance_takes_its_share_and_the_time_of_what_it_takes() -> None:
    """The same seed takes the same ones."""
    plan = LinkPlan(rate_bps=8_000_000_000, round_trip_ns=0, loss=0.1)
    first, same = ([Pipe(plan, Random(5))] * 1)[0], Pipe(plan, Random(5))
    fates = [first.offer(1_000, number * MS) for number in range(5_000)]
    assert fates == [same.offer(1_000, number * MS) for number in range(5_000)]
    assert 0.08 < fates.count(None) / 5_000 < 0.12
    full = Pipe(LinkPlan(rate_bps=8_000_000, round_trip_ns=0, loss=1.0, queue_bytes=1_000), Random(1))
    assert [full.offer(1_000, 0) for _ in range(4)] == [None] * 4
    assert (full.lost, full.overflowed) == (2, 2)
