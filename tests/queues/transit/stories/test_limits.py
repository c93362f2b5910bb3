"""Limits of relays: their quota, the time that messages have, and next hops that are away or full."""

from dataclasses import replace

import pytest

from tests.queues.relays import Relays, by_relay, dead, line, post, purge
from tests.queues.world import SimNode, numbered
from triack.base.ack_trigger import AckTrigger
from triack.base.columns import BLOCK_RECORDS
from triack.base.delivery import DURABLE, Delivery
from triack.base.reasons import DropReason, RejectReason
from triack.base.units import MS, SECOND
from triack.ordering.order_settings import OrderSettings
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.queues.streams.admission import Admission
from triack.queues.transit import return_routes
from triack.queues.transit.transit_room import PACKET_BYTES
from triack.session.protocol.settings import SessionSettings
from triack.tools.sim.faults import Faults

HOUR, DAY = 3_600 * SECOND, 86_400 * SECOND


def limited(**limits: object) -> NodeSettings:
    return NodeSettings(limits=Limits(**limits))  # type: ignore[arg-type]


def data_sent(node: SimNode) -> int:
    """How many packets of streams have left, those that control them apart."""
    return sum(record["packets"] for record in node.log("packet_sent") if "stream" in record)


@pytest.mark.gate
@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_relay_that_is_full_for_long_forgets_none_that_it_has_stopped(delivery: Delivery) -> None:
    net = line("arb", settings={"r": limited(transit_quota=Quota(messages=2))})
    net["b"].crash()
    for queue in range(10):
        post(net["a"], "b", *numbered(0, 20, 1_000), queue=f"q{queue}", delivery=delivery)
    net.world.run(120 * SECOND)
    before = data_sent(net["a"])
    net.world.run(600 * SECOND)
    assert 80 <= data_sent(net["a"]) - before <= 110
    assert len(net["a"].log("hold_received")) < 1_000
    assert all(it["stop"] for it in net["a"].log("hold_received") if it["at_ns"] > 20 * SECOND)


def test_a_full_relay_takes_the_packet_that_those_it_has_wait_for() -> None:
    """The first one is lost, and comes again when later ones have filled the relay: the destination wants it first."""
    few = NodeSettings(order=OrderSettings(max_held_packets=1))
    net, a, r, b = by_relay(settings={"r": limited(transit_quota=Quota(messages=2)), "b": few})
    post(a, "b", b"opens")
    assert net.world.run(10 * SECOND, lambda: net.is_done("a"))
    net.world.cut(a, r, both=False)
    post(a, "b", b"0" * 400)
    net.world.run(20 * MS)
    net.world.heal()
    for body in numbered(1, 6, 400):
        post(a, "b", body)
    # Sooner than the destination gives back what it holds for want of the first.
    assert net.world.run(2 * SECOND, lambda: b.length("q") == 7)
    assert not any(it["reason"] == "held-back" for it in b.log("rejected"))
    assert b.read_all("q") == [b"opens", b"0" * 400, *numbered(1, 6, 400)]


@pytest.mark.gate
@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_relay_that_has_forgotten_a_stream_can_stop_it_again(delivery: Delivery) -> None:
    """In the same session, in which its origin takes no word that is older than the last one."""
    net, a, _, b = by_relay(settings={"r": limited(transit_quota=Quota(messages=2))})
    for body in numbered(0, 20, 1_000):
        post(a, "b", body, delivery=delivery)
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert [it for it in a.log("hold_received") if it["stop"]]
    for _ in range(12):
        post(a, "r", b"keeps the session")
        net.world.run(10 * SECOND)
    assert not net["r"].live.transits.streams
    net.world.cut(net["r"], b)
    before = data_sent(a)
    for body in numbered(20, 40, 1_000):
        post(a, "b", body, delivery=delivery)
    net.world.run(60 * SECOND)
    assert data_sent(a) - before < 200


