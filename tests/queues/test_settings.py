"""Settings of a node, its routes, quotas and pauses, and what names of MSMQ mean."""

from typing import Any

import pytest

from tests.base.refusals import refuse_wrong_values
from tests.queues.world import drain, numbered, two
from tests.sure import sure
from triack.base.commit import Commit
from triack.base.delivery import Delivery
from triack.base.errors import AddressError, StoreDamaged, UsageError
from triack.base.news import LinkDowngraded, LinkUpgraded
from triack.base.peers import Directory, Peer
from triack.base.units import SECOND
from triack.ordering.onward import LinkMode, OnwardSettings
from triack.ordering.order_settings import OrderSettings
from triack.queues.blocking import Blocking
from triack.queues.format_names import msmq_name, read_format_name
from triack.queues.node_settings import Limits, NodeSettings, Quota, Redelivery
from triack.queues.pauses import Pause, Pauses
from triack.queues.routes import Route, Routes, Way, check_routes
from triack.queues.set_quotas import SetQuotas
from triack.queues.stages import Stage
from triack.queues.sync_links import SyncLinks

# Settings of nodes that cannot be are refused where they are made, by name.


def test_a_value_that_cannot_be_is_refused() -> None:
    refuse_wrong_values(NodeSettings)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"stream_datagram_bytes": 65_536}, "stream_datagram_bytes must be 576 to 65535, not 65536"),
        ({"close_timeout_s": -1}, "close_timeout_s must be a number of seconds of at least 0, not -1"),
        ({"max_sessions": 0}, "max_sessions must be a whole number of at least 1, not 0"),
        ({"udp": "epoll"}, "udp must be batched, portable or None, not 'epoll'"),
        ({"session": OrderSettings()}, "session must be a SessionSettings, not OrderSettings"),
        ({"limits": Quota()}, "limits must be a Limits, not Quota"),
        ({"redelivery": 5}, "redelivery must be a Redelivery, not 5"),
        ({"queue_redelivery": Redelivery()}, "queue_redelivery must be a Mapping, not Redelivery"),
        ({"queue_redelivery": {"orders": 5}}, "queue_redelivery of orders must be a Redelivery, not 5"),
        ({"blocking": None}, "blocking must be a Blocking, not None"),
        ({"ack_events": 5}, "ack_events must be an AckTrigger, not 5"),
    ],
)
def test_values_out_of_range_and_settings_in_the_place_of_others_are_refused(
    values: dict[str, object], why: str
) -> None:
    """They would fail a node that runs, or change nothing."""
    with pytest.raises(UsageError, match=f"^NodeSettings: {why}"):
        NodeSettings(**values)  # type: ignore[arg-type]


def test_zero_where_it_has_a_meaning() -> None:
    """No second chance, no body in memory, no time to close."""
    settings = NodeSettings(max_redeliveries=0, body_cache_bytes=0, close_timeout_s=0)
    assert (settings.max_redeliveries, settings.body_cache_bytes, settings.close_timeout_s) == (0, 0, 0)


# Which neighbour messages for a node go to, and why.

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
    found = sure(Routes(PEERS, ROUTES).way(final))
    assert (found.via, found.final) == way
    assert found.is_direct is not bool(way[1])


def test_an_exact_route_goes_before_a_peer_of_that_name() -> None:
    """Its key may be known without its address."""
    routes = Routes(PEERS, [Route("plant-a", "hub"), Route("hub", "hub")])
    assert routes.way("plant-a") == Way("hub", "plant-a", "the route for plant-a leads by hub")
    assert routes.way_of("hub").is_direct


def test_every_rule_that_applies_is_explained() -> None:
    """The first one counts."""
    assert Routes(PEERS, ROUTES).explain("plant-c", str) == [
        "the route for plant-c leads by hub, which calls it c.acme",
        "the route for plant-* leads by hub",
        "the route for * leads by gateway",
    ]


@pytest.mark.parametrize("to", ["", "a/b", "a@b", "x" * 257, "a\n"])
def test_a_route_is_for_nodes(to: str) -> None:
    with pytest.raises(UsageError, match="Route: to"):
        Route(to, "hub")


