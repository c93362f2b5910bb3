"""The checks: each has a fault that it must find, and what they share."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proof.rules import MACHINES
from tests.tools.replay.builder import brief
from tests.tools.replay.judging import PLANTED, plant
from triack.base.errors import ReplayError
from triack.tools.replay.checks.catalogue import CHECKS
from triack.tools.replay.checks.commits import Commit, Commits
from triack.tools.replay.checks.findings import Output
from triack.tools.replay.checks.incoming_check import Incoming
from triack.tools.replay.checks.latencies import Latencies
from triack.tools.replay.checks.moments import MOMENTS_MAX, Moment, Moments
from triack.tools.replay.checks.runs import Carried, Runs, packets_of
from triack.tools.replay.checks.stories import Segment, Story, even_share, segments
from triack.tools.replay.checks.window_check import Window
from triack.tools.replay.engines.checkpoint import freeze, revive
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.ranges import RangeSet
from triack.tools.replay.log.series import DELAY_BUCKETS_PER_DECADE, latency_bucket

# The catalogue: every check has a lie that it must catch, and every machine has its checks.

ROOT = Path(__file__).parents[4]
SILENT = {
    "ordering/order_settings", "ordering/slow_start", "ordering/wire", "session/acknowledgements/ack_sender",
    "session/congestion/bbr", "session/congestion/congestion", "session/congestion/delivery_rate",
    "session/datagram_builder", "session/departing", "session/protocol/events", "session/protocol/frames",
    "session/keep_alive", "session/congestion/loss_floor", "session/protocol/opening", "session/congestion/pacing",
    "session/congestion/path_model", "session/acknowledgements/probing", "session/congestion/rtt",
    "session/protocol/settings", "session/congestion/stream_window", "session/protocol/timers",
    "session/congestion/undecided", "session/snapshot", "ordering/disk_backlog", "ordering/transit_packet",
}  # fmt: skip
"""Modules of sessions and sequences that promise nothing a record could show: layouts, settings, estimates."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    world, expected = plant(name)
    found = brief(judge_records([record for log in world.logs for record in log.records]))
    assert found >= expected, found


TWICE = {
    "transit_forgotten", "freed_too_early", "transit_unsent", "hop_limit", "hops_step", "order_ack_made_up",
    "word_astray", "end_overtakes", "previous_raised", "onward_early", "downgrade_rule", "topic_lost",
    "topic_before_join", "topic_astray", "topic_twice", "topic_order", "slowest_rule", "none_rule", "discard_rule",
    "content_freed_early", "subscription_forgotten", "ack_wait",
}  # fmt: skip
"""Promises of relays and topics."""


def test_every_check_has_a_planted_lie() -> None:
    """Relays' and topics' have two. No check without a test that sees it fail, and no lie of an unknown check.

    `engines_disagree` is found by Spark alone, of judges that lie: `tests/tools/replay/tables/test_facts.py`.
    """
    lies = Counter(check for name in PLANTED for check in {found[0] for found in plant(name)[1]})
    assert set(lies) == set(CHECKS) - {"engines_disagree"}
    assert {check for check in TWICE if lies[check] < 2} == set()


def test_every_check_is_explained() -> None:
    for check in CHECKS.values():
        assert all(check)
        assert check.sentence.endswith(".")
        assert check.why.endswith(".")


def test_every_machine_is_watched() -> None:
    machines = {f"{room}/{file.stem}" for room in ("session", "ordering") for file in (ROOT / room).glob("[a-z]*.py")}
    assert machines - SILENT <= set(MACHINES)
    assert all((ROOT / f"{machine}.py").exists() for machine in MACHINES)
    assert {check for checks in MACHINES.values() for check in checks} <= set(CHECKS)


def test_a_finding_names_the_session_or_the_stream_that_its_judge_looks_at() -> None:
    """And the record that shows it."""
    out = Output()
    record = {"node": "n", "incarnation": 2, "n": 7, "wall_ns": 99}
    about = {**record, "sequence": 5, "number": 6, "window": 3, "peer": "o"}
    Window("s", out).handle_changed(about, 0)
    Incoming.SEES["order_ack_sent"](Incoming("n", "o", 4, out), about)
    told = [found.violation for found in out.findings]
    assert [(it.check, it.session, it.origin, it.stream, it.sequence) for it in told] == [
        ("silent_end", "s", "", -1, -1), ("order_ack_before_commit", "", "o", 4, 5),
    ]  # fmt: skip
    assert [{name: getattr(it, name) for name in record} for it in told] == [record, record]


