"""Whole nodes without I/O: what the three acknowledgements, the queues and the disk make of a bad network."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from types import FrameType

import pytest

from tests.logs import taken_apart
from tests.queues.bare import Bare, leases, records
from tests.queues.relays import line, post
from tests.queues.world import SimNode, World, numbered, two
from tests.sure import sure
from triack.base.ack_trigger import AckTrigger
from triack.base.commit import Commit
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.ordering.order_settings import OrderSettings
from triack.queues.manager.effects import Effect, Send
from triack.queues.manager.engine import Engine
from triack.queues.manager.invariants import check_invariants
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.queues.stages import STAGES
from triack.queues.streams.group_commit import GroupCommit
from triack.session.protocol.settings import SessionSettings
from triack.session.protocol.timers import Timer
from triack.tools.sim.faults import Faults

EXPRESS, RECOVERABLE, TRANSACTIONAL = Delivery


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("delivery", list(Delivery))
def test_everything_arrives_once_whatever_is_lost(loss: float, delivery: Delivery) -> None:
    """Loss, duplicates and reordering; in order, too, if it is transactional."""
    world, a, b = two(7, Faults(loss=loss, duplicate=0.1, reorder=0.2))
    bodies = numbered(0, 300, 100)
    for at in range(0, 300, 30):
        a.send(b, "q", *bodies[at : at + 30], delivery=delivery)
        world.run(20 * MS)
    assert world.run(120 * SECOND, lambda: not a.busy)
    got = b.read_all("q")
    assert (got if delivery is TRANSACTIONAL else sorted(got)) == bodies


@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_waiter_that_begins_later_does_not_wait_long(delivery: Delivery) -> None:
    """The message is there long since, its acks are held back for a minute: asking brings them at once."""
    session, order = SessionSettings(ack_trigger=AckTrigger(delay_s=60.0)), OrderSettings(60.0, 60.0)
    world, a, b = two(both=NodeSettings(session=session, order=order))
    a.watch(a.send(b, "q", b"warm", delivery=delivery), STAGES[delivery])
    world.run(SECOND)
    sent = a.send(b, "q", b"hello", delivery=delivery)
    world.run(100 * MS)
    assert b.length("q") == 2
    said = a.watch(sent, STAGES[delivery])
    assert world.run(50 * MS, lambda: said == [None])


@pytest.mark.parametrize("delivery", list(Delivery))
def test_what_is_done_leaves_the_disk(delivery: Delivery) -> None:
    """At the sender with the ack that frees it or the dead letter, at the receiver when it was read.

    Peers that have acknowledged stay: one row for each, and its key, by which another node in its place is known.
    """
    world = World(2, Faults(loss=0.1, reorder=0.1))
    a, b = world.node("a"), world.node("b", queues=["q"])
    a.send(b, "q", *numbered(0, 200, 90), large(size_bytes=20_000), delivery=delivery)
    a.send(b, "nope", b"x", large(size_bytes=20_000), delivery=delivery)
    assert world.run(30 * SECOND, lambda: not a.busy)
    assert len(b.read_all("q")) == 201
    a.read_all("dead-letter")
    world.run(SECOND)
    for node in (a, b):
        content = node.store.load(b"x" * 16, 1)
        assert [*content.outgoing, *content.messages] == []
        holders = ["$holder:b"] if node is a and delivery is not EXPRESS else []
        assert {*content.state} == {*holders, *(f"$key/{node_id.hex()}" for node_id in content.peers)}


# Queues that are not there, and messages that come too late.


@pytest.mark.parametrize("crash_ms", [250, 300, 330, 400, 500, 700])
def test_a_crash_at_the_moment_of_expiry_loses_nothing(crash_ms: int) -> None:
    """Delivered or in the dead-letter queue, however slow the disk is that should bury it."""
    world, a, b = two(3)
    a.send(b, "q", b"warm")
    world.run(2 * SECOND)
    world.cut(a, b, both=False)
    a.send(b, "q", b"late", live_ms=300)
    world.run(20 * MS)
    a.send(b, "q", b"next")
    world.run(20 * MS)
    world.heal()
    a.commit_ns = 400 * MS
    world.run(crash_ms * MS)
    a.crash()
    world.run(500 * MS)
    a.start()
    world.run(20 * SECOND)
    a.commit_ns = MS
    world.run(5 * SECOND)
    dead, got = a.read_all("dead-letter"), b.read_all("q")
    assert world.run(SECOND, lambda: not a.busy)
    assert {b"warm", b"late", b"next"} == {*dead, *got}
    assert got in ([b"warm", b"next"], [b"warm", b"late", b"next"])


def large(seed: int = 1, size_bytes: int = 4 * 1024 * 1024) -> bytes:
    return Random(seed).randbytes(size_bytes)


@pytest.mark.gate
@pytest.mark.parametrize("body_cache_bytes", [1, 32 << 20])
def test_a_large_message_for_nowhere_comes_back_whole(body_cache_bytes: int) -> None:
    """One dead letter with all of its body, soon, even when only the disk has its pieces."""
    world = World(1, Faults(delay_ns=MS))
    a = world.node("a", NodeSettings(body_cache_bytes=body_cache_bytes))
    b = world.node("b", queues=["orders"])
    a.send(b, "nope", large())
    assert world.run(60 * SECOND, lambda: a.length("dead-letter") == 1)
    assert a.read_all("dead-letter") == [large()]
    assert world.run(10 * SECOND, lambda: not a.busy)


def test_express_is_lost_by_a_crash_only_and_never_repeated() -> None:
    """Packets that are on no disk die with their process; the new life starts clean."""
    world, a, b = two(4, Faults(loss=0.2, duplicate=0.2))
    a.send(b, "q", *numbered(0, 100), delivery=EXPRESS)
    assert world.run(30 * SECOND, lambda: not a.busy)
    assert sorted(b.read_all("q")) == numbered(0, 100)
    world.cut(a, b)
    a.send(b, "q", *numbered(100, 200), delivery=EXPRESS)
    world.run(SECOND)
    a.crash()
    world.heal()
    world.faults.duplicate = 0.3
    a.start()
    a.send(b, "q", *numbered(200, 300), delivery=EXPRESS)
    assert world.run(30 * SECOND, lambda: not a.busy)
    assert sorted(b.read_all("q")) == numbered(0, 100) + numbered(200, 300)


def test_an_express_sender_may_restart_any_number_of_times() -> None:
    """Its streams of earlier lives do not count against it, whatever order its queues come in."""
    world, a, b = two(b=NodeSettings(max_streams=4))
    names = ["x", "y"]
    for life in range(12):
        world.random.shuffle(names)
        for name in names:
            a.send(b, name, b"%d" % life, delivery=EXPRESS)
        assert world.run(10 * SECOND, lambda: not a.busy)
        a.restart()
    for name in ("x", "y", "z"):
        a.send(b, name, b"last", delivery=EXPRESS)
    assert world.run(10 * SECOND, lambda: not a.busy)
    assert [b.length(name) for name in ("x", "y", "z")] == [13, 13, 1]


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(4))
def test_nobody_is_left_with_something_to_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each poll: every conversation was looked at and has its deadline, and every queue that may send is in line.

    A forgotten one would stand still until something else happens to it: on a quiet network, permanently.
    """
    poll = Engine.poll

    def watch(engine: Engine, now_ns: int) -> list[Effect]:
        effects = poll(engine, now_ns)
        assert all(Timer.PACING in conversation.session.timers for conversation in engine.handshakes.awake)
        for conversation in engine.handshakes.conversations.values():
            assert conversation.session.events == []
            at_ns = conversation.session.next_deadline()
            assert at_ns is None or sure(engine.next_deadline()) <= at_ns
        for outgoing in engine.outbox.streams:
            link = engine.outbox.links.get(outgoing.peer)
            if link is not None and outgoing.sequence.peek() is not None:
                assert link.busy or outgoing in engine.outbox.wanting, "the disk answers, then it is in line"
        return effects

    monkeypatch.setattr(Engine, "poll", watch)
    world, a, b = two(seed, Faults(loss=0.2, duplicate=0.1, reorder=0.2), a=NodeSettings(body_cache_bytes=20_000))
    for at in range(30):
        for queue, delivery in enumerate(Delivery):
            a.send(b, f"q{queue}", *numbered(at, at + 1, 900), delivery=delivery, live_ms=400 * (at % 3))
            b.send(a, f"q{queue}", *numbered(at, at + 1), delivery=delivery)
        world.run(world.random.randrange(150 * MS))
        if world.random.random() < 0.1:
            world.random.choice((a, b)).restart()
    assert world.run(60 * SECOND, lambda: not a.busy and not b.busy)