def test_names_in_routes_are_names() -> None:
    """And many nodes cannot be renamed to one."""
    for wrong in (("a", "h b"), ("a", "hub", "b/c")):
        with pytest.raises(AddressError):
            Route(*wrong)
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
    alone = ("link", "sync"), ("link", "both"), ("downgrade_after_s", 1), ("grace_s", 1), ("onward_interval_s", 0)
    wrong: list[dict[str, Any]] = [*({name: value} for name, value in alone), {"onward_interval_s": None}]
    for said in (*wrong, {"link": "sync", "downgrade_after_s": -1}):
        with pytest.raises(UsageError, match="Route"):
            Route("plant-*", "hub", **said)


def test_routes_by_one_neighbour_say_the_same_of_its_link() -> None:
    """A link is one thing."""
    routes = [Route("plant-*", "hub", link="sync", downgrade_after_s=10), Route("*", "hub")]
    with pytest.raises(UsageError, match=r"open a: the routes to plant-\* and to \* go by hub"):
        check_routes("open a", routes)
    assert check_routes("open a", [routes[0], Route("*", "other")])


# Quotas that an operator has set, and what the store keeps of them.


def test_a_quota_outlives_the_process_until_it_is_unset() -> None:
    quotas, after, commit = SetQuotas(), SetQuotas(), Commit()
    quotas.set("orders", Quota(5, 1_000, "reject"), commit)
    after.restore({key: sure(value) for key, value in commit.state.items()} | {"my own": b"1"})
    assert after.by_name == {"orders": Quota(5, 1_000, "reject")}
    commit = Commit()
    assert after.unset("orders", commit)
    assert list(commit.state.values()) == [None]
    assert not after.unset("orders", commit)


@pytest.mark.parametrize("value", [b"?", bytes(17)])
def test_a_damaged_quota_is_named(value: bytes) -> None:
    with pytest.raises(StoreDamaged, match="quota of queue orders"):
        SetQuotas().restore({"$quota:orders": value})


def test_a_set_quota_goes_before_the_settings_now_and_after_a_restart() -> None:
    """Senders wait at the smaller one; with the greater one they go on."""
    settings = NodeSettings(limits=Limits(quota=Quota(messages=1_000)), messages_per_packet=1)
    world, a, b = two(b=settings)
    a.send(b, "q", b"first")
    assert world.run(5 * SECOND, lambda: b.length("q") == 1)
    b.act(lambda: b.live.set_quota("q", Quota(messages=4), world.now_ns))
    b.act(lambda: b.live.handle_settings(settings))
    for body in numbered(0, 20):
        a.send(b, "q", body)
        world.run(SECOND)
    assert b.length("q") < 8
    b.restart()
    world.run(60 * SECOND)
    assert b.length("q") < 8
    b.act(lambda: b.live.set_quota("q", None, world.now_ns))
    assert world.run(120 * SECOND, lambda: b.length("q") == 21)
    set_to = [(it["messages"], it["by_settings"]) for it in b.log("queue_quota_set")]
    assert set_to == [(4, False), (1_000, True)]


# Which queues are paused, and what the store keeps of it.


def test_a_pause_outlives_the_process_and_keeps_its_beginning() -> None:
    """Pausing again changes what is paused, and not since when."""
    pauses, after, commit = Pauses(), Pauses(), Commit()
    pauses.pause("orders", arrivals=False, now_ms=5_000, commit=commit)
    pauses.pause("orders", arrivals=True, now_ms=9_000, commit=commit)
    after.restore({key: sure(value) for key, value in commit.state.items()} | {"my own": b"1"})
    assert after.by_name == {"orders": Pause(5_000, arrivals=True)}


def test_an_outgoing_queue_is_paused_by_itself_or_with_its_peer() -> None:
    """A queue of this node has another name than any outgoing one."""
    pauses = Pauses()
    for now_ms, name in enumerate(("b/orders", "c/", "orders")):
        pauses.pause(name, arrivals=False, now_ms=now_ms, commit=Commit())
    by_queue, by_peer, own = (Pause(now_ms, arrivals=False) for now_ms in range(3))
    found = [pauses.of_stream(*it) for it in (("b", "orders"), ("b", "other"), ("c", "orders"), ("", "orders"))]
    assert (found, pauses.of_queue("orders")) == ([by_queue, None, by_peer, None], own)


