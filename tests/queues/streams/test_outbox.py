"""What leaves: who is looked at, bodies that come from the disk when their turn comes, resends in tiers."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.logs import taken_apart
from tests.queues.bare import Bare, kinds, records, rest
from tests.queues.world import World, numbered, two
from tests.spies import watch
from triack.base.commit import Read, key_of
from triack.base.delivery import Ack, Delivery
from triack.base.units import MS, SECOND
from triack.ordering.outgoing import OutgoingSequence
from triack.ordering.wire import OnwardAckPacket
from triack.queues.node_settings import NodeSettings
from triack.queues.streams.group_commit import GroupCommit
from triack.queues.streams.outgoing_stream import EXPRESS_LIMIT_BYTES, OutgoingStream
from triack.session.protocol.settings import SessionSettings
from triack.session.session import Session
from triack.tools.sim.faults import Faults

TRANSACTIONAL = Delivery.TRANSACTIONAL


@pytest.mark.gate
@pytest.mark.plain
def test_queues_and_sessions_at_rest_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1)
    a, peers = world.node("a"), [world.node(f"b{number}") for number in range(10)]
    for peer in peers:
        for queue in range(5):
            a.send(peer, f"q{queue}", b"x")
    assert world.run(10 * SECOND, lambda: not a.busy)
    world.run(5 * SECOND)
    sessions = watch(monkeypatch, Session, "poll_transmit")
    queues = watch(monkeypatch, OutgoingSequence, "peek", "handle_timer")
    for _ in range(10):
        a.drain()
    assert (queues, sessions) == ([], [])
    a.send(peers[3], "q2", b"y")
    assert world.run(10 * SECOND, lambda: not a.busy)
    assert set(queues) == {a.live.outgoing_stream(peers[3].address, "q2", TRANSACTIONAL).sequence}
    assert len(queues) < 30
    assert len(set(sessions)) == 2


def opened(body_cache_bytes: int) -> tuple[Bare, Bare, OutgoingStream]:
    """Two engines in a session, at rest."""
    a, b = Bare("a", NodeSettings(body_cache_bytes=body_cache_bytes)), Bare("b")
    outgoing = a.submit(b.address, b"warm")
    rest(a, b)
    assert not outgoing.busy
    return a, b, outgoing


def sent(node: Bare) -> list[int]:
    """Numbers of the packets that it has sent since it was opened, each once."""
    told = [record for record in taken_apart(records(node.effects)) if record["event"] == "packet_sent"]
    return [record["number"] for record in told if not record["resend"]][1:]


def test_a_packet_that_is_only_on_the_disk_is_fetched_and_leaves() -> None:
    a, b, outgoing = opened(body_cache_bytes=0)
    a.submit(b.address, b"1")
    a.poll()
    a.finish_job()
    assert kinds(a.poll())[-1] == "StartJob"
    job = a.job
    assert isinstance(job, Read)
    assert (job.table, job.keys) == ("outgoing", [key_of(outgoing.stream_number, 2)])
    assert sent(a) == []
    assert a.poll() == []
    a.finish_job()
    assert kinds(a.poll())[-1] == "Send"
    assert (sent(a), a.engine.outbox.cached_bytes) == ([2], outgoing.unacked_bytes)


@pytest.mark.parametrize("delivery", [Delivery.RECOVERABLE, TRANSACTIONAL])
def test_a_queue_goes_on_when_what_it_waits_for_is_freed_meanwhile(delivery: Delivery) -> None:
    """The store is busy, and nothing that waits is left when it could read: the next message leaves all the same."""
    a, b, _ = opened(body_cache_bytes=35_000)
    outgoing = a.submit(b.address, b"1" * 40_000, b"2" * 40_000, b"3" * 30_000, delivery=delivery)
    a.poll()
    a.finish_job()
    *gone, last = outgoing.sequence.entries.values()
    assert [entry.body is None for entry in (*gone, last)] == [True, True, False]
    a.engine.set_state("busy", b"1")
    a.poll()
    assert isinstance(a.job, GroupCommit)
    for entry in gone:
        outgoing.sequence.remove(entry)
        outgoing.handle_freed([entry])
    a.finish_job()
    a.poll()
    assert a.job is None
    assert sent(a) == [last.number]


def test_bodies_are_fetched_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long backlog does not come into memory at once."""
    monkeypatch.setattr("triack.queues.streams.departing_streams.FETCH_AHEAD_PACKETS", 10)
    a, b, _ = opened(body_cache_bytes=0)
    a.submit(b.address, *[b"x" * 60_000] * 25)
    reads: list[int] = []
    for _ in range(20):
        b.hear(a.poll(), a)
        if isinstance(a.job, Read):
            reads.append(len(a.job.keys))
        if a.job is not None:
            a.finish_job()
    assert reads == [10, 10, 5]
    assert sent(a) == list(range(2, 27))


