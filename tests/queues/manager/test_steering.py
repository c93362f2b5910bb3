"""What an operator says of a queue is in force at once, durable with the next commit, and in the session log."""

from tests.queues.world import World
from triack.base.units import SECOND
from triack.queues.node_settings import Quota


def test_pauses_and_quotas_are_kept_and_recorded() -> None:
    world = World(1)
    node = world.node("a")
    node.send(node, "q", b"x")
    assert world.run(SECOND, lambda: node.length("q") == 1)
    node.act(lambda: node.live.pause("q", arrivals=True, now_ns=world.now_ns))
    node.act(lambda: node.live.set_quota("q", Quota(messages=7), world.now_ns))
    assert not node.live.queues.mailboxes["q"].takes_arrivals
    world.run(SECOND)
    node.restart()
    assert node.live.queues.mailboxes["q"].fill.messages.limit == 7
    node.act(lambda: node.live.resume("q", world.now_ns))
    assert node.live.queues.mailboxes["q"].takes_arrivals
    assert not node.live.resume("q", world.now_ns)
    events = ("queue_paused", "queue_quota_set", "queue_resumed")
    assert [record["event"] for record in node.log(*events)] == list(events)


def test_a_pause_after_a_standstill_says_first_that_the_process_was_late() -> None:
    """Else what it does then would look late for no reason."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    b.crash()
    a.send(b, "q", b"x")
    world.run(SECOND)
    late_ns = world.now_ns + 60 * SECOND
    a.live.pause("q", arrivals=False, now_ns=late_ns)
    a.drain()
    world.run(SECOND)
    assert [record["event"] for record in a.log("woke_late", "queue_paused")] == ["woke_late", "queue_paused"]
