"""The session log of whole nodes obeys docs/session-log.md."""

from collections import Counter
from typing import Any

import pytest

from tests.queues.bare import Bare, leases, records, rest
from tests.queues.world import SimNode, World, judged, numbered
from triack.base.commit import OutgoingStreamRow
from triack.base.delivery import Delivery
from triack.base.errors import NodeClosed
from triack.base.units import MS, SECOND
from triack.ordering.order_settings import OrderSettings
from triack.ordering.outgoing import StreamPacket
from triack.queues.manager.recorder import Recorder
from triack.queues.node_settings import NodeSettings
from triack.queues.streams.departing_stream import NO_RELAY, DepartingContext
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.session.protocol.events import Transmit, TransmitKind
from triack.session.protocol.packets import SessionPacket
from triack.session.protocol.settings import SessionSettings
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.faults import Faults

TRANSACTIONAL = Delivery.TRANSACTIONAL
SIZES: dict[str, Any] = {"content_bytes": 1_000, "settings": OrderSettings()}


def busy_world(seed: int) -> tuple[SimNode, SimNode]:
    """Two nodes after a life with all that can happen: loss, crashes, expiry, rejections, every class."""
    world = World(seed, Faults(loss=0.15, duplicate=0.1, reorder=0.2))
    settings = NodeSettings(session=SessionSettings(max_unacked_packet="auto"))
    a, b = world.node("a", settings), world.node("b", settings, queues=["q0", "q1", "q2"])
    b.commit_ns = (MS // 4, 40 * MS)[seed % 2]
    for at in range(6):
        for delivery in Delivery:
            a.send(b, f"q{delivery}", *numbered(at * 20, at * 20 + 20, 150), delivery=delivery)
        a.send(b, "nope", b"x")
        a.send(b, "q2", b"late", live_ms=1 + at % 2 * 500)
        world.run(world.random.randrange(1, 300) * MS)
        for queue in ("q0", "q1", "q2"):
            b.read(queue, 10)
        if at % 2:
            (a if world.random.random() < 0.5 else b).restart()
    world.heal()
    assert world.run(60 * SECOND, lambda: not a.busy)
    for queue in ("q0", "q1", "q2"):
        b.read_all(queue)
    for node in (a, b):
        node.finish(node.live, NodeClosed("the test ends"), world.now_ns)
    return a, b


@pytest.mark.parametrize("seed", range(4))
def test_a_life_with_all_that_can_happen_is_whole_on_record(seed: int) -> None:
    """Serials without gaps, fields by the schema, and what must come before what: replay finds nothing."""
    nodes = busy_world(seed)
    assert judged(*nodes) <= {"silent_end", "crashed"}
    for node in nodes:
        starts = [record["incarnation"] for record in node.log("node_started")]
        assert starts == list(range(1, len(starts) + 1))
        assert node.log()[-1]["event"] == "node_stopped"


def test_taken_records_are_whole_lines() -> None:
    """So only the write that a crash tears can tear a line; names of people's choice cannot break it."""
    recorder = Recorder(b"n" * 16, 3, 5, 0)
    assert recorder.take(Counter(), 0) == b""
    recorder.add("node_started", 7, name='quo"te\n\u2028\ud800', address="udp://x:1")
    recorder.add("node_stopped", 8)
    taken = recorder.take(Counter(), 0)
    first, second = parse_records(taken)
    assert (taken[-1:], len(taken.decode().splitlines())) == (b"\n", 2)
    assert (first["name"], first["n"], first["wall_ns"]) == ('quo"te\n\u2028\ud800', 1, 12)
    assert (second["n"], second["at_ns"]) == (2, 8)
    assert recorder.take(Counter(), 0) == b""


def burst(delivery: Delivery) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What two nodes write of some packets that one sends to the other at once."""
    one, other = Bare("a"), Bare("b")
    one.submit(other.address, *numbered(0, 40, 40_000), delivery=delivery)
    rest(one, other)
    leases(other)
    other.poll()
    return records(one.effects), records(other.effects)


def messages(record: dict[str, Any]) -> int:
    return sum(packets * count for packets, count in record["counts"])


def test_packets_of_a_burst_are_one_record() -> None:
    """On both sides, and what is handed out, too: a log grows with bursts, not with packets."""
    one, other = burst(Delivery.TRANSACTIONAL)
    sent = [record for record in one if record["event"] == "packet_sent" and record["class"] == "transactional"]
    arrived = [record for record in other if record["event"] == "packet_received" and "stream" in record]
    packets = sum(record["packets"] for record in sent)
    assert packets == 40
    assert len(arrived) == len(sent) < 15
    assert sum(map(messages, sent)) == sum(map(messages, arrived)) == 40
    (handed,) = [record for record in other if record["event"] == "handed"]
    assert (handed["number"], handed["place"], messages(handed)) == (1, 0, 40)
    assert sum(packets for packets, _ in handed["counts"]) == packets


@pytest.mark.parametrize("cut", [0, 1, 3, 6])
def test_packets_that_leave_by_the_run_are_recorded_as_those_that_leave_alone(cut: int) -> None:
    """Whatever their streams are, and wherever their numbers follow each other and where not."""
    rows = [OutgoingStreamRow(number, "b", "q", TRANSACTIONAL, 1, 1) for number in (1, 2)]
    streams = [OutgoingStream(bytes(16), row, **SIZES) for row in rows]
    numbers = [(0, 1, 0), (0, 2, 1), (0, 3, 2), (0, 5, 3), (1, 1, 0), (1, 2, 1)]
    packets: list[SessionPacket] = []
    for packet, (index, number, previous) in enumerate(numbers, 1):
        context = DepartingContext(
            streams[index], StreamPacket(number, b"", 0, 1 + number % 2, 0, 1), previous, NO_RELAY
        )
        packets.append(SessionPacket(packet, TRANSACTIONAL, b"", context, False, 100, sends=1))
    packets.append(SessionPacket(7, Delivery.EXPRESS, b"", None, False, 60, sends=1))
    single, by_run = Recorder(bytes(16), 1, 0, 0), Recorder(bytes(16), 1, 0, 0)
    for sent in packets:
        single.add_transmit("s", Transmit(TransmitKind.DATA, 1, sent.number, b"", sent), 9)
    by_run.add_run_sent("s", packets[:cut], 9)
    by_run.add_run_sent("s", packets[cut:], 9)
    assert by_run.take(Counter(), 0) == single.take(Counter(), 0)


def test_what_is_purged_is_no_message_left_behind() -> None:
    """The log says what was taken out by hand, and a replay takes its word."""
    one, other = Bare("a"), Bare("b")
    one.submit(other.address, *numbered(0, 6, 40_000), delivery=Delivery.TRANSACTIONAL)
    rest(one, other)
    mailbox = other.engine.queues.mailboxes["q"]
    waiting = [packet.first_place + at for packet, at in mailbox.waiting()]
    assert len(mailbox.withdraw(waiting[1:3] + waiting[4:5])) == 3
    leases(other)
    other.poll()
    written = records(one.effects), records(other.effects)
    purged = [(record["place"], messages(record)) for record in written[1] if record["event"] == "purged"]
    assert purged == [(0, 2), (0, 1)]
    silent = [record for record in written[1] if record["event"] != "purged"]
    for log, left_behind in ((written[1], False), (silent, True)):
        checks = {it.check for it in judge_records([*written[0], *log])}
        assert ("not_handed" in checks) == left_behind


def test_express_packets_enter_their_queue_by_the_burst() -> None:
    """Each is there as soon as it has arrived, and yet its record does not part those of its neighbours."""
    _, other = burst(Delivery.EXPRESS)
    arrived = [record for record in other if record["event"] == "packet_received" and "stream" in record]
    entered = [record for record in other if record["event"] == "committed"]
    assert len(arrived) == len(entered) < 15
    for one, there in zip(arrived, entered, strict=True):
        assert other.index(there) > other.index(one)
        assert (one["number"], one["packets"]) == (there["first"], there["last"] - there["first"] + 1)
        assert messages(one) == there["count"]