@pytest.mark.gate
@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_full_queue_is_asked_by_a_relay_no_more_often_than_its_hold_says(delivery: Delivery) -> None:
    """Once a minute: that a packet has arrived, and was held back there, is no sign of room."""
    net = line("arb", settings={"b": limited(quota=Quota(messages=2))})
    for body in numbered(0, 50, 1_000):
        post(net["a"], "b", body, delivery=delivery)
    net.world.run(120 * SECOND)
    before = data_sent(net["r"])
    net.world.run(HOUR)
    assert 55 <= data_sent(net["r"]) - before <= 61


@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_relay_pays_for_the_first_stream_of_each_origin_that_it_brings(delivery: Delivery) -> None:
    """It may have invented all of them. Together they have as many streams as one peer, and the others wait."""
    sensors = "cdefghij"
    routes = {name: [("b", "r")] for name in sensors} | {"b": [(name, "r") for name in sensors]}
    net = Relays(" ".join(f"{name}r" for name in sensors) + " rb", routes, settings={"b": NodeSettings(max_streams=3)})
    for name in sensors:
        post(net[name], "b", name.encode(), delivery=delivery)
    net.world.run(60 * SECOND)
    assert len([stream for stream in net["b"].live.inbox.streams if stream.relay == "r"]) == 3
    net["b"].settings = NodeSettings()
    net["b"].restart()
    net.world.run(60 * SECOND)
    assert sorted(net["b"].read_all("q")) == [name.encode() for name in sensors]


@pytest.mark.parametrize("delivery", sorted(DURABLE))
@pytest.mark.parametrize("hops", ["ab", "arb"])
def test_what_is_refused_waits_for_no_room(monkeypatch: pytest.MonkeyPatch, hops: str, delivery: Delivery) -> None:
    """Nobody says that there is room for a stream that is refused by now: each refusal calls for the next packet."""
    net = line(hops, settings={"b": limited(quota=Quota(messages=2))})
    for body in numbered(0, 20, 1_000):
        post(net["a"], "b", body, delivery=delivery)
    net.world.run(30 * SECOND)
    assert net["b"].length("q") == 2
    monkeypatch.setattr(Admission, "refusal", lambda *_: RejectReason.ACCESS_DENIED)
    letters = net[hops[-2]] if delivery is Delivery.RECOVERABLE else net["a"]
    assert net.world.run(70 * SECOND, lambda: letters.length("dead-letter") == 18)


@pytest.mark.gate
def test_a_full_queue_at_the_end_holds_its_stream_alone() -> None:
    settings = {"b": limited(quota=Quota(messages=10)), "r": limited(transit_quota=Quota(messages=50))}
    net, a, _, b = by_relay(settings=settings)
    for at in range(20):
        post(a, "b", *numbered(10 * at, 10 * at + 10), queue="full")
        net.world.run(2 * SECOND)
    post(a, "b", b"1", queue="other")
    assert net.world.run(60 * SECOND, lambda: b.length("other") == 1)
    assert a.busy
    read: list[bytes] = []
    for _ in range(1_000):
        read = b.read_all("full")
        if len(read) == 200:
            break
        net.world.run(SECOND)
    assert read == numbered(0, 200)


def test_time_runs_out_at_a_relay() -> None:
    """What becomes of a message depends on who answers for it; no clocks are compared."""
    net, a, r, b = by_relay()
    r.crash()
    r.wall_offset_ns += DAY
    r.start()
    b.crash()
    post(a, "b", b"1", delivery=Delivery.TRANSACTIONAL, life_ms=10_000)
    post(a, "b", b"2", delivery=Delivery.RECOVERABLE, life_ms=10_000)
    post(a, "b", b"3", delivery=Delivery.EXPRESS, life_ms=10_000)
    assert net.world.run(5 * SECOND, lambda: net.waiting("r") == 3)
    net.world.run(20 * SECOND)
    assert dead(a) == ([b"1"], {"reach-queue-timeout": 1})
    assert dead(r) == ([b"2"], {"reach-queue-timeout": 1})
    assert r.live.drops[DropReason.TRANSIT_LOST] == 1
    post(a, "b", b"4")
    b.start()
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert b.read_all("q") == [b"4"]


