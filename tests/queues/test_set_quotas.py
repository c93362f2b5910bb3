"""Quotas that an operator has set, and what the store keeps of them."""

import pytest

from tests.queues.world import World, numbered
from triack.base.commit import Commit
from triack.base.errors import StoreDamaged
from triack.base.units import SECOND
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.queues.set_quotas import SetQuotas


def test_a_quota_outlives_the_process_until_it_is_unset() -> None:
    quotas, commit = SetQuotas(), Commit()
    quotas.set("orders", Quota(5, 1_000, "reject"), commit)
    after = SetQuotas()
    after.restore({key: value for key, value in commit.state.items() if value is not None} | {"my own": b"1"})
    assert after.by_name == {"orders": Quota(5, 1_000, "reject")}
    commit = Commit()
    assert after.unset("orders", commit)
    assert list(commit.state.values()) == [None]
    assert not after.unset("orders", commit)


@pytest.mark.parametrize("value", [b"?", bytes(17)])
def test_a_damaged_quota_is_named(value: bytes) -> None:
    with pytest.raises(StoreDamaged, match="quota of queue orders"):
        SetQuotas().restore({"$quota:orders": value})


def test_a_set_quota_goes_before_the_settings_now_and_after_a_restart() -> None:
    """Senders wait at the smaller one; with the greater one they go on."""
    world = World(1)
    settings = NodeSettings(limits=Limits(quota=Quota(messages=1_000)), messages_per_packet=1)
    a, b = world.node("a"), world.node("b", settings)
    a.send(b, "q", b"first")
    assert world.run(5 * SECOND, lambda: b.length("q") == 1)
    b.act(lambda: b.live.set_quota("q", Quota(messages=4), world.now_ns))
    b.act(lambda: b.live.handle_settings(settings))
    for body in numbered(0, 20):
        a.send(b, "q", body)
        world.run(SECOND)
    assert b.length("q") < 8
    b.restart()
    world.run(60 * SECOND)
    assert b.length("q") < 8
    b.act(lambda: b.live.set_quota("q", None, world.now_ns))
    assert world.run(120 * SECOND, lambda: b.length("q") == 21)
    set_to = [(it["messages"], it["by_settings"]) for it in b.log("queue_quota_set")]
    assert set_to == [(4, False), (1_000, True)]


def test_a_queue_that_was_full_takes_messages_with_a_greater_quota_and_tells_when_it_is_full_again() -> None:
    world = World(2)
    a, b = world.node("a"), world.node("b", NodeSettings(limits=Limits(quota=Quota(messages=1))))
    for number in range(4):
        a.send(b, "q", b"%d" % number)
        world.run(SECOND)
    assert b.length("q") == 1
    b.act(lambda: b.live.set_quota("q", Quota(messages=3), world.now_ns))
    assert world.run(60 * SECOND, lambda: b.length("q") == 3)
