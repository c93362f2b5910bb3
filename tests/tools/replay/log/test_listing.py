"""Which files are read, and what the verdict says of those that are not."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.replay.builder import World, close_segments, healthy
from tests.tools.replay.faults import faulty
from triack.base.errors import ReplayError
from triack.base.session_log import COMMON
from triack.tools.replay.log import compact as module
from triack.tools.replay.log.compact import compact, read_sources, sources_of
from triack.tools.replay.log.files import find_logs, read_records
from triack.tools.replay.log.listing import (
    SUMMARY,
    VIOLATIONS,
    Listed,
    Listing,
    by_either_name,
    complete,
    list_growing,
    list_logs,
    local_path,
    refusal_of,
    there,
)
from triack.tools.replay.run import replay

pytest.importorskip("pyarrow")

BEGIN = '{"v": 6, "torn'
"""What a file that is a log begins with."""

ODD_NAMES = [
    "zürich", "_hidden", ".hidden", "{a,b}", "[a]", "a*b?", "a:b", "a#b", "a%20b", "a b", "a\nb", "a\\b", "$HOME", "~",
    os.fsdecode(b"\xff\xfe"),
]  # fmt: skip
"""Folders and files that engines and shells take for something else."""


def names_in(folder: Path) -> list[str]:
    return [os.path.relpath(listed.path, folder) for listed in list_logs([folder]).logs]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_hides_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / f"{name}.jsonl").write_text(BEGIN)
    (tmp_path / f"{name}.jsonl.open").write_text(BEGIN)
    assert sorted(names_in(tmp_path)) == sorted([f"{name}/{name}.jsonl", f"{name}.jsonl.open"])


PACKED = "is packed: unpack it; `triack log compact` makes small files that a replay reads"
CALLED = "is called like a session log, but does not end in .jsonl, .jsonl.open, .parquet"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a.jsonl.gz", PACKED),
        ("a.jsonl.open.zst", PACKED),
        ("a.jsonl.tmp", CALLED),
        (".a-000001-000001.jsonl.X7a", CALLED),
        ("a-000001-000001.zst", CALLED),
        ("A.JSONL", CALLED),
        (".a.parquet.new", "was not finished: run `triack log compact` again"),
        ("a.jsonl", ""),
        (".a.jsonl.crc", None),
        ("notes.txt", None),
    ],
)
def test_what_a_name_says(name: str, why: str | None) -> None:
    assert refusal_of(name) == why


def test_what_looks_like_a_log_is_never_left_out_in_silence(tmp_path: Path) -> None:
    """Whatever is in the way of reading it; all else is read, and no verdict over that is a pass."""
    healthy().save(tmp_path)
    (tmp_path / "packed.jsonl.gz").write_bytes(b"packed")
    (tmp_path / "part.jsonl.part").write_text(BEGIN)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "other.jsonl").write_text('{"level": "info"}\n')
    (tmp_path / "other.parquet").write_text("text")
    (tmp_path / "gone.jsonl").symlink_to("nowhere")
    (tmp_path / "beta-2").symlink_to("nowhere")
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    verdict = replay(tmp_path, engine="local")
    nowhere = "is a link that leads nowhere"
    assert verdict.verdict == "incomplete"
    assert {str(Path(path).relative_to(tmp_path)): why.partition(":")[0] for path, why in verdict.unread.items()} == {
        "packed.jsonl.gz": "is packed",
        "part.jsonl.part": CALLED,
        "empty.jsonl": "is empty, as no complete segment is",
        "other.jsonl": "is no session log",
        "other.parquet": "is damaged",
        "gone.jsonl": nowhere,
        "beta-2": nowhere,
        "loop.jsonl": "cannot be read",
        "pipe.jsonl": "is no file",
    }  # fmt: skip
    assert len(verdict.files) == 8
    assert sum(verdict.files.values()) == verdict.records > 0


def test_what_nobody_may_look_at_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy().save(tmp_path)
    (tmp_path / "shut").mkdir()
    (tmp_path / "shut.jsonl").write_text(BEGIN)
    scan, opening = os.scandir, Path.open

    def open_to_all(path: Path) -> Path:
        if path.name.startswith("shut"):
            raise PermissionError(13, "denied", str(path))
        return path

    monkeypatch.setattr(os, "scandir", lambda path: scan(open_to_all(Path(path))))
    monkeypatch.setattr(Path, "open", lambda path, *how, **more: opening(open_to_all(path), *how, **more))
    unread = list_logs([tmp_path]).unread
    assert unread == dict.fromkeys((f"{tmp_path}/shut", f"{tmp_path}/shut.jsonl"), "cannot be read: Permission denied")


def test_a_directory_that_is_too_deep_is_named(tmp_path: Path) -> None:
    """It is deeper than a path can say, so that nobody may look at it."""
    healthy().save(tmp_path)
    here = os.open(tmp_path / "alpha", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        deeper = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    (why,) = list_logs([tmp_path]).unread.values()
    assert why == "cannot be read: File name too long"


def test_links_are_followed_and_each_file_is_read_once(tmp_path: Path) -> None:
    elsewhere, logs = tmp_path / "elsewhere", tmp_path / "logs"
    for folder in (elsewhere, logs):
        folder.mkdir()
    (elsewhere / "a.jsonl").write_text(BEGIN)
    (elsewhere / "loop").symlink_to(logs)
    (logs / "away").symlink_to(elsewhere)
    (logs / "again.jsonl").symlink_to(elsewhere / "a.jsonl")
    (logs / "hard.jsonl").hardlink_to(elsewhere / "a.jsonl")
    (logs / "0.jsonl.tmp").hardlink_to(elsewhere / "a.jsonl")
    listing = list_logs([logs, logs / "..", elsewhere, elsewhere / "a.jsonl"])
    assert (len(listing.logs), listing.unread) == (1, {})


def test_a_directory_may_be_called_like_a_log(tmp_path: Path) -> None:
    """As Spark's are; what is in it is read. A file that is given is read whatever it is called."""
    (tmp_path / "logs.parquet").mkdir()
    for name in ("a.jsonl", "log.txt"):
        (tmp_path / "logs.parquet" / name).write_text(BEGIN)
    assert names_in(tmp_path) == ["logs.parquet/a.jsonl"]
    given = str(tmp_path / "logs.parquet" / "log.txt")
    assert [listed.path for listed in list_logs([given]).logs] == [given]


