"""Which files and records there are, and which of them count."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tools.replay.builder import ALPHA, BETA, close_segments, healthy
from triack.base.errors import ReplayError
from triack.base.log_lines import NS_MAX
from triack.base.session_log import COMMON, EVENTS, FIELDS, SETTINGS
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.log import files
from triack.tools.replay.log.files import Reading, Tail, find_logs, parse_records, read_records, size_bytes, split
from triack.tools.replay.log.validity import NUMBER_MAX, complaint
from triack.tools.replay.run import replay


def test_a_torn_last_line_is_skipped(tmp_path: Path) -> None:
    directories = healthy().save(tmp_path)
    with (tmp_path / "beta" / "beta-000002-000002.jsonl.open").open("a") as file:
        file.write('{"v": 6, "event": "pack')
    verdict = replay(directories, engine="local")
    assert (verdict.verdict, verdict.torn_lines) == ("pass", 1)


@pytest.mark.parametrize("version", [1, 5, 7])
def test_another_version_is_refused(tmp_path: Path, version: int) -> None:
    world = healthy()
    world.beta.records[5]["v"] = version
    (why,) = replay(world.save(tmp_path), engine="local").unread.values()
    assert f"has session log version {version}; this replay reads version 6 only" in why


@pytest.mark.parametrize(
    ("line", "text", "reason"),
    [
        (1, '{"v": 6, "at_ns": 1, "wall_ns": 1, "event": "node_started", "node": 7}',
         "field 'node' is missing or of the wrong type"),
        (1, '{"v": 6, "event": "node_started"}', "the first record of a segment has no times"),
        (1, '{"v": 6, "ev', "no JSON from character 13 on"),
        (3, '{"v": 6, "ev', "no JSON from character 13 on"),
    ],
)  # fmt: skip
def test_a_damaged_line_is_named_and_what_is_before_it_is_judged(
    tmp_path: Path, line: int, text: str, reason: str
) -> None:
    """The first line says where the segment belongs. Over half a record no verdict is a pass, nor is one accused."""
    directories = healthy().save(tmp_path)
    file = tmp_path / "alpha" / "alpha-000001-000001.jsonl"
    damage(file, line, f"{text}\n")
    verdict = replay(directories, engine="local")
    assert (verdict.verdict, verdict.unread) == ("incomplete", {str(file): f"line {line} is damaged: {reason}"})
    assert verdict.files[str(file)] == line - 1


@pytest.mark.parametrize("text", ['{"level": "info", "at": 7}', '{"n": 4}', "[1]", "a line of text", "\x00\x01"])
def test_a_file_of_something_else_is_not_called_damaged(tmp_path: Path, text: str) -> None:
    """Other programs write *.jsonl, too; nothing is guessed at, and the file is named."""
    directories = healthy().save(tmp_path)
    other = tmp_path / "alpha" / "application.jsonl"
    other.write_text(f"{text}\n" * 3)
    verdict = replay(directories, engine="local")
    assert verdict.unread == {str(other): "is no session log: its first line does not begin one"}


def test_a_segment_that_is_renamed_after_it_was_listed_is_read(tmp_path: Path) -> None:
    """Whenever that is: a replay of many logs takes longer than a node with its segment."""
    healthy().save(tmp_path)
    wanted = replay_local(find_logs([tmp_path]))
    logs = find_logs([tmp_path])
    close_segments(tmp_path)
    assert all(size_bytes(log.path) == log.size for log in logs)
    assert size_bytes(tmp_path / "gone.jsonl.open") == 0
    judged = replay_local(logs)
    assert (judged.verdict, judged.records) == ("pass", wanted.records)


def damage(file: Path, line: int, text: str) -> None:
    lines = file.read_text().splitlines(keepends=True)
    lines[line - 1] = text
    file.write_text("".join(lines))


def test_segments_come_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    """By node, start and first record, and each once, however often and by whatever way it was named."""
    alpha, beta = healthy().save(tmp_path)
    (beta / "beta-000001-000001.jsonl").rename(beta / "zeta.jsonl")
    (beta / "notes.txt").write_text("no log")
    (beta / "beta-000003-000001.jsonl.open").write_text("")
    found = find_logs([beta, alpha / "../alpha", tmp_path, beta / "zeta.jsonl"])
    written = ["1-000001.jsonl", "1-000002.jsonl.open", "2-000001.jsonl", "2-000002.jsonl.open"]
    names = [f"{node}-00000{name}" for node in ("alpha", "beta") for name in written]
    assert [log.path.name for log in found] == [*names[:4], "zeta.jsonl", *names[5:]]
    assert found[0].order == (ALPHA, 1, 1)


def test_files_are_put_in_order_by_their_first_lines_alone(tmp_path: Path) -> None:
    """To read all of many small files for that would be to read them twice."""
    healthy().save(tmp_path)
    (log, *_) = tmp_path.glob("alpha/*-000001-000001.jsonl")
    lines = iter(log.read_bytes().splitlines(keepends=True))
    assert next(files.Lines().records(log, lines))["event"] == "node_started"
    assert len([*lines]) == log.read_bytes().count(b"\n") - 1


def test_a_torn_line_is_no_record(tmp_path: Path) -> None:
    """However long it is, and whole or not; it may even be all that there is of a log."""
    (tmp_path / "a.jsonl").write_text('{"v": 6' + " " * 70_000)
    healthy().save(tmp_path)
    (file,) = tmp_path.glob("alpha/*-000002-000002.jsonl.open")
    whole = json.dumps({"v": 6, "event": "node_started"})
    with file.open("a") as log:
        log.write(whole)
    for path in (tmp_path / "a.jsonl", file):
        reading = Reading(str(path))
        assert all(record["n"] for _, records in reading.segments() for record in records)
        assert (reading.torn, reading.fault) == (True, "")
        reading.compare(path.stat().st_size)
        assert reading.fault == ""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1]", "is damaged: it is neither a record nor one like another"),
        ("7", "is damaged: no record before it is of kind 7"),
        ('"7"', "is damaged: not a JSON object"),
        ('{"v": "1"}', "has session log version '1'; this replay reads version 6 only"),
        ('{"v": true}', "has session log version True; this replay reads version 6 only"),
        ('{"v": 6}', "is damaged: the first record of a segment has no times"),
        ('{"n": 4}', "is damaged: it has no time"),
        ({"event": "exploded"}, "is damaged: unknown event 'exploded'"),
        ({"event": ["queued"]}, "is damaged: its event or class is not a name"),
        ({"reason": 7}, "is damaged: field 'reason' is of the wrong type"),
        ({"extra": 7}, "is damaged: dropped with the fields count, extra, reason"),
        ({"event": "rejected"}, "is damaged: rejected with the fields count, reason"),
        ({"wall_ns": 10**30}, "is damaged: the first record of a segment has times that no clock has"),
        ({"at_ns": -(1 << 62)}, "is damaged: the first record of a segment has times that no clock has"),
    ],
)
def test_damage_is_named_with_its_line(tmp_path: Path, line: str | dict[str, object], reason: str) -> None:
    healthy().save(tmp_path)
    log = find_logs([tmp_path])[2]
    if isinstance(line, dict):
        whole = json.loads(log.path.read_text().splitlines()[3])
        common = {name: whole[name] for name in ("v", "node", "incarnation", "n", "at_ns", "wall_ns")}
        line = json.dumps({**common, "event": "dropped", "reason": "too-short", "count": 1, **line})
    damage(log.path, 4, line + "\n")
    with pytest.raises(ReplayError) as refused:
        list(read_records(log))
    assert str(refused.value) == f"{log.path} line 4 {reason}"


FIRST = {"v": 6, "node": ALPHA, "incarnation": 1, "n": 1, "at_ns": 0, "wall_ns": 0, "event": "node_stopped"}
LIKE: dict[str, object] = {"n": 2, "t": 1, "event": "dropped", "reason": "too-short", "count": 1}
"""A line that refers to what the first one says."""


def unread(log: Path, *lines: dict[str, object]) -> str:
    """Why a log with these lines behind the first one is not read."""
    log.write_text("".join(f"{json.dumps(line)}\n" for line in (FIRST, *lines)))
    (why,) = replay(log, engine="local").unread.values()
    return why


@pytest.mark.parametrize(
    ("field", "value"), [("count", -5), ("count", 1 << 63), ("reason", "a\tb"), ("n", -1), ("wall_ns", 1 << 62)]
)
def test_each_value_is_judged_also_in_a_line_like_another_before_it(tmp_path: Path, field: str, value: object) -> None:
    """Fields that lines have in common are looked at once; values are looked at in each, and times of its own are."""
    like = {**LIKE, **({"wall_ns": 7} if field == "wall_ns" else {})}
    why = unread(tmp_path / "a.jsonl", like, {**like, "n": 3, field: value})
    assert why.startswith(f"line 3 is damaged: field '{field}' is {value!r}")


def test_a_log_in_memory_is_read_alike(tmp_path: Path) -> None:
    healthy().save(tmp_path)
    log = find_logs([tmp_path / "beta"])[0]
    records = list(read_records(log))
    assert parse_records(log.path.read_bytes() + b'{"v": 6, "ev') == records
    assert parse_records(b"") == []
    with pytest.raises(ValueError, match="Expecting"):
        parse_records(b'{"v": 6\n{"v": 6}\n')


@pytest.mark.parametrize("fields", [{"node": BETA}, {"incarnation": 2}, {"event": "node_started"}])
def test_two_starts_in_one_file_cannot_be_read(tmp_path: Path, fields: dict[str, object]) -> None:
    """Putting them together broke no promise of a node; each of these lines says whose it is."""
    alpha, _ = healthy().save(tmp_path / "logs")
    lines = [json.loads(line) for line in (alpha / "alpha-000001-000001.jsonl").read_text().splitlines()[:4]]
    started = lines[0] if "event" in fields else lines[3]
    log = tmp_path / "a.jsonl"
    log.write_text("".join(f"{json.dumps(line)}\n" for line in [*lines[:3], {**started, **fields, "n": 4}]))
    verdict = replay(log, engine="local")
    assert verdict.verdict == "incomplete"
    assert verdict.unread == {str(log): "line 4 begins another segment: a file has one, so cut it there"}


CONTINUED: dict[str, object] = {**FIRST, "n": 3, "event": "node_continued", "name": "a", **dict.fromkeys(SETTINGS, 1)}


@pytest.mark.parametrize("other", [CONTINUED, {**LIKE, "n": 3, "node": BETA}], ids=["goes on", "of another node"])
def test_segments_behind_each_other_in_one_file_cannot_be_read(tmp_path: Path, other: dict[str, object]) -> None:
    """Also those of one start, or where a single line says that it is another node's."""
    said = "line 3 begins another segment: a file has one, so cut it there"
    assert unread(tmp_path / "a.jsonl", LIKE, other) == said


