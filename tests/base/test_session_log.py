"""The log's schema agrees with the records of real nodes: these events, exactly these fields, of these types."""

from collections import Counter
from typing import Any

import pytest

from tests.queues.manager.test_recorder import busy_world
from tests.queues.rollbacks import both_know, deliver, pair, put_back
from tests.queues.world import SimNode, World
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import NodeClosed
from triack.base.session_log import COMMON, EVENTS, FIELDS, SCHEMA_VERSION
from triack.base.units import SECOND
from triack.queues.node_settings import Journal, Limits, NodeSettings, Quota
from triack.queues.packing import Outgoing
from triack.tools.chaos.run import run_seed
from triack.tools.chaos.topics import TOPICS_FROM
from triack.tools.chaos.topologies import RELAYED_FROM
from triack.tools.replay.log.files import parse_records

SEEDS = 30
TOPICAL = 40
RELAYED = 12
"""Three of each topology."""


def complaint(record: dict[str, Any]) -> str:
    """The fault of a record, or nothing."""
    event = EVENTS.get(record["event"])
    if event is None:
        return f"unknown event {record['event']}"
    more = record.keys() - COMMON.keys() - set(event.fields)
    if not {*COMMON, *event.fields} <= record.keys() or more not in map(set, event.variants):
        return f"{record['event']} has the fields {sorted(record)}"
    for name, value in record.items():
        if type(value) is not (COMMON | FIELDS)[name].type:
            return f"{record['event']} has the {name} {value!r}"
        if type(value) is list and any([type(end) for end in ends] != [int, int] for ends in value):
            return f"{record['event']} has the {name} {value!r}"
    return ""


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    """The records of nodes in worlds with everything that can happen."""
    seeds = (
        *range(SEEDS),
        *range(RELAYED_FROM, RELAYED_FROM + RELAYED),
        *range(TOPICS_FROM, TOPICS_FROM + TOPICAL),
    )
    logs = [log for seed in seeds for log in run_seed(seed).logs.values()]
    nodes = (*busy_world(0), *rolled_back(), purged(), expired(), held(), recovered(), *ended())
    logs += [b"".join(node.records) for node in nodes]
    return [record for log in logs for record in parse_records(log)]


def rolled_back() -> tuple[SimNode, SimNode]:
    """Two nodes, one of them with an older copy of its store."""
    world, a, b = pair()
    deliver(world, a, b, 1)
    copy = a.copy_store()
    deliver(world, a, b, 2)
    put_back(a, copy)
    a.send(b, "q", b"new")
    both_know(world, a, b)
    return a, b


def expired() -> SimNode:
    """A node with a message in a queue that no reader received in time."""
    world = World(1)
    node = world.node("a")
    outgoing = node.live.outgoing_stream("", "q", Delivery.TRANSACTIONAL)
    node.live.submit(outgoing, Outgoing(b"1", receive_by_ms=world.now_ms + 100), 1)
    world.run(SECOND)
    node.finish(node.live, NodeClosed("the test ends"), world.now_ns)
    return node


def ended() -> tuple[SimNode, SimNode]:
    """Two nodes, one of which ends a stream that has had nothing to send for a while."""
    world = World(1)
    a, b = world.node("a", NodeSettings(retire_after_s=1.0)), world.node("b")
    a.send(b, "q", b"1")
    world.run(10 * SECOND)
    for node in (a, b):
        node.finish(node.live, NodeClosed("the test ends"), world.now_ns)
    return a, b


def held() -> SimNode:
    """A node that sends to a queue with room for two."""
    world = World(1)
    a, b = world.node("a"), world.node("b", NodeSettings(limits=Limits(quota=Quota(2))))
    for _ in range(4):
        a.send(b, "q", b"1")
        world.run(SECOND)
    a.finish(a.live, NodeClosed("the test ends"), world.now_ns)
    return a