FAR = Faults(delay_ns=4 * SECOND)
"""Eight seconds for a round trip."""


@pytest.mark.gate
@pytest.mark.parametrize("delivery", list(Delivery))
def test_the_time_on_the_wire_counts(delivery: Delivery) -> None:
    """Links of 4 s each, and 10 s to live: it ends before the third of them, whatever the clocks say, and only once."""
    net = line("arstb", faults=FAR)
    a, s, b = (net[name] for name in "asb")
    for at, name in enumerate("rs"):
        net[name].crash()
        net[name].wall_offset_ns += (-1) ** at * DAY
        net[name].start()
    post(a, "b", b"opens sessions", delivery=delivery)
    assert net.world.run(120 * SECOND, lambda: net.is_done("a") and b.length("q") == 1)
    post(a, "b", b"late", delivery=delivery, life_ms=10_000)
    assert net.world.run(9 * SECOND, lambda: net.waiting("s") == 0 and len(s.log("transit_freed")) == 2)
    net.world.run(60 * SECOND)
    assert b.read_all("q") == [b"opens sessions"]
    letter = ([b"late"], {"reach-queue-timeout": 1})
    where = {Delivery.TRANSACTIONAL: a, Delivery.RECOVERABLE: s}
    assert {name: dead(node) for name, node in net.nodes.items() if dead(node)[1]} == (
        {where[delivery].name: letter} if delivery in where else {}
    )
    assert s.live.drops[DropReason.TRANSIT_LOST] == (delivery is Delivery.EXPRESS)
    post(a, "b", b"in time", delivery=delivery, life_ms=17_000)
    assert net.world.run(17 * SECOND, lambda: b.length("q") == 1)


@pytest.mark.gate
@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_message_that_cannot_arrive_in_time_does_not_leave(delivery: Delivery) -> None:
    """Without relays, too: so it has one end, and what comes after it arrives."""
    net = line("ab", faults=FAR)
    a, b = net["a"], net["b"]
    post(a, "b", b"opens a session", delivery=delivery)
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    post(a, "b", b"late", delivery=delivery, life_ms=3_900)
    post(a, "b", b"after it", delivery=delivery)
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert b.read_all("q") == [b"opens a session", b"after it"]
    assert dead(a) == ([b"late"], {"reach-queue-timeout": 1})
    assert {it["number"] for it in a.log("packet_sent") if "stream" in it} == {1, 3}


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(6))
def test_a_large_message_ends_as_a_whole(seed: int) -> None:
    """It arrives although its time has run out when a part of it has left the relay; or it is one dead letter."""
    net = line("arb", seed=seed, faults=Faults(loss=0.1))
    bodies = [bytes([at]) * 8_000 for at in range(10)]
    for at, body in enumerate(bodies):
        post(net["a"], "b", body, delivery=Delivery.RECOVERABLE, life_ms=20 + 40 * at)
    assert net.world.run(200 * SECOND, lambda: net.is_done("a"))
    net.world.run(SECOND)
    arrived = net["b"].read_all("q")
    assert len(arrived) == len(set(arrived))
    # Of one that has arrived, the origin may not know that in time.
    assert {*arrived, *dead(net["r"])[0], *dead(net["a"])[0]} == set(bodies)


