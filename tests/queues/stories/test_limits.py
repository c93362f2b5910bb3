"""Limits of a node, its disk, and claims of others."""

import pytest

from proof.search import stillness
from tests.queues.hubs import HubWorld
from tests.queues.keyed import key_of, peer
from tests.queues.relays import by_relay, post
from tests.queues.stories.test_peers import B, Named, named
from tests.queues.world import PlainWorld, SimNode, World, judged, numbered, two
from triack.base.delivery import Delivery
from triack.base.errors import StoreFailed
from triack.base.news import StreamsNearLimit
from triack.base.units import MS, SECOND
from triack.ordering.order_settings import OrderSettings
from triack.queues.mailboxes.mailbox import Lease
from triack.queues.mailboxes.redelivery import Return
from triack.queues.messages import LargeMessage
from triack.queues.node_settings import STREAM_BYTES, Limits, NodeSettings, Quota, streams_limit
from triack.queues.stages import Stage
from triack.session.protocol.settings import SessionSettings
from triack.tools.sim.faults import Faults


def test_a_failed_commit_ends_everything_with_an_explicit_error() -> None:
    """Waiters get the error, sessions close with the reason, and not one ack leaves afterwards."""
    world, a, b = two()
    a.send(b, "q", *numbered(0, 50))
    assert world.run(5 * SECOND, lambda: not a.busy)
    b.break_disk()
    mark = len(b.log())
    outcome: list[object] = []
    b.send(a, "back", b"x")
    b.live.await_commit(outcome.append)
    said = b.watch(b.send(a, "back", b"y"), Stage.ORDERED)
    a.send(b, "q", *numbered(50, 100))
    world.run(5 * SECOND)
    assert [type(it) for it in (*outcome, b.live.failure)] == [StoreFailed, StoreFailed]
    assert (len(said), said != [None], b.live.closes["store-failed"] >= 1, a.busy) == (1, True, True, True)
    after = [record["event"] for record in b.log()[mark:]]
    assert "ack_sent" not in after[after.index("session_closed") :]
    assert not {"store_ack_sent", "order_ack_sent", "committed"} & set(after)


@pytest.mark.slow
def test_large_express_messages_of_a_process_that_died_take_no_room() -> None:
    """Nobody has the rest of them: their pieces go when it has started again, whatever it sends then, and where."""
    settings = NodeSettings(session=SessionSettings(max_unacked_packet=8))
    world, a, b = two(1, Faults(delay_ns=20 * MS), a=settings)
    express = b.live.inbox.admission.express
    for life in range(30):
        a.send(b, f"q{life % 3}", bytes(400_000), delivery=Delivery.EXPRESS)
        assert world.run(SECOND, lambda: express.total_bytes > 400_000)
        a.restart()
        world.run(SECOND)
    a.send(b, "other", b"hello", delivery=Delivery.EXPRESS)
    assert world.run(5 * SECOND, lambda: b.read("other") == 1)
    assert express.total_bytes == 0
    assert b.log("rejected") == []


def test_a_dead_letter_stays_one_and_keeps_its_id() -> None:
    """Of whichever node it came; failing in the dead-letter queue moves it nowhere; restarts change nothing."""
    world, a, b = two()
    c = world.node("c", NodeSettings(max_redeliveries=0))
    a.send(c, "q", b"of a")
    b.send(c, "q", b"of b")
    assert world.run(10 * SECOND, lambda: c.length("q") == 2)
    alive = {name_of(handed) for handed in fail(c, "q", 2)}
    assert {origin for origin, _ in alive} == {a.live.node_id, b.live.node_id}
    for _ in range(2):
        assert {name_of(handed) for handed in fail(c, "dead-letter", 2)} == alive
        assert (c.length("q"), c.length("dead-letter")) == (0, 2)
        c.restart()
        world.run(SECOND)
    assert {handed.packet.delivery for handed in fail(c, "dead-letter", 2)} == {Delivery.RECOVERABLE}


