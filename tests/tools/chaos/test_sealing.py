"""Plans with sealed streams, and relays that lie about them."""

from typing import Any

import pytest

from triack.tools.chaos.drawing import draw
from triack.tools.chaos.run import run_plan
from triack.tools.chaos.sealing import HOSTILE, Hostile
from triack.tools.chaos.topologies import RELAYED_FROM

PLANS = [draw(seed) for seed in range(RELAYED_FROM, RELAYED_FROM + 200)]


def test_some_streams_are_sealed_and_some_relays_hostile() -> None:
    """Only streams whose dead letters can be read, and only relays."""
    sealed = [stream for plan in PLANS for stream in plan.streams if stream.sealed]
    assert len(sealed) > 40
    assert {stream.delivery for stream in sealed} == {"transactional", "express"}
    hostile = [(plan, fault) for plan in PLANS for fault in plan.faults if fault.kind == HOSTILE]
    assert len(hostile) > 15
    assert all(fault.host in {route.via for route in plan.routes} for plan, fault in hostile)
    assert all(any(stream.lied_about for stream in plan.streams) for plan, _ in hostile)


@pytest.mark.slow
def test_hostile_relays_lie_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of them lie several times; the others end too soon, or have no packets to lie about."""
    made: list[Hostile] = []
    begin = Hostile.__init__

    def note(self: Hostile, *given: Any) -> None:
        begin(self, *given)
        made.append(self)

    monkeypatch.setattr(Hostile, "__init__", note)
    hostile = [plan for plan in PLANS if any(fault.kind == HOSTILE for fault in plan.faults)]
    short = [plan for plan in hostile if all(fault.for_ns < 60 * 10**9 for fault in plan.faults)]
    for plan in short[:8]:
        assert run_plan(plan).violations == [], plan.seed
    assert sum(it.lies > 0 for it in made) >= 4
    assert sum(it.lies for it in made) >= 20
