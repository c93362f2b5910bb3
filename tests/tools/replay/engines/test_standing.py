"""Segments, sessions and streams go on where they were, from bytes that were kept."""

from pathlib import Path

import pytest

from tests.tools.replay.builder import healthy
from triack.tools.replay.checks.findings import DisorderError
from triack.tools.replay.engines.checkpoint import freeze, revive
from triack.tools.replay.engines.standing import Growing, Standing
from triack.tools.replay.judges.conclusion import Read


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