@pytest.mark.slow
@pytest.mark.parametrize("delivery", sorted(DURABLE))
@pytest.mark.parametrize("seed", range(3))
def test_a_backlog_on_the_disk_outlives_everything(seed: int, delivery: Delivery) -> None:
    small = NodeSettings(body_cache_bytes=2_000, messages_per_packet=1)
    net = line("arb", seed, Faults(loss=0.05), settings={"a": small, "r": small})
    a, r, b = (net[name] for name in "arb")
    b.crash()
    for at in range(0, 2_000, 500):
        post(a, "b", *numbered(at, at + 500), delivery=delivery)
        net.world.run(3 * SECOND)
    assert net.world.run(100 * SECOND, lambda: net.waiting("r") == 2_000)
    (stream,) = r.live.transits.streams
    assert len(stream.sequence.entries) < 10
    r.restart()
    for _ in range(3):
        b.start()
        net.world.run(SECOND)
        b.crash()
        net.world.run(2 * SECOND)
        r.restart()
    b.start()
    assert net.world.run(HOUR, lambda: net.is_done("a"))
    arrived = b.read_all("q")
    assert (arrived if delivery is Delivery.TRANSACTIONAL else sorted(arrived)) == numbered(0, 2_000)
    room, bodies = r.live.transits.room, r.live.transits.bodies
    assert (room.disk.total_bytes, room.messages.value, room.away.total_bytes, bodies.cached_bytes) == (0, 0, 0, 0)


@pytest.mark.gate
@pytest.mark.parametrize("delivery", sorted(DURABLE))
@pytest.mark.parametrize("is_purged", [False, True])
def test_what_only_the_disk_has_ends_like_all_others(delivery: Delivery, is_purged: bool) -> None:
    small = NodeSettings(body_cache_bytes=0, messages_per_packet=1)
    net, a, r, b = by_relay(settings={"a": small, "r": small})
    in_memory: list[int] = []
    b.crash()
    post(a, "b", *numbered(0, 700), delivery=delivery, life_ms=0 if is_purged else 30_000)
    assert net.world.run(20 * SECOND, lambda: net.waiting("r") == 700)
    net.world.run(SECOND)  # until they are stored
    if is_purged:
        assert purge(r, "b", look=lambda: in_memory.append(r.live.transits.bodies.cached_bytes)) == 700
        assert max(in_memory) < 2 * BLOCK_RECORDS * PACKET_BYTES
    net.world.run(100 * SECOND)
    assert sorted([*dead(r)[0], *dead(a)[0]]) == numbered(0, 700)
    b.start()  # copies that were under way to the relay while it was purged have no other end
    assert net.world.run(HOUR, lambda: net.is_done("a"))
    assert (r.live.transits.room.away.total_bytes, r.live.transits.bodies.cached_bytes) == (0, 0)


