"""Messages that relays pass on and cannot read, and relays that lie about them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.queues.relays import Relays, dead, line, post
from tests.queues.world import SimNode, numbered
from triack.base.delivery import DURABLE, Delivery
from triack.base.peers import Peer
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.ordering import wire
from triack.queues.packing import Outgoing, Properties, is_sealed, unpack

SECRET = b"the valve opens at nine"


def sealed_line(names: str = "arb", seed: int = 1, **at_ends: Any) -> Relays:
    """A line whose ends know each other's keys, without addresses."""
    net = line(names, seed)
    if len(names) == 2:
        return net
    first, last = names[0], names[-1]
    for one, other in ((first, last), (last, first)):
        net[one].know(replace(net[other].peer, addresses=(), **at_ends))
    return net


def bodies_at(relay: SimNode) -> list[bytes]:
    """What a relay has in memory of packets that wait there."""
    entries = [it for stream in relay.live.transits.streams for it in stream.sequence.entries.values()]
    return [it.body or b"" for it in entries]


def letters(node: SimNode) -> list[Properties]:
    """The properties of the dead letters of a node, which stay there."""
    mailbox = node.live.queues.mailboxes["dead-letter"]
    found = [unpack(run.pieces[0]) for run in mailbox.packets]
    return [it for content in found for it in content.properties or []]


@pytest.mark.parametrize("delivery", list(Delivery))
@pytest.mark.parametrize("names", ["ab", "arb", "arstb"])
def test_sealed_messages_arrive_in_order_and_are_acknowledged(delivery: Delivery, names: str) -> None:
    """As unsealed ones, over any number of relays and none."""
    net = sealed_line(names)
    a, b = net["a"], net["b"]
    post(a, "b", *numbered(0, 50), delivery=delivery, seal=True)
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 50 and net.is_done("a"))
    assert b.read_all("q") == numbered(0, 50)


def test_a_relay_sees_nothing_of_a_sealed_message() -> None:
    """Neither body nor properties, in memory, on its disk or in what it sends."""
    net = sealed_line()
    net.world.cut(net["r"], net["b"])
    outgoing = net["a"].live.outgoing_stream("b", "q", Delivery.TRANSACTIONAL, seal=True)
    net["a"].live.submit(outgoing, Outgoing(SECRET, {"label": "hush"}), len(SECRET))
    net["a"].drain()
    assert net.world.run(10 * SECOND, lambda: net.waiting("r") == 1)
    (body,) = bodies_at(net["r"])
    assert is_sealed(body)
    assert SECRET not in body
    assert b"hush" not in body
    net.world.heal()
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert net["b"].read_all("q") == [SECRET]


def test_large_sealed_messages_arrive_whole() -> None:
    net = sealed_line()
    body = bytes(range(256)) * 1_200
    post(net["a"], "b", body, b"small", seal=True)
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert net["b"].read_all("q") == [body, b"small"]