def test_a_report_may_be_written_among_the_logs_that_are_judged_again(tmp_path: Path) -> None:
    """The file of its violations is no log, empty or not, nor if it is given. A log that has its name is one."""
    healthy().save(tmp_path)
    (tmp_path / "pages").mkdir()
    for page in ("first.html", "pages/second.html"):
        assert replay(tmp_path, engine="local", report=tmp_path / page).verdict == "pass"
        assert (tmp_path / page).with_name(VIOLATIONS).read_bytes() == b""
    (tmp_path / "alpha" / VIOLATIONS).write_text('{"check": "lost"}\n')
    listing = list_logs([tmp_path])
    assert (len(listing.logs), listing.unread) == (8, {})
    with pytest.raises(ReplayError, match=r"no session log .* in .*violations\.jsonl$"):
        list_logs([tmp_path / VIOLATIONS])
    next((tmp_path / "alpha").glob("*-000001-000001.jsonl")).rename(tmp_path / "alpha" / VIOLATIONS)
    assert replay(tmp_path, engine="local").verdict == "pass"


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    """One that is open and empty was only just begun; while logs grow there may be none."""
    (tmp_path / "a.jsonl.open").touch()
    for paths, said in (
        ([], "no directory with session logs was given"),
        ([tmp_path], f"no session log (*.jsonl, *.jsonl.open, *.parquet) in {tmp_path}"),
        ([tmp_path / "nowhere"], f"no such directory: {tmp_path}/nowhere"),
        ([""], "no such directory: "),
    ):
        with pytest.raises(ReplayError) as refused:
            list_logs(paths)
        assert str(refused.value) == said
    assert list_growing([tmp_path], ()).logs == []
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(ReplayError, match=r"cannot follow .*a\.parquet: Parquet is made of logs that are complete"):
        list_growing([tmp_path], ())


