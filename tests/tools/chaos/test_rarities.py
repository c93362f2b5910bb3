"""Rarities: a share of the seeds has some, each of them comes, and the rest of a plan stays as it was."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from triack.tools.chaos.drawing import draw
from triack.tools.chaos.plan import DISHONEST, STRANGE, Plan, is_limited
from triack.tools.chaos.rarities import HELD_FEW, QUICK_TIER_S, SHARE, add_rarities

KINDS = {"move", "rotate", "revoke", *STRANGE}


def traits(plan: Plan) -> set[str]:
    """The rarities that a plan has."""
    found = {fault.kind for fault in plan.faults} & KINDS
    found |= {"limits" for host in plan.hosts if is_limited(host.settings.limits)}
    found |= {"forbidden" for stream in plan.streams if stream.forbidden}
    found |= {"hand back" for host in plan.hosts if host.settings.reconnect.after_session_lost != "resend"}
    found |= {"in time" for stream in plan.streams if stream.read_ms}
    found |= {"unread" for stream in plan.streams if not stream.is_read}
    return found | ({"crowd"} if len(plan.hosts) > 3 else set())


@pytest.mark.slow
@pytest.mark.gate
def test_a_share_of_the_seeds_has_some_and_each_comes() -> None:
    """A block of 250 seeds has each several times."""
    plans = [draw(seed) for seed in range(250)]
    rare = [plan for plan in plans if traits(plan)]
    assert 0.15 < len(rare) / len(plans) < SHARE
    for kind in (*KINDS, "limits", "forbidden", "in time", "unread", "hand back", "crowd"):
        assert sum(kind in traits(plan) for plan in plans) >= 3, kind
    assert {len(plan.hosts) for plan in plans} == {2, 3, 4, 5}


@pytest.mark.slow
@pytest.mark.gate
def test_whose_fault_a_loss_is_stays_known() -> None:
    """A store that deceives comes without them; without keys nobody has a name to be moved or revoked by."""
    for plan in map(draw, range(400)):
        if any(fault.kind in DISHONEST for fault in plan.faults):
            assert not traits(plan)
        if not plan.is_secure:
            assert traits(plan) <= {"crowd", "limits", "junk", "in time", "unread", "hand back"}


def test_the_rest_of_a_plan_does_not_depend_on_them() -> None:
    """They draw from a chance of their own; what is added is in its place by time."""
    plain = next(plan for plan in map(draw, range(100)) if plan.is_secure and plan.faults and not traits(plan))
    for seed in range(80):
        plan = add_rarities(plain, Random(seed))
        assert [fault.at_ns for fault in plan.faults] == sorted(fault.at_ns for fault in plan.faults)
        kept = [fault for fault in plain.faults if fault.at_ns < plan.faults_end_ns]
        if "in time" in traits(plan):
            # Clocks that jump apart would say anything of a time to be received.
            kept = [fault for fault in kept if fault.kind != "wall-jump"]
        assert [fault for fault in plan.faults if fault.kind not in KINDS] == kept
        assert plan.network == plain.network
        assert [stream.sender for stream in plan.streams[: len(plain.streams)]] == [s.sender for s in plain.streams]
        same: dict[str, Any] = {
            "others": (),
            "settings": plain.hosts[0].settings,
            "read_gap_ns": 1,
            "timer_slack_ns": 0,
        }
        assert replace(plan.hosts[0], **same) == replace(plain.hosts[0], **same)


@pytest.mark.slow
@pytest.mark.gate
def test_what_a_cramped_receiver_refuses_comes_again_soon() -> None:
    """A large message in many packets for a full queue, and room for few that came too early: 222751 was such a one."""
    senders = [
        plan.hosts[stream.sender].settings.order
        for plan in map(draw, range(600))
        for stream in plan.streams
        if is_limited((receiver := plan.hosts[stream.receiver].settings).limits)
        and receiver.order.max_held_packets <= HELD_FEW
    ]
    assert len(senders) >= 3
    assert {order.seq_resend_13_s for order in senders} == {QUICK_TIER_S}
