"""The ends of streams that go by relays: behind what waits there, whatever is lost, until both ends have forgotten."""

from dataclasses import replace
from string import ascii_letters

import pytest

from tests.queues.relays import Relays, by_relay, dead, die_at, line, post
from tests.queues.world import numbered
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.ordering.wire import HOPS_MAX, RelayedEnd
from triack.queues.node_settings import NodeSettings
from triack.queues.streams.incoming_ends import REST_NS
from triack.tools.sim.faults import Faults

HOUR = 3_600 * SECOND
QUICK = NodeSettings(retire_after_s=1.0)
DURABLE = [Delivery.TRANSACTIONAL, Delivery.RECOVERABLE]


def quick(names: str, seed: int = 1, faults: Faults | None = None) -> Relays:
    return line(names, seed, faults, dict.fromkeys(names, QUICK))


def ended(net: Relays, origin: str = "a", destination: str = "b") -> bool:
    """Whether both ends, and those between, have forgotten every stream."""
    a, b = net[origin].live, net[destination].live
    ways = any(node.engine is not None and node.engine.transits.ends._ends for node in net.nodes.values())  # noqa: SLF001
    return not (a.outbox.streams or a.outbox.retirement._ended or b.inbox.streams or ways)  # noqa: SLF001


def settles(net: Relays, hours: int = 4) -> bool:
    """Whether everything ends, when a message opens sessions now and then: END itself opens none."""
    for _ in range(4 * hours):
        post(net["a"], "b", b"opens sessions", queue="other")
        if net.world.run(HOUR // 4, lambda: ended(net)):
            return True
    return False


@pytest.mark.parametrize("names", ["arb", "arstb"])
@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_stream_by_relays_ends(names: str, delivery: Delivery) -> None:
    net = quick(names)
    a, b = net["a"], net["b"]
    post(a, "b", *numbered(0, 3), delivery=delivery)
    assert net.world.run(60 * SECOND, lambda: ended(net) and b.length("q") == 3)
    assert len(a.log("stream_ended")) == len(b.log("stream_forgotten")) == 1
    post(a, "b", b"again", delivery=delivery)
    assert net.world.run(60 * SECOND, lambda: ended(net) and b.length("q") == 4)
    assert sorted(b.read_all("q")) == sorted([*numbered(0, 3), b"again"])


def test_an_end_without_an_answer_is_repeated_though_nothing_else_happens() -> None:
    net = quick("arb")
    a, b = net["a"], net["b"]
    post(a, "b", b"1")
    assert net.world.run(10 * SECOND, lambda: b.length("q") == 1 and not a.busy)
    b.crash()
    assert net.world.run(60 * SECOND, lambda: bool(a.log("stream_ended")))
    net.world.run(60 * SECOND)
    assert (a.live.outbox.retirement.deadlines.of(None) or 0) > net.world.now_ns


@pytest.mark.gate
def test_the_answer_to_an_end_passes_29_relays() -> None:
    net = quick("a" + ascii_letters[2 : 2 + HOPS_MAX] + "b")
    post(net["a"], "b", b"1")
    assert net.world.run(60 * SECOND, lambda: ended(net) and net["b"].length("q") == 1)


@pytest.mark.gate
def test_three_hundred_names_used_once_leave_nothing() -> None:
    net = quick("arb")
    a, b = net["a"], net["b"]
    for at in range(0, 300, 20):
        for name in range(at, at + 20):
            post(a, "b", b"x", queue=f"q{name}", delivery=DURABLE[name % 2])
        assert net.world.run(60 * SECOND, lambda: ended(net))
    row = b.live.inbox.ends.ended.row(a.live.node_id)
    assert (row.sequence, len(row.filter)) == (300, 0)


@pytest.mark.gate
def test_the_end_waits_behind_what_waits_at_a_relay() -> None:
    """The destination is away. Its origin has let go of everything, and says that the stream has ended."""
    net = quick("arb")
    a, r, b = (net[it] for it in "arb")
    post(a, "b", b"first", delivery=Delivery.RECOVERABLE)
    assert net.world.run(30 * SECOND, lambda: b.length("q") == 1)
    b.crash()
    post(a, "b", *numbered(0, 5), delivery=Delivery.RECOVERABLE)
    net.world.run(HOUR)
    assert len(a.log("stream_ended")) == 1
    assert net.waiting("r")
    assert not [it for it in r.log("control_relayed") if it["kind"] == "end"]
    b.start()
    assert settles(net)
    assert sorted(b.read_all("q")) == sorted([b"first", *numbered(0, 5)])
    assert dead(r) == ([], {})


@pytest.mark.gate
@pytest.mark.parametrize("names", ["arb", "arsb"])
def test_a_relay_that_starts_again_has_its_packets_and_hears_of_the_end_again(names: str) -> None:
    """It has lost the END, and not what END must not overtake. With another relay, nothing breaks at the origin."""
    net = quick(names)
    a, last, b = net["a"], net[names[-2]], net["b"]
    b.crash()
    post(a, "b", *numbered(0, 5), delivery=Delivery.RECOVERABLE)
    net.world.run(60 * SECOND)
    last.crash()
    last.start()
    assert not last.live.transits.ends._ends  # noqa: SLF001 - it was lost
    b.start()
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 5)
    assert settles(net)
    assert sorted(b.read_all("q")) == sorted(numbered(0, 5))


def test_the_answer_waits_for_its_origin() -> None:
    net = quick("arb")
    a, b = net["a"], net["b"]
    post(a, "b", b"x", delivery=Delivery.RECOVERABLE)
    assert net.world.run(30 * SECOND, lambda: len(b.log("stream_forgotten")) == 1)
    a.crash()
    net.world.run(30 * SECOND)
    a.start()
    assert settles(net)


