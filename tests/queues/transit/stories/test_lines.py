"""Lines of relays: their limits, what is at rest, synchronous links."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.queues.relays import Relays, by_relay, dead, line, post
from tests.queues.stories.test_queues import pause, resume
from tests.queues.transit.stories.test_sealing import sealed_line
from tests.queues.world import SimNode, numbered
from triack.base.delivery import Delivery
from triack.base.news import LinkDowngraded, LinkUpgraded
from triack.base.units import MS, SECOND
from triack.ordering.onward import LinkMode
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE
from triack.queues.messages import Outgoing
from triack.queues.node_settings import NodeSettings
from triack.queues.stages import Stage
from triack.session.protocol.settings import SessionSettings
from triack.tools.sim.faults import Faults


@pytest.mark.parametrize("seal", [False, True])
@pytest.mark.parametrize("delivery", list(Delivery))
@pytest.mark.parametrize("names", ["arb", "arstb"])
def test_messages_arrive_once_and_in_order(names: str, delivery: Delivery, seal: bool) -> None:
    chain = sealed_line(names)
    a, b = chain["a"], chain["b"]
    post(a, "b", *numbered(0, 50), delivery=delivery, seal=seal)
    assert chain.world.run(20 * SECOND, lambda: b.length("q") == 50 and not (a.busy or chain.waiting()))
    assert b.read_all("q") == numbered(0, 50)
    assert b.live.name_of(a.live.node_id) == f"a@{names[-2]}"
    assert {record["hops"] for record in b.log("packet_received") if "hops" in record} == {len(names) - 2}


# Relays at which messages wait for long: paused by an operator, started again, and quiet meanwhile.

HOUR = 3_600 * SECOND


@pytest.mark.parametrize("name", ["b/", "b/q"])
@pytest.mark.parametrize("delivery", list(Delivery))
def test_nothing_passes_to_a_paused_peer(delivery: Delivery, name: str) -> None:
    net, a, r, b = by_relay()
    post(a, "b", b"before", delivery=delivery)
    assert net.world.run(5 * SECOND, lambda: b.length("q") == 1)
    pause(r, name)
    post(a, "b", *numbered(0, 100), delivery=delivery)
    post(a, "b", b"goes on", queue="other", delivery=delivery)
    net.world.run(20 * SECOND)
    if delivery is not Delivery.EXPRESS:
        r.restart()
    net.world.run(HOUR)
    assert (b.length("q"), b.length("other")) == (1, 0 if name == "b/" else 1)
    resume(r, name)
    assert net.world.run(60 * SECOND, lambda: net.is_done("a") and b.length("q") == 101)
    assert sorted(b.read_all("q")) == sorted([b"before", *numbered(0, 100)])


def test_a_previous_that_was_lowered_outlives_a_restart() -> None:
    """Two packets wait at the relay; the first one expires there and at its origin, which says so of the second.

    The relay starts again before it can pass that on. With the old word, its destination would wait for the first one.
    """
    net, a, r, b = by_relay()
    b.crash()
    post(a, "b", b"first", life_ms=20_000)
    net.world.run(SECOND)
    post(a, "b", b"second")
    net.world.run(25 * SECOND)
    (stream,) = r.live.transits.streams
    assert net.world.run(60 * SECOND, lambda: [it.previous for it in stream.sequence.entries.values()] == [0])
    net.world.run(SECOND)
    a.crash()
    r.restart()
    (stream,) = r.live.transits.streams
    assert [(it.number, it.previous) for it in stream.sequence.entries.values()] == [(2, 0)]
    b.start()
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 1)
    assert b.read_all("q") == [b"second"]
    a.start()
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert dead(a)[0] == [b"first"]


@pytest.mark.gate
def test_a_word_that_stands_costs_two_pings_in_an_interval() -> None:
    """However short the interval is, after which a session with nothing to do would end."""
    interval_s = 0.8
    short = NodeSettings(session=SessionSettings(cleanup_interval_s=interval_s, ack_timeout_min_s=0.3))
    net, a, r, b = by_relay(settings=dict.fromkeys("arb", short))
    b.crash()
    post(a, "b", *numbered(0, 5))
    net.world.run(60 * SECOND)
    before, sessions = len(a.log("ping_sent")) + len(r.log("ping_sent")), len(a.log("session_opened"))
    net.world.run(80 * SECOND)
    pings = len(a.log("ping_sent")) + len(r.log("ping_sent")) - before
    assert 50 <= pings <= 200
    assert len(a.log("session_opened")) == sessions


@pytest.mark.gate
@pytest.mark.parametrize("names", ["arb", "arsb", "arstb"])
def test_a_backlog_crosses_each_hop_once(names: str) -> None:
    net = line(names)
    a, b = net["a"], net["b"]
    b.crash()
    post(a, "b", *numbered(0, 200, 4_000))
    net.world.run(60 * SECOND)
    assert net.waiting(names[-2]) > 0
    assert net.waiting(names[-2]) == net.waiting()
    before = _crossed(net, names)
    net.world.run(3 * HOUR)
    assert _crossed(net, names) == before
    b.start()
    assert net.world.run(HOUR, lambda: b.length("q") == 200)
    assert net.world.run(20 * SECOND, lambda: net.is_done("a"))
    assert b.read_all("q") == numbered(0, 200, 4_000)


def _crossed(net: Relays, names: str) -> list[int]:
    """How many packets of messages each node has got."""
    return [sum(it["packets"] for it in net[name].log("packet_received") if it.get("origin")) for name in names[:-1]]


@pytest.mark.slow
@pytest.mark.parametrize("name", "rs")
def test_a_backlog_crosses_once_more_when_a_relay_has_forgotten(name: str) -> None:
    """The one that has passed it on knows nothing of it any more; the one that has it was not there to say so."""
    net = line("arsb")
    a, b = net["a"], net["b"]
    b.crash()
    post(a, "b", *numbered(0, 200, 4_000))
    net.world.run(60 * SECOND)
    before = _crossed(net, "arsb")
    net[name].crash()
    net.world.run(HOUR)
    net[name].start()
    net.world.run(3 * HOUR)
    crossed = _crossed(net, "arsb")
    assert all(after <= 2.2 * once for after, once in zip(crossed, before, strict=True))
    net.world.run(12 * HOUR)
    assert _crossed(net, "arsb") == crossed
    b.start()
    assert net.world.run(HOUR, lambda: net.is_done("a"))
    assert b.read_all("q") == numbered(0, 200, 4_000)


@pytest.mark.gate
def test_a_relay_notices_soon_that_the_next_one_has_started_again() -> None:
    """Its destination is away. So the next relay has nothing to say, and has forgotten that it had said so.

    Its origin hears in one session that all waits, no more, and again, though the first relay has forgotten the stream.
    """
    net = line("arsb")
    net["b"].crash()
    post(net["a"], "b", *numbered(0, 10))
    assert net.world.run(60 * SECOND, lambda: bool(net["a"].log("onward_received")))
    net.world.run(20 * SECOND)
    net["s"].restart()
    assert net.world.run(60 * SECOND, lambda: not net["a"].log("onward_received")[-1]["waits"])
    assert net.world.run(40 * SECOND, lambda: net["a"].log("onward_received")[-1]["waits"])
    assert len(net["a"].log("session_opened")) == 1


# Over synchronous links a message counts as safe when the node behind the next hop has it.

RECOVERABLE, TRANSACTIONAL = Delivery.RECOVERABLE, Delivery.TRANSACTIONAL
AGE_S = 10.0


def make_sync(chain: Relays, *names: str, interval_s: float = 1.0, grace_s: float = 0.0) -> None:
    """Let the links of these nodes be synchronous, now and from their next start on."""
    for name in names:
        node = chain[name]
        node.routes = tuple(
            replace(route, link="sync", downgrade_after_s=AGE_S, onward_interval_s=interval_s, grace_s=grace_s)
            for route in node.routes
        )
        node.act(lambda node=node: node.live.set_routes(node.routes, chain.world.now_ns))  # type: ignore[misc]


def watch(
    chain: Relays, stage: Stage = Stage.ONWARD, delivery: Delivery = RECOVERABLE, *, to: str = "b", life_ms: int = 0
) -> list[str | None]:
    """Send one message from ``a``, and return a list that gets what its receipt would say."""
    node = chain["a"]
    outgoing = node.live.outgoing_stream(to, "q", delivery)
    message = Outgoing(b"m", reach_by_ms=node.world.now_ms + life_ms if life_ms else 0)
    return node.watch((outgoing, node.live.submit(outgoing, message, 1)), stage)


def unfreed(node: SimNode) -> int:
    """How many packets of its own a node has."""
    return sum(len(outgoing.sequence.entries) for outgoing in node.outbox.streams)


def test_a_chain_waits_for_its_last_disk() -> None:
    chain = line("arsb")
    make_sync(chain, "a", "r", interval_s=0.1)
    chain["b"].crash()
    onward = watch(chain)
    assert chain.world.run(3 * SECOND, lambda: chain.waiting("s") == 1)
    assert not chain.world.run(4 * SECOND, lambda: bool(onward))
    assert (unfreed(chain["a"]), chain.waiting("r")) == (1, 1)
    chain["b"].start()
    assert chain.world.run(30 * SECOND, lambda: onward == [None])
    assert chain.world.run(5 * SECOND, lambda: not unfreed(chain["a"]) and not chain.waiting())


def news(node: SimNode) -> Sequence[object]:
    """What a node said about the modes of its links."""
    return [event for event in node.news if isinstance(event, LinkDowngraded | LinkUpgraded)]


def test_a_relay_that_is_behind_tells_those_that_wait_for_it() -> None:
    chain = line("arsb")
    make_sync(chain, "r", interval_s=0.1)
    a = chain["a"]
    a.routes = tuple(replace(route, link="sync", downgrade_after_s=1_000.0) for route in a.routes)
    a.act(lambda: a.live.set_routes(a.routes, chain.world.now_ns))
    chain["b"].crash()
    onward = watch(chain)
    assert not chain.world.run(9 * SECOND, lambda: bool(onward))
    assert chain.world.run(3 * SECOND, lambda: onward == [None])
    late = watch(chain)
    assert chain.world.run(2 * SECOND, lambda: late == [None])
    assert news(a) == []
    chain["b"].start()
    assert chain.world.run(60 * SECOND, lambda: chain["r"].outbox.sync_links.mode_of("s") is LinkMode.SYNC)
    chain["b"].crash()
    waits = watch(chain)
    assert not chain.world.run(5 * SECOND, lambda: bool(waits))


@pytest.mark.parametrize("why", ["access-denied", "reach-queue-timeout"])
def test_a_message_that_ends_at_a_relay_has_one_dead_letter(why: str) -> None:
    """It is at the node that had stored it last; the origin, which has a copy, hears of it and keeps none."""
    chain = line("arsb")
    make_sync(chain, "a", "r", interval_s=0.2)
    if why == "access-denied":
        chain.allow("b", "s", relays_for=())
    else:
        chain["b"].crash()
    onward = watch(chain, life_ms=5_000)
    assert chain.world.run(20 * SECOND, lambda: bool(onward))
    assert onward == [why]
    chain.world.run(SECOND)
    letters = {name: chain[name].length(DEAD_LETTER_QUEUE) for name in "ars"}
    assert (letters, chain.is_done("a")) == ({"a": 0, "r": 0, "s": 1}, True)


def test_fragments_that_are_passed_on_after_their_time_are_not_rejected() -> None:
    """Others of their message had left in time. The neighbour hears of no end that does not come."""
    chain = line("arb", seed=6, faults=Faults(loss=0.3))
    make_sync(chain, "a", interval_s=0.2)
    chain.world.cut(chain["r"], chain["b"])
    post(chain["a"], "b", *(bytes([at]) * 20_000 for at in range(10)), delivery=RECOVERABLE, life_ms=400)
    chain.world.run(390 * MS)
    chain.world.network.heal()
    chain.world.run(30 * SECOND)
    ended = {(it["first"], it["last"]) for it in chain["r"].log("transit_freed") if it["reason"] == "expired"}
    rejected = {it["number"] for it in chain["r"].log("control_relayed") if it["kind"] == "reject"}
    assert chain["b"].length("q") > 0
    assert rejected <= {number for first, last in ended for number in range(first, last + 1)}


def test_a_relay_that_is_the_destination_says_so() -> None:
    """Its neighbour does not know by which name it calls itself."""
    chain = Relays("ar", {"a": [("hub", "r")]})
    chain["a"].routes = (replace(chain["a"].routes[0], rename="r"),)
    make_sync(chain, "a")
    way = chain["a"].live.routes.way("hub")
    assert way is not None
    assert not way.is_direct
    onward = watch(chain, to="hub")
    assert chain.world.run(5 * SECOND, lambda: onward == [None] and not unfreed(chain["a"]))
