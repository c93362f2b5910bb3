"""Routes with two gateways: the second is used while the first is silent."""

import pytest

from tests.queues.relays import Relays, dead, post
from tests.queues.world import SimNode, numbered
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import UsageError
from triack.base.news import WayChanged
from triack.base.units import MS, SECOND
from triack.queues.routes import Route, RouteChoice
from triack.queues.ways import Contact, choose

WAYS = ("r", "s")
AFTER_S = 5.0
AFTER_NS = 5 * SECOND


def two_ways(seed: int = 1, ways: tuple[str, ...] = WAYS) -> tuple[Relays, SimNode, SimNode, SimNode]:
    """A sends to b by r, or by s while r is silent: their network, and a, b and r."""
    net = Relays("ar as ab rb sb" if "b" in ways else "ar as rb sb", {}, seed)
    node = net["a"]
    node.routes = (Route("b", via=list(ways), switch_after_s=AFTER_S),)
    node.act(lambda: node.live.set_routes(node.routes, net.world.now_ns))
    return net, node, net["b"], net["r"]


def in_use(net: Relays) -> str:
    """By which neighbour a's messages for b go."""
    return net["a"].live.routes.way_of("b").via


def changes(net: Relays) -> list[str]:
    """The neighbours that a has changed to, in order."""
    return [event.via for event in net["a"].news if isinstance(event, WayChanged)]


@pytest.mark.parametrize("delivery", sorted(DURABLE))
@pytest.mark.parametrize("seed", range(3))
def test_the_second_is_used_while_the_first_is_dead(delivery: Delivery, seed: int) -> None:
    net, a, b, r = two_ways(seed)
    net.world.cut(r, b)
    post(a, "b", *numbered(0, 50), delivery=delivery)
    assert net.world.run(10 * SECOND, lambda: net.waiting("r") > 0)
    r.crash()
    died_ns = net.world.now_ns
    post(a, "b", *numbered(50, 100), delivery=delivery)
    assert net.world.run(60 * SECOND, lambda: b.length("q") >= 50)
    assert (in_use(net), changes(net)) == ("s", ["s"])
    assert net.world.now_ns - died_ns >= AFTER_NS
    net.world.heal()
    r.start()
    assert net.world.run(60 * SECOND, lambda: in_use(net) == "r")
    post(a, "b", *numbered(100, 150), delivery=delivery)
    assert net.world.run(400 * SECOND, lambda: net.is_done("a"))
    got = b.read_all("q")
    assert (got if delivery is Delivery.TRANSACTIONAL else sorted(got)) == numbered(0, 150)
    assert changes(net) == ["s", "r"]


def test_a_silence_is_counted_from_its_beginning() -> None:
    """Not from the end of the session, which the ack timeout brings about later."""
    net, a, b, r = two_ways()
    post(a, "b", b"1")
    assert net.world.run(10 * SECOND, lambda: b.length("q") == 1 and net.is_done("a"))
    net.world.cut(a, r)
    cut_ns = net.world.now_ns
    post(a, "b", b"2")
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 2)
    assert AFTER_NS <= net.world.now_ns - cut_ns < AFTER_NS + SECOND


def test_one_that_comes_and_goes_changes_nothing() -> None:
    net, a, b, r = two_ways()

    def flap() -> None:
        for _ in range(10):
            r.crash()
            net.world.run(3 * SECOND)
            r.start()
            post(a, "b", b"m")
            net.world.run(4 * SECOND)

    flap()
    assert changes(net) == []
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 10)
    r.crash()
    post(a, "b", b"m")
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 11)
    r.start()
    flap()
    assert changes(net) == ["s"]
    assert b.length("q") == 21


@pytest.mark.parametrize(("back", "last"), [("r", ["s", "r"]), ("s", ["s"])])
def test_the_first_that_answers_is_used_when_both_were_dead(back: str, last: list[str]) -> None:
    net, a, b, _ = two_ways()
    for name in WAYS:
        net[name].crash()
    post(a, "b", *numbered(0, 20))
    net.world.run(120 * SECOND)
    assert changes(net) == ["s"]
    net[back].start()
    assert net.world.run(4 * SECOND, lambda: b.length("q") == 20)
    assert (in_use(net), changes(net)) == (back, last)


def test_one_that_answers_with_nothing_behind_it_is_not_silent() -> None:
    """Its messages wait there: nothing is known of what is behind it."""
    net, a, b, r = two_ways()
    net.world.cut(r, b)
    post(a, "b", b"1")
    net.world.run(60 * SECOND)
    assert (changes(net), net.waiting("r"), b.length("q")) == ([], 1, 0)


def test_a_start_begins_with_the_first() -> None:
    net, a, b, r = two_ways()
    r.crash()
    post(a, "b", b"1")
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 1)
    a.restart()
    assert in_use(net) == "r"
    post(a, "b", b"2")
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 2)
    assert in_use(net) == "s"


