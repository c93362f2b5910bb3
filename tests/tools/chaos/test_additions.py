"""Additions to plans: each comes, to a share of the seeds, and changes nothing else of a plan."""

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from triack.tools.chaos.additions import (
    CARRIED_BYTES,
    LIVE_MAX,
    ONCE_NAMES,
    PRIORITIES_MAX,
    QUEUES_BYTES,
    RATES_BPS,
    RETIRE_S,
    WANTED_BYTES,
    hide,
    mix_transports,
    narrow,
    set_clocks,
    stream_bodies,
    visit,
    waver,
)
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.pausing import OUTGOING
from triack.tools.chaos.plan import DISHONEST, LASTING_MS, Plan
from triack.tools.chaos.run import run_plan
from triack.tools.chaos.topologies import RELAYED_FROM

ADDED = ("forbid", "hide", "narrow")
"""Kinds of faults that come with additions."""


def schemes(plan: Plan) -> set[str]:
    return {address.partition(":")[0] for host in plan.hosts for address in host.addresses}


@pytest.mark.slow
@pytest.mark.gate
def test_a_share_of_the_seeds_has_each() -> None:
    """Peers at addresses of both transports, narrow paths, and changing permissions, in a block of 350 seeds."""
    plans = [draw(seed) for seed in range(350)]
    assert sum(len(schemes(plan)) == 2 for plan in plans) >= 5
    assert sum(any(stream.wavers for stream in plan.streams) for plan in plans) >= 10
    assert sum(any(fault.kind == "narrow" for fault in plan.faults) for plan in plans) >= 50
    assert sum(any(fault.kind == "hide" for fault in plan.faults) for plan in plans) >= 25
    for plan in plans:
        wavers = [index for index, stream in enumerate(plan.streams) if stream.wavers]
        assert {fault.after for fault in plan.faults if fault.kind == "forbid"} == set(wavers)
        if wavers:
            assert plan.is_secure
            assert not any(fault.kind in DISHONEST for fault in plan.faults)
            assert [fault.at_ns for fault in plan.faults] == sorted(fault.at_ns for fault in plan.faults)


@pytest.mark.slow
@pytest.mark.gate
def test_some_stores_are_opened_a_second_time_and_some_clocks_are_set() -> None:
    """Where clocks are set, no other clock jumps, and what is sent lives for an hour."""
    plans = [draw(seed) for seed in range(350)]
    assert sum(any(fault.kind == "second-opener" for fault in plan.faults) for plan in plans) >= 30
    setting = [plan for plan in plans if any(fault.kind == "clock-set" for fault in plan.faults)]
    assert len(setting) >= 10
    for plan in setting:
        kinds = {fault.kind for fault in plan.faults}
        assert not kinds & {"wall-jump", *DISHONEST}
        assert all(stream.live_ms == LASTING_MS for stream in plan.streams)
        assert not any(stream.read_ms for stream in plan.streams)
        assert [fault.at_ns for fault in plan.faults] == sorted(fault.at_ns for fault in plan.faults)


def test_some_links_are_slow_with_relays_too() -> None:
    """Each rate with each queue, and most plans have none; where the faults end, the link is fast again."""
    plain, relayed = ([draw(first + seed) for seed in range(200)] for first in (0, RELAYED_FROM))
    slow = [plan.network for plan in (*plain, *relayed) if plan.network.rate_bps]
    assert {(network.rate_bps, network.queue_bytes) for network in slow} == set(product(RATES_BPS, QUEUES_BYTES))
    assert all(10 <= sum(bool(plan.network.rate_bps) for plan in plans) <= 30 for plans in (plain, relayed))
    late = min((plan for plan in plain if plan.network.rate_bps == RATES_BPS[0]), key=lambda plan: plan.faults_end_ns)
    assert not run_plan(late).violations


@pytest.mark.slow
@pytest.mark.gate
def test_narrow_paths_differ_each_way_and_change_in_the_middle() -> None:
    """Each carries the base at least, and there are ends that want more than that, and disagree."""
    plans = [plan for plan in map(draw, range(350)) if any(fault.kind == "narrow" for fault in plan.faults)]
    changing = unlike = 0
    for plan in plans:
        faults = [fault for fault in plan.faults if fault.kind == "narrow"]
        assert {fault.after for fault in faults} <= set(CARRIED_BYTES)
        assert {host.settings.session.max_datagram_bytes for host in plan.hosts[:2]} <= set(WANTED_BYTES)
        changing += any(fault.at_ns for fault in faults)
        unlike += len({fault.after for fault in faults if not fault.at_ns}) > 1
    assert min(changing, unlike) > len(plans) // 3


