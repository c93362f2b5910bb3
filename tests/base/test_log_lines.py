"""Lines become records again, wherever a segment is cut off."""

import json
from typing import Any

import pytest

from triack.base import log_lines
from triack.base.log_lines import SEGMENT_BEGIN, LineReader, LineWriter

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
    common = {"v": 3, "node": NODE.hex(), "incarnation": 3}
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


def test_what_is_shared_is_said_once() -> None:
    first, second = written(2).splitlines()[1:]
    assert json.loads(first)["origin"] == STREAM["origin"]
    assert json.loads(second) == {"n": 3, "t": 2, "event": "committed", "of": 1, "first": 2, "last": 2, "count": 1}


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
    for number in range(12):
        writer.add("committed", number, {**STREAM, "first": number, "last": number, "count": 1, "queue": "q"})
        parts.append(writer.take())
    begins = [at for at, part in enumerate(parts) if part.startswith(SEGMENT_BEGIN)]
    assert len(begins) > 2
    assert [record["n"] for record in read(b"".join(parts[begins[-1] :]))] == list(range(begins[-1] + 1, 13))
    assert [record["first"] for record in read(b"".join(parts))] == list(range(12))


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
    monkeypatch.setattr(log_lines, "GROUPS_MAX", 3)
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
        ({"v": 3, "n": 1}, "the first record of a segment has no times"),
        ({"v": 3, "at_ns": 1, "wall_ns": "1"}, "the first record of a segment has no times"),
        ({"v": 3, "at_ns": 1, "wall_ns": 17 * 10**18}, "has times that no clock has"),
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
        ({"n": 5, "t": 1, "of": 2}, "no record before it shares anything as 2"),
        ({"n": 5, "t": 1, "of": [1]}, r"no record before it shares anything as \[1\]"),
        ({"n": 5, "t": 1, "as": []}, "what it shares has no number"),
    ],
)
def test_a_line_that_says_too_little_is_noticed(line: dict[str, Any], reason: str) -> None:
    reader = LineReader()
    read(written(), reader)
    with pytest.raises(ValueError, match=reason):
        reader.read(line)
