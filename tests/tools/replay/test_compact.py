"""``triack log compact``: the same records in less room, and nothing done twice."""

import json
import sys
from pathlib import Path

import pytest

from tests.tools.replay.builder import World, healthy
from tests.tools.replay.faults import FAULTS, ready
from triack.base.errors import ReplayError
from triack.tools.replay.compact import MANIFEST, compact
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
    lines = [b"[" * 100_000, b'{"source": ["a"], "bytes": 1}', b'{"source": "a", "bytes": "1"}', b"7", b"\xff"]
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
