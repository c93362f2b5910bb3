"""Whole nodes at their limits: disks that fail, many queues at once, messages that always fail."""

import pytest

from tests.queues.world import SimNode, World, numbered
from triack.base.commit import Read
from triack.base.delivery import Delivery
from triack.base.errors import StoreFailed
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.queues.mailboxes.mailbox import Lease
from triack.queues.mailboxes.redelivery import Return
from triack.queues.manager.effects import Job
from triack.queues.node_settings import NodeSettings
from triack.queues.stages import Stage
from triack.queues.streams import outbox
from triack.session.protocol.settings import SessionSettings
from triack.tools.sim.faults import Faults

EXPRESS, RECOVERABLE, TRANSACTIONAL = Delivery


# A disk that fails.


def test_a_failed_commit_ends_everything_with_an_explicit_error() -> None:
    """Waiters get the error, sessions close with the reason, and not one ack leaves afterwards."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
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
    assert len(outcome) == 1
    assert isinstance(outcome[0], StoreFailed)
    assert isinstance(b.live.failure, StoreFailed)
    assert said != [None]
    assert len(said) == 1
    assert b.live.closes["store-failed"] >= 1
    after = [record["event"] for record in b.log()[mark:]]
    failed_at = after.index("session_closed")
    assert not {"store_ack_sent", "order_ack_sent", "committed", "ack_sent"} & set(after[failed_at:])
    assert not {"store_ack_sent", "order_ack_sent", "committed"} & set(after)
    assert a.busy


def test_after_a_failed_commit_the_disk_tells_the_truth() -> None:
    """Restarted on a disk that works again: nothing is lost, nothing comes twice."""
    world = World(2)
    a, b = world.node("a"), world.node("b")
    a.send(b, "q", *numbered(0, 20))
    world.run(100 * MS)
    b.break_disk()
    a.send(b, "q", *numbered(20, 200))
    world.run(3 * SECOND)
    b.disk.calm()
    b.restart()
    assert world.run(30 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == numbered(0, 200)


def test_nobody_connects_to_or_from_a_node_whose_disk_failed() -> None:
    """It is deaf and mute, and says why it drops."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    b.break_disk()
    b.send(a, "q", b"x")
    world.run(SECOND)
    a.send(b, "q", b"x")
    world.run(20 * SECOND)
    assert b.live.drops[DropReason.CLOSING] > 0
    assert not a.log("session_opened")


# Beyond memory.


def test_bodies_come_from_the_disk_in_bounded_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many queues wait for theirs at once, a read fetches no more than it may."""
    world = World(1)
    a, b = world.node("a", NodeSettings(body_cache_bytes=0)), world.node("b")
    world.cut(a, b)
    for queue in range(12):
        a.send(b, f"q{queue}", *numbered(0, 40, 1_000))
    world.run(SECOND)
    reads: list[Read] = []
    do_job = SimNode.do_job

    def watch(node: SimNode, job: Job) -> None:
        if isinstance(job, Read) and job.table == "outgoing":
            reads.append(job)
        do_job(node, job)

    monkeypatch.setattr(SimNode, "do_job", watch)
    monkeypatch.setattr(outbox, "FETCH_AHEAD_PACKETS", 30)
    monkeypatch.setattr(outbox, "FETCH_AHEAD_BYTES", 20_000)
    world.heal()
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert [b.read_all(f"q{queue}") for queue in range(12)] == [numbered(0, 40, 1_000)] * 12
    assert max(len(read.keys) for read in reads) <= 30
    assert max(sum(map(len, read.bodies.values())) for read in reads) <= 22_000
    assert len(reads) < 100


@pytest.mark.parametrize("delivery", list(Delivery))
def test_bodies_in_memory_are_counted_until_they_go(delivery: Delivery) -> None:
    """The cache counts nothing when nothing waits; express bodies are no part of it."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    a.send(b, "q", *numbered(0, 100, 500), delivery=delivery)
    assert a.outbox.cached_bytes >= 0
    assert world.run(10 * SECOND, lambda: not a.busy)
    assert a.outbox.cached_bytes == 0


# Many at once.


def test_many_queues_in_every_class_share_one_session() -> None:
    """Each in its own order, none disturbed by the others."""
    world = World(1, Faults(loss=0.05))
    a, b = world.node("a"), world.node("b")
    for at in range(5):
        for queue in range(20):
            a.send(b, f"q{queue}", *numbered(at * 10, at * 10 + 10), delivery=Delivery(queue % 3))
        world.run(20 * MS)
    assert world.run(30 * SECOND, lambda: not a.busy)
    for queue in range(20):
        got = b.read_all(f"q{queue}")
        assert (got if queue % 3 == TRANSACTIONAL else sorted(got)) == numbered(0, 50)
    assert len(a.log("session_opened")) == 1


