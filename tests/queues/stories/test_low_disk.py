"""Disks and quotas without room: what makes room is taken all the same."""

import pytest

from tests.queues.hubs import Away, HubWorld
from tests.queues.relays import line, post
from tests.queues.world import SimNode, numbered
from triack.base.delivery import Delivery
from triack.base.units import SECOND
from triack.queues.node_settings import STREAM_BYTES, Limits, NodeSettings, Quota, streams_limit
from triack.queues.packing import LargeMessage
from triack.queues.remote.remote_subscriptions import RemoteState


def fill_disk(node: SimNode) -> None:
    """Another program has filled it."""
    node.act(lambda: node.live.inbox.admission.handle_room(0))


def held(node: SimNode) -> set[str]:
    return {it.reason.value for it in node.live.inbox.admission.holds.streams}


def begun(it: HubWorld) -> Away:
    away = it.away("sub")
    away.begin()
    it.run()
    assert away.state is RemoteState.LIVE
    it.publish(*numbered(0, 100))
    return away


def ends(it: HubWorld, away: Away) -> None:
    """The subscription ends, and what waited for it is gone."""
    away.unsubscribe()
    it.run(5)
    assert it.at_hub("sub/audit") is None
    assert it.hub.live.queues.mailboxes["topic:Games"].length == 0


def test_a_subscription_ends_though_the_disk_is_low() -> None:
    """Of the node with the topics, whose disk has the messages that nobody wants any more."""
    it = HubWorld("sub")
    away = begun(it)
    fill_disk(it.hub)
    it.nodes["sub"].send(it.hub, "q", b"waits")
    it.run(5)
    assert held(it.hub) == {"store-low"}
    ends(it, away)


def test_a_subscription_ends_though_its_node_has_filled_its_quota() -> None:
    """Other messages of the node wait for a reader."""
    it = HubWorld("sub", settings=NodeSettings(limits=Limits(peer_quota_bytes=20_000)))
    away = begun(it)
    for _ in range(40):
        it.nodes["sub"].send(it.hub, "q", bytes(1_000))
    it.run(5)
    assert held(it.hub) == {"peer-quota"}
    ends(it, away)


def test_the_stream_that_says_what_ends_has_a_place_beyond_the_limit() -> None:
    """One, whatever the others of its node wait for."""
    it = HubWorld("sub")
    admission, origin = it.hub.live.inbox.admission, it.nodes["sub"].live.node_id
    limit = streams_limit(it.hub.settings)
    admission.streams.add(origin, STREAM_BYTES * limit)
    assert admission.has_streams_enough(origin, "q")
    assert not admission.has_streams_enough(origin, "$subscriptions")
    admission.streams.add(origin, STREAM_BYTES)
    assert admission.has_streams_enough(origin, "$subscriptions")


@pytest.mark.parametrize("delivery", [Delivery.TRANSACTIONAL, Delivery.RECOVERABLE])
@pytest.mark.parametrize("is_full", [False, True])
def test_words_of_ends_pass_a_relay_whose_disk_is_low(is_full: bool, delivery: Delivery) -> None:
    """Or which has as much of others as it may; other messages wait there."""
    quota = Quota(messages=1) if is_full else Quota()
    net = line("arb", settings={"r": NodeSettings(limits=Limits(transit_quota=quota))})
    a, r, b = (net[name] for name in "arb")
    if is_full:
        b.act(lambda: setattr(b.live.inbox.admission, "store_low", True))
    else:
        fill_disk(r)
    post(a, "b", *numbered(0, 10, 1_000), delivery=delivery)
    net.world.run(5 * SECOND)
    assert b.length("q") == 0
    parts = a.live.outgoing_stream("b", "$large.q", Delivery.TRANSACTIONAL)
    a.act(lambda: a.live.submit(parts, LargeMessage(b"", ordinal=9), 0))
    assert net.world.run(20 * SECOND, lambda: not parts.busy)
    assert a.busy


def test_a_stream_that_waits_for_a_low_disk_goes_on_when_there_is_room() -> None:
    it = HubWorld("sub")
    fill_disk(it.hub)
    it.nodes["sub"].send(it.hub, "q", b"waits")
    it.run(5)
    it.hub.act(lambda: it.hub.live.inbox.admission.handle_room(2**40))
    it.run(5)
    assert it.hub.read_all("q") == [b"waits"]
