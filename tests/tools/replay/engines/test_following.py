"""Logs that grow, summaries, and replays that go on from them."""

import hashlib
import pickle
from pathlib import Path

import pytest

from tests.tools.replay.builder import healthy
from triack.base.errors import ReplayError
from triack.tools.replay.checks.findings import DisorderError
from triack.tools.replay.engines import checkpoint
from triack.tools.replay.engines.checkpoint import freeze, load, revive, save
from triack.tools.replay.engines.pieces import merged_by, pieces_of
from triack.tools.replay.engines.standing import Growing, Standing
from triack.tools.replay.judges.conclusion import Read
from triack.tools.replay.judges.judge import Judge

# A checkpoint is kept whole or not at all, and nothing in its file is run.


def judged() -> Judge:
    judge = Judge()
    world = healthy()
    world.number()
    for log in world.logs:
        judge.read(log.name, log.records)
    return judge


def test_what_is_kept_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    assert load(path, Judge) is None
    save(path, judged())
    kept = load(path, Judge)
    assert kept is not None
    assert kept.finish() == judged().finish()
    assert [it.name for it in tmp_path.iterdir()] == ["kept"]


def test_another_version_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept"
    save(path, judged())
    monkeypatch.setattr(checkpoint, "_HEAD", b"triack replay checkpoint, version 99\n")
    assert load(path, Judge) is None


@pytest.mark.parametrize(("data", "said"), [(b"", "no checkpoint"), (b"something else\n", "no checkpoint")])
def test_another_file_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "kept"
    path.write_bytes(data)
    with pytest.raises(ReplayError, match=said):
        load(path, Judge)


@pytest.mark.parametrize("data", [b"", b"\x80\x05", b"\x80\x05.", b"\x80\x05h\x00.", b"\x80\x05]]s.", b"\x80\x05]}b."])
def test_a_state_that_nobody_wrote_is_refused(tmp_path: Path, data: bytes) -> None:
    """Under a digest that fits."""
    path = tmp_path / "kept"
    save(path, judged())
    head, newline, _ = path.read_bytes().partition(b"\n")
    path.write_bytes(head + newline + hashlib.sha256(data).digest() + data)
    with pytest.raises(ReplayError, match="kept is no checkpoint of triack replay: "):
        load(path, Judge)


def test_damage_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    save(path, judged())
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    with pytest.raises(ReplayError, match="damaged"):
        load(path, Judge)
    with pytest.raises(ReplayError, match="cannot read"):
        load(tmp_path, Judge)
    with pytest.raises(ReplayError, match="cannot write"):
        save(tmp_path / "nowhere" / "kept", judged())


class Runs:
    """What a forger would put in."""

    def __reduce__(self) -> tuple[object, ...]:
        return print, ("it ran",)


@pytest.mark.parametrize("state", [Runs(), [judged, "x"], Judge, 7])
def test_nothing_in_it_runs(tmp_path: Path, state: object, capsys: pytest.CaptureFixture[str]) -> None:
    """Only plain data and replay's own classes are taken, and only as what is asked for."""
    path = tmp_path / "kept"
    save(path, state)
    with pytest.raises(ReplayError, match="no checkpoint"):
        load(path, Judge)
    assert capsys.readouterr().out == ""


def test_names_with_dots_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They reach from a module of ours to anything."""
    path = tmp_path / "kept"
    monkeypatch.setattr(
        pickle, "dumps", lambda state, protocol: b"\x80\x04\x8c\x17triack.tools.replay.run\x8c\x09os.system\x93."
    )
    save(path, judged())
    with pytest.raises(ReplayError, match=r"run\.os\.system does not belong"):
        load(path, Judge)


def test_what_another_user_may_have_written_is_not_believed(tmp_path: Path) -> None:
    """It would say what was found before."""
    path = tmp_path / "kept"
    save(path, judged())
    path.chmod(0o666)
    with pytest.raises(ReplayError, match=f"cannot read {path}: others may write to {path} "):
        load(path, Judge)


# The pieces of a table have everything that was written, once, and are few.


def test_pieces_have_what_every_batch_wrote_and_no_row_is_moved_often() -> None:
    holds: dict[int, list[int]] = {}
    for batch in range(200):
        assert set(merged_by(batch)) <= set(pieces_of(batch - 1)) <= holds.keys()
        holds[batch] = [batch, *(old for piece in merged_by(batch) for old in holds[piece])]
        pieces = pieces_of(batch)
        assert sorted(old for piece in pieces for old in holds[piece]) == list(range(batch + 1))
        assert set(pieces) - {batch} <= set(pieces_of(batch - 1)), "what was merged is gone"
        assert len(pieces) <= (batch + 1).bit_length()
    assert max(sum(old in piece for piece in holds.values()) for old in range(200)) <= 8


def test_before_the_first_batch_there_is_nothing() -> None:
    assert pieces_of(-1) == []
    assert merged_by(0) == []
    assert (merged_by(1), merged_by(2), merged_by(3)) == ([0], [], [2, 1])


# Segments, sessions and streams go on where they were, from bytes that were kept.


def test_a_segment_is_read_on_from_where_it_was(tmp_path: Path) -> None:
    """Up to the size that is given, under its new name; half a line waits for its end."""
    healthy().save(tmp_path)
    (log,) = tmp_path.glob("beta/*-000001-000001.jsonl")
    size = log.stat().st_size
    whole = [record["n"] for _, record in Growing().grow(str(log), size)]
    segment = Growing()
    lines = log.read_bytes().count(b"\n")
    first = [record["n"] for _, record in segment.grow(str(log), size - 5)]
    assert dict(segment.parts())["file"] == Read(str(log), lines - 1, torn=True)
    segment = revive(freeze(segment), Growing)
    renamed = log.rename(tmp_path / "renamed.jsonl")
    rest = [record["n"] for _, record in segment.grow(str(renamed), size)]
    assert set(rest) == {whole[-1]}
    assert first + rest == whole
    assert dict(segment.parts())["file"] == Read(str(renamed), lines)
    assert [what for what, _ in segment.parts()] == ["file", "segment"]


def test_a_segment_that_is_another_one_is_not_read_on(tmp_path: Path) -> None:
    healthy().save(tmp_path)
    (log,) = tmp_path.glob("beta/*-000001-000001.jsonl")
    segment = Growing()
    list(segment.grow(str(log), log.stat().st_size))
    log.write_text("{}\n" * 1000)
    with pytest.raises(DisorderError):
        segment.grow(str(log), log.stat().st_size)


def test_a_session_takes_the_records_of_a_node_in_their_order() -> None:
    world = healthy()
    world.number()
    session = world.alpha.one("session_opened")["session"]
    mine = [record for record in world.alpha.records if record.get("session") == session]
    standing = Standing(("session", session), forgets=True)
    standing.see(mine[:3])
    standing = revive(freeze(standing), Standing)
    assert len(standing.now().openings) == 1
    with pytest.raises(DisorderError):
        standing.see(mine[:1])
