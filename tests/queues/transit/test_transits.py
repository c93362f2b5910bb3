"""All streams in transit: what a restart finds, what is counted, and what is forgotten."""

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from tests.queues.relays import Relays, dead, die_at, line, post
from tests.queues.world import numbered
from triack.base.commit import Commit
from triack.base.delivery import DURABLE, Ack, Delivery
from triack.base.reasons import DropReason
from triack.base.units import MS, SECOND
from triack.ordering.slow_start import FULL_SPEED
from triack.queues.node_settings import NodeSettings
from triack.queues.streams.transit_stream import TransitContext
from triack.queues.transit import transits
from triack.queues.transit.transit_bodies import PACKET_BYTES
from triack.tools.sim.faults import Faults


@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_restart_finds_all_that_waited(delivery: Delivery) -> None:
    """With its quota, its bodies still on the disk, and its time."""
    net = line("arb")
    a, r, b = (net[name] for name in "arb")
    b.crash()
    post(a, "b", *numbered(0, 200), delivery=delivery)
    assert net.world.run(20 * SECOND, lambda: net.waiting("r") > 5)
    net.world.run(SECOND)
    before = r.live.transits.room.disk.total_bytes, r.live.transits.room.messages.value, net.waiting("r")
    r.restart()
    after = r.live.transits.room.disk.total_bytes, r.live.transits.room.messages.value, net.waiting("r")
    assert before == after
    assert r.live.transits.bodies.cached_bytes == PACKET_BYTES * net.waiting("r")
    b.start()
    assert net.world.run(100 * SECOND, lambda: net.is_done("a"))
    assert sorted(b.read_all("q")) == numbered(0, 200)
    assert (
        r.live.transits.room.disk.total_bytes,
        r.live.transits.room.messages.value,
        r.live.transits.bodies.cached_bytes,
    ) == (0, 0, 0)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_relay_keeps_the_priorities_and_sends_the_higher_ones_first(restarts: bool) -> None:
    """Also when it has only their rows, and their bodies are on its disk."""
    one_each = {"a": NodeSettings(messages_per_packet=1)}
    net = line("arb", settings=one_each)
    a, r, b = (net[name] for name in "arb")
    b.crash()
    for priority in (0, 3, 7):
        post(a, "b", *numbered(0, 15), delivery=Delivery.RECOVERABLE, priority=priority)
        assert net.world.run(20 * SECOND, lambda: not a.busy)
    if restarts:
        r.restart()
    assert sorted(stream.priority for stream in r.live.transits.streams) == [0, 3, 7]
    b.start()
    assert net.world.run(100 * SECOND, lambda: net.is_done("a"))
    came = [record.get("priority", 3) for record in b.log("committed")]
    assert came == sorted(came, reverse=True)
    assert set(came) == {0, 3, 7}
    mailbox = b.live.queues.mailboxes["q"]
    assert [mailbox.lengths[priority] for priority in (0, 3, 7)] == [15] * 3
    assert b.read_all("q") == 3 * numbered(0, 15)


def nth(number: int) -> Callable[[Commit], bool]:
    """Holds for the commit of that number."""
    commits = count()
    return lambda _commit: next(commits) == number


@pytest.mark.slow
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_relay_may_die_at_each_of_its_commits(delivery: Delivery, is_done: bool) -> None:
    """With the commit or without it: each message arrives once."""
    for fatal in range(12):
        net = line("arb", seed=fatal, faults=Faults(loss=0.05))
        die_at(net, "r", nth(fatal), is_done=is_done)
        for step in range(4):
            post(net["a"], "b", *numbered(10 * step, 10 * step + 10), delivery=delivery)
            net.world.run(300 * MS)
        assert net.world.run(200 * SECOND, partial(_is_quiet, net))
        assert sorted(net["b"].read_all("q")) == numbered(0, 40)


def _is_quiet(net: Relays) -> bool:
    return all(node.engine is not None for node in net.nodes.values()) and net.is_done("a")


def test_bodies_beyond_the_cache_are_read_from_the_disk() -> None:
    """The memory of a relay does not grow with what waits there."""
    net = line("arb", settings={"r": NodeSettings(body_cache_bytes=4_000)})
    a, r, b = (net[name] for name in "arb")
    b.crash()
    post(a, "b", *numbered(0, 300))
    assert net.world.run(20 * SECOND, lambda: net.waiting("r") > 5)
    net.world.run(SECOND)
    assert r.live.transits.bodies.cached_bytes <= 6_000
    b.start()
    assert net.world.run(100 * SECOND, lambda: net.is_done("a"))
    assert (b.read_all("q"), r.reads > 0) == (numbered(0, 300), True)


