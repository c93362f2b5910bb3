"""Finding logs, and reading lines that are whole."""

import json
import os
from pathlib import Path

import pytest

from tests.tools.replay.builder import ALPHA, close_segments, healthy
from triack.base.errors import ReplayError
from triack.tools.replay.files import (
    VIOLATIONS,
    by_either_name,
    complaint,
    find_logs,
    parse_records,
    read_records,
    segments_of,
    size_bytes,
)
from triack.tools.replay.local_engine import replay_local
from triack.tools.replay.run import replay
from triack.tools.replay.version1 import modernize


def test_a_torn_last_line_is_skipped(tmp_path: Path) -> None:
    """A crash in the middle of a write loses that record and nothing else."""
    directories = healthy().save(tmp_path)
    with (tmp_path / "beta" / "beta-000002-000002.jsonl.open").open("a") as file:
        file.write('{"v": 1, "event": "pack')
    verdict = replay(directories, engine="local")
    assert (verdict.verdict, verdict.torn_lines) == ("pass", 1)


def test_a_damaged_line_names_its_file_and_number(tmp_path: Path) -> None:
    """Damage in the middle ends the replay: a verdict over half a record would prove nothing."""
    directories = healthy().save(tmp_path)
    damage(tmp_path / "alpha" / "alpha-000001-000001.jsonl", 3, '{"v": 1, "ev\n')
    with pytest.raises(ReplayError, match=r"alpha-000001-000001\.jsonl line 3 is damaged"):
        replay(directories, engine="local")


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    """A log of a later schema is not guessed at."""
    world = healthy()
    world.beta.records[5]["v"] = 3
    with pytest.raises(ReplayError, match="has schema version 3"):
        replay(world.save(tmp_path), engine="local")


@pytest.mark.parametrize(("name", "said"), [("empty", "no session log"), ("nowhere", "no such directory")])
def test_no_logs_is_an_error(tmp_path: Path, name: str, said: str) -> None:
    """Nothing to read is no pass."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReplayError, match=said):
        replay([tmp_path / name], engine="local")


def test_no_path_is_an_error() -> None:
    """A library user may have found nothing to give."""
    with pytest.raises(ReplayError, match=r"^no directory with session logs was given$"):
        replay([], engine="local")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"v": 1, "event": "node_started", "node": 7}', "field 'node' is missing or of the wrong type"),
        ('{"v": 1, "ev', "no JSON from character 13 on"),
    ],
)
def test_a_first_line_that_does_not_fit_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """It says where the segment belongs, so both engines look at it before they start."""
    directories = healthy().save(tmp_path)
    file = tmp_path / "alpha" / "alpha-000001-000001.jsonl"
    damage(file, 1, f"{text}\n")
    with pytest.raises(ReplayError) as refused:
        replay(directories, engine="local")
    assert str(refused.value) == f"{file} line 1 is damaged: {reason}"


@pytest.mark.parametrize("text", ['{"level": "info", "at": 7}', '{"n": 4}', "[1]", "a line of text", "\x00\x01"])
def test_a_file_of_something_else_is_not_called_damaged(tmp_path: Path, text: str) -> None:
    """Other programs write *.jsonl, too; nothing is guessed at, and the file is named."""
    directories = healthy().save(tmp_path)
    other = tmp_path / "alpha" / "application.jsonl"
    other.write_text(f"{text}\n" * 3)
    with pytest.raises(ReplayError) as refused:
        replay(directories, engine="local")
    assert str(refused.value) == f"{other} is no session log: its first line does not begin one"


def test_the_violations_of_an_earlier_report_are_no_log(tmp_path: Path) -> None:
    """``--report`` may write its page among the logs, and they may be replayed again."""
    directories = healthy().save(tmp_path)
    (tmp_path / "alpha" / VIOLATIONS).write_text('{"check": "lost"}\n')
    assert replay(directories, engine="local").verdict == "pass"


@pytest.mark.parametrize("packer", ["gz", "bz2", "xz", "zst", "open.gz", "open.zst"])
def test_a_packed_segment_is_not_missed(tmp_path: Path, packer: str) -> None:
    """Whatever rotates files may pack them, those of killed nodes as well: the rest is no whole record."""
    directories = healthy().save(tmp_path)
    packed = tmp_path / "alpha" / f"alpha-000001-000003.jsonl.{packer}"
    packed.write_bytes(b"packed")
    for paths in (directories, [packed]):
        with pytest.raises(ReplayError) as refused:
            replay(paths, engine="local")
        assert str(refused.value).startswith(f"{packed} is packed: unpack it; `triack log compact` makes")


def test_an_empty_segment_is_not_missed(tmp_path: Path) -> None:
    """Nothing completes one without a record. One that is open may have been begun a moment before a crash."""
    directories = healthy().save(tmp_path)
    (tmp_path / "alpha" / "alpha-000002-000003.jsonl.open").touch()
    assert replay(directories, engine="local").verdict == "pass"
    empty = tmp_path / "alpha" / "alpha-000002-000004.jsonl"
    empty.touch()
    for paths in (directories, [empty]):
        with pytest.raises(ReplayError) as refused:
            replay(paths, engine="local")
        assert str(refused.value).startswith(f"{empty} is empty, as no complete segment is: restore it")


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Here it is a directory that is called like a log."""
    directories = healthy().save(tmp_path)
    (tmp_path / "alpha" / "alpha-000009-000001.jsonl").mkdir()
    with pytest.raises(ReplayError) as refused:
        replay(directories, engine="local")
    assert str(refused.value) == f"cannot read {tmp_path}/alpha/alpha-000009-000001.jsonl: Is a directory"


