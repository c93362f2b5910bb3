"""Which files are read, and what the verdict says of those that are not."""

import os
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.replay.builder import close_segments, healthy
from tests.tools.replay.faults import FAULTS, ready, rename
from triack.base.errors import ReplayError
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


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_lost_message_is_seen_wherever_its_log_is(tmp_path: Path, name: str) -> None:
    world = ready()
    FAULTS["order_ack_too_early"](world)
    healthy().save(tmp_path / "good")
    rename(world, "beef").save(tmp_path / name)
    assert replay(tmp_path, engine="local").verdict == "fail"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a.jsonl.gz", "is packed: unpack it; `triack log compact` makes small files that a replay reads"),
        ("a.jsonl.open.zst", "is packed: unpack it; `triack log compact` makes small files that a replay reads"),
        ("a.jsonl.tmp", "is called like a session log, but does not end in .jsonl, .jsonl.open, .parquet"),
        (
            ".a-000001-000001.jsonl.X7a",
            "is called like a session log, but does not end in .jsonl, .jsonl.open, .parquet",
        ),
        ("a-000001-000001.zst", "is called like a session log, but does not end in .jsonl, .jsonl.open, .parquet"),
        ("A.JSONL", "is called like a session log, but does not end in .jsonl, .jsonl.open, .parquet"),
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
        "part.jsonl.part": "is called like a session log, but does not end in .jsonl, .jsonl.open, .parquet",
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
    """A file, and a directory, which may have logs."""
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
    """By whatever names it is there; a circle of links ends."""
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
    """As Spark's are; what is in it is read."""
    (tmp_path / "logs.parquet").mkdir()
    (tmp_path / "logs.parquet" / "a.jsonl").write_text(BEGIN)
    assert names_in(tmp_path) == ["logs.parquet/a.jsonl"]


def test_the_violations_of_an_earlier_report_are_no_log(tmp_path: Path) -> None:
    """``--report`` may write its page among the logs. A log that has their name is one all the same."""
    healthy().save(tmp_path)
    (tmp_path / "alpha" / VIOLATIONS).write_text('{"check": "lost"}\n')
    assert replay(tmp_path, engine="local").verdict == "pass"
    next((tmp_path / "alpha").glob("*-000001-000001.jsonl")).rename(tmp_path / "alpha" / VIOLATIONS)
    assert replay(tmp_path, engine="local").verdict == "pass"


def test_a_report_may_be_written_among_the_logs_that_are_judged_again(tmp_path: Path) -> None:
    """Where nothing is wrong the file of its violations is empty. What is given by that name has no log."""
    healthy().save(tmp_path)
    (tmp_path / "pages").mkdir()
    for page in ("first.html", "pages/second.html"):
        assert replay(tmp_path, engine="local", report=tmp_path / page).verdict == "pass"
        assert (tmp_path / page).with_name(VIOLATIONS).read_bytes() == b""
    listing = list_logs([tmp_path])
    assert (len(listing.logs), listing.unread) == (8, {})
    with pytest.raises(ReplayError, match=r"no session log .* in .*violations\.jsonl$"):
        list_logs([tmp_path / VIOLATIONS])


def test_a_file_is_read_whatever_it_is_called_if_it_is_given(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(BEGIN)
    assert [listed.path for listed in list_logs([log]).logs] == [str(log)]


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
    """Neither name leads to anything, and the error says so."""
    gone = str(tmp_path / "a.jsonl.open")
    assert there(gone) == complete(gone) == str(tmp_path / "a.jsonl")
    with pytest.raises(FileNotFoundError):
        by_either_name(gone, os.stat)


def test_what_was_read_by_another_name_is_not_missed() -> None:
    """While logs are followed, segments are completed, and packed by whatever rotates files."""
    listing = Listing([Listed("a.jsonl.open", 1), Listed("b.jsonl", 1)], {"c.jsonl.gz": "is packed", "d": "is not"})
    assert listing.without({"a.jsonl", "c.jsonl.open"}) == Listing([Listed("b.jsonl", 1)], {"d": "is not"})


def test_a_path_of_this_machine_may_have_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or look as if it had one."""
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
