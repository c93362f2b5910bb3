"""Plans with relays: each topology in turn, with faults at its relays; a run of each keeps every promise."""

from collections import Counter

import pytest

from triack.tools.chaos.drawing import draw
from triack.tools.chaos.run import run_seed
from triack.tools.chaos.topologies import AWAY_NS, QUOTA_BYTES, RELAYED_FROM, TOPOLOGIES

SEEDS = range(RELAYED_FROM, RELAYED_FROM + 400)


def test_each_topology_comes_in_turn() -> None:
    plans = [draw(seed) for seed in SEEDS[: len(TOPOLOGIES)]]
    assert [len(plan.hosts) for plan in plans] == [3, 5, 4, 5]
    assert all(plan.links and plan.routes for plan in plans)
    assert draw(RELAYED_FROM) == plans[0]


def test_seeds_below_have_no_relays() -> None:
    assert not any(draw(seed).routes or draw(seed).links for seed in range(50))


@pytest.mark.slow
@pytest.mark.gate
def test_each_fault_comes_to_a_share_of_the_seeds() -> None:
    plans = [draw(seed) for seed in SEEDS]
    kinds = Counter(kind for plan in plans for kind in {fault.kind for fault in plan.faults})
    assert all(kinds[kind] >= 20 for kind in ("kill", "power-loss", "disk-full", "reroute", "old-copy", "cut"))
    assert sum(any(fault.for_ns == AWAY_NS for fault in plan.faults) for plan in plans) >= 10
    quotas = [host.settings.limits.peer_transit_bytes for plan in plans for host in plan.hosts]
    assert quotas.count(QUOTA_BYTES) >= 20
    assert 100 <= sum(bool(plan.sync.hosts) for plan in plans) <= 180
    assert 160 <= sum((plan.hosts[0].settings.retire_after_s or 0) < 10 for plan in plans) <= 240
    assert all(any(stream.astray for stream in plan.streams) == (len(plan.links) == 4 and len(plan.hosts) == 5
               and (1, 3) in plan.links) for plan in plans)  # fmt: skip


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_promise_is_kept(name: str) -> None:
    """Two seeds of each; ``triack chaos --first 1000000`` goes on."""
    first = RELAYED_FROM + list(TOPOLOGIES).index(name)
    for seed in (first, first + len(TOPOLOGIES)):
        outcome = run_seed(seed)
        assert outcome.violations == [], seed


@pytest.mark.slow
def test_every_promise_is_kept_over_synchronous_links() -> None:
    """One seed of each topology whose hosts wait until messages were passed on."""
    for at in range(len(TOPOLOGIES)):
        seed = next(seed for seed in SEEDS if seed % len(TOPOLOGIES) == at and draw(seed).sync.hosts)
        outcome = run_seed(seed)
        assert outcome.violations == [], seed