@pytest.mark.gate
def test_a_purge_leaves_what_an_origin_that_is_away_could_not_be_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would send that again, and it would arrive. When the origin is back, the rest can be purged."""
    monkeypatch.setattr(return_routes, "REJECTIONS_MAX", 300)
    small = NodeSettings(body_cache_bytes=0, messages_per_packet=1)
    net, a, r, b = by_relay(settings={"a": small, "r": small})
    b.crash()
    post(a, "b", *numbered(0, 700))
    assert net.world.run(20 * SECOND, lambda: net.waiting("r") == 700)
    net.world.run(SECOND)  # until they are stored
    a.crash()
    net.world.run(200 * SECOND)  # until the relay knows
    assert purge(r, "b") == 200
    assert net.waiting("r") == 500
    a.start()
    assert net.world.run(60 * SECOND, lambda: a.length("dead-letter") == 200)
    assert purge(r, "b") == 500
    b.start()
    assert net.world.run(HOUR, lambda: net.is_done("a"))
    assert (sorted(dead(a)[0]), b.length("q")) == (numbered(0, 700), 0)


def test_a_large_message_that_is_refused_is_one_dead_letter() -> None:
    """The relay puts its fragments together again for its dead-letter queue."""
    net = line("arb", settings={"b": limited(quota=Quota(size_bytes=10_000))})
    body = bytes(range(256)) * 100
    post(net["a"], "b", body, delivery=Delivery.RECOVERABLE)
    assert net.world.run(60 * SECOND, lambda: net["r"].length("dead-letter") == 1 and net.is_done("a"))
    assert dead(net["r"]) == ([body], {"too-large": 1})


@pytest.mark.parametrize("patience_s", [None, 5.0, 2.0])
def test_a_gap_that_lasts_ends_no_session(patience_s: float | None) -> None:
    """What the destination holds for a packet that is missing, it gives back; the origin sends it again.

    The relay waits for store acks as it likes, and the destination knows how long that is.
    """
    net, a, r, b = by_relay(settings={"r": NodeSettings(session=SessionSettings(store_ack_timeout_s=patience_s))})
    net.world.cut(r, b)
    post(a, "b", b"1")
    assert net.world.run(10 * SECOND, lambda: net.waiting("r") == 1)
    net.world.run(SECOND)
    (stream,) = r.live.transits.streams
    stream.sequence.remove(list(stream.sequence.entries.values()))
    post(a, "b", *numbered(2, 4))
    net.world.heal()
    net.world.run(25 * SECOND)
    assert [record["reason"] for record in r.log("transit_freed")] == ["let-go"]
    assert net.world.run(400 * SECOND, lambda: net.is_done("a"))
    assert b.read_all("q") == [b"1", *numbered(2, 4)]
    assert r.live.closes.get("store-ack-timeout", 0) == 0


def test_a_gap_in_a_stream_that_the_destination_knows_ends_no_session() -> None:
    """Packets that a session has not brought before arrive as a run; the destination gives it back, too."""
    single = NodeSettings(messages_per_packet=1)
    net, a, r, b = by_relay(settings={"a": single, "b": limited(quota=Quota(messages=3))})
    post(a, "b", *numbered(0, 3))
    assert net.world.run(10 * SECOND, lambda: net.is_done("a"))
    post(a, "b", b"gone")
    net.world.run(SECOND)  # until the relay is held back
    (stream,) = r.live.transits.streams
    stream.sequence.remove(list(stream.sequence.entries.values()))
    post(a, "b", b"next")
    assert b.read_all("q") == numbered(0, 3)
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert "let-go" in {record["reason"] for record in r.log("transit_freed")}
    assert b.read_all("q") == [*numbered(0, 3), b"gone", b"next"]
    assert r.live.closes.get("store-ack-timeout", 0) == 0


@pytest.mark.gate
@pytest.mark.parametrize("delivery", sorted(DURABLE))
def test_a_stream_that_a_small_queue_rations_waits_for_no_ack_delay(delivery: Delivery) -> None:
    """The relay asks for the ack of what it may send; else 0.5 s would pass at each step."""
    small = NodeSettings(messages_per_packet=1, limits=Limits(quota=Quota(messages=10)))
    net = line("arb", settings={"a": NodeSettings(messages_per_packet=1), "b": small})
    begun_ns = net.world.now_ns
    post(net["a"], "b", *numbered(0, 300), delivery=delivery)

    def read() -> None:
        net["b"].read("q")
        net.world.at(20 * MS, read)

    read()
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    assert net.world.now_ns - begun_ns < 2 * SECOND


def test_a_rejection_that_overtakes_the_store_ack_is_one_dead_letter() -> None:
    """The relay has the message, and its store ack waits for others; the destination has refused it meanwhile."""
    slow = NodeSettings(session=SessionSettings(store_ack_trigger=AckTrigger(delay_s=2.0, piggyback_after=None)))
    net, a, r, b = by_relay(settings={"a": slow, "r": slow})
    b.know(replace(net.peer("r"), may_send=("other",)))
    post(a, "b", b"x", delivery=Delivery.RECOVERABLE)
    assert net.world.run(60 * SECOND, lambda: net.is_done("a"))
    net.world.run(60 * SECOND)
    assert (dead(a), dead(r)) == (([], {}), ([b"x"], {"access-denied": 1}))