def test_a_damaged_pause_is_named() -> None:
    with pytest.raises(StoreDamaged, match="paused queue orders: wrong length"):
        Pauses().restore({"$paused:orders": b"?"})


GUID = "2b4fdb20-8d2b-4d1e-9f0c-6a8b7f4d9e11"


@pytest.mark.parametrize(
    ("name", "destination"),
    [
        (r"DIRECT=OS:plant-b\private$\orders", "plant-b/orders"),
        (r"direct = os:plant-b\PRIVATE$\Orders", "plant-b/Orders"),
        (r"DIRECT=OS:plant-b.example.com\orders", "plant-b.example.com/orders"),
        (r"DIRECT=TCP:10.0.0.5\private$\orders", "10.0.0.5/orders"),
        (r"DIRECT=OS:.\private$\orders", "orders"),
        (r".\private$\orders", "orders"),
        (r"plant-b\private$\orders", "plant-b/orders"),
        (r"plant-b\orders", "plant-b/orders"),
        (r"DIRECT=OS:plant-b\private$\orders;JOURNAL", "plant-b/$journal.orders"),
        (r".\private$\orders;journal", "$journal.orders"),
        (f"MACHINE={GUID};JOURNAL", "$journal"),
        (r"DIRECT=OS:plant-b\system$;JOURNAL", "plant-b/$journal"),
        (r"plant-b\Journal$", "plant-b/$journal"),
        (r"DIRECT=OS:.\SYSTEM$;DEADLETTER", "dead-letter"),
        (r"DIRECT=OS:.\SYSTEM$;DEADXACT", "dead-letter"),
        (r".\XactDeadLetter$", "dead-letter"),
        (f"MACHINE={GUID};DEADLETTER", "dead-letter"),
        (f"MACHINE={GUID};DEADXACT", "dead-letter"),
        (r"FormatName:DIRECT=OS:plant-b\private$\orders", "plant-b/orders"),
        (r"formatname: direct=tcp:10.0.0.5\private$\orders", "10.0.0.5/orders"),
    ],
)
def test_a_name_of_one_queue_is_a_destination(name: str, destination: str) -> None:
    """Whatever the case of its words is."""
    assert msmq_name(name) == destination


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("DIRECT=HTTP://plant-b/msmq/private$/orders", "do not go over HTTP"),
        ("DIRECT=HTTPS://plant-b/msmq/private$/orders", "do not go over HTTP"),
        (f"PUBLIC={GUID}", "directory service"),
        (f"FormatName:PUBLIC={GUID}", "directory service"),
        ("Label:orders", "a label is looked up"),
        (f"PRIVATE={GUID}\\0000000a", "by the number"),
        (f"DL={GUID}", "list of destinations"),
        ("MULTICAST=234.1.1.1:8001", "publish to a topic"),
        (f"CONNECTOR={GUID};XACTONLY", "no connector queues"),
        (f"MACHINE={GUID}", "no queue of it"),
    ],
)
def test_what_has_no_meaning_here_is_refused_with_the_reason(name: str, why: str) -> None:
    """And with what to do instead."""
    with pytest.raises(AddressError, match=why):
        msmq_name(name)


NO_NAMES = ["", "orders", "DIRECT=orders", "DIRECT=OS:plant-b", "QUEUE=orders", "FormatName:", "FormatName:orders"]
NO_QUEUES = [r"OS:plant-b\other$\orders", r"OS:plant-b\private$\a b", r"OS:plant-b\private$\orders;LATER"]


