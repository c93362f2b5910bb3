"""What arrives: the queues that it fills, and what is refused."""

import pytest

from tests.queues.hostile import Hostile
from tests.queues.world import PlainWorld, numbered
from triack.base.delivery import Delivery
from triack.base.reasons import DropReason, RejectReason
from triack.base.units import MS, SECOND
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE
from triack.queues.node_settings import NodeSettings
from triack.queues.peers import link
from triack.queues.peers.session_settings import largest_window
from triack.session.protocol.settings import SessionSettings

# What is refused, and what is too much.


@pytest.mark.parametrize(
    ("queues", "name", "reason"),
    [
        (["orders"], "orders", None),
        (["orders"], "other", RejectReason.QUEUE_NOT_FOUND),
        (None, "any", None),
        (None, ".hidden", RejectReason.BAD_QUEUE_NAME),
        (None, DEAD_LETTER_QUEUE, RejectReason.ACCESS_DENIED),
        (["orders", "$own"], "$own", RejectReason.ACCESS_DENIED),
    ],
)
def test_queues_that_take_packets(queues: list[str] | None, name: str, reason: str | None) -> None:
    """Those that are declared, or any with a name that is one; none of the node's own."""
    world = PlainWorld(1)
    node = world.node("b", queues=queues)
    evil = Hostile(world, node)
    evil.frames(evil.message(1, queue=name))
    world.run(SECOND)
    assert [record["reason"] for record in node.log("rejected")] == ([] if reason is None else [reason])
    assert node.length(name) == (reason is None)


def test_a_queue_is_one_however_a_peer_writes_its_name() -> None:
    """Also within a stream; its packets are taken in their order, and its rights are those of the one queue."""
    world = PlainWorld(1)
    node = world.node("b", queues=["süd"])
    evil = Hostile(world, node)
    for number, name in enumerate(("su\u0308d", "su\u0308d", "süd", "su\u0308d"), start=1):
        evil.frames(evil.message(number, queue=name))
        world.run(MS)
    world.run(SECOND)
    assert node.log("rejected") == []
    assert (node.length("süd"), node.length("su\u0308d")) == (4, 0)


def test_arrivals_make_a_limited_number_of_queues() -> None:
    """The node itself may make more; what there is takes packets as ever. Durable ones for others wait."""
    world = PlainWorld(1)
    node = world.node("b", NodeSettings(max_queues=2))
    evil = Hostile(world, node)
    for stream, queue in enumerate(("one", "two", "three", "one"), start=1):
        delivery = Delivery.EXPRESS if queue == "two" else Delivery.TRANSACTIONAL
        evil.frames(evil.message(1, queue=queue, stream=stream, delivery=delivery))
    node.send(node, "four", b"own")
    world.run(SECOND)
    assert [(record["stream"], record["reason"]) for record in node.log("rejected")] == [
        (2, RejectReason.TOO_MANY_QUEUES),
        (3, RejectReason.HELD_BACK),
    ]
    assert {name: node.length(name) for name in ("one", "four")} == {"one": 2, "four": 1}


def test_rejections_that_find_no_room_are_counted_and_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of them is on its way, ``CONTROL_MAX`` wait, and each of the others is dropped with its reason."""
    monkeypatch.setattr(link, "CONTROL_MAX", 8)
    world = PlainWorld(1)
    node = world.node("b", queues=["orders"])
    evil = Hostile(world, node)
    for number in range(1, 101):
        evil.frames(evil.message(number, queue="nope"))
        world.run(MS)
    window = largest_window(node.live.settings)
    world.run(2 * SECOND)
    assert node.live.drops == {DropReason.CONTROL_OVERFLOW: 100 - window - 8}
    assert [(record["reason"], record["count"]) for record in node.log("dropped")] == [
        ("control-overflow", 100 - window - 8)
    ]


@pytest.mark.parametrize("delivery", list(Delivery))
def test_runs_of_one_stream_are_one_record(delivery: Delivery) -> None:
    """However many packets a commit holds, those that are committed side by side share one record."""
    world = PlainWorld(1)
    a, b = world.node("a", NodeSettings(session=SessionSettings(max_datagram_bytes=1_200))), world.node("b")
    a.send(b, "q", b"warm", delivery=delivery)
    world.run(3 * SECOND)
    b.commit_ns = 100 * MS
    a.send(b, "q", *numbered(0, 40, 500), delivery=delivery)
    assert world.run(5 * SECOND, lambda: not a.busy)
    lines = b.log("committed")[1:]
    assert sum(record["count"] for record in lines) == 40
    assert [record["first"] for record in lines] == [2, *(record["last"] + 1 for record in lines[:-1])]
    packets = lines[-1]["last"] - 1
    assert packets == 20
    assert (len(lines) == packets) if delivery is Delivery.EXPRESS else (len(lines) < 5)
