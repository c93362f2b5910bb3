"""``triack log compact``: the same records in less room, and nothing done twice."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.replay.builder import World, close_segments, healthy
from tests.tools.replay.faults import FAULTS, ready
from triack.base.errors import ReplayError
from triack.base.session_log import COMMON
from triack.tools.replay.log import compact as module
from triack.tools.replay.log.compact import compact, read_sources, sources_of
from triack.tools.replay.log.files import find_logs, read_records
from triack.tools.replay.log.listing import Listing, list_logs
from triack.tools.replay.run import replay

pytest.importorskip("pyarrow")


def sources(output: Path) -> list[str]:
    """The segments that are in a place, each as often as it is there."""
    return sorted(it.source for path in output.rglob("*.parquet") for it in sources_of(path))


def sizes_in(directory: Path) -> dict[str, int]:
    return {Path(listed.path).name: listed.size for listed in list_logs([directory]).logs}


def a_lie() -> World:
    world = ready()
    FAULTS["order_ack_too_early"](world)
    return world


@pytest.mark.gate
@pytest.mark.parametrize("world", [healthy, a_lie])
def test_a_replay_says_the_same(world: object, tmp_path: Path) -> None:
    assert callable(world)
    world().save(tmp_path / "logs")
    done = compact(tmp_path / "logs", tmp_path / "out")
    assert done.segments == done.made > 1
    before, after = replay(tmp_path / "logs"), replay(tmp_path / "out")
    assert done.records == after.records
    for finding in [*before.findings, *after.findings]:
        finding.file, finding.line = "", 0
    assert (len(before.files), len(after.files)) == (done.segments, 1)
    before.files, after.files, before.timeline = {}, {}, after.timeline
    assert after == before


@pytest.mark.gate
def test_only_what_is_new_or_has_grown_is_made(tmp_path: Path) -> None:
    healthy().save(tmp_path / "logs")
    open_ = next((tmp_path / "logs" / "alpha").glob("*.open"))
    lines = open_.read_bytes().splitlines(keepends=True)
    open_.write_bytes(b"".join(lines[:-3]) + b'{"v": 6, "torn')
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


@pytest.mark.gate
def test_a_store_that_ran_twice_stays_two(tmp_path: Path) -> None:
    """Its copy writes segments of the same names into another directory: what proves that is not replaced."""
    healthy().save(tmp_path / "logs" / "here")
    again(healthy(), tmp_path / "logs" / "there")
    for _ in range(2):
        compact(tmp_path / "logs", tmp_path / "out")
        before, after = replay(tmp_path / "logs"), replay(tmp_path / "out")
        assert len(sources(tmp_path / "out")) == 16
        assert after.verdict == before.verdict == "fail"
        assert after.violations == before.violations


@pytest.mark.gate
@pytest.mark.parametrize("other", ["logs", "logs-2"])
def test_what_was_made_of_earlier_logs_stays(tmp_path: Path, other: str) -> None:
    """They were deleted, and a backup of their store wrote the same names again; or both went to one place."""
    healthy().save(tmp_path / "logs")
    sizes = sizes_in(tmp_path / "logs")
    compact(tmp_path / "logs", tmp_path / "out")
    shutil.rmtree(tmp_path / "logs")
    again(healthy(), tmp_path / other)
    assert sizes_in(tmp_path / other) == sizes
    assert compact(tmp_path / other, tmp_path / "out").made == 8
    assert compact(tmp_path / other, tmp_path / "out").made == 0
    assert len(sources(tmp_path / "out")) == 16


def test_a_segment_that_is_there_by_both_its_names_is_refused(tmp_path: Path) -> None:
    """Copying logs again and again makes that; the shorter of the two must not take the place of the other."""
    healthy().save(tmp_path / "logs")
    whole = next((tmp_path / "logs" / "alpha").glob("*.jsonl"))
    shorter = whole.with_name(f"{whole.name}.open")
    shorter.write_bytes(whole.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(ReplayError) as refused:
        compact(tmp_path / "logs", tmp_path / "out")
    assert str(refused.value) == f"{whole} and {shorter} are one segment: keep only the larger one"


@pytest.mark.parametrize(("field", "value"), [("wall_ns", 10**30), ("node", "/../../x")])
def test_what_damage_says_names_no_file(tmp_path: Path, field: str, value: object) -> None:
    """The day and the node of the first record do; the error about a damaged one names its line."""
    world = healthy()
    world.alpha.records[0][field] = value
    world.save(tmp_path / "logs")
    with pytest.raises(ReplayError, match=r"alpha-000001-000001.jsonl line 1 is damaged: "):
        compact(tmp_path / "logs", tmp_path / "out")


def test_without_pyarrow_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy().save(tmp_path / "logs")
    monkeypatch.setitem(sys.modules, "triack.tools.replay.log.columns", None)
    with pytest.raises(ReplayError, match=r"wants PyArrow: pip install"):
        compact(tmp_path / "logs", tmp_path / "compact")
    assert not (tmp_path / "compact").exists()


@pytest.mark.gate
def test_logs_and_what_was_made_of_them_are_not_judged_together(tmp_path: Path) -> None:
    """They lie beside each other, and the directory above gives both: no promise is broken by that."""
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


def test_what_is_made_is_its_owners_alone(tmp_path: Path) -> None:
    """As the logs are."""
    healthy().save(tmp_path / "logs")
    compact(tmp_path / "logs", tmp_path / "out")
    (made,) = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert made.stat().st_mode & 0o777 == 0o600


def then(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let something happen when segments were listed, and before they are looked at."""

    def listing(paths: list[Path]) -> Listing:
        found = list_logs(paths)
        act()
        return found

    monkeypatch.setattr(module, "list_logs", listing)