# When what happened to which packet, in a bounded number of entries.


def test_moments_are_found_by_packet() -> None:
    moments, first, second = Moments(), Moment(1, 4, 3, 30), Moment(5, 8, 2, 20)
    moments.put(*second)
    moments.put(*first)
    known = moments.sorted()
    assert [known.of(4), known.of(6), known.of(9)] == [first, second, None]
    assert [known.before(9), known.before(0)] == [second, None]


def test_a_long_session_keeps_some_of_them_evenly() -> None:
    moments, count = Moments(), 20 * MOMENTS_MAX
    for packet in range(1, count + 1):
        moments.put(packet, packet, packet, packet)
    kept = [moment.first for moment in moments]
    assert MOMENTS_MAX // 2 <= len(kept) <= MOMENTS_MAX
    steps = {after - before for before, after in pairwise(kept)}
    assert len(steps) == 1
    assert kept[0] + kept[-1] >= count


def story(cls: str = "transactional") -> Story:
    it = Story()
    it.cls = cls
    it.fresh.append((1, 10, 100))
    return it


def test_shares_add_up() -> None:
    assert [even_share(number, number, (1, 3, 10)) for number in (1, 2, 3)] == [3, 3, 4]
    assert [even_share(1, number, (1, 3, 10)) for number in (1, 2, 3)] == [3, 6, 10]


def test_what_was_acked_and_is_nowhere_is_lost() -> None:
    it = story()
    it.commits["b"].add(1, 6, 60)
    it.acked = 8
    assert list(segments(it, [])) == [Segment(7, 8, 0, 0, 0, stopped=False, lost=True)]
    kept = story("recoverable")
    kept.stored.add(2, 2)
    kept.covered.add(1, 1)
    assert [(part.first, part.delivered, part.lost) for part in segments(kept, [])] == [(1, 1, False), (2, 0, True)]


def test_of_several_ranges_the_one_with_the_fewest_messages_counts() -> None:
    it = story()
    it.recovered += [(6, 15, 50), (9, 9, 3)]
    assert [it.weigh_all([(number, number)]) for number in (5, 6, 9, 12)] == [10, 5, 3, 5]
    assert it.weigh_all([(5, 12)]) == 10 + 3 * 5 + 3 + 3 * 5


def test_a_range_longer_than_anybody_could_count_is_weighed() -> None:
    """A commit goes past whatever its origin says that nobody wants."""
    it = story()
    it.weights.put(10**17, 10**17, 4)
    assert it.weigh_all([(1, 10**17)]) == 100 + 4


# Runs behave like a dictionary from packets to what they carry.


def carried(number: int) -> Carried:
    return Carried("transactional", "aa", 1, 5, -1, number, number - 1, 10)


CONTROL = Carried("express", "", -1, -1, -1, 0, 0, 0)


PUT = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6), st.integers(0, 3)), max_size=40)


@given(PUT, st.integers(1, 40))
def test_runs_are_a_dictionary(put: list[tuple[int, int, int]], asked: int) -> None:
    runs, plain = Runs(), dict[int, Carried]()
    for packet, more, lag in put:
        what = CONTROL if lag == 3 else carried(packet + lag)
        runs.put(packet, packet + more, what)
        for step in range(more + 1):
            plain.setdefault(packet + step, what.plus(step))
    assert runs.last == max(plain, default=0)
    unrolled = {packet: what.plus(packet - first) for first, last, what in runs for packet in range(first, last + 1)}
    assert unrolled == plain
    assert [carried for *_, carried in runs.within(asked, asked)] == [plain[it] for it in (asked,) if it in plain]
    within = [packet for first, last, _ in runs.within(asked, asked + 9) for packet in range(first, last + 1)]
    assert within == [packet for packet in range(asked, asked + 10) if packet in plain]
    told = [packet for packet in range(1, 50) if packet in plain and runs.has(packet, packet, plain[packet])]
    assert told == sorted(plain)
    assert not any(runs.has(packet, packet + 1, carried(900)) for packet in range(1, 50))
    assert list(revive(freeze(runs), Runs)) == list(runs)
    lacking = [packet for first, last in runs.lacking(asked, asked + 9) for packet in range(first, last + 1)]
    assert sorted(within + lacking) == list(range(asked, asked + 10))


