"""Routes that change, lead round in circles or nowhere, and nodes that may not use them."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.queues.relays import Relays, by_relay, dead, line, post
from tests.queues.transit.stories.test_lines import make_sync
from tests.queues.world import numbered
from triack.base.delivery import DURABLE, Delivery
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.ordering.wire import HoldPacket
from triack.queues.node_settings import NodeSettings
from triack.queues.routes import Route

BY_R, BY_S = [("b", "r")], [("b", "s")]


def circle() -> Relays:
    """A sends by r, and nobody owns the name: r, s and t lead it in a circle."""
    return Relays("ar rs st tr", {"a": [("x", "r")], "r": [("x", "s")], "s": [("x", "t")], "t": [("x", "r")]})


def diamond(seed: int = 1) -> Relays:
    """Two relays between a and b."""
    return Relays("ar as rb sb", {"a": BY_R}, seed)


@pytest.mark.parametrize("delivery", sorted(DURABLE))
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("at", "af")
def test_a_route_that_changes_loses_nothing(at: str, seed: int, delivery: Delivery) -> None:
    """Packets wait at the old relay, which is cut off, while others take the new one: each arrives once.

    The same one hop further: the origin has let go of what waits at the relay that is cut off.
    """
    net = diamond(seed) if at == "a" else Relays("af fr fs rb sb", {"a": [("b", "f")], "f": BY_R}, seed)
    a, b, r = net["a"], net["b"], net["r"]
    net.world.cut(r, b)
    post(a, "b", *numbered(0, 100), delivery=delivery)
    assert net.world.run(10 * SECOND, lambda: net.waiting() == net.waiting("r") > 0)
    net.reroute(at, *BY_S)
    post(a, "b", *numbered(100, 200), delivery=delivery)
    net.world.run(5 * SECOND)
    net.world.heal()
    assert net.world.run(400 * SECOND, lambda: net.is_done("a"))
    got = b.read_all("q")
    assert (got if delivery is Delivery.TRANSACTIONAL else sorted(got)) == numbered(0, 200)


def test_another_way_begins_at_the_first_resend_tier() -> None:
    """Also by a session that was open before: what came of the old way says nothing of the new one."""
    net = diamond()
    a, r, s = net["a"], net["r"], net["s"]
    post(a, "s", b"opens a session")
    assert net.world.run(SECOND, lambda: not a.busy)
    net.world.cut(a, r)
    post(a, "b", b"m")
    net.world.run(SECOND)
    (outgoing,) = (it for it in a.outbox.streams if it.peer == "b")
    outgoing.sequence.tier.handle_sent(net.world.now_ns)
    outgoing.sequence.tier.attempt = 5
    assert a.outbox.links[s.name].conversation is not None
    net.reroute("a", *BY_S)
    assert outgoing.sequence.tier.attempt == 0


def test_the_neighbour_before_has_no_say_any_more() -> None:
    """Whether it has room, or packets wait there: its turns are not those of the new one."""
    net = diamond()
    a, r, s = net["a"], net["r"], net["s"]
    net.world.cut(r, net["b"])
    net.world.cut(s, net["b"])
    post(a, "b", b"1")
    assert net.world.run(10 * SECOND, lambda: net.waiting("r") == 1)
    net.reroute("a", *BY_S)
    assert net.world.run(10 * SECOND, lambda: net.waiting("s") == 1)
    (outgoing,) = a.outbox.streams
    for node, turn, stops in ((r, 9, False), (s, 1, True)):
        neighbour: Any = SimpleNamespace(peer_id=node.live.node_id)
        a.outbox.handle_hold(neighbour, HoldPacket(*outgoing.id, turn, True, ""), net.world.now_ns)
        assert outgoing.sequence.hold.stops is stops


def test_a_relay_forgets_a_packet_that_its_destination_has_passed_over() -> None:
    """Its origin has given the first packet up, and the second came by another way."""
    net = diamond()
    a, b, r = net["a"], net["b"], net["r"]
    net.world.cut(r, b)
    post(a, "b", b"first")
    assert net.world.run(10 * SECOND, lambda: net.waiting("r") == 1)
    net.allow("s", "a", may_relay=())
    net.reroute("a", *BY_S)
    assert net.world.run(400 * SECOND, lambda: not a.busy)
    assert dead(a) == ([b"first"], {"access-denied": 1})
    net.allow("s", "a")
    post(a, "b", b"second")
    assert net.world.run(10 * SECOND, lambda: b.length("q") == 1)
    net.world.heal()
    assert net.world.run(100 * SECOND, lambda: net.is_done("a"))
    assert (b.read_all("q"), dead(r)) == ([b"second"], ([], {}))


@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_the_origin_hears_of_a_route_that_leads_back(delivery: Delivery) -> None:
    """The relay refuses at its door, so that the origin has the message still, whatever its class."""
    net = Relays("ar", {"a": [("x", "r")], "r": [("x", "a")]})
    post(net["a"], "x", b"1", delivery=delivery)
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    assert dead(net["a"]) == ([b"1"], {"route-loop": 1})
    assert dead(net["r"]) == ([], {})


def test_the_origin_hears_of_a_destination_that_no_relay_knows() -> None:
    net = Relays("ar rs", {"a": [("x", "r")], "r": [("x", "s")]})
    post(net["a"], "x", b"1")
    post(net["a"], "x", b"2", delivery=Delivery.RECOVERABLE)
    post(net["a"], "x", b"3", delivery=Delivery.EXPRESS)
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    assert dead(net["a"]) == ([b"1"], {"no-route": 1})
    assert dead(net["r"]) == ([b"2"], {"no-route": 1})
    assert net["r"].live.drops[DropReason.TRANSIT_LOST] == 1


@pytest.mark.parametrize("delivery", sorted(DURABLE))
@pytest.mark.parametrize("sync", [False, True])
def test_a_circle_of_relays_keeps_no_copy(sync: bool, delivery: Delivery) -> None:
    """The first relay refuses what it has passed on: the message is a dead letter, once, where its last copy is.

    Over synchronous links, those who have copies hear that, and wait for no word that never comes.
    """
    net = circle()
    if sync:
        make_sync(net, *"arst")
    post(net["a"], "x", b"1", delivery=delivery)
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    owner = "a" if delivery is Delivery.TRANSACTIONAL else "t"
    found = {name: dead(node) for name, node in net.nodes.items()}
    assert {name: it for name, it in found.items() if it[0]} == {owner: ([b"1"], {"route-loop": 1})}
    assert all(not node.log("link_downgraded") for node in net.nodes.values())


def test_the_end_of_a_stream_goes_round_no_circle() -> None:
    net = circle()
    net["a"].settings = NodeSettings(retire_after_s=1.0)
    net["a"].restart()
    post(net["a"], "x", b"1", delivery=Delivery.RECOVERABLE)
    assert net.world.run(60 * SECOND, lambda: net["r"].live.drops[DropReason.END_ASTRAY] > 0)
    ends = [len([it for it in net[name].log("control_relayed") if it["kind"] == "end"]) for name in "rst"]
    assert ends[0] == ends[1] == ends[2]


TO_T = [("b", "t")]


@pytest.mark.parametrize("delivery", sorted(DURABLE))
@pytest.mark.parametrize(
    ("edges", "routes", "via", "held", "last"),
    [
        ("ar as rt st tb", {"a": BY_R, "r": TO_T, "s": TO_T}, "s", "s", "t"),
        ("ag ah gf hf fr rb", {"a": [("b", "g")], "g": [("b", "f")], "h": [("b", "f")], "f": BY_R}, "h", "f", "r"),
    ],
    ids=["two neighbours", "one neighbour"],
)
def test_packets_that_passed_other_relays_wait_until_those_before_them_have_left(
    edges: str, routes: dict[str, list[tuple[str, str]]], via: str, held: str, last: str, delivery: Delivery
) -> None:
    """Also if the same neighbour brings them: of two ways to one relay each packet arrives once."""
    net = Relays(edges, routes)
    a, b = net["a"], net["b"]
    net.world.cut(net[last], b)
    post(a, "b", *numbered(0, 5), delivery=delivery)
    assert net.world.run(10 * SECOND, lambda: net.waiting(last) == net.waiting() > 0)
    net.reroute("a", ("b", via))
    post(a, "b", *numbered(5, 10), delivery=delivery)
    assert net.world.run(10 * SECOND, lambda: bool(net[held].log("hold_received")))
    assert (net[held].log("hold_received")[0]["reason"], net.waiting(held) > 0) == ("other-way", True)
    net.world.heal()
    assert net.world.run(400 * SECOND, lambda: net.is_done("a"))
    assert sorted(b.read_all("q")) == numbered(0, 10)
    assert not net[last].live.drops[DropReason.BAD_PACKET]


@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_nothing_is_passed_on_for_those_who_may_not(delivery: Delivery) -> None:
    net = line("arb")
    net.allow("r", "a", may_relay=("other",))
    post(net["a"], "b", b"1", delivery=delivery)
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    assert dead(net["a"]) == ([b"1"], {"access-denied": 1})
    net.allow("r", "a")
    net.allow("b", "r", relays_for=("x*",))
    post(net["a"], "b", b"2", delivery=delivery)
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    owner = "a" if delivery is Delivery.TRANSACTIONAL else "r"
    assert b"2" in dead(net[owner])[0]
    assert net["b"].length("q") == 0


def test_a_way_by_hand_needs_no_route() -> None:
    """``b@r`` is b by way of r; the answer to its sender goes back in the same manner."""
    net = Relays("ar rb", {})
    post(net["a"], "b@r", b"1")
    assert net.world.run(5 * SECOND, lambda: net["b"].length("q") == 1)
    post(net["b"], net["b"].live.name_of(net["a"].live.node_id), b"2", queue="answers")
    assert net.world.run(5 * SECOND, lambda: net["a"].length("answers") == 1)
    assert net["a"].live.name_of(net["b"].live.node_id) == "b@r"


def test_the_rights_of_a_way_by_hand_are_those_of_all_its_nodes() -> None:
    """A pattern for one node does not allow to go on from there."""
    net = line("arsb")
    net.allow("r", "a", may_relay=("b*",))
    post(net["a"], "b@s@r", b"1")
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    assert dead(net["a"]) == ([b"1"], {"access-denied": 1})


def test_a_name_changes_at_a_border() -> None:
    net, a, _, _ = by_relay()
    a.act(lambda: a.live.set_routes([Route("far", "r", rename="b")], net.world.now_ns))
    post(a, "far", b"1")
    assert net.world.run(5 * SECOND, lambda: net["b"].length("q") == 1)


def test_a_message_waits_for_its_route() -> None:
    """Until there is one, it waits as for a peer without a key; then it goes."""
    net = Relays("ar rb", {})
    post(net["a"], "b", b"1")
    net.world.run(500 * MS)
    net.reroute("a", *BY_R)
    assert net.world.run(5 * SECOND, lambda: net["b"].length("q") == 1)


def test_a_message_that_comes_back_to_its_origin_is_refused() -> None:
    net = Relays("ar rs sa", {"a": [("x", "r")], "r": [("x", "s")]})
    s = net["s"]
    s.act(lambda: s.live.set_routes([Route("x", "a", rename="a")], net.world.now_ns))
    post(net["a"], "x", b"1")
    assert net.world.run(20 * SECOND, lambda: net.is_done("a"))
    assert dead(net["a"]) == ([b"1"], {"route-loop": 1})