@pytest.mark.gate
def test_an_end_by_the_new_way_waits_for_packets_on_the_old_one() -> None:
    """They were freed at the origin by the old relay, which has no session with the destination for an hour."""
    routes = {"a": [("b", "r")], "b": [("a", "s")]}
    net = Relays("ar as rb sb", routes, settings=dict.fromkeys("arsb", QUICK))
    a, r, b = (net[it] for it in "arb")
    post(a, "b", b"1", delivery=Delivery.RECOVERABLE)
    assert net.world.run(30 * SECOND, lambda: b.length("q") == 1)
    net.world.cut(r, b)
    post(a, "b", b"2", delivery=Delivery.RECOVERABLE)
    net.world.run(500 * MS)
    net.reroute("a", ("b", "s"))
    post(a, "b", b"3", delivery=Delivery.RECOVERABLE)
    net.world.run(HOUR)
    assert (len(a.log("stream_ended")), b.log("stream_forgotten"), b.length("q")) == (1, [], 2)
    net.world.heal()
    assert settles(net)
    assert sorted(b.read_all("q")) == [b"1", b"2", b"3"]
    assert dead(r) == ([], {})


def test_after_a_week_the_destination_waits_no_longer() -> None:
    """A message expired at the relay: it never comes. Meanwhile the stream has a place."""
    net = quick("arb")
    a, r, b = (net[it] for it in "arb")
    b.crash()
    post(a, "b", b"expires", delivery=Delivery.RECOVERABLE, life_ms=5_000)
    post(a, "b", b"stays", delivery=Delivery.RECOVERABLE)
    net.world.run(60 * SECOND)
    b.start()
    assert net.world.run(60 * SECOND, lambda: b.length("q") == 1)
    net.world.run(REST_NS // 2)
    assert (len(b.live.inbox.streams), b.log("stream_forgotten")) == (1, [])
    net.world.run(REST_NS // 2)
    assert settles(net)
    assert dead(r)[0] == [b"expires"]


def test_a_packet_that_comes_after_its_stream_has_ended_is_no_new_stream() -> None:
    """A copy waited on an old way while the route was changed; all others have come by the new one."""
    routes = {"a": [("b", "r")], "b": [("a", "s")]}
    net = Relays("ar as rb sb", routes, settings=dict.fromkeys("arsb", QUICK))
    a, r, b = (net[it] for it in "arb")
    net.world.cut(r, b)
    # The store ack of the old relay does not come, so that the packet goes by the new one, too.
    post(a, "b", b"x", delivery=Delivery.TRANSACTIONAL)
    net.world.run(500 * MS)
    net.reroute("a", ("b", "s"))
    assert net.world.run(120 * SECOND, lambda: b.length("q") == 1 and ended(net))
    assert net.waiting("r") == 1
    net.world.heal()
    assert net.world.run(HOUR, lambda: not net.waiting())
    net.world.run(60 * SECOND)
    assert b.read_all("q") == [b"x"]
    assert (b.live.inbox.streams, dead(r), dead(a)) == ([], ([], {}), ([], {}))


@pytest.mark.parametrize("delivery", DURABLE)
def test_an_end_waits_until_the_disk_has_let_go_of_its_packets(delivery: Delivery) -> None:
    """The relay dies with the commit that deletes them, and sends them again: the stream is still known then."""
    net = quick("arb")
    a, r, b = (net[it] for it in "arb")
    b.crash()
    post(a, "b", *numbered(0, 5), delivery=delivery)
    net.world.run(5 * SECOND)
    assert net.waiting("r") > 0
    die_at(net, "r", lambda commit: bool(commit.transit_deletes))
    b.start()
    assert net.world.run(HOUR, lambda: net.is_done("a") and b.length("q") == 5)
    assert settles(net)
    assert r.lives == 2
    assert (b.read_all("q"), dead(r)) == (numbered(0, 5), ([], {}))


@pytest.mark.parametrize("seed", range(24))
def test_the_relay_dies_at_any_moment(seed: int) -> None:
    net = quick("arb", seed)
    a, r, b = (net[it] for it in "arb")
    post(a, "b", *numbered(0, 3), delivery=Delivery.RECOVERABLE)
    net.world.run(seed * 97 * MS)
    r.crash()
    net.world.run(SECOND)
    r.start()
    assert settles(net)
    assert sorted(b.read_all("q")) == sorted(numbered(0, 3))


def test_the_end_of_an_older_sequence_ends_no_newer_one() -> None:
    """An express stream goes on in a newer sequence when its origin has started again; relays bring the end late."""
    net, a, _, b = by_relay()
    post(a, "b", b"1", delivery=Delivery.EXPRESS)
    assert net.world.run(5 * SECOND, lambda: b.length("q") == 1)
    a.restart()
    post(a, "b", b"2", delivery=Delivery.EXPRESS)
    assert net.world.run(5 * SECOND, lambda: b.length("q") == 2)
    inbox = b.live.inbox
    (stream,) = inbox.streams
    assert stream.current > stream.begun
    conversation = next(iter(b.live.handshakes.conversations.values()))
    end = RelayedEnd(stream.origin, stream.number, stream.begun, 1, False, 0, b"", stream.origin, "b")
    b.act(lambda: inbox.ends._end(conversation, end, b.live.jobs.turn(net.world.now_ns)))  # noqa: SLF001
    assert list(inbox.streams) == [stream]
    end = replace(end, sequence=stream.current)
    b.act(lambda: inbox.ends._end(conversation, end, b.live.jobs.turn(net.world.now_ns)))  # noqa: SLF001
    assert list(inbox.streams) == []
