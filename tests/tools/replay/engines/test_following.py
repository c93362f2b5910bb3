"""Logs that grow, summaries, and replays that go on from them."""

import hashlib
import pickle
from pathlib import Path

import pytest

from tests.tools.replay.builder import healthy
from triack.base.errors import ReplayError
from triack.tools.replay.engines import checkpoint
from triack.tools.replay.engines.checkpoint import load, save
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
