"""The records of a relay have the fields of the schema."""

from tests.queues.relays import line, post
from tests.queues.transit.stories.test_sync_links import make_sync
from tests.queues.world import numbered
from triack.base.delivery import Delivery
from triack.base.session_log import COMMON, EVENTS
from triack.base.units import SECOND

RELAYS = {
    "transit_committed",
    "transit_freed",
    "control_relayed",
    "route_refused",
    "onward_sent",
    "hold_received",
    "rerouted",
}

ONWARD = {"onward_ack_sent", "onward_ack_received", "link_downgraded", "link_upgraded"}


def test_each_record_is_as_the_schema_says() -> None:
    """Of a run in which a relay passes on, refuses, waits and is started again."""
    net = line("arb")
    a, r, b = (net[name] for name in "arb")
    post(a, "x@r", b"nowhere")
    for delivery in Delivery:
        post(a, "b", *numbered(0, 20), queue=delivery.label, delivery=delivery)
    net.world.run(5 * SECOND)
    b.crash()
    post(a, "b", *numbered(20, 40))
    net.world.run(40 * SECOND)
    net.reroute("r", ("b", "b"))
    r.restart()
    b.start()
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    found = {record["event"]: record for record in r.log(*RELAYS)}
    assert set(found) >= RELAYS - {"hold_received"}
    for record in r.log(*RELAYS):
        event = EVENTS[record["event"]]
        fields = set(record) - set(COMMON) - set(event.fields)
        assert fields in [set(variant) for variant in event.variants], record
    assert any(record.get("recovered") for record in r.log("transit_committed"))


def test_the_records_of_synchronous_links_are_as_the_schema_says() -> None:
    """Of a link that is behind for a while, in a chain of two."""
    net = line("arsb")
    make_sync(net, "a", "r")
    post(net["a"], "b", *numbered(0, 20), delivery=Delivery.RECOVERABLE)
    net.world.run(5 * SECOND)
    net["b"].crash()
    post(net["a"], "b", *numbered(20, 40), delivery=Delivery.RECOVERABLE)
    net.world.run(12 * SECOND)
    net["b"].start()
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    net.world.run(10 * SECOND)
    for name in "ars":
        for record in net[name].log(*ONWARD):
            event = EVENTS[record["event"]]
            fields = set(record) - set(COMMON) - set(event.fields)
            assert fields in [set(variant) for variant in event.variants], record
    assert {record["event"] for record in net["r"].log(*ONWARD)} == ONWARD
