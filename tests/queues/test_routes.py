"""Which neighbour messages for a node go to, and why."""

from typing import Any

import pytest

from triack.base.errors import AddressError, UsageError
from triack.base.peers import Directory, Peer
from triack.base.units import SECOND
from triack.ordering.onward import OnwardSettings
from triack.queues.routes import Route, Routes, Way, check_routes

PEERS = Directory([Peer("hub"), Peer("plant-a")])
ROUTES = [Route("plant-c", "hub", rename="c.acme"), Route("plant-*", "hub"), Route("*", "gateway")]


@pytest.mark.parametrize(
    ("final", "way"),
    [
        ("plant-c", ("hub", "c.acme")),
        ("plant-b", ("hub", "plant-b")),
        ("plant-a", ("plant-a", "")),
        ("hub", ("hub", "")),
        ("elsewhere", ("gateway", "elsewhere")),
        ("plant-a@hub", ("hub", "plant-a")),
        ("x@plant-a@hub", ("hub", "x@plant-a")),
        ("udp://127.0.0.1:1", ("udp://127.0.0.1:1", "")),
    ],
)
def test_the_first_rule_that_applies_counts(final: str, way: tuple[str, str]) -> None:
    """By hand; a route for exactly that name; a peer of that name; patterns, in order."""
    found = Routes(PEERS, ROUTES).way(final)
    assert found is not None
    assert (found.via, found.final) == way
    assert found.is_direct is not bool(way[1])


def test_an_exact_route_goes_before_a_peer_of_that_name() -> None:
    """Its key may be known without its address."""
    routes = Routes(PEERS, [Route("plant-a", "hub"), Route("hub", "hub")])
    assert routes.way("plant-a") == Way("hub", "plant-a", "the route for plant-a leads by hub")
    assert routes.way_of("hub").is_direct


def test_without_any_rule_messages_wait_for_a_peer_of_that_name() -> None:
    """A relay refuses them."""
    routes = Routes(PEERS)
    assert routes.way("plant-b") is None
    assert (routes.way_of("plant-b").via, routes.way_of("plant-b").final) == ("plant-b", "")


def test_every_rule_that_applies_is_explained() -> None:
    """The first one counts."""
    assert Routes(PEERS, ROUTES).explain("plant-c") == [
        "the route for plant-c leads by hub, which calls it c.acme",
        "the route for plant-* leads by hub",
        "the route for * leads by gateway",
    ]


def test_routes_change_in_place() -> None:
    """All readers have the same."""
    routes = Routes(PEERS, ROUTES)
    routes.replace([])
    assert (routes.all, routes.way("plant-b")) == ((), None)


@pytest.mark.parametrize("to", ["", "a/b", "a@b", "x" * 257, "a\n"])
def test_a_route_is_for_nodes(to: str) -> None:
    with pytest.raises(UsageError, match="Route: to"):
        Route(to, "hub")


def test_names_in_routes_are_names() -> None:
    """And many nodes cannot be renamed to one."""
    with pytest.raises(AddressError):
        Route("a", "h b")
    with pytest.raises(AddressError):
        Route("a", "hub", rename="b/c")
    with pytest.raises(UsageError, match="rename"):
        Route("a*", "hub", rename="b")


def test_routes_of_callers_are_checked() -> None:
    assert check_routes("open a", iter(ROUTES)) == tuple(ROUTES)
    for wrong in ("*", 5, ["*"]):
        with pytest.raises(UsageError, match="open a"):
            check_routes("open a", wrong)


def test_a_synchronous_link_needs_an_age() -> None:
    """Its other bounds have defaults; an asynchronous one has none."""
    route = Route("plant-*", "hub", link="sync", downgrade_after_s=10)
    assert route.sync == OnwardSettings(10 * SECOND, 5 * SECOND, 0)
    assert Routes(PEERS, [route]).sync_link("hub") == route.sync
    assert Routes(PEERS, ROUTES).sync_link("hub") is None
    assert Routes(PEERS, ROUTES).onward_interval_ns("nobody") == SECOND // 2
    wrong: tuple[dict[str, Any], ...] = (
        {"link": "sync"},
        {"link": "both"},
        {"downgrade_after_s": 1},
        {"grace_s": 1},
        {"link": "sync", "downgrade_after_s": 1, "upgrade_below_s": 2},
        {"link": "sync", "downgrade_after_s": -1},
        {"onward_interval_s": 0},
        {"onward_interval_s": None},
    )
    for said in wrong:
        with pytest.raises(UsageError, match="Route"):
            Route("plant-*", "hub", **said)


def test_routes_by_one_neighbour_say_the_same_of_its_link() -> None:
    """A link is one thing."""
    routes = [Route("plant-*", "hub", link="sync", downgrade_after_s=10), Route("*", "hub")]
    with pytest.raises(UsageError, match=r"open a: the routes to plant-\* and to \* go by hub"):
        check_routes("open a", routes)
    assert check_routes("open a", [routes[0], Route("*", "other")])
