"""Queue names that are used once: their streams end, at both ends, and nothing comes twice."""

import pytest

from proof.search import stillness
from tests.queues.stories.test_patience import judged
from tests.queues.world import SimNode, World, numbered
from triack.base.delivery import Delivery
from triack.base.news import StreamsNearLimit
from triack.base.units import MS, SECOND
from triack.ordering.order_settings import OrderSettings
from triack.queues.node_settings import Limits, NodeSettings, streams_limit
from triack.tools.sim.faults import Faults

DURABLE = (Delivery.RECOVERABLE, Delivery.TRANSACTIONAL)


def pair(a: NodeSettings, b: NodeSettings | None = None) -> tuple[World, SimNode, SimNode]:
    world = World(1, Faults(delay_ns=5 * MS))
    return world, world.node("a", a), world.node("b", b or a)


def incoming(node: SimNode) -> int:
    return sum(map(len, node.live.inbox._streams.values()))  # noqa: SLF001 - what is in its memory


def rows(node: SimNode) -> tuple[int, int]:
    """Rows of outgoing and incoming streams on the disk, after an end in good order or not."""
    content = node.store.load(b"x" * 16, 1)
    return len(content.streams), len([row for row in content.positions if row.stream])


@pytest.mark.parametrize("delivery", Delivery)
def test_idle_streams_end_at_both_ends(delivery: Delivery) -> None:
    """After the time that is set, and not before; the next message for the same queue comes as ever."""
    world, a, b = pair(NodeSettings(retire_after_s=20.0))
    for number in range(5):
        a.send(b, f"q{number}", b"1", delivery=delivery)
    world.run(15 * SECOND)
    assert (len(a.outbox.streams), incoming(b)) == (5, 5)
    world.run(15 * SECOND)
    assert (len(a.outbox.streams), incoming(b)) == (0, 0)
    a.send(b, "q0", b"2", delivery=delivery)
    world.run(5 * SECOND)
    assert b.read_all("q0") == [b"1", b"2"]
    assert len(a.log("stream_ended")) == 5
    assert not judged(a, b)


@pytest.mark.parametrize("retire_after_s", [None, 0])
def test_without_a_time_streams_stay(retire_after_s: float | None) -> None:
    world, a, b = pair(NodeSettings(retire_after_s=retire_after_s))
    a.send(b, "q", b"1")
    world.run(200_000 * SECOND)
    assert (len(a.outbox.streams), incoming(b)) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("delivery", Delivery)
def test_many_names_in_turn_take_little_room(delivery: Delivery) -> None:
    """Of neither end, though none is idle for long, and though the receiver has room for fewer than its peer thinks.

    What is durable then waits for its place; nothing holds back express messages that are on their way.
    """
    limit = 8 if delivery in DURABLE else 40
    world, a, b = pair(NodeSettings(max_streams=40), NodeSettings(max_streams=limit, max_queues=60))
    most = 0
    for number in range(300):
        a.send(b, f"q{number}", b"%d" % number, delivery=delivery)
        assert world.run(30 * SECOND, lambda: not a.busy)
        assert b.read_all(f"q{number}") == [b"%d" % number]
        most = max(most, incoming(b), len(a.outbox.streams))
    assert most <= 40
    assert a.length("dead-letter") == 0
    assert max(*rows(a), *rows(b)) <= 40
    assert not judged(a, b)