def purged() -> SimNode:
    """A node with a queue from which a person took a message by hand."""
    world = World(1)
    limits = Limits(queue_journal={"q": Journal()})
    a, b = world.node("a"), world.node("b", NodeSettings(limits=limits))
    a.send(b, "q", b"1", b"2")
    assert world.run(5 * SECOND, lambda: not a.busy)
    mailbox = b.live.queues.mailboxes["q"]
    assert len(mailbox.withdraw([packet.first_place + index for packet, index in mailbox.waiting()][:1])) == 1
    world.run(SECOND)
    run = b.live.choose(mailbox, 2, (), world.now_ns)
    assert run is not None
    b.live.acknowledge(mailbox, [(run.packet, 2)])
    world.run(SECOND)
    outgoing = b.live.outgoing_stream(b.address, "q", Delivery.RECOVERABLE, 5)
    b.live.submit(outgoing, b"3", 1)
    b.drain()
    world.run(SECOND)
    assert b.live.choose(mailbox, 3, (), world.now_ns) is not None
    b.live.set_quota("q", Quota(9), world.now_ns)
    b.live.pause("q", arrivals=True, now_ns=world.now_ns)
    assert b.live.resume("q", world.now_ns)
    b.finish(b.live, NodeClosed("the test ends"), world.now_ns)
    return b


def recovered() -> SimNode:
    """A node that starts again, and has had messages of both durable classes."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    for delivery in DURABLE:
        a.send(b, "q", b"1", delivery=delivery)
    assert world.run(5 * SECOND, lambda: not a.busy)
    b.restart()
    b.finish(b.live, NodeClosed("the test ends"), world.now_ns)
    return b


@pytest.mark.slow
def test_every_record_is_as_the_schema_says(records: list[dict[str, Any]]) -> None:
    """No event that is not there, no field too many or too few, none of another type."""
    wrong = Counter(filter(None, map(complaint, records)))
    assert not wrong, wrong.most_common(5)
    assert {record["v"] for record in records} == {SCHEMA_VERSION} == {6}


@pytest.mark.slow
def test_everything_in_the_schema_is_written(records: list[dict[str, Any]]) -> None:
    """Every event, and each group of fields that it may have.

    All these nodes listen, survive a loss of power, write less than a segment, and agree on whether boots have names.
    """
    written = {(record["event"], frozenset(record.keys() - COMMON.keys())) for record in records}
    listed = {(name, frozenset(event.fields + group)) for name, event in EVENTS.items() for group in event.variants}
    assert {(event, "address" not in fields or "survives" in fields) for event, fields in listed - written} == {
        ("node_started", True),
        ("node_continued", True),
        ("start_before", True),
        # Of durable subscriptions whose holders change: applications do that.
        ("subscription_changed", True),
        ("admin_ack_queued", True),
        # Of messages that are published to one topic, and of relays that lie.
        ("queued", True),
        ("word_refused", True),
        # Of a destination behind relays whose store has gone back.
        ("rollback_detected", True),
        # What is over a synchronous link and leaves otherwise than by an ack.
        ("transit_freed", True),
        # Of a process that died between an acknowledgement and its commit.
        ("settled", True),
    }


def test_every_field_is_used_and_explained() -> None:
    """No field that no event has, none that is common and special at once."""
    used = {
        name for event in EVENTS.values() for name in (*event.fields, *(n for group in event.variants for n in group))
    }
    assert used == set(FIELDS)
    assert COMMON.keys().isdisjoint(FIELDS)
    assert {field.type for field in (COMMON | FIELDS).values()} == {str, int, bool, list}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"event": "exploded"}, "unknown event exploded"),
        ({"extra": 1}, "dropped has the fields"),
        ({"count": "2"}, "dropped has the count '2'"),
        ({"count": True}, "dropped has the count True"),
    ],
)
def test_the_comparison_bites(change: dict[str, Any], said: str) -> None:
    """A wrong record is found."""
    right = {name: field.type() for name, field in COMMON.items()} | {"event": "dropped", "reason": "x", "count": 2}
    assert complaint(right) == ""
    assert complaint(right | change).startswith(said)
    del right["reason"]
    assert complaint(right).startswith("dropped has the fields")