def test_a_relay_has_two_ways_as_well() -> None:
    net = Relays("of fr fs rb sb", {"o": [("b", "f")]})
    o, f, b = net["o"], net["f"], net["b"]
    f.routes = (Route("b", via=["r", "s"], switch_after_s=AFTER_S),)
    f.act(lambda: f.live.set_routes(f.routes, net.world.now_ns))
    net["r"].crash()
    post(o, "b", *numbered(0, 30))
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 30 and net.is_done("o"))
    assert (b.read_all("q"), dead(o), dead(f)) == (numbered(0, 30), ([], {}), ([], {}))


def test_a_node_goes_by_a_relay_while_its_destination_is_out_of_reach() -> None:
    """The destination itself may be the first way."""
    net, a, b, _ = two_ways(ways=("b", "r"))
    net.world.cut(a, b)
    post(a, "b", b"1")
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 1)
    net.world.heal()
    assert net.world.run(60 * SECOND, lambda: in_use(net) == "b")
    post(a, "b", b"2")
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert b.read_all("q") == [b"1", b"2"]


def test_routes_that_are_set_again_keep_the_way_in_use() -> None:
    net, a, b, r = two_ways()
    r.crash()
    post(a, "b", b"1")
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 1)
    several = (Route("x", via="s"), *a.routes)
    a.act(lambda: a.live.set_routes(several, net.world.now_ns))
    assert (in_use(net), a.outbox.links["r"].is_awaited) == ("s", True)
    a.act(lambda: a.live.set_routes((Route("b", via="s"),), net.world.now_ns))
    assert (in_use(net), a.outbox.links["r"].is_awaited) == ("s", False)


def test_the_way_in_use_is_explained() -> None:
    net, a, b, r = two_ways()

    def why() -> str:
        now_ns = net.world.now_ns
        return a.live.routes.explain("b", lambda it: a.live.ways.explain(it, now_ns))[0]

    assert why() == "the route for b leads by r: r comes first"
    r.crash()
    post(a, "b", b"1")
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 1)
    assert why().startswith("the route for b leads by s: r has been silent for ")
    r.start()
    assert net.world.run(10 * SECOND, lambda: "back" in why())
    assert why().endswith(" s of 5 s")


def up(for_ns: int) -> Contact:
    """Of a neighbour that has answered for that long."""
    return Contact(well_since_ns=SECOND, heard_at_ns=SECOND + for_ns)


AWAY, NEW = Contact(silent_since_ns=0), Contact()


@pytest.mark.parametrize(
    ("index", "contacts", "now_ns", "chosen"),
    [
        (0, (NEW, NEW), AFTER_NS, 0),
        (0, (AWAY, NEW), AFTER_NS - 1, 0),
        (0, (AWAY, NEW), AFTER_NS, 1),
        (0, (AWAY, AWAY), AFTER_NS, 0),
        (0, (AWAY, NEW, up(0)), AFTER_NS, 2),
        (1, (up(AFTER_NS - 1), up(0)), 9 * AFTER_NS, 1),
        (1, (up(AFTER_NS), up(0)), 9 * AFTER_NS, 0),
        (1, (up(0), AWAY), AFTER_NS - 1, 1),
        (1, (up(0), AWAY), AFTER_NS, 0),
        (1, (NEW, NEW), AFTER_NS, 1),
        (2, (AWAY, up(AFTER_NS), up(0)), AFTER_NS, 1),
        (1, (AWAY, AWAY, AWAY), AFTER_NS, 1),
    ],
)
def test_which_neighbour_is_used(index: int, contacts: tuple[Contact, ...], now_ns: int, chosen: int) -> None:
    assert choose(index, contacts, AFTER_NS, now_ns) == chosen


def test_a_session_that_ends_for_want_of_messages_is_no_silence() -> None:
    """A neighbour is as well as before when nothing was to be said."""
    contact = Contact()
    contact.handle_opened(1)
    contact.handle_wanted(AFTER_NS, wanted=False)
    contact.handle_wanted(AFTER_NS, wanted=True)
    assert contact.is_silent(MS, AFTER_NS + MS)
    assert not contact.is_well(0)
    contact.handle_opened(AFTER_NS + 1)
    assert contact.is_well(AFTER_NS)
    contact.handle_lost(AFTER_NS + 2)
    contact.handle_opened(AFTER_NS + 3)
    assert contact.is_well(0)
    assert not contact.is_well(1)


def test_neighbours_that_a_route_can_have() -> None:
    """A list of one has nothing to choose; none, one twice, and too many are refused."""
    assert Route("b", via=["r"]) == Route("b", via="r")
    assert RouteChoice(("r", "s"), AFTER_NS).via == "r"
    for via in ([], ["r", "r"], [str(it) for it in range(9)]):
        with pytest.raises(UsageError, match="name 1 to 8 neighbours, each once"):
            Route("b", via=via)