@pytest.mark.parametrize("both", [False, True])
def test_a_segment_that_is_renamed_while_its_directory_is_listed_is_found_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, both: bool
) -> None:
    """A listing may have it by its old name, and by the new one as well."""
    healthy().save(tmp_path)
    scan = os.scandir

    def scanning(path: str) -> AbstractContextManager[list[os.DirEntry[str]]]:
        listed = list(scan(path))
        if Path(path) != tmp_path:
            with monkeypatch.context() as patched:
                patched.setattr(os, "scandir", scan)
                close_segments(Path(path))
        return nullcontext(listed + list(scan(path)) * both)

    monkeypatch.setattr(os, "scandir", scanning)
    found = list_logs([tmp_path]).logs
    assert len(found) == 8
    assert {Path(listed.path).suffix for listed in found} == {".jsonl"}


def test_a_segment_that_was_removed_is_missed(tmp_path: Path) -> None:
    gone = str(tmp_path / "a.jsonl.open")
    assert there(gone) == complete(gone) == str(tmp_path / "a.jsonl")
    with pytest.raises(FileNotFoundError):
        by_either_name(gone, os.stat)


def test_what_was_read_by_another_name_is_not_missed() -> None:
    """While logs are followed, segments are completed, and packed by whatever rotates files."""
    listing = Listing([Listed("a.jsonl.open", 1), Listed("b.jsonl", 1)], {"c.jsonl.gz": "is packed", "d": "is not"})
    assert listing.without({"a.jsonl", "c.jsonl.open"}) == Listing([Listed("b.jsonl", 1)], {"d": "is not"})


def test_a_path_of_this_machine_may_have_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:").mkdir()
    (tmp_path / "[a%]").mkdir()
    assert local_path((tmp_path / "[a%]").as_uri()) == local_path(f"file://{tmp_path}/[a%]") == f"{tmp_path}/[a%]"
    assert [local_path(path) for path in ("file:///a", "file:/a", "/a", "s3://")] == ["/a", "/a", "/a", "s3://"]
    with pytest.raises(ReplayError, match="s3a://b/logs is not of this machine: --engine spark reads it"):
        local_path("s3a://b/logs")


NAMES = st.binary(min_size=1, max_size=8).filter(lambda name: not {0, ord("/")} & set(name)).map(os.fsdecode)
KINDS = st.sampled_from([".jsonl", ".jsonl.open", ".jsonl.gz", ".parquet", ".jsonl.tmp", ".txt", ""])


@pytest.mark.gate
@given(st.lists(st.tuples(st.lists(NAMES, max_size=2), NAMES, KINDS, st.booleans()), max_size=6))
def test_of_any_tree_each_file_that_looks_like_a_log_is_accounted_for(
    files: list[tuple[list[str], str, str, bool]],
) -> None:
    """It is read, or said to be unread; nothing else is."""
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "a.jsonl").write_text(BEGIN)
        for folders, name, kind, is_link in files:
            path = Path(root, *folders, name + kind)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to("../" * is_link + "a.jsonl") if is_link else path.write_text(BEGIN)
            except OSError:  # there is a file by the name of a folder, or the other way round
                continue
        listing = list_logs([root])
        told = {os.path.realpath(path) for path in (*listing.unread, *(it.path for it in listing.logs))}
        there = [Path(at, name) for at, _, names in os.walk(root) for name in names]
        assert {os.path.realpath(it) for it in there if refusal_of(it.name) is not None} <= told
        assert told <= {os.path.realpath(it) for it in there}


