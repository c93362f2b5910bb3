"""Lines become records again, wherever a segment is cut off."""

import json
import pickle
from typing import Any

import pytest

from triack.base import log_lines
from triack.base.log_lines import SEGMENT_BEGIN, LineReader, LineWriter, segments_in
from triack.base.session_log import SCHEMA_VERSION

NODE = b"n" * 16
NAME = 'quo"te\n\u2028'
STREAM = {"class": "transactional", "origin": "a1" * 16, "stream": 1, "sequence": 5}


def written(count: int = 3) -> bytes:
    writer = LineWriter(NODE, 3, 1000)
    writer.add("node_started", 50, {"name": NAME})
    for number in range(1, count + 1):
        writer.add("committed", 50 + number, {**STREAM, "first": number, "last": number, "count": 1, "queue": "q"})
    return writer.take()


def read(data: bytes, reader: LineReader | None = None) -> list[dict[str, Any]]:
    reader = reader or LineReader()
    return [reader.read(json.loads(line)) for line in data.split(b"\n")[:-1]]


def test_a_record_comes_back_whole() -> None:
    """What the first one says of all, and what it shares with the second, is in each of them."""
    started, *commits = read(written())
    common = {"v": SCHEMA_VERSION, "node": NODE.hex(), "incarnation": 3}
    assert started == {
        **common,
        "n": 1,
        "at_ns": 50,
        "wall_ns": 1050,
        "event": "node_started",
        "name": 'quo"te\n\u2028',
    }
    for number, record in enumerate(commits, start=1):
        times = {"n": 1 + number, "at_ns": 50 + number, "wall_ns": 1050 + number}
        said = {**STREAM, "first": number, "last": number, "count": 1, "queue": "q"}
        assert record == {**common, **times, "event": "committed", **said}


def test_a_record_that_is_as_expected_takes_a_number() -> None:
    """Its kind; with the time since the line before if there is any, and what is not as expected."""
    writer = LineWriter(NODE, 3, 1000)
    for at_ns, first, count in ((5, 1, 2), (5, 3, 2), (9, 5, 2), (9, 7, 1)):
        writer.add("committed", at_ns, {**STREAM, "first": first, "last": first + 1, "count": count, "queue": "q"})
    data = writer.take()
    assert data.splitlines()[1:] == [b"1", b"[1,4]", b'[1,0,{"count":1}]']
    assert [(it["at_ns"], it["first"], it["count"]) for it in read(data)] == [
        (5, 1, 2),
        (5, 3, 2),
        (9, 5, 2),
        (9, 7, 1),
    ]


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
    for at_ns, fields in enumerate(RUNS[event]):
        writer.add(event, at_ns, {"session": "5e" * 8, **fields})
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
    assert segments_in(b"".join(parts)) == parts
    assert segments_in(parts[0]) == parts[:1]
    assert segments_in(b"") == [b""]


def test_a_segment_has_a_day_at_most() -> None:
    writer = LineWriter(NODE, 1, 0)
    writer.add("node_started", 0, {"name": "a"})
    segments = []
    for hour in range(60):
        writer.add("committed", hour * 3600 * 10**9, {**STREAM, "first": hour, "last": hour, "count": 1, "queue": "q"})
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
        writer.add("committed", number, {**STREAM, "first": number, "last": number, "count": 1, "queue": "q"})
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
        writer.add("committed", number, {**STREAM, "first": number, "last": number, "count": 1, "queue": "q"})
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
    assert writer.take().endswith(b"}\n")
    assert writer.take() == b""


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
