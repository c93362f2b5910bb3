"""The layouts of log records, datagrams and commits."""

import json
import pickle
from collections import Counter
from dataclasses import fields
from struct import Struct, pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.queues.manager.test_recorder import busy_world
from tests.queues.rollbacks import both_know, pair, roll_back
from tests.queues.world import SimNode, World, single, two
from triack.base import log_lines
from triack.base.columns import Columns
from triack.base.commit import Commit, PeerRow, key_of, split_key
from triack.base.datagram import (
    HEADER_BYTES,
    VERSION,
    Header,
    Kind,
    connection_id_of,
    counters_of,
    one_of_each_connection,
    read_header,
)
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import NodeClosed, ProtocolError
from triack.base.log_lines import SEGMENT_BEGIN, LineReader, LineWriter, segments_in
from triack.base.session_log import COMMON, EVENTS, FIELDS, SCHEMA_VERSION
from triack.base.units import SECOND
from triack.queues.messages import Outgoing
from triack.queues.node_settings import Journal, Limits, NodeSettings, Quota
from triack.tools.chaos.run import run_seed
from triack.tools.chaos.topics import TOPICS_FROM
from triack.tools.chaos.topologies import RELAYED_FROM
from triack.tools.replay.log.files import parse_records

# Lines become records again, wherever a segment is cut off.

NODE = b"n" * 16
NAME = 'quo"te\n\u2028'
STREAM = {"class": "transactional", "origin": "a1" * 16, "stream": 1, "sequence": 5}


def commit(writer: LineWriter, at_ns: int, number: int) -> None:
    writer.add("committed", at_ns, {**STREAM, "first": number, "last": number, "count": 1, "queue": "q"})


def written(count: int = 3) -> bytes:
    writer = LineWriter(NODE, 3, 1000)
    writer.add("node_started", 50, {"name": NAME})
    for number in range(1, count + 1):
        commit(writer, 50 + number, number)
    return writer.take()


def read(data: bytes, reader: LineReader | None = None) -> list[dict[str, Any]]:
    reader = reader or LineReader()
    return [reader.read(json.loads(line)) for line in data.split(b"\n")[:-1]]


def test_a_record_comes_back_whole() -> None:
    started, *commits = read(written())
    common = {"v": SCHEMA_VERSION, "node": NODE.hex(), "incarnation": 3}
    times = {"n": 1, "at_ns": 50, "wall_ns": 1050}
    assert started == {**common, **times, "event": "node_started", "name": NAME}
    for number, record in enumerate(commits, start=1):
        times = {"n": 1 + number, "at_ns": 50 + number, "wall_ns": 1050 + number}
        said = {**STREAM, "first": number, "last": number, "count": 1, "queue": "q"}
        assert record == {**common, **times, "event": "committed", **said}


def test_a_record_that_is_as_expected_takes_a_number() -> None:
    """Its kind; with the time since the line before if there is any, and what is not as expected."""
    writer, told = LineWriter(NODE, 3, 1000), [(5, 1, 2), (5, 3, 2), (9, 5, 2), (9, 7, 1)]
    for at_ns, first, count in told:
        writer.add("committed", at_ns, {**STREAM, "first": first, "last": first + 1, "count": count, "queue": "q"})
    data = writer.take()
    assert data.splitlines()[1:] == [b"1", b"[1,4]", b'[1,0,{"count":1}]']
    assert [(it["at_ns"], it["first"], it["count"]) for it in read(data)] == told


RUNS: dict[str, list[dict[str, Any]]] = {
    "packet_sent": [
        {"packet": 1, "packets": 3, "number": 1, "previous": 0, "counts": [[2, 10], [1, 5]], "size": 30},
        {"packet": 4, "packets": 1, "number": 4, "previous": 3, "counts": [[1, 5]], "size": 10},
        {"packet": 5, "packets": 1, "number": 5, "previous": 4, "counts": [[1, 5]], "size": 10},
    ],
    "ack_sent": [
        {"cumulative": 4, "ranges": [], "trigger": "delay", "pending": 4},
        {"cumulative": 6, "ranges": [[8, 9]], "trigger": "gap", "pending": 2},
        {"cumulative": 9, "ranges": [], "trigger": "delay", "pending": 3},
    ],
    "ack_received": [{"ranges": [[1, 4]]}, {"ranges": [[5, 8]]}, {"ranges": [[9, 9], [12, 13]]}, {"ranges": []}],
    "placed": [
        {"topic": "Games", "below": "Chess", "number": 1, "counts": [[2, 10], [1, 5]], "at_place": 1},
        {"topic": "Games", "below": "Go", "number": 4, "counts": [[1, 5]], "at_place": 26},
        {"topic": "Games", "below": "Go", "number": 5, "counts": [[1, 5]], "at_place": 31},
    ],
    "order_ack_sent": [{"number": 4}, {"number": 5}, {"number": 9}],
}
"""Records of one kind as they follow each other, apart from what they share."""