@pytest.mark.parametrize(
    ("name", "size", "unseen", "kept"),
    [
        ("a-000001-000001.jsonl", 9, "", "log"),
        ("a-000001-000001.jsonl.open", 9, "", "log"),
        ("a-000001-000001.jsonl.open", 0, "", ""),
        ("a-000001-000001.jsonl", 0, "", "is empty"),
        ("a-000001-000001.jsonl", 9, "is passed over", "is passed over"),
        ("a-000001-000001.jsonl.gz", 9, "", "is packed"),
        ("violations.jsonl", 9, "", ""),
        (SUMMARY, 9, "", "summary"),
        ("notes.txt", 9, "", ""),
    ],
)
def test_a_file_of_another_machine_is_judged_by_its_name_and_size(name: str, size: int, unseen: str, kept: str) -> None:
    listing, path = Listing(), f"s3://bucket/logs/{name}"
    assert listing.take(path, size, unseen) == bool(kept)
    assert listing.logs == ([Listed(path, size)] if kept == "log" else [])
    assert listing.summaries == ([Listed(path, size)] if kept == "summary" else [])
    assert kept in listing.unread.get(path, "") if path in listing.unread else kept in ("", "log", "summary")


# ``triack log compact``: the same records in less room, and nothing done twice.


def sources(output: Path) -> list[str]:
    """The segments that are in a place, each as often as it is there."""
    return sorted(it.source for path in output.rglob("*.parquet") for it in sources_of(path))


def sizes_in(directory: Path) -> dict[str, int]:
    return {Path(listed.path).name: listed.size for listed in list_logs([directory]).logs}


@pytest.mark.gate
@pytest.mark.parametrize("make", [healthy, partial(faulty, "order_ack_too_early")], ids=["right", "a lie"])
def test_a_replay_says_the_same(make: Callable[[], World], tmp_path: Path) -> None:
    make().save(tmp_path / "logs")
    done = compact(tmp_path / "logs", tmp_path / "out")
    before, after = replay(tmp_path / "logs"), replay(tmp_path / "out")
    assert done.segments == done.made > 1
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
    assert [compact(tmp_path / "logs", tmp_path / "out").made for _ in range(2)] == [8, 0]
    open_.write_bytes(b"".join(lines))
    open_.rename(open_.with_suffix(""))
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
    assert [compact(tmp_path / other, tmp_path / "out").made for _ in range(2)] == [8, 0]
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


def test_records_are_never_there_twice(tmp_path: Path) -> None:
    healthy().save(tmp_path / "logs")
    with pytest.raises(ReplayError, match=r"is within .*, where a replay would find each record twice$"):
        compact(tmp_path / "logs", tmp_path / "logs" / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReplayError, match=r"^no session log"):
        compact(tmp_path / "empty", tmp_path / "out")


def test_what_is_made_is_its_owners_alone_and_has_a_name_before_1970_too(tmp_path: Path) -> None:
    """As the logs are; clocks may never have been set."""
    world = healthy()
    for record in world.all_records():
        record["wall_ns"] -= 80 * 365 * 86_400 * 10**9
    world.save(tmp_path / "logs")
    compact(tmp_path / "logs", tmp_path / "out")
    (made,) = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert made.stat().st_mode & 0o777 == 0o600
    assert made.parent.name.startswith("day=19")
    assert replay(tmp_path / "out").verdict == "pass"


def then(act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let something happen when segments were listed, and before they are looked at."""

    def listing(paths: list[Path]) -> Listing:
        found = list_logs(paths)
        act()
        return found

    monkeypatch.setattr(module, "list_logs", listing)


@pytest.mark.gate
def test_a_node_may_go_on_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy().save(tmp_path / "logs")
    then(lambda: close_segments(tmp_path / "logs"), monkeypatch)
    assert [compact(tmp_path / "logs", tmp_path / "out").made for _ in range(2)] == [8, 0]
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