def test_a_directory_that_cannot_be_looked_into_is_named(tmp_path: Path) -> None:
    """What is in it would be missed without a word. This one is deeper than a path can say, so that nobody may."""
    healthy().save(tmp_path)
    here = os.open(tmp_path / "alpha", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        deeper = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    with pytest.raises(ReplayError, match=rf"^cannot read {tmp_path}/alpha/d.*: File name too long$"):
        find_logs([tmp_path])


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    loop = tmp_path / "a.jsonl"
    loop.symlink_to(loop)
    with pytest.raises(ReplayError, match=rf"^cannot read {loop}: Too many levels of symbolic links$"):
        find_logs([tmp_path])


@pytest.mark.parametrize("both", [False, True])
def test_a_segment_that_is_renamed_while_its_directory_is_listed_is_found_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, both: bool
) -> None:
    """A listing may have it by its old name, and by the new one as well."""
    healthy().save(tmp_path)
    walk = os.walk

    def walking(top: Path, **how: object) -> list[tuple[str, list[str], list[str]]]:
        listed = list(walk(top))
        close_segments(tmp_path)
        return listed + list(walk(top)) * both

    monkeypatch.setattr(os, "walk", walking)
    found = segments_of(tmp_path)
    assert len(found) == 8
    assert {path.suffix for path in found} == {".jsonl"}


def test_a_segment_that_is_renamed_after_it_was_listed_is_read(tmp_path: Path) -> None:
    """Whenever that is: a replay of many logs takes longer than a node with its segment."""
    healthy().save(tmp_path)
    wanted = replay_local(find_logs([tmp_path]))
    listed, logs = segments_of(tmp_path), find_logs([tmp_path])
    close_segments(tmp_path)
    assert all(size_bytes(path) for path in listed)
    judged = replay_local(logs)
    assert (judged.verdict, judged.records) == ("pass", wanted.records)


