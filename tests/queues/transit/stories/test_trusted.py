"""Trust in a node behind a relay: with no address of it, and no session ever, messages for it go as the routes say."""

from dataclasses import replace

from tests.queues.relays import ALL, Relays, post
from triack.base.delivery import Delivery
from triack.base.units import SECOND


def behind_relay() -> Relays:
    """Of a line a, r, b the ends have a route for everything by r."""
    return Relays("ar rb", {"a": [("*", "r")], "b": [("*", "r")]})


def test_a_node_that_is_trusted_for_sealing_alone_is_reached_by_the_route() -> None:
    """What waits goes on, too, when the trust comes later; its key is used."""
    net = behind_relay()
    a, b = net["a"], net["b"]
    b.know(replace(a.peer, addresses=()))
    post(a, "b", b"before")
    assert net.world.run(20 * SECOND, lambda: net.is_done("a"))
    a.know(replace(b.peer, addresses=(), seal=True))
    post(a, "b", b"after")
    assert net.world.run(20 * SECOND, lambda: net.is_done("a"))
    assert b.read_all("q") == [b"before", b"after"]
    assert [it.sealed for it in a.live.outbox.streams if it.peer == "b"] == [False, True]
    assert {it.via for it in a.live.outbox.streams if it.peer == "b"} == {"r"}


def test_a_peer_that_calls_gets_what_waits_for_it_from_then_on_without_a_relay() -> None:
    """Also after its session has ended, and after a restart: it will call again."""
    net = behind_relay()
    a, r, b = (net[name] for name in "arb")
    a.know(replace(b.peer, addresses=()))
    r.crash()
    post(a, "b", b"waits")
    net.world.run(5 * SECOND)
    assert net.waiting("a") == 0
    assert a.busy
    b.know(replace(a.peer, relays_for=ALL))
    post(b, "a", b"hello", delivery=Delivery.TRANSACTIONAL)
    assert net.world.run(20 * SECOND, lambda: b.read_all("q") == [b"waits"])
    assert net.world.run(20 * SECOND, lambda: not a.busy)
    a.restart()
    assert a.live.routes.way_of("b").is_direct