def test_a_hole_that_is_filled_makes_one_run_of_three() -> None:
    """A late packet costs no memory once it is there."""
    runs = Runs()
    for packet in (1, 2, 4, 5, 3):
        runs.put(packet, packet, carried(packet))
    assert list(runs) == [(1, 5, carried(1))]


def test_a_record_says_what_it_carries() -> None:
    stream = {"origin": "aa", "stream": 1, "sequence": 5, "number": 7, "previous": 4, "counts": [[2, 10], [1, 9]]}
    record = {"packet": 3, "packets": 3, "class": "transactional", "size": 9}
    first, second = packets_of({**record, **stream})
    assert first == (3, 4, carried(7)._replace(previous=4))
    assert second == (5, 5, carried(9)._replace(messages=9))
    assert list(packets_of({**record, "class": "express"})) == [(3, 5, CONTROL)]


# Latencies do not depend on which node is heard first, and what was measured is forgotten.

MS = 1_000_000
QUEUED = [(1, 10, 0), (11, 20, 5 * MS)]
COMMITTED = [(1, 4, 1 * MS), (5, 12, 7 * MS), (13, 20, 9 * MS)]


def record(first: int, last: int, wall_ns: int) -> dict[str, int]:
    return {"first": first, "last": last, "count": last - first + 1, "wall_ns": wall_ns}


def measured(*order: str) -> tuple[dict[str, int], Latencies]:
    latencies, out = Latencies(), Output()
    for what in order:
        for span in QUEUED if what == "queued" else COMMITTED:
            getattr(latencies, what)(record(*span), out)
    return {name: sum(series.buckets.values()) for name, series in out.series.items()}, latencies


@pytest.mark.parametrize("order", [("queued", "committed"), ("committed", "queued")])
def test_each_message_is_measured_once(order: tuple[str, str]) -> None:
    """By the range in which the last packet of its commit was queued."""
    counts, latencies = measured(*order)
    assert counts == {f"latency {latency_bucket(ms * MS)}": count for ms, count in ((1, 4), (2, 8), (4, 8))}
    assert latencies.waiting == 0


def test_delays_are_kept_for_percentiles_and_the_slowest_exactly() -> None:
    """Whatever part of a stream was seen first."""
    (_, mine), (_, others) = measured("queued"), measured("committed")
    mine.join(others, Output())
    for latencies in (mine, measured("queued", "committed")[1]):
        took = {1: 4, 2: 8, 4: 8}
        assert latencies.delays == {latency_bucket(ms * MS, DELAY_BUCKETS_PER_DECADE): n for ms, n in took.items()}
        assert latencies.longest_ns == 4 * MS


def test_what_waits_has_waited_since_it_was_queued() -> None:
    _, latencies = measured("queued")
    assert [latencies.oldest(RangeSet([span])) for span in ((9, 12), (11, 20), (21, 30))] == [0, 5 * MS, 0]


MANY = 10_000


def test_each_is_there_again_with_what_a_finding_needs() -> None:
    commits = Commits()
    commits.note(0, {"node": "aa", "incarnation": 2, "n": 7, "wall_ns": 1 << 60, "first": 1, "last": 3, "count": 9})
    commits.add(Commit(4, 2, 9, 5, 4, 4, 1))
    for kept in (commits, revive(freeze(commits), Commits)):
        one, other = kept
        assert (one.at, one.first, one.last, one.messages) == (0, 1, 3, 9)
        assert one.record("aa") == {"node": "aa", "incarnation": 2, "n": 7, "wall_ns": 1 << 60}
        assert other == Commit(4, 2, 9, 5, 4, 4, 1)
        assert len(kept) == 2


def test_a_number_that_no_node_counts_to_is_damage() -> None:
    record = {"node": "aa", "incarnation": 2, "n": 7, "wall_ns": 5, "first": 1, "last": 1 << 63, "count": 9}
    with pytest.raises(ReplayError, match="record 7 of start 2 of node aa is damaged"):
        Commits().note(0, record)


def test_each_takes_some_dozen_bytes() -> None:
    commits = Commits()
    for at in range(MANY):
        commits.add(Commit(at, 1, at, 1_700_000_000_000_000_000 + at, at, at, 1))
    assert len(freeze(commits)) < 64 * MANY