def name_of(handed: Lease) -> tuple[bytes, int]:
    return handed.packet.origin, handed.packet.open().first_ordinal + handed.index


def fail(node: SimNode, queue: str, count: int) -> list[Lease]:
    """Take ``count`` messages and give them back as failed."""
    taken = [node.take(queue) for _ in range(count)]
    for handed in taken:
        node.give_back(handed, Return(failed=True, delay_ms=0), queue)
    node.drain()
    node.world.run(SECOND)
    return taken


# Disks and quotas without room: what makes room is taken all the same.


def fill_disk(node: SimNode) -> None:
    node.act(lambda: node.live.inbox.admission.disk_room.handle_room(0))


@pytest.mark.parametrize("why", ["store-low", "peer-quota"])
def test_a_subscription_ends_though_other_messages_find_no_room(why: str) -> None:
    """The disk of the hub has what nobody wants any more; or other messages of the subscriber wait for a reader."""
    it = HubWorld("sub", settings=NodeSettings(limits=Limits(peer_quota_bytes=20_000)))
    away = it.begun()
    it.publish(*numbered(0, 100))
    if why == "store-low":
        fill_disk(it.hub)
    for _ in range(1 if why == "store-low" else 40):
        it.nodes["sub"].send(it.hub, "q", bytes(1_000))
    it.run(5)
    assert {stream.reason.value for stream in it.hub.live.inbox.admission.holds.streams} == {why}
    away.unsubscribe()
    it.run(5)
    assert it.at_hub("sub/audit") is None
    assert it.hub.live.queues.mailboxes["topic:Games"].length == 0


def test_the_stream_that_says_what_ends_has_a_place_beyond_the_limit() -> None:
    """One, whatever the others of its node wait for."""
    it = HubWorld("sub")
    admission, origin = it.hub.live.inbox.admission, it.nodes["sub"].live.node_id
    limit = streams_limit(it.hub.settings)
    admission.stream_places.account.add(origin, STREAM_BYTES * limit)
    assert admission.stream_places.has_enough(origin, "q")
    assert not admission.stream_places.has_enough(origin, "$subscriptions")
    admission.stream_places.account.add(origin, STREAM_BYTES)
    assert admission.stream_places.has_enough(origin, "$subscriptions")


@pytest.mark.parametrize("delivery", [Delivery.TRANSACTIONAL, Delivery.RECOVERABLE])
@pytest.mark.parametrize("is_full", [False, True])
def test_words_of_ends_pass_a_relay_whose_disk_is_low(is_full: bool, delivery: Delivery) -> None:
    """Or which has as much of others as it may; other messages wait there."""
    quota = Quota(messages=1) if is_full else Quota()
    net, a, r, b = by_relay(settings={"r": NodeSettings(limits=Limits(transit_quota=quota))})
    if is_full:
        b.act(lambda: setattr(b.live.inbox.admission.disk_room, "is_low", True))
    else:
        fill_disk(r)
    post(a, "b", *numbered(0, 10, 1_000), delivery=delivery)
    net.world.run(5 * SECOND)
    assert b.length("q") == 0
    parts = a.live.outgoing_stream("b", "$large.q", Delivery.TRANSACTIONAL)
    a.act(lambda: a.live.submit(parts, LargeMessage(b"", ordinal=9), 0))
    assert net.world.run(20 * SECOND, lambda: not parts.busy)
    assert a.busy


# One key, many node ids: a peer pays for all that comes with its key, whatever nodes it claims to be.

IDS = 10


