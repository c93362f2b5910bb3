"""An operator sees why a stream does not move, and when it is sent again."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest

import triack
from tests.node.nodes import make
from tests.queues.relays import line, post
from tests.queues.world import WORLDS, SimNode, World, numbered
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.node.shell import stream_stats
from triack.node.shell.stream_stats import StreamsStats, describe_streams, gather_streams, read_streams
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.session.protocol.settings import SessionSettings
from triack.tools.sim.faults import Faults


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    """SQLite must let go of the simulated disks before Python does."""
    yield
    while WORLDS:
        WORLDS.pop().close()


def streams(node: SimNode, name: str | None = None) -> StreamsStats:
    return gather_streams(node.live, node.world.now_ns, name)


def out(node: SimNode) -> triack.OutgoingStreamStats:
    """Its only outgoing stream."""
    (stream,) = streams(node).outgoing
    return stream


def test_a_stream_that_was_acknowledged_says_how_far_and_when() -> None:
    """Both ends name the same packet."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    a.send(b, "q", *numbered(0, 3))
    assert world.run(5 * SECOND, lambda: not a.busy)
    world.run(4 * SECOND)
    sent, (taken,) = out(a), streams(b).incoming
    assert (sent.peer, sent.queue, sent.delivery) == (b.name, "q", Delivery.TRANSACTIONAL)
    assert (sent.first, sent.last, sent.to_send, sent.sent, sent.again_s) == (None, None, 0, 0, None)
    assert (sent.acked, sent.acked_times, taken.accepted) == (sent.next_number - 1, 1, sent.next_number - 1)
    assert sent.acked_s is not None
    assert 4 <= sent.acked_s < 5.1
    assert (taken.acked, taken.number, taken.sequence) == (sent.acked, sent.number, sent.sequence)
    assert (taken.out_of_order, taken.rejected, taken.refused, taken.held) == (0, 0, 0, None)


def test_a_stream_without_an_order_ack_says_its_tier_and_when_it_goes_out_again() -> None:
    """After 30 s three times, then after 5 minutes three times."""
    world = World(2, Faults(delay_ns=5 * MS))
    a, b = (world.node(name, NodeSettings(session=SessionSettings(cleanup_interval_s=10_000.0))) for name in "ab")
    send_order_acks = b.live.inbox.send_order_acks
    b.live.inbox.send_order_acks = lambda route, now_ns: None  # type: ignore[method-assign]
    a.send(b, "q", b"x")
    world.run(10 * SECOND)
    waits = out(a)
    assert (waits.state, waits.waits_for, waits.tier, waits.attempts, waits.resends) == (
        "connected", "order-ack", "1-3", 0, 0,
    )  # fmt: skip
    assert (waits.first, waits.last, waits.to_send, waits.sent, waits.acked) == (1, 1, 0, 1, None)
    assert waits.again_s is not None
    assert 19 < waits.again_s < 21
    world.run(1_000 * SECOND)
    later = out(a)
    assert (later.tier, later.attempts, later.resends) == ("7-9", 6, 6)
    b.live.inbox.send_order_acks = send_order_acks  # type: ignore[method-assign]
    assert world.run(3_600 * SECOND, lambda: not a.busy)
    assert (out(a).acked, out(a).attempts, out(a).resends) == (1, 0, 6)


def test_a_peer_that_is_away_is_called_again_at_a_time_that_is_told() -> None:
    world = World(3)
    a, b = world.node("a"), world.node("b")
    a.send(b, "q", b"1")
    assert world.run(5 * SECOND, lambda: not a.busy)
    world.cut(a, b)
    a.send(b, "q", b"2")
    world.run(120 * SECOND)
    waits = out(a)
    assert (waits.state, waits.waits_for, waits.acked) == ("waiting", "answer", 1)
    assert waits.again_s is not None
    assert waits.again_s <= 3
    assert waits.stalled_s is not None
    assert waits.stalled_s > 100


