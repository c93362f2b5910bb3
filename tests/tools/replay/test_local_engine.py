"""The local engine as a whole: the numbers of the verdict, the serials of the records, the timeline."""

from pathlib import Path

import pytest

from tests.tools.replay.builder import BETA, CLASS_LANES, MS, PER_PACKET, healthy
from tests.tools.replay.faults import FAULTS, HARMLESS, LOG_CHECKS, breaking, ready
from tests.tools.replay.judging import assert_found, verdict_of
from triack.base.errors import ReplayError
from triack.tools.replay.files import Record, find_logs
from triack.tools.replay.local_engine import (
    TIMELINE_GRAIN_NS,
    LocalReplay,
    bucket_width,
    judge_records,
    latency_bucket,
    replay_local,
)
from triack.tools.replay.schema import TIMELINE_BUCKETS, Timeline


@pytest.mark.parametrize("name", breaking(*LOG_CHECKS))
def test_a_planted_fault_is_found(name: str) -> None:
    assert_found(name)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_unusual_but_right_passes(name: str) -> None:
    """Crashes, resends, removals, forwarding and waiting packets break no promise."""
    assert judge_records(HARMLESS[name]().all_records()) == []


def test_a_healthy_record_passes_with_its_numbers() -> None:
    """Crashes, a failed session and a removal are counted, and every message that was sent arrived."""
    verdict = verdict_of(healthy())
    assert verdict.verdict == "pass"
    # 8 + 2 + 1 + 1 + 2 + 40 transactional packets and 48 recoverable ones; the removed one counts nowhere.
    assert verdict.sent == verdict.delivered == PER_PACKET * (54 + 48)
    assert (verdict.lost, verdict.pending, verdict.duplicates_delivered, verdict.out_of_order) == (0, 0, 0, 0)
    assert (verdict.duplicates_on_wire, verdict.resends, verdict.sessions_closed, verdict.nodes) == (1, 3, 2, 2)


def test_the_first_record_has_serial_1() -> None:
    """Each start counts anew, and a record that is there twice is as wrong as one that lacks."""
    world = ready()
    world.alpha.start()
    world.alpha.start()
    serials = {1: [1, 2], 2: [2, 3], 3: [1, 1]}
    world.alpha.write("node_stopped")
    world.alpha.records.insert(-2, {**world.alpha.records[-2], "incarnation": 2})
    records = world.alpha.records
    for record in records:
        record["n"] = serials[record["incarnation"]].pop(0)
    found = judge_records(records)
    assert [(it.check, it.number, it.evidence) for it in found] == [
        ("log_gap", 1, "incarnation 3: record 1 follows record 1"),
        ("log_gap", 2, "incarnation 2: record 2 follows record 0"),
    ]


@pytest.mark.parametrize("name", ["window_exceeded", "lost_transactional", "idle_delay_exceeded"])
def test_records_and_files_are_judged_alike(name: str, tmp_path: Path) -> None:
    """The same findings, evidence and all."""
    world = ready()
    FAULTS[name](world)
    verdict, _ = replay_local(find_logs(world.save(tmp_path)), timeline=False)
    assert verdict.findings
    assert judge_records(world.all_records()) == verdict.findings


def test_the_order_of_nodes_does_not_matter() -> None:
    """Only each node's own order counts: all of one first, or both as the clock has them."""
    world = ready()
    FAULTS["lost_transactional"](world)
    records = world.all_records()
    found = judge_records(records)
    assert judge_records(sorted(records, key=lambda record: record["at_ns"])) == found
    assert judge_records([*world.beta.records, *world.alpha.records]) == found


def test_a_record_that_lacks_a_field_is_an_error(tmp_path: Path) -> None:
    """A judge that guesses proves nothing; where there is a file, it names the line."""
    world = healthy()
    del world.alpha.one("packet_sent")["packet"]
    with pytest.raises(KeyError, match="packet"):
        judge_records(world.all_records())
    with pytest.raises(ReplayError, match=r"line \d+ is damaged: event 'packet_sent' lacks or misuses 'packet'"):
        replay_local(find_logs(world.save(tmp_path)), timeline=False)


def test_a_peer_without_log_is_named(tmp_path: Path) -> None:
    """With one side only, the verdict says whose log is missing."""
    alpha, _ = healthy().save(tmp_path)
    assert replay_local(find_logs([alpha]), timeline=False)[0].peers_without_log == [BETA]


def test_a_timeline_puts_everything_in_its_bucket() -> None:
    """Two packets are queued, sent and committed at once; a second later one of them comes again, and is recognised."""
    world = ready()
    numbers = world.queue("transactional", 2)
    world.send("transactional", numbers)
    world.commit("transactional", numbers)
    world.clock.tick(1000 * MS)
    again = world.send("transactional", range(2, 3), resend=True)
    world.beta.all("packet_received")[-1]["duplicate"] = True
    world.ack(again)
    world.close("path-lost")
    timeline = timeline_of(world.all_records())
    assert timeline.bucket_ns == TIMELINE_GRAIN_NS
    assert timeline.committed == {1: 2 * PER_PACKET}
    (late,) = timeline.resends
    assert late in (100, 101)
    assert (timeline.resends, timeline.duplicates) == ({late: 1}, {late: 1})
    assert [max(line.values()) for line in timeline.unacked.values()] == [2]
    assert [(it.node, it.reason) for it in timeline.sessions] == [
        (log.node, "path-lost") for log in (world.alpha, world.beta)
    ]
    assert all(it.opened_ns < it.closed_ns for it in timeline.sessions)
    # Queued, sent twice, committed: five records, a millisecond each.
    assert timeline.latency == {latency_bucket(5 * MS): 2 * PER_PACKET}


def test_a_long_record_has_wide_buckets() -> None:
    """Sums are added, peaks are not."""
    world = ready()
    for cls in CLASS_LANES:
        for number in world.queue(cls, 3):
            world.send(cls, range(number, number + 1))
            world.clock.tick(100 * MS)
        world.clock.tick(3_600_000 * MS)
        for number in (1, 2, 3):
            world.commit(cls, range(number, number + 1))
            world.clock.tick(100 * MS)
    timeline = timeline_of(world.all_records())
    assert timeline.bucket_ns >= 3 * 3_600_000 * MS // TIMELINE_BUCKETS
    assert max(timeline.committed) <= TIMELINE_BUCKETS
    assert len(timeline.committed) <= 2 * len(CLASS_LANES)
    assert sum(timeline.committed.values()) == 9 * PER_PACKET
    assert max(timeline.unacked[world.alpha.node, world.session].values()) == 9


def test_without_a_plot_there_is_no_timeline() -> None:
    replay = LocalReplay(timeline=False)
    assert replay.finish()[1] is None


def test_latencies_are_even_on_a_logarithmic_scale() -> None:
    """Eight buckets for each factor of ten from a microsecond, below which all are the same."""
    assert [latency_bucket(took) for took in (0, 1000, 1333, 1334, 10_000, MS)] == [0, 0, 0, 1, 8, 24]


def test_a_bucket_is_as_narrow_as_the_span_allows() -> None:
    """It is whole grains wide."""
    span = TIMELINE_BUCKETS * TIMELINE_GRAIN_NS
    assert [bucket_width(7, 7 + it) for it in (0, 1, span, span + 1, 2 * span)] == [1, 1, 1, 2, 2]


def timeline_of(records: list[Record]) -> Timeline:
    replay = LocalReplay(timeline=True)
    for record in records:
        replay.see(record)
    timeline = replay.finish()[1]
    assert timeline is not None
    return timeline
