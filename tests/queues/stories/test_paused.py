"""Paused queues: nothing leaves them, and nothing is lost, sent twice or forgotten meanwhile."""

import pytest

from tests.queues.world import SimNode, World, numbered
from triack.base.delivery import DURABLE, Delivery
from triack.base.reasons import HoldReason
from triack.base.units import SECOND
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.queues.stages import Stage

HOUR = 3_600 * SECOND
CLASSES = list(Delivery)


def pause(node: SimNode, name: str, *, arrivals: bool = False) -> None:
    """An operator pauses a queue."""
    node.live.pause(name, arrivals=arrivals, now_ns=node.world.now_ns)
    node.drain()


def resume(node: SimNode, name: str) -> None:
    """The operator resumes it."""
    assert node.live.resume(name, node.world.now_ns)
    node.drain()


@pytest.mark.parametrize("delivery", CLASSES)
def test_nothing_leaves_a_paused_outgoing_queue(delivery: Delivery) -> None:
    """Another queue of the peer goes on; when it is resumed everything arrives once, in order."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    a.send(b, "q", b"before", delivery=delivery)
    assert world.run(5 * SECOND, lambda: b.length("q") == 1)
    pause(a, f"{b.name}/q")
    a.send(b, "q", *numbered(0, 100), delivery=delivery)
    a.send(b, "other", b"goes on", delivery=delivery)
    world.run(HOUR)
    assert (b.length("q"), b.length("other")) == (1, 1)
    resume(a, f"{b.name}/q")
    assert world.run(5 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"before", *numbered(0, 100)]


def test_all_queues_of_a_paused_peer_wait_new_ones_too() -> None:
    """Without anything to send no session is kept open, and none is opened."""
    world = World(2)
    a, b = world.node("a"), world.node("b")
    pause(a, f"{b.name}/")
    a.send(b, "q", b"1")
    a.send(b, "new", b"2")
    world.run(HOUR)
    assert a.log("session_opened") == []
    resume(a, f"{b.name}/")
    assert world.run(5 * SECOND, lambda: b.length("q") == b.length("new") == 1)


@pytest.mark.parametrize("delivery", DURABLE)
def test_a_pause_outlives_a_restart(delivery: Delivery) -> None:
    """The queue of the next process waits as well."""
    world = World(3)
    a, b = world.node("a"), world.node("b")
    pause(a, f"{b.name}/q")
    a.send(b, "q", *numbered(0, 10), delivery=delivery)
    world.run(SECOND)
    a.restart()
    world.run(HOUR)
    assert b.length("q") == 0
    resume(a, f"{b.name}/q")
    assert world.run(5 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == numbered(0, 10)


def test_what_was_sent_before_the_pause_is_not_sent_again_in_it() -> None:
    """The peer is away; its return changes nothing until the queue is resumed."""
    world = World(4)
    a, b = world.node("a"), world.node("b")
    a.send(b, "q", b"0")
    assert world.run(5 * SECOND, lambda: not a.busy)
    world.cut(a, b)
    a.send(b, "q", *numbered(1, 5))
    world.run(SECOND)
    pause(a, f"{b.name}/q")
    world.run(600 * SECOND)
    world.heal()
    sent = len(a.log("packet_sent"))
    world.run(HOUR)
    assert len(a.log("packet_sent")) == sent
    resume(a, f"{b.name}/q")
    assert world.run(5 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"0", *numbered(1, 5)]


def test_a_message_in_a_paused_queue_expires() -> None:
    """Its dead letter is there in time."""
    world = World(5)
    a, b = world.node("a"), world.node("b")
    pause(a, f"{b.name}/q")
    a.send(b, "q", b"late", live_ms=60_000)
    assert world.run(61 * SECOND, lambda: a.length("dead-letter") == 1)


def test_readers_of_a_paused_queue_get_nothing_and_arrivals_go_on() -> None:
    """Express messages wait like all others; the resumed queue has everything in order."""
    world = World(6)
    a, b = world.node("a"), world.node("b")
    a.send(b, "q", *numbered(0, 20))
    assert world.run(5 * SECOND, lambda: b.length("q") == 20)
    assert b.read("q", 5) == 5
    pause(b, "q")
    a.send(b, "q", *numbered(20, 40))
    world.run(HOUR)
    assert (b.read("q"), b.length("q")) == (0, 35)
    resume(b, "q")
    assert b.read_all("q") == numbered(0, 40)


@pytest.mark.parametrize("delivery", CLASSES)
def test_a_queue_whose_arrivals_are_paused_holds_its_senders(delivery: Delivery) -> None:
    """The sender says why it waits; nothing is refused, even by a queue that refuses when it is full."""
    world = World(7)
    settings = NodeSettings(limits=Limits(queue_quota={"q": Quota(1_000, when_full="reject")}))
    a, b = world.node("a"), world.node("b", settings)
    a.send(b, "q", *numbered(0, 10), delivery=delivery)
    assert world.run(5 * SECOND, lambda: b.length("q") == 10)
    pause(b, "q", arrivals=True)
    for first in range(10, 500, 10):
        a.send(b, "q", *numbered(first, first + 10), delivery=delivery)
        world.run(SECOND // 10)
    world.run(600 * SECOND)
    there = b.length("q")
    assert there == 10 if delivery in DURABLE else there < 500
    assert [it.reason for it in a.outbox.holds.streams] == [HoldReason.PAUSED]
    resume(b, "q")
    assert world.run(5 * SECOND, lambda: not a.busy)
    assert sorted(b.read_all("q")) == numbered(0, 500)
    assert a.length("dead-letter") == 0


def test_arrivals_stay_paused_after_a_restart() -> None:
    """The next session is held again."""
    world = World(8)
    a, b = world.node("a"), world.node("b", queues=["q"])
    pause(b, "q", arrivals=True)
    world.run(SECOND)
    b.restart()
    said = a.watch(a.send(b, "q", b"1"), Stage.ORDERED)
    world.run(HOUR)
    assert (said, b.length("q")) == ([], 0)
    resume(b, "q")
    assert world.run(5 * SECOND, lambda: said == [None])


def test_pauses_of_both_ends_are_in_the_session_log() -> None:
    """A replay says from them why messages wait."""
    world = World(9)
    a, b = world.node("a"), world.node("b", queues=["q"])
    pause(a, f"{b.name}/q")
    pause(b, "q", arrivals=True)
    resume(b, "q")
    assert [(it["queue"], it["arrivals"]) for it in a.log("queue_paused") + b.log("queue_paused")] == [
        (f"{b.name}/q", False),
        ("q", True),
    ]
    assert [it["queue"] for it in b.log("queue_resumed")] == ["q"]