def by_packet(node: Bare) -> Commit | None:
    """The commit in hand, in which no two packets share a row, and which does not say how long the log was."""
    if node.job is None:
        return None
    assert isinstance(node.job, GroupCommit)
    commit = node.job.commit
    return replace(commit, messages=[packet for row in commit.messages for packet in row.packets()], records=0)


@pytest.mark.parametrize("delivery", list(Delivery))
@pytest.mark.parametrize("limits", [Limits(), Limits(quota=Quota(messages=9)), Limits(peer_memory_bytes=10_000)])
def test_what_comes_together_is_taken_as_if_it_came_one_by_one(delivery: Delivery, limits: Limits) -> None:
    """Plain packets, one that came before, a large message and junk: the same commits, answers and records.

    Also when there is room for some of them only.
    """
    settings = NodeSettings(limits=limits, stream_datagram_bytes=1_200)
    a, together, alone = Bare("a", settings), Bare("b", settings), Bare("b", settings)
    bodies = [*(b"%d" % number * 300 for number in range(40)), bytes(5_000), b"last"]
    a.submit(together.address, *bodies, delivery=delivery)
    older: list[bytes] = []
    for _ in range(12):
        effects = a.poll()
        for effect in effects:
            if isinstance(effect, Send):
                burst = [*effect.datagrams[:3], b"junk", *older[:1], *effect.datagrams[3:]]
                older = effect.datagrams[-1:]
                together.engine.handle_datagrams(burst, a.address, together.now_ns)
                for datagram in burst:
                    alone.engine.handle_datagram(datagram, a.address, alone.now_ns)
        if a.job is not None:
            a.finish_job()
        a.hear(together.poll(), together)
        alone.poll()
        assert by_packet(together) == by_packet(alone)
        for node in (together, alone) if together.job is not None else ():
            node.finish_job()
    assert together.engine.drops == alone.engine.drops
    logs = [taken_apart(records(node.effects)) for node in (together, alone)]
    # The packets of a run are on record before whatever becomes of each of them.
    told = [Counter(str(sorted({**one, "n": 0, "size": 0}.items())) for one in log) for log in logs]
    assert told[0] == told[1]
    said = [[effect for effect in node.effects if isinstance(effect, Send)] for node in (together, alone)]
    assert said[0] == said[1]
    read = [[lease.body for lease in leases(node)] for node in (together, alone)]
    assert read[0] == read[1]
    assert read[0] == bodies or limits != Limits()