@pytest.mark.gate
def test_a_node_may_go_on_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that it completes are taken, and known again by their new names."""
    healthy().save(tmp_path / "logs")
    then(lambda: close_segments(tmp_path / "logs"), monkeypatch)
    assert compact(tmp_path / "logs", tmp_path / "out").made == 8
    assert compact(tmp_path / "logs", tmp_path / "out").made == 0
    assert replay(tmp_path / "out").verdict == "pass"


def test_what_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that cannot be read is not the output that cannot be written; nor is any left out."""
    healthy().save(tmp_path / "logs")
    (tmp_path / "file").touch()
    with pytest.raises(ReplayError, match=rf"^cannot write {tmp_path}/file: File exists$"):
        compact(tmp_path / "logs", tmp_path / "file")
    packed = tmp_path / "logs" / "alpha.jsonl.gz"
    packed.touch()
    with pytest.raises(ReplayError, match=rf"^{packed} is packed"):
        compact(tmp_path / "logs", tmp_path / "out")
    packed.unlink()
    gone = next((tmp_path / "logs" / "alpha").glob("*.open"))
    then(gone.unlink, monkeypatch)
    with pytest.raises(ReplayError, match=rf"^{gone} cannot be read: No such file or directory$"):
        compact(tmp_path / "logs", tmp_path / "out")


@pytest.mark.gate
@pytest.mark.parametrize("at_once", [True, False])
def test_many_small_segments_are_one_file(tmp_path: Path, at_once: bool) -> None:
    """However often it runs, what is made is smaller than the logs, and is read as quickly."""
    world = healthy()
    world.number()
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in range(1, 61):
        records = [{**record, "incarnation": number} for record in world.alpha.records[:3]]
        text = "".join(f"{json.dumps(record)}\n" for record in records)
        (logs / f"alpha-{number:06d}-000001.jsonl").write_text(text)
        if not at_once:
            compact(logs, tmp_path / "out")
    compact(logs, tmp_path / "out")
    (file,) = (tmp_path / "out").rglob("*.parquet")
    assert len(sources(tmp_path / "out")) == 60
    wanted = [record for log in find_logs([logs]) for record in read_records(log)]
    (log,) = find_logs([tmp_path / "out"])
    assert list(read_records(log)) == wanted
    assert file.stat().st_size < sum(path.stat().st_size for path in logs.iterdir())


@pytest.mark.gate
def test_a_file_that_is_full_takes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So no run writes much of what was made before, and engines share the work; a start may be in several files."""
    healthy().save(tmp_path / "logs")
    monkeypatch.setattr(module, "FILE_BYTES", max(sizes_in(tmp_path / "logs").values()))
    compact(tmp_path / "logs", tmp_path / "out")
    assert len(list((tmp_path / "out").rglob("*.parquet"))) > 2
    assert len(sources(tmp_path / "out")) == 8
    assert replay(tmp_path / "out").verdict == "pass"


@pytest.mark.gate
def test_what_a_crash_left_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without its name is no log, and goes; what had its name is whole."""
    healthy().save(tmp_path / "logs")
    compact(tmp_path / "logs" / "alpha", tmp_path / "out")
    made = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet")}

    def crash(path: Path, *_: Path, missing_ok: bool = False) -> None:
        if path.exists() or not missing_ok:
            raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(Path, "replace", crash)
        dying.setattr(Path, "unlink", crash)
        with pytest.raises(KeyboardInterrupt):
            compact(tmp_path / "logs", tmp_path / "out")
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet")} == made
    (left,) = (tmp_path / "out").rglob("*.new")
    assert replay(tmp_path / "out", engine="local").unread == {
        str(left): "was not finished: run `triack log compact` again"
    }
    assert compact(tmp_path / "logs" / "beta", tmp_path / "out").made == 4
    assert not left.exists()
    assert replay(tmp_path / "out").verdict == "pass"


def test_a_place_with_files_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """The content of such files is not known, so that a record might be there twice."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    healthy().save(tmp_path / "logs")
    (tmp_path / "out").mkdir()
    pq.write_table(pa.table({name: [1] for name in COMMON}), tmp_path / "out" / "a.parquet")
    with pytest.raises(ReplayError, match=r"a\.parquet is no file that `triack log compact` makes: name another place"):
        compact(tmp_path / "logs", tmp_path / "out")


@pytest.mark.parametrize("told", [b"", b"7", b"[" * 100_000, b'[["a", 1, 1]]', b'[["a", 1, 1, true]]', b"\xff"])
def test_what_no_run_has_told_is_not_believed(told: bytes) -> None:
    assert read_sources(told) is None


def test_days_before_1970_have_names(tmp_path: Path) -> None:
    """For clocks that were never set."""
    world = healthy()
    for record in [record for log in world.logs for record in log.records]:
        record["wall_ns"] -= 80 * 365 * 86_400 * 10**9
    world.save(tmp_path / "logs")
    compact(tmp_path / "logs", tmp_path / "out")
    (day,) = (tmp_path / "out").iterdir()
    assert day.name.startswith("day=19")
    assert replay(tmp_path / "out").verdict == "pass"
