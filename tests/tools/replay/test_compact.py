"""``triack log compact``: the same records in less room, and nothing done twice."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.tools.replay.builder import World, close_segments, healthy
from tests.tools.replay.faults import FAULTS, ready
from triack.base.errors import ReplayError
from triack.tools.replay import compact as module
from triack.tools.replay.compact import MANIFEST, compact
from triack.tools.replay.files import segments_of
from triack.tools.replay.run import replay

pytest.importorskip("pyarrow")


def a_lie() -> World:
    world = ready()
    FAULTS["order_ack_too_early"](world)
    return world


@pytest.mark.parametrize("world", [healthy, a_lie])
def test_a_replay_says_the_same(world: object, tmp_path: Path) -> None:
    assert callable(world)
    world().save(tmp_path / "logs")
    done = compact(tmp_path / "logs", tmp_path / "out")
    assert done.segments == done.made > 1
    before, after = replay(tmp_path / "logs"), replay(tmp_path / "out")
    assert done.records == after.records
    for finding in [*before.findings, *after.findings]:
        finding.file = ""
    assert after == before


def test_only_what_is_new_or_has_grown_is_made(tmp_path: Path) -> None:
    healthy().save(tmp_path / "logs")
    open_ = next((tmp_path / "logs" / "alpha").glob("*.open"))
    lines = open_.read_bytes().splitlines(keepends=True)
    open_.write_bytes(b"".join(lines[:-3]) + b'{"v": 1, "torn')
    assert compact(tmp_path / "logs", tmp_path / "out").made == 8
    assert compact(tmp_path / "logs", tmp_path / "out").made == 0
    open_.write_bytes(b"".join(lines))
    open_.rename(open_.with_name(open_.name.removesuffix(".open")))
    done = compact(tmp_path / "logs", tmp_path / "out")
    assert (done.made, done.records) == (1, len(lines))
    assert replay(tmp_path / "out").verdict == "pass"


def again(world: World, directory: Path) -> None:
    """The segments of a store that runs once more from a copy: of the same names and lengths, some time later."""
    for record in world.alpha.records + world.beta.records:
        record["wall_ns"] += 1_000_000
    world.save(directory)


def test_a_store_that_ran_twice_stays_two(tmp_path: Path) -> None:
    """Its copy writes segments of the same names into another directory: what proves that is not replaced."""
    healthy().save(tmp_path / "logs" / "here")
    again(healthy(), tmp_path / "logs" / "there")
    for _ in range(2):
        compact(tmp_path / "logs", tmp_path / "out")
        before, after = replay(tmp_path / "logs"), replay(tmp_path / "out")
        assert len(list((tmp_path / "out").rglob("*.parquet"))) == 16
        assert after.verdict == before.verdict == "fail"
        assert after.violations == before.violations


@pytest.mark.parametrize("other", ["logs", "logs-2"])
def test_what_was_made_of_earlier_logs_stays(tmp_path: Path, other: str) -> None:
    """They were deleted, and a backup of their store wrote the same names again; or both went to one place."""
    healthy().save(tmp_path / "logs")
    sizes = {path.name: path.stat().st_size for path in segments_of(tmp_path / "logs")}
    compact(tmp_path / "logs", tmp_path / "out")
    shutil.rmtree(tmp_path / "logs")
    again(healthy(), tmp_path / other)
    assert {path.name: path.stat().st_size for path in segments_of(tmp_path / other)} == sizes
    assert compact(tmp_path / other, tmp_path / "out").made == 8
    assert compact(tmp_path / other, tmp_path / "out").made == 0
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == 16


def test_a_segment_that_is_there_by_both_its_names_is_refused(tmp_path: Path) -> None:
    """Whoever copies logs again and again gets that; the shorter of the two must not take the place of the other."""
    healthy().save(tmp_path / "logs")
    whole = next((tmp_path / "logs" / "alpha").glob("*.jsonl"))
    shorter = whole.with_name(f"{whole.name}.open")
    shorter.write_bytes(whole.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(ReplayError) as refused:
        compact(tmp_path / "logs", tmp_path / "out")
    assert str(refused.value) == f"{whole} and {shorter} are one segment: keep only the larger one"


def test_what_is_made_is_its_owners_alone(tmp_path: Path) -> None:
    """As the logs are; also what an earlier run left that is for all."""
    healthy().save(tmp_path / "logs")
    compact(tmp_path / "logs", tmp_path / "out")
    made = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(made) == 9
    assert {path.stat().st_mode & 0o777 for path in made} == {0o600}
    (tmp_path / "out" / MANIFEST).chmod(0o644)
    compact(tmp_path / "logs", tmp_path / "out")
    assert (tmp_path / "out" / MANIFEST).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("field", "value"), [("wall_ns", 10**30), ("node", "/../../x")])
def test_what_damage_says_names_no_file(tmp_path: Path, field: str, value: object) -> None:
    """The day and the node of the first record do; damaged ones are told by their line."""
    world = healthy()
    world.alpha.records[0][field] = value
    world.save(tmp_path / "logs")
    with pytest.raises(ReplayError, match=r"alpha-000001-000001.jsonl line 1 is damaged: "):
        compact(tmp_path / "logs", tmp_path / "out")


def then(act: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let something happen when segments were listed, and before they are looked at."""

    def listing(path: Path) -> list[Path]:
        found = segments_of(path)
        assert callable(act)
        act()
        return found

    monkeypatch.setattr(module, "segments_of", listing)


