"""What the operator of a relay hears."""

from dataclasses import replace

import pytest

from tests.queues.relays import Relays, line, post
from tests.queues.world import numbered
from triack.base.delivery import Delivery
from triack.base.news import NoRoute, TransitOverQuota
from triack.base.units import SECOND
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.queues.transit.transit_news import UNKNOWN_MAX, TransitNews


def test_a_destination_without_a_route_is_told_once() -> None:
    """Until the routes change."""
    net = Relays("ar", {"a": [("*", "r")]})
    a, r = net["a"], net["r"]
    for _ in range(2):
        post(a, "x", b"1", b"2")
        assert net.world.run(5 * SECOND, lambda: not a.busy)
    assert [it for it in r.news if isinstance(it, NoRoute)] == [NoRoute("x", "a")]
    net.reroute("r", ("y", "a"))
    post(a, "x", b"3")
    assert net.world.run(5 * SECOND, lambda: not a.busy)
    assert [it for it in r.news if isinstance(it, NoRoute)] == [NoRoute("x", "a")] * 2


def test_names_that_are_made_up_fill_no_memory() -> None:
    """Beyond the limit nothing is told."""
    news = TransitNews()
    for number in range(2 * UNKNOWN_MAX):
        news.handle_no_route(f"n{number}", "a")
    assert len(news.take_news()) == UNKNOWN_MAX


@pytest.mark.slow
@pytest.mark.gate
def test_a_full_quota_is_told_once_until_all_has_left() -> None:
    """However many packets and streams find no room meanwhile."""
    small = NodeSettings(limits=replace(Limits(), transit_quota=Quota(messages=20)))
    net = line("arb", settings={"r": small})
    a, r, b = (net[name] for name in "arb")
    for _ in range(2):
        b.crash()
        r.news.clear()
        for body in numbered(0, 30):
            for queue in ("p", "q"):
                post(a, "b", body, queue=queue, delivery=Delivery.RECOVERABLE)
            net.world.run(SECOND // 100)
        net.world.run(20 * SECOND)
        (told,) = [it for it in r.news if isinstance(it, TransitOverQuota)]
        assert told.came_by == "a"
        assert told.messages
        assert told.bytes == told.all_bytes > 0
        b.start()
        assert net.world.run(200 * SECOND, lambda: net.is_done("a"))
        net.world.run(5 * SECOND)