def test_what_waits_is_let_in_up_to_the_limit() -> None:
    a, b, durable = opened(body_cache_bytes=1 << 20)
    outbox, settings = a.engine.outbox, a.engine.settings
    a.submit(b.address, b"x" * settings.pending_limit_bytes)
    assert outbox.room_bytes(durable) <= 0
    a.poll()
    assert outbox.room_bytes(durable) > 0
    express = a.submit(b.address, b"x" * (EXPRESS_LIMIT_BYTES // 4), delivery=Delivery.EXPRESS)
    assert outbox.room_bytes(express) > 0
    for _ in range(3):
        a.submit(b.address, b"x" * (EXPRESS_LIMIT_BYTES // 4), delivery=Delivery.EXPRESS)
    assert outbox.room_bytes(express) <= 0
    a.poll()
    assert outbox.room_bytes(express) <= 0


def test_a_backlog_survives_crashes_with_its_bodies_on_the_disk_only() -> None:
    """After a restart nothing is in memory; it is fetched as it is sent."""
    settings = NodeSettings(body_cache_bytes=1)
    world, a, b = two(1, Faults(loss=0.1), a=settings)
    world.cut(a, b)
    a.send(b, "q", *numbered(0, 500, 200))
    world.run(SECOND)
    a.restart()
    world.heal()
    world.run(150 * MS)
    a.restart()
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == numbered(0, 500, 200)


def test_a_smaller_datagram_after_a_restart_still_carries_the_backlog() -> None:
    """Packets on the disk were made for the larger one."""
    world = World(1)
    a = world.node("a", NodeSettings(session=SessionSettings(max_datagram_bytes=1_400)))
    b = world.node("b")
    world.cut(a, b)
    a.send(b, "q", *numbered(0, 10, 1_200))
    world.run(SECOND)
    a.settings = NodeSettings()
    a.restart()
    a.send(b, "q", *numbered(10, 20, 1_200))
    world.heal()
    assert world.run(30 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == numbered(0, 20, 1_200)


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_relay_before_has_passed_on_lets_the_others_leave_in_a_slow_start(*, is_async: bool) -> None:
    """It is freed by the word of that one, or as the link is asynchronous for now, before its store ack comes."""
    node = Bare(settings=NodeSettings(messages_per_packet=1))
    outgoing = node.submit("memory://nobody", *[b"x"] * 4, delivery=Delivery.RECOVERABLE)
    node.poll()
    node.finish_job()
    outbox, sequence = node.engine.outbox, outgoing.sequence
    sequence.set_sync(True)
    sequence.handle_sent(run := sequence.peek_run(1), node.now_ns, packet=1)
    sequence.handle_ack(run, Ack.STORE)
    sequence.handle_session_closed()
    sequence.start.credit = 1
    sequence.handle_sent(sequence.peek_run(1), node.now_ns, packet=1)
    outbox.links[outgoing.via].turns.withdraw(outgoing)
    outgoing.next_hop.awaited = True
    word = OnwardAckPacket(b"a" * 16, outgoing.stream_number, sequence.sequence, 1, is_async, [(1, 1)][is_async:])
    relay: Any = SimpleNamespace(label="s")
    outbox.handle_onward_ack(relay, word, node.engine.jobs.turn(node.now_ns))
    assert 1 not in sequence.entries
    assert outbox.links[outgoing.via].is_sending
