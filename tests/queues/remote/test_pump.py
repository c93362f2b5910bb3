"""What a pump has on its way, and in which class and with which properties it goes."""

import pytest

from tests.queues.hubs import HubWorld
from triack.base.delivery import Delivery
from triack.queues.node_settings import NodeSettings
from triack.queues.packing import Outgoing


def classes_at(it: HubWorld) -> set[str]:
    """The classes in which messages have come to the subscriber."""
    records = it.nodes["sub"].log("committed", "handed")
    return {record["class"] for record in records if record.get("queue") == "$sub.audit"}


@pytest.mark.parametrize("published", Delivery)
@pytest.mark.parametrize("wanted", [Delivery.RECOVERABLE, Delivery.TRANSACTIONAL])
def test_messages_come_in_the_weaker_of_both_classes(published: Delivery, wanted: Delivery) -> None:
    it = HubWorld("sub")
    away = it.away("sub")
    away.begin(delivery=wanted)
    it.run()
    it.publish(b"1", delivery=published)
    it.settle(away)
    assert away.read() == [b"1"]
    assert classes_at(it) == {min(published, wanted).label}


def test_no_more_is_on_the_way_than_may_be() -> None:
    it = HubWorld("sub", settings=NodeSettings(messages_per_packet=1))
    away = it.away("sub")
    away.begin(max_unacked=5)
    it.run()
    it.world.cut(it.hub, it.nodes["sub"])
    it.publish(*(b"%d" % number for number in range(50)))
    it.run()
    subscription = it.at_hub("sub/audit")
    assert subscription is not None
    pump = it.hub.live.remote.of_peers.pump_of(subscription)
    assert pump is not None
    assert (pump.ahead, subscription.length) == (5, 45)
    it.hub.restart()
    subscription = it.at_hub("sub/audit")
    assert subscription is not None
    assert subscription.length == 45, "what was on its way is not in the topic any more"
    it.world.heal()
    for _ in range(5):
        it.settle(away)
    assert away.read() == [b"%d" % number for number in range(50)]


def test_what_is_for_the_topic_node_alone_stays_there() -> None:
    it = HubWorld("sub")
    away = it.away("sub")
    away.begin()
    it.run()
    engine = it.hub.live
    outgoing = engine.outgoing_stream("", "topic:Games", Delivery.TRANSACTIONAL)
    properties = {"label": "l", "dead_letter": False}
    engine.submit(outgoing, Outgoing(b"1", properties, topic="Cricket"), 1)
    it.hub.drain()
    it.run()
    assert away.found is not None
    assert away.found.mailbox is not None
    lease = away.node.live.take(away.found.mailbox, it.world.now_ns)
    assert lease is not None
    assert list(lease.packet.open().properties or []) == [{"label": "l"}]