def test_a_node_may_go_on_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it completes is taken, and known again by its new name."""
    healthy().save(tmp_path / "logs")
    then(lambda: close_segments(tmp_path / "logs"), monkeypatch)
    assert compact(tmp_path / "logs", tmp_path / "out").made == 8
    assert compact(tmp_path / "logs", tmp_path / "out").made == 0
    assert replay(tmp_path / "out").verdict == "pass"


def test_what_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that cannot be read is not the output that cannot be written."""
    healthy().save(tmp_path / "logs")
    (tmp_path / "file").touch()
    with pytest.raises(ReplayError, match=rf"^cannot write {tmp_path}/file: File exists$"):
        compact(tmp_path / "logs", tmp_path / "file")
    gone = next((tmp_path / "logs" / "alpha").glob("*.open"))
    then(gone.unlink, monkeypatch)
    with pytest.raises(ReplayError, match=rf"^cannot read {gone}: No such file or directory$"):
        compact(tmp_path / "logs", tmp_path / "out")


def test_without_pyarrow_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy().save(tmp_path / "logs")
    monkeypatch.setitem(sys.modules, "triack.tools.replay.columns", None)
    with pytest.raises(ReplayError, match=r"wants PyArrow: pip install"):
        compact(tmp_path / "logs", tmp_path / "compact")
    assert not (tmp_path / "compact").exists()


def test_what_a_crash_left_is_made_again(tmp_path: Path) -> None:
    """A file without its line, a line that is torn, a file without its name."""
    healthy().save(tmp_path / "logs")
    compact(tmp_path / "logs", tmp_path / "out")
    manifest = tmp_path / "out" / MANIFEST
    told = [json.loads(line) for line in manifest.read_text().splitlines()]
    assert sum(line["records"] for line in told) == replay(tmp_path / "logs").records
    manifest.write_bytes(manifest.read_bytes()[:-20])
    (tmp_path / "out" / told[0]["file"]).with_name(".x.parquet.new").write_bytes(b"half")
    assert compact(tmp_path / "logs", tmp_path / "out").made == 1
    assert compact(tmp_path / "logs", tmp_path / "out").made == 0
    assert replay(tmp_path / "out").verdict == "pass"


def test_lines_that_no_run_wrote_tell_nothing(tmp_path: Path) -> None:
    """Nor do they end a run: everything is made again, and told behind them."""
    healthy().save(tmp_path / "logs")
    (tmp_path / "out").mkdir()
    lines = [b"[" * 100_000, b'{"file": ["a"], "bytes": 1}', b'{"file": "a", "bytes": "1"}', b"7", b"\xff"]
    (tmp_path / "out" / MANIFEST).write_bytes(b"\n".join(lines))
    done = compact(tmp_path / "logs", tmp_path / "out")
    assert done.made == done.segments > 0
    assert compact(tmp_path / "logs", tmp_path / "out").made == 0


def test_logs_and_what_was_made_of_them_are_not_judged_together(tmp_path: Path) -> None:
    """They lie beside each other, and whoever gives the directory above gives both: no promise is broken by that."""
    healthy().save(tmp_path / "logs")
    compact(tmp_path / "logs", tmp_path / "logs-compact")
    with pytest.raises(ReplayError, match="begin with the same record: give only one of them"):
        replay(tmp_path, engine="local")


def test_records_are_never_there_twice(tmp_path: Path) -> None:
    healthy().save(tmp_path / "logs")
    with pytest.raises(ReplayError, match=r"is within .*, where a replay would find each record twice$"):
        compact(tmp_path / "logs", tmp_path / "logs" / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReplayError, match=r"^no session log"):
        compact(tmp_path / "empty", tmp_path / "out")