def test_records_are_cut_into_segments() -> None:
    common = {"node": "a", "incarnation": 1, "event": "dropped"}
    records = [
        {**common, "event": "node_started"}, common, {**common, "event": "node_continued"}, common,
        {**common, "incarnation": 2}, {**common, "node": "b"},
    ]  # fmt: skip
    assert [(line, len(list(part))) for line, part in split(records)] == [(1, 2), (3, 2), (5, 1), (6, 1)]
    assert list(split([])) == []


def test_a_file_that_ends_before_its_end_is_named(tmp_path: Path) -> None:
    """It was cut, or removed, since it was listed."""
    healthy().save(tmp_path)
    log = next(log for log in find_logs([tmp_path]) if log.path.name == "alpha-000001-000001.jsonl")
    whole = log.path.read_bytes()
    log.path.write_bytes(whole[: len(whole) // 2])
    reading = Reading(str(log.path))
    assert [record for _, some in reading.segments() for record in some]
    reading.compare(log.size)
    assert reading.fault == f"had {len(whole):,} bytes when it was listed, of which {len(whole) // 2:,} were read"
    log.path.unlink()
    gone = Reading(str(log.path))
    assert [list(some) for _, some in gone.segments()] == [[]]
    assert gone.fault == "cannot be read: No such file or directory"


def test_a_line_without_an_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is: no record is so long, and memory has an end."""
    healthy().save(tmp_path)
    log = tmp_path / "alpha" / "alpha-000002-000002.jsonl.open"
    lines = log.read_bytes().count(b"\n")
    with log.open("ab") as file:
        file.write(b"x" * 3_000)
    monkeypatch.setattr(files, "LINE_BYTES_MAX", 2_000)
    with pytest.raises(ReplayError, match=rf"line {lines + 1} is damaged: it is longer than 2,000 bytes$"):
        list(Tail(log).read())


def test_a_clock_may_begin_before_1970(tmp_path: Path) -> None:
    """One that was never set, or set wrongly: its node's log is judged as any other."""
    world = healthy()
    for record in [record for log in world.logs for record in log.records]:
        record["wall_ns"] -= 80 * 365 * 86_400 * 10**9
    verdict = replay(world.save(tmp_path / "then"), engine="local", report=tmp_path / "page.html")
    assert (verdict.verdict, verdict.unread) == ("pass", {})
    assert verdict.seconds == replay(healthy().save(tmp_path / "now"), engine="local").seconds
    assert "The logs go from 19" in (tmp_path / "page.html").read_text()


HALF = "a\ud800"


def sample(name: str) -> Any:
    field = (COMMON | FIELDS)[name]
    ids = {"node": "a" * 32, "origin": "b" * 32, "peer": "c" * 32, "session": "d" * 16, "class": "transactional"}
    values = {int: 1, bool: False, str: "text", list: [[1, 1]]}
    return {"v": 6, **ids}.get(name, values[field.type])


def held(more: tuple[str, ...], name: str) -> dict[str, Any]:
    why = {"reason": "queue-full"} if more else {}
    return {"stop": bool(more), **why} if name == "hold_received" else {}


def records() -> list[dict[str, Any]]:
    """One of each event, in each of its forms."""
    return [
        {**{name: sample(name) for name in (*COMMON, *event.fields, *more)}, "event": name, **held(more, name)}
        for name, event in EVENTS.items()
        for more in event.variants
        if (name, more) != ("position_recovered", ("ranges",))
    ]


def test_a_record_of_each_event_is_believed() -> None:
    assert [complaint(record) for record in records()] == [""] * len(records())


HARM: dict[type, list[Any]] = {
    int: [-1, -(10**30), NUMBER_MAX + 1, 10**4000],
    str: ["a\tb" * 400, HALF, "x" * 1_000_000],
    list: [[[-1, 1]], [[1, -(10**30)]], [[1, 1 << 70]], [[1]], [[1, True]], [7]],
}
"""What is no value of any field of a type."""


@pytest.mark.parametrize("name", sorted((COMMON | FIELDS).keys() - {"v", "event", "class"}))
def test_no_field_of_any_event_is_believed_whatever_it_says(name: str) -> None:
    kind = (COMMON | FIELDS)[name].type
    for record in records():
        for value in HARM.get(kind, []) if name in record else []:
            if value == -1 and name in ("at_ns", "wall_ns", "receive_by_ms"):
                continue
            said = complaint({**record, name: value})
            assert said.startswith("is damaged: ")
            assert len(said) < 300


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("node", "a\tb", "field 'node' is 'a\\tb', and not 32 hex digits"),
        ("origin", "A" * 32, f"field 'origin' is '{'A' * 32}', and not 32 hex digits"),
        ("first", -(10**30), f"field 'first' is {-(10**30)}, which nothing counts to"),
        ("first", 7, "a range from 7 to 1"),
        ("ranges", [[3, 2]], "a range from 3 to 2"),
        ("last", 10**4000, "field 'last' is a number of 13,288 bits, which nothing counts to"),
        ("queue", "q" * 1_001, f"field 'queue' is '{'q' * 100}'..., and has 1,001 letters"),
        ("reason", "a\tb", "field 'reason' is 'a\\tb', which is no word of a log"),
        ("queue", HALF, "field 'queue' is 'a\\ud800', which is no text"),
        ("receive_by_ms", -(10**30), f"field 'receive_by_ms' is {-(10**30)}, which no clock gives"),
        ("wall_ns", NS_MAX, f"field 'wall_ns' is {NS_MAX}, which no clock gives"),
        # A clock may be before 1970.
        ("wall_ns", -NS_MAX + 1, ""),
    ],
)
def test_what_is_wrong_is_said(name: str, value: Any, said: str) -> None:
    record = next(record for record in records() if name in record and (name != "ranges" or "ack" in record["event"]))
    assert complaint({**record, name: value}) == (f"is damaged: {said}" if said else "")


def test_a_class_is_one_of_three() -> None:
    """And a position is what its class has."""
    recovered = healthy().beta.one("position_recovered")
    assert complaint(recovered) == ""
    assert complaint({**recovered, "class": "magic"}) == "is damaged: unknown class 'magic'"
    no_such = "a position of class 'recoverable' that is not one"
    assert complaint({**recovered, "class": "recoverable"}).endswith(no_such)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"stop": True, "reason": "peer-quota"}, ""),
        ({"stop": False}, ""),
        ({"stop": True, "reason": "no-mood"}, "is damaged: no room for a stream, and why is 'no-mood'"),
        ({"stop": True}, "is damaged: no room for a stream, and why is None"),
        ({"stop": False, "reason": "peer-quota"}, "is damaged: a reason why there is room"),
    ],
)
def test_a_destination_without_room_says_why(fields: dict[str, object], said: str) -> None:
    hold = next(record for record in records() if record["event"] == "hold_received" and "reason" not in record)
    assert complaint({**hold, **fields}) == said
