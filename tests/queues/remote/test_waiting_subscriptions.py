"""What a node says of its own subscriptions that get nothing from the node with the topics."""

from dataclasses import replace

import pytest

from tests.queues.hubs import Away, HubWorld
from tests.queues.relays import ALL, Relays
from tests.queues.world import SimNode
from triack.base.reasons import Trouble
from triack.base.units import SECOND
from triack.queues.remote.remote_subscriptions import RemoteState
from triack.stats.topic_stats import gather_remote
from triack.stats.troubles import TroubleStats, find_troubles


def troubles(node: SimNode) -> list[TroubleStats]:
    """Those of a node's own subscriptions."""
    own = (Trouble.SUBSCRIPTION_DENIED, Trouble.ANSWER_REFUSED)
    return [row for row in find_troubles(node.live, node.world.now_ns) if row.trouble in own]


@pytest.mark.parametrize("left", ["Other.#", ""])
def test_a_right_that_is_taken_back_is_a_trouble_at_the_subscriber_until_it_is_given_again(left: str) -> None:
    it = HubWorld("sub")
    away = it.begun()
    it.allow("sub", *filter(None, [left]))
    it.publish(b"1")
    it.run(20)
    (row,) = troubles(away.node)
    assert (row.trouble, row.about) == (Trouble.SUBSCRIPTION_DENIED, "audit")
    assert "sub may not subscribe to Games.# any more (access-denied)" in row.cause
    assert "--may-subscribe" in row.remedy
    assert row.since_s == pytest.approx(20, abs=1)
    (seen,) = gather_remote(away.node.live.remote.own, it.world.now_ns)
    assert (seen.state, seen.waits_for, seen.since_s) == ("live", "may_subscribe", row.since_s)
    it.allow("sub", "Games.#")
    it.settle(away)
    assert away.read() == [b"1"]
    assert troubles(away.node) == []


@pytest.mark.parametrize("left", ["Other.#", ""])
def test_it_is_known_also_after_a_restart_of_either_node(left: str) -> None:
    it = HubWorld("sub")
    away = it.begun()
    it.hub.end()
    it.allow("sub", *filter(None, [left]))
    it.hub.start()
    it.run(20)
    assert len(troubles(away.node)) == 1
    away.node.restart()
    it.run(20)
    assert len(troubles(away.node)) == 1
    it.hub.end()
    it.allow("sub", "Games.#")
    it.hub.start()
    it.publish(b"1")
    it.run(20)
    assert troubles(away.node) == []


@pytest.mark.parametrize("mended", [False, True])
def test_an_answer_that_this_node_refuses_is_named_and_asked_for_again_when_it_may_come(mended: bool) -> None:
    """The hub seals for a node that has no key of it."""
    net = Relays("sg gh", {"s": [("h", "g")]})
    hub, node = net["h"], net["s"]
    hub.know(replace(net["g"].peer, may_relay=ALL, relays_for=ALL, may_subscribe=("Games.#",)))
    hub.know(replace(node.peer, addresses=(), seal=True, may_subscribe=("Games.#",)))
    away = Away(node, "h")
    away.begin()
    net.world.run(20 * SECOND)
    assert away.state is RemoteState.ASKED
    (row,) = troubles(node)
    assert (row.trouble, row.about) == (Trouble.ANSWER_REFUSED, "audit")
    assert "(unknown-sealer)" in row.cause
    (seen,) = gather_remote(node.live.remote.own, net.world.now_ns)
    assert seen.waits_for == "answer-refused"
    if mended:
        node.know(replace(hub.peer, addresses=()))
        net.world.run(20 * SECOND)
        assert [away.state] == [RemoteState.LIVE]
        assert troubles(node) == []


def test_a_relay_that_may_not_bring_the_answer_is_named() -> None:
    net = Relays("sg gh", {"s": [("h", "g")]})
    hub, node = net["h"], net["s"]
    hub.know(replace(net["g"].peer, may_relay=ALL, relays_for=ALL, may_subscribe=("Games.#",)))
    node.know(replace(net["g"].peer, relays_for=("other",)))
    away = Away(node, "h")
    away.begin()
    net.world.run(20 * SECOND)
    (row,) = troubles(node)
    assert row.trouble == Trouble.ANSWER_REFUSED
    assert "(access-denied)" in row.cause
    assert "--relays-for" in row.remedy


def test_a_request_that_the_hub_refuses_by_its_seal_says_what_that_is() -> None:
    net = Relays("sg gh", {"s": [("h", "g")]})
    node = net["s"]
    node.know(replace(net["h"].peer, addresses=(), seal=True))
    away = Away(node, "h")
    found = away.begin()
    net.world.run(20 * SECOND)
    assert away.state is RemoteState.OVER
    assert "unknown-sealer): It was sealed with a key of no peer" in str(found.error)
