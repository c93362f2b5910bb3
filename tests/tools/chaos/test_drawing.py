"""Plans: a seed always gives the same one, different from each other, and wide enough together."""

from collections import Counter

import pytest

from triack.tools.chaos.drawing import draw
from triack.tools.chaos.plan import DISHONEST, STRANGE
from triack.tools.sim.faults import SHARES

KINDS = {
    "kill",
    "power-loss",
    "pause",
    "pause-queue",
    "stop",
    "cut",
    "cut-one-way",
    "clog",
    "hide",
    "narrow",
    "rebind",
    "wall-jump",
    "clock-set",
    "second-opener",
    "disk-error",
    "disk-full",
    "disk-low",
    "move",
    "rotate",
    "revoke",
    "forbid",
    *STRANGE,
    *DISHONEST,
}


def test_a_seed_always_draws_the_same_plan() -> None:
    """And another seed another one."""
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


@pytest.mark.slow
@pytest.mark.gate
def test_a_swarm_covers_every_option() -> None:
    """In a few hundred seeds every kind of fault, of message and of network has been drawn, and has been left out."""
    plans = [draw(seed) for seed in range(300)]
    kinds = Counter(kind for plan in plans for kind in {fault.kind for fault in plan.faults})
    assert set(kinds) == KINDS
    assert max(kinds.values()) < 200
    assert {host.settings.messages_per_packet for plan in plans for host in plan.hosts} == {None, 1, 3}
    networks = Counter(name for plan in plans for name in plan.describe()["network"])
    assert {*SHARES, "rate_bps", "queue_bytes"} <= set(networks)
    assert {stream.delivery for plan in plans for stream in plan.streams} == {"express", "recoverable", "transactional"}
    assert {plan.hosts[0].address[:3] for plan in plans} == {"udp", "tcp"}
    assert any(plan.dead_path for plan in plans)
    assert any(stream.source >= 0 for plan in plans for stream in plan.streams)
    assert any(stream.live_ms for plan in plans for stream in plan.streams)