def test_a_full_queue_holds_its_stream_and_both_ends_say_so() -> None:
    """With the time of the next question whether there is room."""
    world = World(4)
    a, b = world.node("a"), world.node("b", NodeSettings(limits=Limits(quota=Quota(messages=2))))
    for number in range(20):
        a.send(b, "q", b"%d" % number)
        world.run(SECOND)
    waits, (held,) = out(a), streams(b).incoming
    assert (waits.state, waits.waits_for, held.held) == ("held", "room: queue-full", "queue-full")
    assert waits.again_s is not None
    assert 0 < waits.again_s <= 60
    assert held.rejected > 0
    for _ in range(30):
        b.read_all("q")
        world.run(SECOND)
    assert not a.busy
    assert (out(a).state, streams(b).incoming[0].rejected) == ("connected", 0)


def test_an_operator_s_pause_is_told_and_no_time() -> None:
    world = World(5)
    a, b = world.node("a"), world.node("b")
    a.live.pause(f"{b.name}/", arrivals=False, now_ns=world.now_ns)
    a.send(b, "q", b"1")
    world.run(SECOND)
    assert (out(a).state, out(a).waits_for, out(a).again_s, out(a).to_send) == ("paused", "resume", None, 1)


def test_a_relay_tells_of_what_passes() -> None:
    """Where it comes from, where it goes, and that there is no way."""
    net = line("arb")
    post(net["a"], "b", b"1")
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    (passes,) = streams(net["r"]).transit
    assert (passes.name, passes.came_by, passes.via, passes.first, passes.acked) == ("b/q", "a", "b", None, 1)
    assert [it.via for it in streams(net["b"]).incoming] == ["r"]
    net.world.cut(net["r"], net["b"])
    post(net["a"], "b", b"2")
    net.world.run(60 * SECOND)
    (passes,) = streams(net["r"]).transit
    assert (passes.state, passes.waits_for, passes.first, passes.last) == ("waiting", "answer", 2, 2)
    assert (out(net["a"]).waits_for, out(net["a"]).relay_has) == ("relay", 2)


def test_what_waits_is_listed_first_and_further_streams_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each of them is found by its name."""
    world = World(7)
    a, b = world.node("a"), world.node("b")
    for number in range(4):
        a.send(b, f"q{number}", b"x")
    assert world.run(5 * SECOND, lambda: not a.busy)
    world.cut(a, b)
    a.send(b, "q3", b"y")
    monkeypatch.setattr(stream_stats, "STREAMS_MAX", 2)
    listed = streams(a)
    assert (listed.outgoing[0].queue, len(listed.outgoing), listed.left_out) == ("q3", 2, 2)
    assert [it.queue for it in streams(a, f"{b.name}/q0").outgoing] == ["q0"]
    assert [it.queue for it in streams(b, "q1").incoming] == ["q1"]


def test_a_restart_forgets_acks_and_keeps_what_waits() -> None:
    world = World(8)
    a, b = world.node("a"), world.node("b")
    a.send(b, "q", b"1")
    assert world.run(5 * SECOND, lambda: not a.busy)
    world.cut(a, b)
    a.send(b, "q", b"2")
    world.run(SECOND)
    a.restart()
    assert (out(a).first, out(a).next_number, out(a).acked) == (2, 3, None)
    b.restart()
    (taken,) = streams(b).incoming
    assert (taken.accepted, taken.acked, taken.via) == (1, None, None)


def test_it_is_the_same_after_json() -> None:
    world = World(9)
    a, b = world.node("a"), world.node("b")
    a.send(b, "q", b"1")
    assert world.run(5 * SECOND, lambda: not a.busy)
    for found in (streams(a), streams(b)):
        assert describe_streams(found) == asdict(found)
        assert read_streams(json.loads(json.dumps(describe_streams(found)))) == found
    assert not replace(out(a), first=None).is_busy


def test_every_field_is_explained() -> None:
    for kind in (triack.OutgoingStreamStats, triack.IncomingStreamStats, triack.TransitStreamStats, StreamsStats):
        for name in kind.__slots__:
            assert f" {name}" in str(kind.__doc__), (kind, name)


async def test_streams_of_an_unknown_name_are_no_empty_answer() -> None:
    async with make() as node:
        with pytest.raises(triack.QueueNotFound):
            node.streams("nowhere")
        with pytest.raises(triack.UsageError):
            node.streams(7)  # type: ignore[arg-type]
        assert node.streams("dead-letter") == StreamsStats()
