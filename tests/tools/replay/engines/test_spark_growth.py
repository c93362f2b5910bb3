"""What has grown, and by how much: told without reading a record."""

from pathlib import Path

import pytest

from triack.base.errors import ReplayError

pytest.importorskip("pyspark")


def test_what_grew_comes_with_its_size(tmp_path: Path) -> None:
    """A segment that was renamed comes once more; an empty one does not."""
    from triack.tools.replay.engines.spark_growth import GrowthReader

    first, other = tmp_path / "a-1.jsonl.open", tmp_path / "b-1.jsonl"
    first.write_text('{"v":\n')
    other.write_text("")
    reader = GrowthReader([tmp_path])
    rows, begun = reader.read(reader.initialOffset())
    assert list(rows) == [(bytes(first), 6, 6)]
    assert list(reader.read(begun)[0]) == []
    with first.open("a") as file:
        file.write("789\n")
    first.rename(tmp_path / "a-1.jsonl")
    other.write_text("{\n")
    rows, now = reader.read(begun)
    assert list(rows) == [(bytes(tmp_path / "a-1.jsonl"), 10, 4), (bytes(other), 2, 2)]
    assert list(reader.readBetweenOffsets(begun, now)) == [(bytes(tmp_path / "a-1.jsonl"), 10, 4), (bytes(other), 2, 2)]
    with pytest.raises(ReplayError, match="no such directory"):
        GrowthReader([tmp_path / "nowhere"]).read({})
