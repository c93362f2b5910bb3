"""Answers on their way out: who gets them, and what is counted."""

import pytest

from tests.queues.admin import answers, ask, classes
from tests.queues.world import SimNode, World
from triack.base.delivery import Delivery
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.queues.admin_acks import Told
from triack.queues.manager import admin_desk
from triack.queues.message_classes import MessageClass
from triack.queues.node_settings import STREAM_BYTES
from triack.queues.packing import Unpacked


def tell(
    node: SimNode, origin: bytes, queue: object, acks: int = 15, delivery: Delivery = Delivery.RECOVERABLE
) -> None:
    """Something happened to one message of a node."""
    content = Unpacked(1, 0, 0, [b"x"], [{"admin": {"queue": queue, "acks": acks}}])
    about = Told(origin, 1, 1, 1, delivery, "q", content, [0], MessageClass.ACK_RECEIVE)
    node.live.desk.tell(about, node.world.now_ns)
    node.drain()


@pytest.mark.parametrize("queue", ["dead-letter", "$replies", "no such name!", ""])
def test_no_answer_goes_to_a_queue_of_the_node_itself(queue: str) -> None:
    """Whatever a sender asks for."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    tell(b, a.live.node_id, queue)
    world.run(SECOND)
    assert b.live.drops[DropReason.ADMIN_ACK_LOST] == 1
    assert not b.busy


def test_an_answer_to_a_stranger_is_dropped() -> None:
    world = World(1)
    _, b = world.node("a"), world.node("b")
    tell(b, b"stranger" * 2, "acks")
    assert b.live.drops[DropReason.ADMIN_ACK_LOST] == 1
    assert [it["lost"] for it in b.log("admin_ack_queued")] == [True]
    assert b.live.desk.queued == {}


def test_a_node_that_takes_no_answers_leaves_a_limited_number_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many queues it names for them, and whatever else waits for it; those for other nodes go."""
    monkeypatch.setattr(admin_desk, "WAITING_BYTES_MAX", 20 * (admin_desk.PACKET_BYTES + STREAM_BYTES))
    world = World(1)
    a, b, c = world.node("a"), world.node("b"), world.node("c")
    for node in (a, c):
        node.send(b, "q", b"x")
    world.run(5 * SECOND)
    world.cut(a, b)
    for _ in range(30):
        b.send(a, "own", bytes(2_000))
    for number in range(50):
        tell(b, a.live.node_id, f"q{number}")
        world.run(SECOND // 10)
    assert sum(it.unacknowledged for it in b.live.outbox.links["a"].streams if it.queue != "own") == 20
    assert b.live.drops[DropReason.ADMIN_ACK_LOST] == 30
    tell(b, c.live.node_id, "q")
    assert world.run(5 * SECOND, lambda: c.length("q") == 1)


def test_an_answer_to_the_node_itself_finds_its_queue_or_is_dropped() -> None:
    world = World(1)
    fixed = world.node("a", queues=["acks"])
    for queue in ("acks", "none"):
        tell(fixed, fixed.live.node_id, queue)
    world.run(SECOND)
    assert classes(fixed) == [MessageClass.ACK_RECEIVE]
    assert fixed.live.drops[DropReason.ADMIN_ACK_LOST] == 1


def test_a_large_message_whose_pieces_are_on_the_disk_alone_is_told_of() -> None:
    """They are fetched for it, with or without a reader."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    b.live.queues.notices.cache.limit_bytes = 1
    ask(a, "b", bytes(30_000), bytes(30_000))
    world.run(5 * SECOND)
    assert [it[0] for it in answers(a)] == [MessageClass.ACK_REACH_QUEUE] * 2


def test_what_applications_ask_for_is_in_the_log() -> None:
    """For neighbours that ask for the same one record, by the packet that the messages end in."""
    world = World(1)
    a, _ = world.node("a"), world.node("b")
    ask(a, "b", b"1", b"2", acks=MessageClass.ACK_RECEIVE.asked_by)
    ask(a, "b", b"3")
    ask(a, "b", bytes(3_000))
    world.run(SECOND)
    asked = [(it["number"], it["place"], it["count"], it["acks"]) for it in a.log("admin_ack_asked")]
    assert asked[0] == (1, 0, 2, 2)
    assert [it[2:] for it in asked] == [(2, 2), (1, 15), (1, 15)]