def crowd(settings: NodeSettings) -> tuple[PlainWorld, Named, list[Named], Named]:
    """A node that trusts two peers: one that is honest, and one that claims to be many nodes."""
    world = PlainWorld(1)
    b = Named(world, "b", settings)
    b.directory.replace([peer("evil"), peer("honest")])
    b.start()
    evil: list[Named] = []
    for number in range(IDS):
        node = Named(world, f"evil{number}")
        node.identity.keys = (key_of("evil"),)
        node.directory.replace([peer("b", B)])
        node.listens = False
        node.start()
        evil.append(node)
    return world, b, evil, named(world, "honest", peer("b", B), listens=False)


def reaches(world: PlainWorld, sender: Named, receiver: SimNode, queue: str) -> bool:
    sender.post("b", b"hello", queue=queue)
    return world.run(30 * SECOND, lambda: receiver.length(queue) == 1)


@pytest.mark.gate
def test_many_ids_have_the_streams_of_one_peer() -> None:
    world, b, evil, honest = crowd(NodeSettings(max_streams=20))
    for node in evil:
        for number in range(20):
            node.post("b", b"x", queue=f"q{number}", delivery=Delivery.RECOVERABLE)
    world.run(5 * SECOND)
    assert b.live.inbox.admission.stream_places.account.total_bytes == 20 * STREAM_BYTES
    assert reaches(world, honest, b, "new")


@pytest.mark.gate
def test_many_ids_leave_queues_for_others() -> None:
    """Of all there may be; and an honest peer finds room for its own, and more of it when some are gone."""
    world, b, evil, honest = crowd(NodeSettings(max_queues=40))
    for node in evil:
        for number in range(20):
            node.post("b", b"x", queue=f"q{number}-{node.name}", delivery=Delivery.RECOVERABLE)
    world.run(5 * SECOND)
    assert len(b.live.queues.mailboxes) <= 21
    assert reaches(world, honest, b, "new")
    assert all(node.length("dead-letter") == 0 for node in [honest, *evil])


def test_a_peer_that_waits_for_a_queue_gets_it_when_another_is_empty() -> None:
    """A packet that cannot be taken now is not refused."""
    world, b, _, honest = crowd(NodeSettings(max_queues=4))
    for queue in ("one", "two"):
        assert reaches(world, honest, b, queue)
    assert not reaches(world, honest, b, "three")
    assert b.read("one") == 1
    assert world.run(2 * SECOND, lambda: b.length("three") == 1)
    assert honest.length("dead-letter") == 0


# Queue names that are used once: their streams end, at both ends, and nothing comes twice.


def pair(settings: NodeSettings) -> tuple[World, SimNode, SimNode]:
    return two(1, Faults(delay_ns=5 * MS), both=settings)


def incoming(node: SimNode) -> int:
    return len(list(node.live.inbox._streams))  # noqa: SLF001 - what is in its memory


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
    for left in (5, 0):
        world.run(15 * SECOND)
        assert (len(a.outbox.streams), incoming(b)) == (left, left)
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
    for delivery in (Delivery.RECOVERABLE, Delivery.TRANSACTIONAL):
        a.send(b, f"q{delivery}", b"x", delivery=delivery)
        b.send(b, f"own{delivery}", b"x", delivery=delivery)
    world.run(20 * SECOND)
    assert (incoming(b), b.outbox.streams) == (0, [])
    b.restart()
    classes = {name: [packet.delivery for packet, _ in box.waiting()] for name, box in b.live.queues.mailboxes.items()}
    del classes["dead-letter"]
    assert classes == {"q1": [1], "q2": [2], "own1": [1], "own2": [2]}
    assert not judged(a, b)


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
    settings = NodeSettings(retire_after_s=0.05, order=OrderSettings(seq_max_ack_delay_s=1.0))
    world, a, b = two(seed, Faults(loss=0.5, delay_ns=50 * MS, jitter_ns=20 * MS), both=settings)
    a.send(b, "q", *numbered(0, 40), delivery=Delivery.TRANSACTIONAL, live_ms=500)
    world.run(60 * SECOND)
    a.send(b, "q", b"later", delivery=Delivery.TRANSACTIONAL)
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert not judged(a, b)
