"""Requests without end: each is one byte on the wire, and must cost no more than it brings."""

import pytest

from tests.queues.hostile import (
    answers_waiting,
    still_works,
    victim,
)
from triack.base.units import SECOND
from triack.ordering.order_ack import OrderAck
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