@pytest.mark.parametrize("event", RUNS)
def test_whatever_follows_comes_back(event: str) -> None:
    writer = LineWriter(NODE, 1, 0)
    for at_ns, said in enumerate(RUNS[event]):
        writer.add(event, at_ns, {"session": "5e" * 8, **said})
    assert [{name: it[name] for name in RUNS[event][0]} for it in read(writer.take())] == RUNS[event]


def test_after_many_brief_lines_one_is_written_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "BRIEF_MAX", 2)
    lines = [json.loads(line) for line in written(7).splitlines()]
    assert [type(line) is dict for line in lines] == [True, True, False, False, True, False, False, True]
    assert (lines[4]["n"], lines[4]["as"], lines[4]["d"]) == (5, 1, 1)


@pytest.mark.parametrize("change", ["lost", "shifted"])
def test_a_brief_line_that_was_lost_or_changed_is_noticed(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """By the time in the next full line, whose serial shows the place."""
    monkeypatch.setattr(log_lines, "BRIEF_MAX", 2)
    lines = written(4).splitlines(keepends=True)
    lines[2] = b"" if change == "lost" else b"[1,2]\n"
    with pytest.raises(ValueError, match="its time does not follow"):
        read(b"".join(lines))


def test_segments_of_a_log_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "SEGMENT_BYTES", 300)
    parts = [written(4), written(2), written(1)]
    assert [segments_in(b"".join(some)) for some in (parts, parts[:1], [])] == [parts, parts[:1], [b""]]


def test_a_segment_has_a_day_at_most() -> None:
    writer = LineWriter(NODE, 1, 0)
    writer.add("node_started", 0, {"name": "a"})
    segments = []
    for hour in range(60):
        commit(writer, hour * 3600 * 10**9, hour)
        segments += [hour] if writer.take().startswith(SEGMENT_BEGIN) else []
    assert segments == [0, 25, 50]


def test_a_log_may_be_cut_off_at_any_byte() -> None:
    """The whole lines that are there read as they would with the rest."""
    data = written()
    whole = read(data)
    for end in range(len(data)):
        found = read(data[:end])
        assert found == whole[: len(found)]


@pytest.mark.plain
def test_a_full_segment_is_followed_by_one_that_needs_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says again what its records share; serials go on."""
    monkeypatch.setattr(log_lines, "SEGMENT_BYTES", 300)
    writer = LineWriter(NODE, 1, 0)
    parts = []
    for number in range(40):
        commit(writer, number, number)
        parts.append(writer.take())
    begins = [at for at, part in enumerate(parts) if part.startswith(SEGMENT_BEGIN)]
    assert len(begins) > 2
    assert [record["n"] for record in read(b"".join(parts[begins[-1] :]))] == list(range(begins[-1] + 1, 41))
    assert [record["first"] for record in read(b"".join(parts))] == list(range(40))


@pytest.mark.plain
def test_each_segment_says_by_which_settings_its_node_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of the third one alone can judge what begins in it."""
    monkeypatch.setattr(log_lines, "SEGMENT_BYTES", 300)
    writer = LineWriter(NODE, 1, 0)
    writer.add("node_started", 0, {"name": "a", "seq_resend_13_ns": 7, "address": "udp://127.0.0.1:7801"})
    parts = [writer.take()]
    for number in range(12):
        commit(writer, number, number)
        parts.append(writer.take())
    later = [read(part)[0] for part in parts[1:] if part.startswith(SEGMENT_BEGIN)]
    assert len(later) > 2
    assert {(it["event"], it["name"], it["seq_resend_13_ns"], "address" in it) for it in later} == {
        ("node_continued", "a", 7, False)
    }
    assert [record["n"] for record in read(b"".join(parts))] == list(range(1, 14 + len(later)))