@pytest.mark.slow
@pytest.mark.gate
def test_many_names_and_few_places() -> None:
    """Queues that get a few messages each, and streams that end soon; with few places, and with many."""
    drawn = [draw(seed) for seed in range(350)]
    plans = [plan for plan in drawn if any(one.queue.startswith("once") for one in plan.streams)]
    assert len(plans) >= 40
    assert {host.settings.max_streams for plan in plans for host in plan.hosts} == set(LIVE_MAX)
    assert {host.settings.retire_after_s for plan in plans for host in plan.hosts} == set(RETIRE_S)
    for plan in plans:
        names = [one.queue for one in plan.streams if one.queue.startswith("once")]
        assert len(set(names)) == len(names) in ONCE_NAMES
        assert not any(fault.kind in DISHONEST for fault in plan.faults)


@pytest.mark.slow
@pytest.mark.gate
def test_streams_have_several_priorities_and_queues_are_paused() -> None:
    """Also those that go by relays; what is transactional has none."""
    plans = [draw(seed) for seed in (*range(350), *range(RELAYED_FROM, RELAYED_FROM + 50))]
    for plan in plans:
        for stream in plan.streams:
            assert not (stream.priorities and stream.delivery == "transactional")
            assert len(set(stream.priorities)) == len(stream.priorities) <= PRIORITIES_MAX
    assert sum(any(stream.priorities for stream in plan.streams) for plan in plans[:350]) >= 120
    assert any(stream.priorities for plan in plans[350:] for stream in plan.streams)
    paused = [plan for plan in plans if any(fault.kind == "pause-queue" for fault in plan.faults)]
    assert len(paused) >= 25
    assert not any(fault.kind in DISHONEST for plan in paused for fault in plan.faults)
    faults = [fault for plan in paused for fault in plan.faults if fault.kind == "pause-queue"]
    assert {(fault.other, fault.forever) for fault in faults} == {(0, False), (0, True), (OUTGOING, False)}


def test_the_rest_of_a_plan_stays() -> None:
    """Ports, faults and streams are those that were drawn before."""
    moving = next(plan for plan in map(draw, range(300)) if any(host.others for host in plan.hosts))
    for seed in range(20):
        plan = narrow(waver(mix_transports(moving, Random(seed)), Random(seed)), Random(seed))
        plan = hide(plan, Random(seed))
        assert visit(plan, Random(seed)).streams == plan.streams
        assert set_clocks(plan, Random(seed)).hosts == plan.hosts
        for one, other in zip(plan.hosts, moving.hosts, strict=True):
            assert [address.partition(":")[2] for address in one.addresses] == [
                address.partition(":")[2] for address in other.addresses
            ]
            assert one.address == other.address
        assert [replace(stream, wavers=False) for stream in plan.streams] == [
            replace(stream, wavers=False) for stream in moving.streams
        ]
        assert [fault for fault in plan.faults if fault.kind not in ADDED] == [
            fault for fault in moving.faults if fault.kind not in ADDED
        ]


@pytest.mark.slow
@pytest.mark.gate
def test_some_plans_have_bodies_in_parts() -> None:
    """Of durable streams of honest plans, around the size of a part; the rest of such a plan stays as it was."""
    plans = [(plan, stream_bodies(plan, Random(seed))) for seed, plan in enumerate(map(draw, range(200)))]
    streamed = [(plan, more, stream) for plan, more in plans if plan != more for stream in more.streams]
    large = [stream for _, _, stream in streamed if stream.streamed_bytes]
    assert {stream.delivery for stream in large} == {"transactional", "recoverable"}
    assert not any(stream.journal or stream.sealed or stream.poison or stream.source >= 0 for stream in large)
    parts = {more.hosts[0].settings.large.part_bytes for _, more, _ in streamed}
    assert len(parts) > 1
    assert {stream.streamed_bytes for stream in large} >= {20, *parts, *(size + 1 for size in parts)}
    assert any(more.hosts[0].settings.limits.queue_quota for _, more, _ in streamed)
    for plan, more, _ in streamed:
        assert [replace(it, streamed_bytes=0) for it in more.streams] == [
            replace(it, streamed_bytes=0) for it in plan.streams
        ]
        assert more.faults == plan.faults
        assert not any(fault.kind in DISHONEST for fault in plan.faults)