@pytest.mark.parametrize("name", [*NO_NAMES, *("DIRECT=" + name for name in NO_QUEUES), r"\private$\orders"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(AddressError):
        msmq_name(name)


def test_a_name_of_several_queues_has_an_element_for_each() -> None:
    """It is no destination by itself: one sends to a list of them."""
    name = rf"DIRECT=OS:a\private$\x, PUBLIC={GUID},.\private$\y"
    assert [queue.destination for queue in read_format_name(name)] == ["a/x", None, "y"]
    with pytest.raises(AddressError, match="names 3 queues"):
        msmq_name(name)


# How far synchronous links are behind, over all of their streams.

BEHIND, DIRECT = Way("hub", "plant-b", ""), Way("hub", "", "")


def make(**link: Any) -> tuple[SyncLinks, list[dict[str, Any]], Routes]:
    """The links of a node with one route, and what it writes to its log."""
    records: list[dict[str, Any]] = []
    routes = Routes(Directory(), [Route("plant-*", "hub", link="sync", downgrade_after_s=10.0, **link)])
    return SyncLinks(routes, lambda event, at_ns, **said: records.append({"event": event, **said}), 0), records, routes


def test_only_what_goes_on_behind_the_neighbour_is_awaited() -> None:
    """Nobody is behind a destination; other neighbours have other links."""
    links, _, _ = make()
    assert [way for way in (BEHIND, DIRECT, Way("other", "plant-b", ""), None) if links.awaits(way)] == [BEHIND]
    assert (links.mode_of("hub"), links.mode_of("other")) == (LinkMode.SYNC, LinkMode.ASYNC)


def test_the_oldest_packet_of_all_streams_decides() -> None:
    """One stream is young, the other one is not; both are counted."""
    links, records, _ = make()
    links.add(BEHIND, "old", [(1, 3)], 0)
    links.add(BEHIND, "young", [(1, 1)], 9 * SECOND)
    assert links.next_deadline() == 10 * SECOND + 1
    assert links.handle_time(10 * SECOND) == []
    assert links.handle_time(10 * SECOND + 1) == ["hub"]
    assert not links.is_sync(BEHIND)
    assert drain(links.news) == [LinkDowngraded("hub", (10 * SECOND + 1) / SECOND, 4)]
    links.remove(BEHIND, "old", [(1, 3)])
    assert links.handle_time(13 * SECOND) == ["hub"]
    assert drain(links.news) == [LinkUpgraded("hub")]
    assert [record["event"] for record in records] == ["link_downgraded", "link_upgraded"]
    assert (records[0]["downgrade_after_ns"], records[1]["upgrade_below_ns"]) == (10 * SECOND, 5 * SECOND)


def test_of_what_a_session_takes_along_nothing_is_heard() -> None:
    """What is here no longer does not keep the link asynchronous for good."""
    links, _, _ = make()
    links.add(BEHIND, "a", [(1, 3)], 0)
    assert links.handle_time(11 * SECOND) == ["hub"]
    links.keep("a", [])
    links.add(BEHIND, "a", [(4, 4)], 20 * SECOND)
    assert links.handle_time(20 * SECOND) == ["hub"]
    assert links.mode_of("hub") is LinkMode.SYNC


def test_a_stream_that_ends_keeps_no_link_behind() -> None:
    """Nor one that goes another way."""
    links, _, _ = make()
    links.add(BEHIND, "a", [(1, 1)], 0)
    links.forget("a")
    assert links.handle_time(11 * SECOND) == []


def test_bounds_may_change_without_a_change_of_the_mode() -> None:
    """The link goes on from where it was."""
    links, _, routes = make()
    links.add(BEHIND, "a", [(1, 1)], 0)
    assert links.handle_time(11 * SECOND) == ["hub"]
    routes.replace([Route("plant-*", "hub", link="sync", downgrade_after_s=20.0)])
    assert links.mode_of("hub") is LinkMode.ASYNC
    routes.replace([])
    assert links.mode_of("hub") is LinkMode.ASYNC
    assert not links.awaits(BEHIND)


def test_each_class_has_its_own_stage() -> None:
    blocking = Blocking(durable="stored", express=Stage.RECEIVED)
    assert [blocking.stage_of(delivery) for delivery in Delivery] == [Stage.RECEIVED, "stored", "stored"]
    assert [Blocking().stage_of(delivery) for delivery in Delivery] == [None, None, None]


def test_a_stage_that_a_class_lacks_is_refused() -> None:
    """Recoverable messages are durable, and nobody orders them."""
    for wrong, why in (
        ({"durable": "ordered"}, "durable messages do not all have the stage ordered"),
        ({"express": "stored"}, "express messages do not all have the stage stored"),
        ({"durable": "arrived"}, "wait for 'arrived': stages are queued, received, stored, onward, ordered"),
    ):
        with pytest.raises(UsageError, match=why):
            Blocking(**wrong)  # type: ignore[arg-type]