@pytest.mark.parametrize("delivery", Delivery)
def test_plain_packets_cost_no_call_into_what_they_do_not_use(delivery: Delivery) -> None:
    """A node that is no relay, and has no topics, runs nothing of those for a packet, from `send` to its acks."""
    world, a, b = two()
    a.send(b, "q", b"first", delivery=delivery)
    assert world.run(5 * SECOND, lambda: b.length("q") == 1)
    assert b.read_all("q") == [b"first"]
    called: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            called.add(Path(frame.f_code.co_filename).parent.name)

    sys.setprofile(note)
    try:
        a.send(b, "q", b"second", delivery=delivery)
        assert world.run(5 * SECOND, lambda: b.length("q") == 1)
        assert b.read_all("q") == [b"first", b"second"]
        assert world.run(5 * SECOND, lambda: not a.busy)
    finally:
        sys.setprofile(None)
    assert {"manager", "streams", "mailboxes"} <= called
    assert called.isdisjoint({"topics", "remote", "transit"})


# Each machine of an engine asserts what is true of it: a state that contradicts itself is seen at the next step.

Breaks = Callable[[Engine], None]


def window(engine: Engine) -> None:
    next(iter(engine.handshakes.conversations.values())).session.window.in_flight_bytes += 1


def waiting(engine: Engine) -> None:
    for outgoing in engine.outbox.streams:
        outgoing.sequence._to_send.clear()  # noqa: SLF001


def passing(engine: Engine) -> None:
    engine.transits.streams[0].sequence._to_send.clear()  # noqa: SLF001


def committed(engine: Engine) -> None:
    engine.inbox.streams[0].sequence.committed = (1 << 40, 1)


def charged(engine: Engine) -> None:
    engine.inbox.admission.stream_places.account.total_bytes += 1


@pytest.fixture
def nodes() -> dict[str, SimNode]:
    """An origin whose relay cannot pass on, and a node that has got something."""
    net = line("arb")
    post(net["a"], "r", b"1")
    net.world.run(500 * MS)
    net["b"].crash()
    post(net["a"], "b", *[bytes(2_000)] * 3)
    net.world.run(20 * MS)
    post(net["a"], "b", *[bytes(2_000)] * 90)
    net.world.run(MS)
    return {name: net[name] for name in "ar"}


@pytest.mark.parametrize(
    ("name", "broken"), [("a", window), ("a", waiting), ("r", passing), ("r", committed), ("r", charged)]
)
def test_a_state_that_contradicts_itself_is_seen(nodes: dict[str, SimNode], name: str, broken: Breaks) -> None:
    engine = nodes[name].live
    check_invariants(engine)
    broken(engine)
    with pytest.raises(AssertionError):
        check_invariants(engine)