def test_a_stream_of_which_nothing_is_here_is_forgotten_with_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number is free for another one; what comes later begins it again."""
    monkeypatch.setattr(transits, "IDLE_NS", SECOND)
    net = line("arb")
    a, r, b = (net[name] for name in "arb")
    for at in range(3):
        post(a, "b", *numbered(at, at + 1))
        net.world.run(10 * SECOND)
        assert r.live.transits.streams == []
    r.restart()
    assert (r.live.transits.streams, b.read_all("q")) == ([], numbered(0, 3))


def test_express_through_a_relay_that_dies_is_lost() -> None:
    """It is in memory alone; what comes later arrives."""
    net = line("arb")
    a, r, b = (net[name] for name in "arb")
    b.crash()
    post(a, "b", b"1", delivery=Delivery.EXPRESS)
    assert net.world.run(5 * SECOND, lambda: net.waiting("r") == 1 and not a.busy)
    r.restart()
    b.start()
    post(a, "b", b"2", delivery=Delivery.EXPRESS)
    assert net.world.run(20 * SECOND, lambda: b.length("q") == 1)
    assert b.read_all("q") == [b"2"]


def test_what_a_newer_sequence_displaces_is_recorded_with_its_own() -> None:
    """Express of a life of its origin goes when that one has started again and sends more."""
    net = line("arb")
    a, r, b = (net[name] for name in "arb")
    b.crash()
    post(a, "b", b"1", delivery=Delivery.EXPRESS)
    assert net.world.run(5 * SECOND, lambda: net.waiting("r") == 1 and not a.busy)
    a.restart()
    post(a, "b", b"2", delivery=Delivery.EXPRESS)
    assert net.world.run(5 * SECOND, lambda: bool(r.log("transit_freed")) and not a.busy)
    (freed,) = r.log("transit_freed")
    assert (freed["reason"], freed["sequence"]) == ("stale-sequence", r.log("transit_committed")[0]["sequence"])


def test_half_a_message_goes_when_its_origin_has_started_again() -> None:
    """Its rest was in the memory of a process that is gone. The destination knows by the next packet of the stream."""
    net = line("arb")
    a, b = net["a"], net["b"]
    post(a, "b", b"x" * 200_000, delivery=Delivery.EXPRESS)
    assert net.world.run(5 * SECOND, lambda: any(len(it.partials) for it in b.live.queues.mailboxes.values()))
    a.restart()
    assert net.world.run(60 * SECOND, lambda: not net.waiting())
    half = b.live.queues.mailboxes["q"].fill.bytes.value
    post(a, "b", b"2", delivery=Delivery.EXPRESS)
    assert net.world.run(20 * SECOND, lambda: b.length("q") == 1)
    assert b.live.queues.mailboxes["q"].fill.bytes.value < half
    assert b.read_all("q") == [b"2"]
    assert b.live.queues.mailboxes["q"].fill.bytes.value == 0


def test_what_arrives_by_two_neighbours_arrives_once() -> None:
    """The second copy waits until the first one has left."""
    net = Relays("ar as rt st tb", {"a": [("b", "r")], "r": [("b", "t")], "s": [("b", "t")]})
    a, t, b = (net[name] for name in "atb")
    net.world.cut(t, b)
    post(a, "b", *numbered(0, 5))
    assert net.world.run(5 * SECOND, lambda: net.waiting("t") > 0)
    net.reroute("a", ("b", "s"))
    net.world.run(5 * SECOND)
    net.world.heal()
    assert net.world.run(200 * SECOND, lambda: net.is_done("a"))
    assert b.read_all("q") == numbered(0, 5)
    assert not t.live.drops[DropReason.BAD_PACKET]


def test_a_purge_removes_what_waits_for_one_node_alone() -> None:
    net = Relays("ar rb rc", {"a": [("b", "r"), ("c", "r")]})
    a, r = net["a"], net["r"]
    net["b"].crash()
    net["c"].crash()
    for name in "bc":
        post(a, name, b"1", delivery=Delivery.RECOVERABLE)
    assert net.world.run(5 * SECOND, lambda: net.waiting("r") == 2)
    net.world.run(SECOND)
    r.act(lambda: r.live.purge_transit("b", net.world.now_ns))
    net.world.run(SECOND)
    assert [(stream.final, len(stream.sequence.entries)) for stream in r.live.transits.streams] == [("b", 0), ("c", 1)]
    assert r.live.queues.dead_letters == {"purged": 1}


@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_what_is_refused_leaves_its_place_to_the_others(delivery: Delivery) -> None:
    """A destination that had no room a moment ago gets them one by one."""
    net = line("arb")
    a, r, b = (net[name] for name in "arb")
    net.allow("b", "r", relays_for=())
    b.crash()
    for body in numbered(0, 4):
        post(a, "b", body, delivery=delivery)
        net.world.run(SECOND)
    (stream,) = r.live.transits.streams
    assert len(stream.sequence.entries) == 4
    stream.sequence.start.credit = 1
    b.start()
    assert net.world.run(20 * SECOND, lambda: not net.waiting())
    owner = "a" if delivery is Delivery.TRANSACTIONAL else "r"
    assert net.world.run(5 * SECOND, lambda: sorted(dead(net[owner])[0]) == numbered(0, 4))


def test_one_ack_that_ends_a_slow_start_lets_the_others_leave() -> None:
    """What was on its way was all that might leave; the stream had lost its turn."""
    net = line("arb", settings={"a": NodeSettings(messages_per_packet=1)})
    net["b"].crash()
    post(net["a"], "b", *[b"x"] * 400, delivery=Delivery.RECOVERABLE)
    assert net.world.run(20 * SECOND, lambda: net.waiting("r") == 400)
    r = net["r"].live
    (stream,) = r.transits.streams
    run = stream.sequence.peek_run(FULL_SPEED)
    stream.sequence.handle_sent(run, net.world.now_ns)
    stream.sequence.start.credit = 0
    acked = [TransitContext(stream, entry, 0, 1) for entry in run]
    (conversation, *_) = r.handshakes.conversations.values()
    link = r.outbox.links["b"]
    link.withdraw(stream)
    r.transits.handle_acks(acked, Ack.STORE, conversation, r.jobs.turn(net.world.now_ns))
    assert stream.sequence.start.credit is None
    assert link.is_sending
