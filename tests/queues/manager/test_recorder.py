"""The session log of whole nodes obeys docs/session-log.md."""

from collections import defaultdict
from typing import Any

import pytest

from tests.queues.bare import Bare, records, rest
from tests.queues.world import SimNode, World, numbered
from triack.base.delivery import Delivery
from triack.base.errors import NodeClosed
from triack.base.names import StreamId
from triack.base.session_log import POLICY, SCHEMA_VERSION
from triack.base.units import MS, SECOND
from triack.ordering.order_settings import OrderSettings
from triack.ordering.outgoing import StreamPacket
from triack.queues.manager.recorder import Recorder
from triack.queues.node_settings import NodeSettings
from triack.queues.packing import Outgoing
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
ALWAYS = {"v": int, "event": str, "node": str, "incarnation": int, "n": int, "at_ns": int, "wall_ns": int}
STREAM = {"class", "origin", "stream", "sequence"}
PACKET = {"session", "packet", "packets", "class", "size"}
FIELDS = {
    "node_started": {"name", "address"},
    "start_before": {"records"},
    "woke_late": {"since_ns"},
    "node_stopped": set(),
    "settled": STREAM | {"queue", "number", "place", "counts"},
    "returned": STREAM | {"queue", "number", "place", "counts"},
    "position_recovered": STREAM,
    "queued": STREAM | {"first", "last", "count", "queue", "peer_name"},
    "session_opened": {
        "session",
        "peer",
        "role",
        "address",
        "window",
        "idle_ack_delay_ns",
        "ack_threshold",
        "congestion",
        *POLICY,
    },
    "session_closed": {"session", "peer", "reason", "unacked"},
    "packet_sent": PACKET | {"resend"},
    "packet_received": PACKET | {"duplicate"},
    "ack_sent": {"session", "cumulative", "ranges", "trigger", "pending"},
    "ack_received": {"session", "ranges"},
    "store_ack_sent": {"session", "cumulative", "ranges", "trigger", "pending"},
    "store_ack_received": {"session", "ranges"},
    "ping_sent": {"session"},
    "path_size": {"session", "size"},
    "window_changed": {"session", "window"},
    "probe_received": {"session", "size"},
    "probe_answered": {"session"},
    "piece_received": {"session"},
    "committed": STREAM | {"first", "last", "count", "queue"},
    "rejected": STREAM | {"number", "reason"},
    "order_ack_sent": {"origin", "stream", "sequence", "number", "peer"},
    "order_ack_received": {"origin", "stream", "sequence", "number"},
    "hold_received": STREAM | {"stop"},
    "resend_scheduled": {"origin", "stream", "sequence", "first", "last", "attempt", "interval_ns"},
    "removed": STREAM | {"first", "last", "count", "reason"},
    "handed": STREAM | {"queue", "number", "place", "counts", "redelivered"},
    "expired": STREAM | {"queue", "number", "place", "counts", "receive_by_ms"},
    "purged": STREAM | {"queue", "number", "place", "counts"},
    "dropped": {"reason", "count"},
}
"""The fields that each event has, beside those of every record."""


def busy_world(seed: int, *, crashes: bool = True) -> tuple[SimNode, SimNode]:
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
        if crashes and at % 2:
            (a if world.random.random() < 0.5 else b).restart()
    world.heal()
    assert world.run(60 * SECOND, lambda: not a.busy)
    for queue in ("q0", "q1", "q2"):
        b.read_all(queue)
    for node in (a, b):
        node.finish(node.live, NodeClosed("the test ends"), world.now_ns)
    return a, b


@pytest.fixture(scope="module", params=range(4))
def logs(request: pytest.FixtureRequest) -> list[list[dict[str, Any]]]:
    return [node.log() for node in busy_world(request.param)]


def numbers(record: dict[str, Any]) -> range:
    return range(record["first"], record["last"] + 1)


def stream(record: dict[str, Any]) -> tuple[str, int, int]:
    return record["origin"], record["stream"], record["sequence"]


@pytest.mark.gate
def test_every_record_has_the_fields_that_the_schema_says(logs: list[list[dict[str, Any]]]) -> None:
    """No event without its fields, no event that the schema does not know."""
    for record in logs[0] + logs[1]:
        assert {name: type(record[name]) for name in ALWAYS} == ALWAYS, record
        assert record["v"] == SCHEMA_VERSION
        assert set(record) >= FIELDS[record["event"]], record
        assert len(record["node"]) == 32
        if record["event"] == "position_recovered":
            assert ("number" in record) == (record["class"] == "transactional") == ("ranges" not in record)
        if "session" in record:
            assert len(record["session"]) == 16
        for first, last in record.get("ranges", []):
            assert first <= last