def test_messages_to_itself_need_no_network() -> None:
    """A queue of this node, in every class, in order, committed before it is seen."""
    world = World(1)
    a = world.node("a")
    for delivery in Delivery:
        a.send(a, delivery.label, *numbered(0, 100), delivery=delivery)
        assert a.length(delivery.label) == (100 if delivery is EXPRESS else 0)
        assert a.read_all(delivery.label) == numbered(0, 100)
    assert world.network.counts["sent"] == 0


# More than the other end has room for.


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "size_bytes"), [("udp", 30_000), ("tcp", 60_000)])
def test_express_messages_for_a_reader_that_stands_still_wait_at_their_sender(kind: str, size_bytes: int) -> None:
    """However large the windows are: what a session has taken before the word comes, the other end has room for."""
    world = World(1, Faults(delay_ns=5 * MS))
    settings = NodeSettings(session=SessionSettings(max_unacked_packet=1_024))
    a, b = world.node("a", settings, scheme=kind), world.node("b", settings, scheme=kind)
    outgoing = a.live.outgoing_stream(b.address, "q", EXPRESS)
    sent = 0
    for _ in range(2_000):
        while a.outbox.room_bytes(outgoing) > 0:
            a.live.submit(outgoing, bytes(size_bytes), size_bytes)
            sent += 1
        a.drain()
        world.run(MS)
    assert b.length("q") < sent
    read = 0
    while a.busy:
        read += b.read("q")
        world.run(MS)
    assert (read + b.read("q"), b.log("rejected")) == (sent, [])


@pytest.mark.slow
def test_large_express_messages_of_a_process_that_died_take_no_room() -> None:
    """Nobody has the rest of them: their pieces go when it has started again, whatever it sends then, and where."""
    world = World(1, Faults(delay_ns=20 * MS))
    settings = NodeSettings(session=SessionSettings(max_unacked_packet=8))
    a, b = world.node("a", settings), world.node("b")
    express = b.live.inbox.admission.express
    for life in range(30):
        a.send(b, f"q{life % 3}", bytes(400_000), delivery=EXPRESS)
        assert world.run(SECOND, lambda: express.total_bytes > 400_000)
        a.restart()
        world.run(SECOND)
    a.send(b, "other", b"hello", delivery=EXPRESS)
    assert world.run(5 * SECOND, lambda: b.read("other") == 1)
    assert express.total_bytes == 0
    assert b.log("rejected") == []


# Failing to process.


def take(node: SimNode, queue: str) -> Lease:
    """The next message, wherever its body is."""
    mailbox = node.live.make_queue(queue)
    handed = node.live.take(mailbox, node.world.now_ns)
    if handed is None:
        node.drain()
        node.world.run(SECOND)
        handed = node.live.take(mailbox, node.world.now_ns)
    assert handed is not None
    return handed


def test_a_message_that_fails_too_often_goes_to_dead_letter_alone() -> None:
    """It, and not another that was given back beside it; failures are counted across restarts."""
    world = World(1)
    a = world.node("a", NodeSettings(max_redeliveries=2))
    a.send(a, "q", b"good", b"poison")
    world.run(SECOND)
    for failures in range(1, 4):
        good, poison = take(a, "q"), take(a, "q")
        mailbox = a.live.make_queue("q")
        a.live.give_back(mailbox, good, Return(failed=False), world.now_ns)
        a.live.give_back(mailbox, poison, Return(failed=True, delay_ms=0), world.now_ns)
        a.drain()
        world.run(SECOND)
        assert (a.length("q"), a.length("dead-letter")) == ((1, 1) if failures == 3 else (2, 0))
        if failures == 2:
            a.restart()
    assert a.read_all("dead-letter") == [b"poison"]
    assert a.read_all("q") == [b"good"]


def test_a_dead_letter_stays_one_and_keeps_its_id() -> None:
    """Of whichever node it came; failing in the dead-letter queue moves it nowhere; restarts change nothing."""
    world = World(1)
    a, b, c = world.node("a"), world.node("b"), world.node("c", NodeSettings(max_redeliveries=0))
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
    mailbox = node.live.make_queue(queue)
    taken = [take(node, queue) for _ in range(count)]
    for handed in taken:
        node.live.give_back(mailbox, handed, Return(failed=True, delay_ms=0), node.world.now_ns)
    node.drain()
    node.world.run(SECOND)
    return taken