def test_a_segment_that_was_removed_is_missed(tmp_path: Path) -> None:
    """By neither name there is anything, and that is said."""
    gone = tmp_path / "a.jsonl.open"
    assert size_bytes(gone) == 0
    with pytest.raises(FileNotFoundError):
        by_either_name(str(gone), os.stat)


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
    assert [log.path.name for log in found] == [
        "alpha-000001-000001.jsonl",
        "alpha-000001-000002.jsonl.open",
        "alpha-000002-000001.jsonl",
        "alpha-000002-000002.jsonl.open",
        "zeta.jsonl",
        "beta-000001-000002.jsonl.open",
        "beta-000002-000001.jsonl",
        "beta-000002-000002.jsonl.open",
    ]
    assert found[0].order == (ALPHA, 1, 1)


def test_a_torn_line_is_kept_whole(tmp_path: Path) -> None:
    """However long it is; it may even be all that there is of a log."""
    (tmp_path / "a.jsonl").write_text('{"v": 1' + " " * 70_000)
    healthy().save(tmp_path)
    (file,) = tmp_path.glob("alpha/*-000002-000002.jsonl.open")
    whole = json.dumps({"v": 1, "event": "node_started"})
    with file.open("a") as log:
        log.write(whole)
    torn, *_, last = find_logs([tmp_path / "a.jsonl", tmp_path / "alpha"])
    assert (len(torn.torn), list(read_records(torn))) == (70_007, [])
    assert last.torn == whole


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1]", "is damaged: not a JSON object"),
        ("7", "is damaged: not a JSON object"),
        ('{"v": "1"}', "has schema version '1'; this replay reads versions 1 and 2"),
        ('{"v": true}', "has schema version True; this replay reads versions 1 and 2"),
        ('{"v": 2}', "is damaged: the first record of a segment has no times"),
        ('{"n": 4}', "is damaged: no record before it says whose it is"),
        ({"event": "exploded"}, "is damaged: unknown event 'exploded'"),
        ({"event": ["queued"]}, "is damaged: its event or class is not a name"),
        ({"reason": 7}, "is damaged: field 'reason' is of the wrong type"),
        ({"extra": 7}, "is damaged: dropped with the fields count, extra, reason"),
        ({"event": "rejected"}, "is damaged: rejected with the fields count, reason"),
        ({"wall_ns": 10**30}, f"is damaged: field 'wall_ns' is {10**30}, which no clock gives"),
        ({"at_ns": -(1 << 62)}, f"is damaged: field 'at_ns' is {-(1 << 62)}, which no clock gives"),
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


def test_a_time_of_its_own_is_judged_in_each_line(tmp_path: Path) -> None:
    """Also in one like another before it: most times are told by those of the first line."""
    first = {"v": 2, "node": ALPHA, "incarnation": 1, "n": 1, "at_ns": 0, "wall_ns": 0, "event": "node_stopped"}
    like = {"n": 2, "t": 1, "event": "dropped", "reason": "too-short", "count": 1}
    lines = [first, {**like, "wall_ns": 7}, {**like, "wall_ns": 1 << 62}]
    log = tmp_path / "a.jsonl"
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(ReplayError, match=r"line 3 is damaged: field 'wall_ns' is"):
        replay(tmp_path, engine="local")


def test_a_class_is_one_of_three() -> None:
    """And a position is what its class has."""
    world = healthy()
    world.number()
    recovered = modernize(world.beta.one("position_recovered"))
    assert complaint(recovered) == ""
    assert complaint({**recovered, "class": "magic"}) == "is damaged: unknown class 'magic'"
    assert complaint({**recovered, "class": "recoverable"}).endswith(
        "a position of class 'recoverable' that is not one"
    )


def test_a_log_in_memory_is_read_alike(tmp_path: Path) -> None:
    healthy().save(tmp_path)
    log = find_logs([tmp_path / "beta"])[0]
    records = list(read_records(log))
    assert parse_records(log.path.read_bytes() + b'{"v": 1, "ev') == records
    assert parse_records(b"") == []
    with pytest.raises(ValueError, match="Expecting"):
        parse_records(b'{"v": 1\n{"v": 1}\n')