def test_serials_have_no_gaps_and_incarnations_grow(logs: list[list[dict[str, Any]]]) -> None:
    """From 1 in each incarnation; the first record says that the node started, the last that it stopped."""
    for log in logs:
        by_life: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for record in log:
            by_life[record["incarnation"]].append(record)
        assert list(by_life) == list(range(1, len(by_life) + 1))
        for life in by_life.values():
            serials = list(dict.fromkeys(record["n"] for record in life))
            assert serials == list(range(1, len(serials) + 1))
            assert life[0]["event"] == "node_started"
            assert [record["at_ns"] for record in life] == sorted(record["at_ns"] for record in life)
        assert log[-1]["event"] == "node_stopped"


def test_queued_comes_before_packet_sent(logs: list[list[dict[str, Any]]]) -> None:
    """In the same incarnation, for every number of every class; and a freed number is not sent again."""
    for log in logs:
        queued: set[tuple[Any, ...]] = set()
        for record in log:
            if record["event"] == "node_started":
                queued.clear()
            if record["event"] == "queued":
                queued |= {(*stream(record), number) for number in numbers(record)}
            if record["event"] == "packet_sent" and "stream" in record:
                assert (*stream(record), record["number"]) in queued


def test_committed_comes_before_order_ack_sent(logs: list[list[dict[str, Any]]]) -> None:
    """An order ack speaks of what a commit, or the position recovered at the start, has settled."""
    for log in logs:
        position: dict[tuple[Any, ...], int] = defaultdict(int)
        for record in log:
            if record["event"] == "committed":
                position[stream(record)] = max(position[stream(record)], record["last"])
            if record["event"] == "rejected" and record["reason"] == "queue-not-found":
                position[stream(record)] = max(position[stream(record)], record["number"])
            if record["event"] == "position_recovered":
                position[stream(record)] = max(position[stream(record)], record.get("number", 0))
            if record["event"] == "order_ack_sent":
                assert record["number"] <= position[stream(record)]


def test_committed_comes_before_store_ack_sent(logs: list[list[dict[str, Any]]]) -> None:
    """Every durable packet that a store ack covers was committed, in this life or before it, or refused."""
    for log in logs:
        done: set[tuple[Any, ...]] = set()
        recovered: dict[tuple[Any, ...], int] = defaultdict(int)
        carried: dict[tuple[str, int], tuple[Any, ...]] = {}
        for record in log:
            event = record["event"]
            if event == "committed":
                done |= {(*stream(record), number) for number in numbers(record)}
            elif event == "rejected" and record["reason"] == "queue-not-found":
                done.add((*stream(record), record["number"]))
            elif event == "position_recovered":
                recovered[stream(record)] = record.get("number", 0)
            elif event == "packet_received" and "stream" in record and record["class"] != "express":
                carried[record["session"], record["packet"]] = (*stream(record), record["number"])
            elif event == "store_ack_sent":
                ranges = [(1, record["cumulative"]), *record["ranges"]]
                for (session, packet), name in carried.items():
                    if session == record["session"] and any(first <= packet <= last for first, last in ranges):
                        assert name in done or name[3] <= recovered[name[:3]] or name[3] in numbers_of(log, name), name


def numbers_of(log: list[dict[str, Any]], name: tuple[Any, ...]) -> set[int]:
    """The numbers on the disk, as the recovered records of a recoverable stream say."""
    found: set[int] = set()
    for record in log:
        if record["event"] == "position_recovered" and stream(record) == name[:3]:
            for first, last in record.get("ranges", []):
                found |= set(range(first, last + 1))
    return found


def test_nothing_is_committed_twice(logs: list[list[dict[str, Any]]]) -> None:
    """Each durable number once, over all lives of the receiver."""
    seen: set[tuple[Any, ...]] = set()
    for record in logs[1]:
        if record["event"] == "committed" and record["class"] == "recoverable":
            assert not seen & {(*stream(record), number) for number in numbers(record)}
            seen |= {(*stream(record), number) for number in numbers(record)}
    last: dict[tuple[Any, ...], int] = defaultdict(int)
    for record in logs[1]:
        if record["event"] == "committed" and record["class"] == "transactional":
            assert record["first"] > last[stream(record)]
            last[stream(record)] = record["last"]