@pytest.mark.slow
@pytest.mark.gate
def test_streams_beyond_the_limit_wait_and_both_ends_say_so() -> None:
    """All at once: as many as may be live, then the next ones as these end; nothing is refused."""
    world, a, b = pair(NodeSettings(max_streams=8))
    for number in range(40):
        a.send(b, f"q{number}", b"%d" % number, delivery=Delivery.TRANSACTIONAL)
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert [b.read_all(f"q{number}") for number in range(40)] == [[b"%d" % number] for number in range(40)]
    assert incoming(b) <= 8
    told = [[it for it in node.news if isinstance(it, StreamsNearLimit)] for node in (a, b)]
    assert all({it.is_full for it in some} == {False, True} for some in told)
    assert [it.incoming for some in told for it in some].count(True) >= 2
    assert not judged(a, b)


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.parametrize("delivery", Delivery)
def test_streams_that_take_turns_wait_for_no_ack_delay(delivery: Delivery) -> None:
    """Each may send one packet at first; its acknowledgement leaves at once, not after the 0.5 s of its delay."""
    world, a, b = pair(NodeSettings(max_streams=2, messages_per_packet=1))
    begun_ns = world.now_ns
    for number in range(24):
        a.send(b, f"q{number}", *numbered(0, 4), delivery=delivery)
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert world.now_ns - begun_ns < 3 * SECOND
    assert not judged(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("delivery", DURABLE)
def test_nothing_comes_twice_though_both_ends_die(seed: int, delivery: Delivery) -> None:
    """At any moment of the exchange, over a network that loses, repeats and reorders."""
    world = World(seed, Faults(loss=0.2, duplicate=0.2, reorder=0.3, delay_ns=5 * MS, jitter_ns=20 * MS))
    settings = NodeSettings(max_streams=8, retire_after_s=0.05)
    a, b = world.node("a", settings), world.node("b", settings)
    for number in range(40):
        a.send(b, f"q{number % 13}", *numbered(3 * number, 3 * number + 3), delivery=delivery)
        world.run(world.random.randrange(400) * MS)
        if world.random.random() < 0.4:
            world.random.choice([a, b]).restart()
    assert world.run(900 * SECOND, lambda: not a.busy)
    for name in range(13):
        wanted = [body for number in range(name, 40, 13) for body in numbered(3 * number, 3 * number + 3)]
        found = b.read_all(f"q{name}")
        assert (found if delivery is Delivery.TRANSACTIONAL else sorted(found)) == (
            wanted if delivery is Delivery.TRANSACTIONAL else sorted(wanted)
        )
    assert len(b.log("stream_forgotten")) > 5
    assert not judged(a, b)


def test_streams_of_both_directions_end_in_one_commit() -> None:
    """Their streams have the same number: what a node says of its own stream does not take the place of an answer."""
    world, a, b = pair(NodeSettings())
    a.send(b, "q", b"1")
    b.send(a, "q", b"1")
    world.run(5 * SECOND)
    for node in (b, a):
        stillness.expire_streams(node.outbox.retirement, world.now_ns)
    b.drain()
    world.run(6 * MS)  # what b says of its stream is on its way to the disk of a, in the commit that ends its own
    a.drain()
    world.run(SECOND)
    assert (incoming(a), incoming(b), rows(a), rows(b)) == (0, 0, (0, 0), (0, 0))


def test_messages_keep_their_class_when_their_stream_is_gone() -> None:
    """A message that waits in a queue keeps its class, after a restart, too; and local streams end as well."""
    world, a, b = pair(NodeSettings(retire_after_s=1.0))
    for delivery in DURABLE:
        a.send(b, f"q{delivery}", b"x", delivery=delivery)
        b.send(b, f"own{delivery}", b"x", delivery=delivery)
    world.run(20 * SECOND)
    assert (incoming(b), b.outbox.streams) == (0, [])
    b.restart()
    classes = {name: [packet.delivery for packet, _ in box.waiting()] for name, box in b.live.queues.mailboxes.items()}
    del classes["dead-letter"]
    assert classes == {"q1": [1], "q2": [2], "own1": [1], "own2": [2]}
    assert not judged(a, b)


def test_a_peer_quota_of_streams_goes_by_its_memory() -> None:
    """At a quarter of it; the limit that both ends go by."""
    settings = NodeSettings(limits=Limits(peer_memory_bytes=4 * 20 * 2_048))
    assert streams_limit(settings) == 20


def test_a_large_express_message_goes_on_when_its_stream_has_a_place() -> None:
    """The acknowledgement of a fragment frees nothing, and yet lets the next fragments leave."""
    world, a, b = pair(NodeSettings(max_streams=2))
    large = bytes(range(256)) * 40
    for number in range(4):
        a.send(b, f"q{number}", large, delivery=Delivery.EXPRESS)
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert [b.read_all(f"q{number}") for number in range(4)] == [[large]] * 4
    assert not judged(a, b)


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_owed_to_a_stream_that_has_ended(seed: int) -> None:
    """Its messages expired while they were under way: no order ack follows, and late copies are only passed over."""
    world = World(seed, Faults(loss=0.5, delay_ns=50 * MS, jitter_ns=20 * MS))
    settings = NodeSettings(retire_after_s=0.05, order=OrderSettings(seq_max_ack_delay_s=1.0))
    a, b = world.node("a", settings), world.node("b", settings)
    a.send(b, "q", *numbered(0, 40), delivery=Delivery.TRANSACTIONAL, live_ms=500)
    world.run(60 * SECOND)
    a.send(b, "q", b"later", delivery=Delivery.TRANSACTIONAL)
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert not judged(a, b)
