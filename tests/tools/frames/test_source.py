"""``spark.read.format("triack")``."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tools.replay.builder import close_segments, healthy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_it_reads_what_load_reads(spark: "SparkSession", records: "DataFrame", logs: Path) -> None:
    """A path may have a scheme; one of this machine needs none."""
    from triack import replay

    replay.register(spark)
    found = spark.read.format("triack").load(logs.as_uri())
    assert found.columns == records.columns
    assert found.exceptAll(records).isEmpty()
    assert found.count() == records.count()


def test_what_has_no_log_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from triack.base.errors import ReplayError
    from triack.replay.source import TriackReader

    for path, said in ((tmp_path, "no session log"), (tmp_path / "nowhere", "no such directory")):
        with pytest.raises(ReplayError, match=said):
            TriackReader(str(path)).partitions()


def test_a_packed_segment_is_not_missed(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from triack.base.errors import ReplayError
    from triack.replay.source import TriackReader

    (tmp_path / "a.jsonl.gz").write_bytes(b"packed")
    with pytest.raises(ReplayError, match=r"a\.jsonl\.gz is packed: unpack it"):
        TriackReader(str(tmp_path)).partitions()


def test_a_segment_may_be_renamed_before_a_task_reads_it(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from triack.replay.source import TriackReader

    healthy().save(tmp_path)
    reader = TriackReader(str(tmp_path))
    segments = reader.partitions()
    close_segments(tmp_path)
    assert any(getattr(segment, "path", "").endswith(".open") for segment in segments)
    assert all(next(reader.read(segment)).num_rows for segment in segments)