def test_what_is_shared_is_forgotten_before_it_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node with ever new sessions remembers no more of them; what it writes stays readable."""
    monkeypatch.setattr(log_lines, "KINDS_MAX", 3)
    writer = LineWriter(NODE, 1, 0)
    sessions = [f"{number % 5:016x}" for number in range(20)]
    for session in sessions:
        writer.add("ack_received", 0, {"session": session, "ranges": []})
    assert [record["session"] for record in read(writer.take())] == sessions


def test_nothing_is_taken_twice() -> None:
    writer = LineWriter(NODE, 1, 0)
    assert writer.take() == b""
    writer.add("node_stopped", 0, {})
    assert (writer.take()[-2:], writer.take()) == (b"}\n", b"")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"n": 2}, "no record before it says whose it is"),
        ({"v": SCHEMA_VERSION, "n": 1}, "the first record of a segment has no times"),
        ({"v": SCHEMA_VERSION, "at_ns": 1, "wall_ns": "1"}, "the first record of a segment has no times"),
        ({"v": SCHEMA_VERSION, "at_ns": 1, "wall_ns": 17 * 10**18}, "has times that no clock has"),
    ],
)
def test_a_begin_that_is_missing_is_noticed(line: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        LineReader().read(line)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"n": 5}, "it has no time"),
        ({"n": 5, "t": 10**19}, "it has a time that no clock has"),
        ({"n": 5, "t": 1}, "its time does not follow"),
        ({"n": 5, "t": 3, "d": 0, "as": []}, "its kind has no number"),
        ({"n": "5", "t": 3, "d": 0}, "its serial is no number"),
        (2, "no record before it is of kind 2"),
        ([], "neither a record nor one like another"),
        ([1, None], "neither a record nor one like another"),
        ([1, 0, []], "neither a record nor one like another"),
        ([1, 0, {}, 0], "neither a record nor one like another"),
        ([1, 10**19], "it has a time that no clock has"),
        ([1, 0, {"queue": "r"}], "it has a field that others of its kind do not have"),
        ([1, 0, {"n": 1}], "it has a field that others of its kind do not have"),
    ],
)
def test_a_line_that_says_too_little_is_noticed(line: Any, reason: str) -> None:
    reader = LineReader()
    read(written(), reader)
    with pytest.raises(ValueError, match=reason):
        reader.read(line)


def test_a_reader_that_was_kept_goes_on() -> None:
    lines = [json.loads(line) for line in written(5).splitlines()]
    reader = LineReader()
    first = [reader.read(line) for line in lines[:3]]
    reader = pickle.loads(pickle.dumps(reader))
    assert first + [reader.read(line) for line in lines[3:]] == read(written(5))


# The log's schema agrees with the records of real nodes: these events, exactly these fields, of these types.

SEEDS = 30
TOPICAL = 40
RELAYED = 12
"""Three of each topology."""


def complaint(record: dict[str, Any]) -> str:
    """The fault of a record, or nothing."""
    event = EVENTS.get(record["event"])
    if event is None:
        return f"unknown event {record['event']}"
    more = record.keys() - COMMON.keys() - set(event.fields)
    if not {*COMMON, *event.fields} <= record.keys() or more not in map(set, event.variants):
        return f"{record['event']} has the fields {sorted(record)}"
    for name, value in record.items():
        if type(value) is not (COMMON | FIELDS)[name].type:
            return f"{record['event']} has the {name} {value!r}"
        if type(value) is list and any([type(end) for end in ends] != [int, int] for ends in value):
            return f"{record['event']} has the {name} {value!r}"
    return ""


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    """The records of nodes in worlds with everything that can happen."""
    seeds = (*range(SEEDS), *range(RELAYED_FROM, RELAYED_FROM + RELAYED), *range(TOPICS_FROM, TOPICS_FROM + TOPICAL))
    logs = [log for seed in seeds for log in run_seed(seed).logs.values()]
    nodes = (*busy_world(0), *rolled_back(), purged(), expired(), held(), recovered(), *ended())
    logs += [b"".join(node.records) for node in nodes]
    return [record for log in logs for record in parse_records(log)]


def finished(node: SimNode) -> SimNode:
    node.finish(node.live, NodeClosed("the test ends"), node.world.now_ns)
    return node


def rolled_back() -> tuple[SimNode, SimNode]:
    """Two nodes, one of them with an older copy of its store."""
    world, a, b = pair()
    roll_back(world, a, b)
    a.send(b, "q", b"new")
    both_know(world, a, b)
    return a, b


def expired() -> SimNode:
    """A node with a message in a queue that no reader received in time."""
    world, node = single()
    outgoing = node.live.outgoing_stream("", "q", Delivery.TRANSACTIONAL)
    node.live.submit(outgoing, Outgoing(b"1", receive_by_ms=world.now_ms + 100), 1)
    world.run(SECOND)
    return finished(node)


def ended() -> tuple[SimNode, SimNode]:
    """Two nodes, one of which ends a stream that has had nothing to send for a while."""
    world, a, b = two(a=NodeSettings(retire_after_s=1.0))
    a.send(b, "q", b"1")
    world.run(10 * SECOND)
    return finished(a), finished(b)


def held() -> SimNode:
    """A node that sends to a queue with room for two."""
    world, a, b = two(b=NodeSettings(limits=Limits(quota=Quota(2))))
    for _ in range(4):
        a.send(b, "q", b"1")
        world.run(SECOND)
    return finished(a)


def purged() -> SimNode:
    """A node with a queue from which a person took a message by hand."""
    world = World(1)
    limits = Limits(queue_journal={"q": Journal()})
    a, b = world.node("a"), world.node("b", NodeSettings(limits=limits))
    a.send(b, "q", b"1", b"2")
    assert world.run(5 * SECOND, lambda: not a.busy)
    mailbox = b.live.queues.mailboxes["q"]
    assert len(mailbox.withdraw([packet.first_place + index for packet, index in mailbox.waiting()][:1])) == 1
    world.run(SECOND)
    run = b.live.choose(mailbox, 2, (), world.now_ns)
    assert run is not None
    b.live.acknowledge(mailbox, [(run.packet, 2)])
    world.run(SECOND)
    outgoing = b.live.outgoing_stream(b.address, "q", Delivery.RECOVERABLE, 5)
    b.live.submit(outgoing, b"3", 1)
    b.drain()
    world.run(SECOND)
    assert b.live.choose(mailbox, 3, (), world.now_ns) is not None
    b.live.set_quota("q", Quota(9), world.now_ns)
    b.live.pause("q", arrivals=True, now_ns=world.now_ns)
    assert b.live.resume("q", world.now_ns)
    return finished(b)


def recovered() -> SimNode:
    """A node that starts again, and has had messages of both durable classes."""
    world, a, b = two()
    for delivery in DURABLE:
        a.send(b, "q", b"1", delivery=delivery)
    assert world.run(5 * SECOND, lambda: not a.busy)
    b.restart()
    return finished(b)


@pytest.mark.slow
def test_every_record_is_as_the_schema_says(records: list[dict[str, Any]]) -> None:
    wrong = Counter(filter(None, map(complaint, records)))
    assert not wrong, wrong.most_common(5)
    assert {record["v"] for record in records} == {SCHEMA_VERSION} == {6}


@pytest.mark.slow
def test_everything_in_the_schema_is_written(records: list[dict[str, Any]]) -> None:
    """Every event, and each group of fields that it may have.

    All these nodes listen, survive a loss of power, write less than a segment, and agree on whether boots have names.
    """
    written = {(record["event"], frozenset(record.keys() - COMMON.keys())) for record in records}
    listed = {(name, frozenset(event.fields + group)) for name, event in EVENTS.items() for group in event.variants}
    assert {(event, "address" not in fields or "survives" in fields) for event, fields in listed - written} == {
        ("node_started", True),
        ("node_continued", True),
        ("start_before", True),
        # Of durable subscriptions whose holders change: applications do that.
        ("subscription_changed", True),
        ("admin_ack_queued", True),
        # Of messages that are published to one topic.
        ("queued", True),
        # Of a destination behind relays whose store has gone back.
        ("rollback_detected", True),
        # What is over a synchronous link and leaves otherwise than by an ack.
        ("transit_freed", True),
        # Of a process that died between an acknowledgement and its commit.
        ("settled", True),
        # Of bridges to brokers: tests/tools/bridges.
        *((event, True) for event in EVENTS if event.startswith("bridge_")),
    }


def test_every_field_is_used_and_explained() -> None:
    used = {name for event in EVENTS.values() for group in (event.fields, *event.variants) for name in group}
    assert used == set(FIELDS)
    assert COMMON.keys().isdisjoint(FIELDS)
    assert {field.type for field in (COMMON | FIELDS).values()} == {str, int, bool, list}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"event": "exploded"}, "unknown event exploded"),
        ({"extra": 1}, "dropped has the fields"),
        ({"count": "2"}, "dropped has the count '2'"),
        ({"count": True}, "dropped has the count True"),
    ],
)
def test_the_comparison_bites(change: dict[str, Any], said: str) -> None:
    right = {name: field.type() for name, field in COMMON.items()} | {"event": "dropped", "reason": "x", "count": 2}
    assert complaint(right) == ""
    assert complaint(right | change).startswith(said)
    del right["reason"]
    assert complaint(right).startswith("dropped has the fields")


# A header is read exactly as it was written, or not at all.

ID_MAX = 2**64 - 1


@given(st.sampled_from(Kind), *[st.integers(0, ID_MAX)] * 2, st.integers(0, 65_535), st.binary(max_size=50))
def test_a_header_reads_back(kind: Kind, connection_id: int, counter: int, epoch: int, rest: bytes) -> None:
    header = Header(kind, connection_id, counter, epoch)
    assert read_header(header.encode() + rest) == header
    assert len(header.encode()) == HEADER_BYTES == 20


def test_datagrams_are_alike_that_differ_in_the_counter_alone() -> None:
    """Up to the first of another kind, connection or epoch, or one that has no counter."""
    alike = [Header(Kind.DATA, 7, counter, 3).encode() + b"x" for counter in (5, 4, 9)]
    others = [Header(Kind.DATA, 7, 6, 4), Header(Kind.DATA, 8, 6, 3), Header(Kind.CHALLENGE, 7, 6, 3)]
    for other in [*(header.encode() for header in others), alike[0][: HEADER_BYTES - 1]]:
        assert counters_of([*alike, other, *alike]) == [5, 4, 9]
    assert counters_of(alike) == [5, 4, 9]


def test_a_burst_is_looked_through_by_connection() -> None:
    """Datagrams that are too short to name one count as one that names number 0."""
    burst = [Header(Kind.DATA, connection_id, counter).encode() for connection_id in (7, 9, 7) for counter in (1, 2)]
    found = [connection_id_of(datagram) for datagram in one_of_each_connection([*burst, b"x", b"yz"])]
    assert found == [7, 9, 0]


def test_the_layout_is_as_documented() -> None:
    assert Header(Kind.DATA, 0x0123456789ABCDEF, 7, 1).encode().hex() == "030900010123456789abcdef0000000000000007"


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (pack("!BBHQQ", 3, 1, 0, 1, 1), "bad-version"),
        (pack("!BBHQQ", 0, VERSION, 0, 1, 1), "unknown-kind"),
        (pack("!BBHQQ", 8, VERSION, 0, 1, 1), "unknown-kind"),
        (b"", "too-short"),
        (pack("!BBHQQ", 3, 5, 0, 1, 1)[:-1], "too-short"),
    ],
)
def test_what_no_correct_node_sends_is_refused_by_name(header: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=f"^{reason}"):
        read_header(header)


def test_keys_ascend_by_group_then_number() -> None:
    """So a range of keys is a range of numbers of one group. Each reads back, and fits the 63 bits of SQLite."""
    pairs = [(group, number) for group in (0, 1, 2, 2**23 - 1) for number in (0, 1, 2, 2**40 - 1)]
    keys = [key_of(*pair) for pair in pairs]
    assert keys == sorted(set(keys))
    assert [split_key(key) for key in keys] == pairs
    assert keys[-1] < 2**63


@pytest.mark.parametrize(
    "name", [field.name for field in fields(Commit) if field.name not in ("serial", "clock", "records", "synced")]
)
def test_every_field_alone_makes_a_commit_and_what_only_takes_out_adds_nothing(name: str) -> None:
    """What would make none is never written, such as a number; a caller may wait for what adds."""
    commit = Commit(serial=7)
    assert not commit
    held = getattr(commit, name)
    held.update({b"x": PeerRow(b"x", 1, 1)}) if isinstance(held, dict) else held.append((1, 2))
    assert commit
    assert commit.adds == (not name.endswith("_deletes") and name not in ("progress", "subscriptions"))


# Blocks of records come back as they were, and neighbours that differ in little take little.

RECORD = Struct("<QQH")
COLUMNS = Columns(RECORD.size, 16, 64)
Records = list[tuple[int, int, int]]


def block(records: Records) -> bytearray:
    return bytearray(b"".join(RECORD.pack(*record) for record in records))


@pytest.mark.gate
@given(st.lists(st.tuples(*[st.integers(0, 2**64 - 1)] * 2, st.integers(0, 2**16 - 1)), min_size=1, max_size=64))
def test_a_block_comes_back_as_it_was(records: Records) -> None:
    for some in (records, sorted(records, key=lambda it: it[1])):
        assert COLUMNS.unpack(COLUMNS.pack(block(some))) == block(some)


def test_fields_that_rise_by_little_take_little() -> None:
    records = [(2**40 + 3 * at, 2**50 + at, 7) for at in range(64)]
    assert len(COLUMNS.pack(block(records))) < 64 * RECORD.size // 12
