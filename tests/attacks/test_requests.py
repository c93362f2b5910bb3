"""Requests without end: each is a few bytes on the wire, and must cost no more than it brings."""

import pytest

from tests.queues.hostile import (
    Hostile,
    answers_waiting,
    batch,
    still_works,
    victim,
)
from triack.base.delivery import Delivery
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.ordering.order_ack import OrderAck
from triack.queues.remote import desk
from triack.queues.remote.peer_subscriptions import LEASE_NS
from triack.queues.remote.requests import Subscribe, Unsubscribe
from triack.session.protocol.binary import BINARY
from triack.session.protocol.frames import PingFrame


def test_pings_do_not_pile_up_order_acks() -> None:
    """One ack for each stream is all there can be to say."""
    world, node, evil = victim()
    evil.frames(evil.message(1))
    world.run(SECOND)
    for _ in range(2_000):
        evil.frames(BINARY.encode(PingFrame()))
    assert answers_waiting(node) <= 2


def test_pings_in_turn_ask_each_stream_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many streams there are: each is asked once for what it owes."""
    world, node, evil = victim()
    for stream in range(1, 201):
        evil.frames(evil.message(3, stream=stream))
    world.run(SECOND)
    asked: list[OrderAck] = []
    ask = OrderAck.handle_request

    def count(ack: OrderAck) -> None:
        asked.append(ack)
        ask(ack)

    monkeypatch.setattr(OrderAck, "handle_request", count)
    evil.each(*[BINARY.encode(PingFrame())] * 500)
    assert len(asked) <= 200
    still_works(world, node)


def ask(evil: Hostile, *requests: Subscribe | Unsubscribe) -> None:
    """Send requests about subscriptions, each in a message of its own."""
    for request in requests:
        number = evil.packets + 1
        evil.frames(evil.message(number, queue="$subscriptions", body=batch(request.encode())))
        evil.world.run(20 * MS)


def test_one_that_asks_and_takes_no_answer_leaves_a_limited_number_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further subscriptions are as if it had not asked for them. What ends one is done all the same."""
    monkeypatch.setattr(desk, "ANSWERS_MAX", 5)
    _, node, evil = victim()
    node.live.make_queue("topic:t")
    wanted = [Subscribe(f"s{number}", number, "t.#", True, Delivery.TRANSACTIONAL, 9) for number in range(1, 20)]
    ask(evil, *wanted)
    (link,) = node.live.outbox.links.values()
    assert sum(stream.unacknowledged for stream in link.streams) == 5
    assert len(node.live.topics.subscriptions) == 5
    ask(evil, *[Unsubscribe(it.name, it.number) for it in wanted])
    assert not node.live.topics.subscriptions
    assert sum(stream.unacknowledged for stream in link.streams) == 5
    assert node.live.drops[DropReason.CONTROL_OVERFLOW] == 19


def test_one_that_asks_for_nothing_is_not_remembered() -> None:
    """It has ended a subscription that it never had; any number of nodes could."""
    world, node, evil = victim()
    ask(evil, Unsubscribe("s", 1))
    assert node.live.remote.next_deadline() is None
    ask(evil, Subscribe("s", 1, "t.#", False, Delivery.TRANSACTIONAL, 9))
    assert (node.live.remote.next_deadline() or 0) > world.now_ns + LEASE_NS // 2
