"""How far synchronous links are behind, over all of their streams."""

from typing import Any

from triack.base.news import LinkDowngraded, LinkUpgraded
from triack.base.peers import Directory
from triack.base.units import SECOND
from triack.ordering.onward import LinkMode
from triack.queues.routes import Route, Routes, Way
from triack.queues.sync_links import SyncLinks

BEHIND, DIRECT = Way("hub", "plant-b", ""), Way("hub", "", "")


def make(**link: Any) -> tuple[SyncLinks, list[dict[str, Any]], Routes]:
    """The links of a node with one route, and what it writes to its log."""
    records: list[dict[str, Any]] = []
    routes = Routes(Directory(), [Route("plant-*", "hub", link="sync", downgrade_after_s=10.0, **link)])
    return SyncLinks(routes, lambda event, at_ns, **said: records.append({"event": event, **said}), 0), records, routes


def test_only_what_goes_on_behind_the_neighbour_is_awaited() -> None:
    """Nobody is behind a destination; other neighbours have other links."""
    links, _, _ = make()
    assert links.awaits(BEHIND)
    assert not links.awaits(DIRECT)
    assert not links.awaits(Way("other", "plant-b", ""))
    assert not links.awaits(None)
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
    assert links.take_news() == [LinkDowngraded("hub", (10 * SECOND + 1) / SECOND, 4)]
    links.remove(BEHIND, "old", [(1, 3)])
    assert links.handle_time(13 * SECOND) == ["hub"]
    assert links.take_news() == [LinkUpgraded("hub")]
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