@pytest.mark.parametrize("seed", range(3))
def test_counts_add_up_when_nobody_crashes(seed: int) -> None:
    """Every message that was queued is committed, handed out once, or removed."""
    a, b = busy_world(seed, crashes=False)
    for label in ("express", "recoverable", "transactional"):
        counts: dict[str, int] = defaultdict(int)
        for record in a.log("queued", "removed") + b.log("committed"):
            if record["class"] == label:
                counts[record["event"]] += record["count"]
        for record in b.log("handed"):
            if record["class"] == label:
                counts["handed"] += len(numbers(record))
        assert counts["committed"] == counts["handed"]
        assert counts["queued"] <= counts["committed"] + counts["removed"] <= counts["queued"] + 6
        if label != "transactional":
            assert counts["queued"] == counts["committed"] == 120


def test_both_ends_name_a_packet_alike(logs: list[list[dict[str, Any]]]) -> None:
    """A packet has the same fields at both ends: session, packet, stream, number, previous and size."""
    sender, receiver = logs
    names = ("session", "packet", "class", "origin", "stream", "sequence", "number")
    sent = {tuple(record[name] for name in names) for record in sender if "previous" in record}
    got = {
        tuple(record[name] for name in names)
        for record in receiver
        if record["event"] == "packet_received" and "previous" in record
    }
    assert len(got) > 20
    assert got <= sent


def test_taken_records_are_whole_lines() -> None:
    """So only the write that a crash tears can tear a line; names of people's choice cannot break it."""
    recorder = Recorder(b"n" * 16, 3, 5, 0)
    assert recorder.take() == b""
    recorder.add("node_started", 7, {"name": 'quo"te\n\u2028\ud800', "address": "udp://x:1"})
    recorder.add("node_stopped", 8, {})
    taken = recorder.take()
    assert taken.endswith(b"\n")
    lines = taken.decode().splitlines()
    first, second = parse_records(taken)
    assert len(lines) == 2
    assert first["name"] == 'quo"te\n\u2028\ud800'
    assert (first["n"], second["n"], first["wall_ns"], second["at_ns"]) == (1, 2, 12, 8)
    assert recorder.take() == b""


def test_messages_with_properties_are_recorded_like_others() -> None:
    """Counts are of messages, also when they share a packet."""
    world = World(1)
    a, b = world.node("a"), world.node("b")
    outgoing = a.live.outgoing_stream(b.address, "q", Delivery.TRANSACTIONAL)
    for number in range(5):
        a.live.submit(outgoing, Outgoing(b"%d" % number, {"label": "x"}), 10)
    a.drain()
    assert world.run(5 * SECOND, lambda: not a.busy)
    b.read_all("q")
    assert [record["count"] for record in b.log("committed")] == [5]
    assert [(record["first"], record["last"]) for record in b.log("handed")] == [(0, 4)]


def burst(delivery: Delivery) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What two nodes write of some packets that one sends to the other at once."""
    one, other = Bare("a"), Bare("b")
    one.submit(other.address, *numbered(0, 40, 40_000), delivery=delivery)
    rest(one, other)
    mailbox = other.engine.queues.mailboxes["q"]
    while other.engine.take(mailbox, other.now_ns) is not None:
        pass
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
    ids = [StreamId(bytes(16), stream) for stream in (1, 2)]
    streams = [OutgoingStream(it, "b", "q", TRANSACTIONAL, sequence=1, next_number=1, **SIZES) for it in ids]
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
    assert by_run.take() == single.take()


def test_what_is_purged_is_no_message_left_behind() -> None:
    """The log says what was taken out by hand, and a replay takes its word."""
    one, other = Bare("a"), Bare("b")
    one.submit(other.address, *numbered(0, 6, 40_000), delivery=Delivery.TRANSACTIONAL)
    rest(one, other)
    mailbox = other.engine.queues.mailboxes["q"]
    waiting = [packet.first_place + at for packet, at in mailbox.waiting()]
    assert len(mailbox.withdraw(waiting[1:3] + waiting[4:5])) == 3
    while other.engine.take(mailbox, other.now_ns) is not None:
        pass
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
