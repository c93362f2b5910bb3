"""Paths as they are given, as Spark takes them, and as a person reads them."""

from pathlib import Path

import pytest

from triack.base.errors import ReplayError

pytest.importorskip("pyspark")


def test_a_directory_within_another_one_is_read_once(tmp_path: Path) -> None:
    from triack.tools.replay.spark_files import outermost

    (tmp_path / "logs" / "a").mkdir(parents=True)
    (tmp_path / "logs-2").mkdir()
    given = [str(tmp_path / name) for name in ("logs/a", "logs", "logs/../logs", "logs-2")]
    assert sorted(outermost([*given, "s3a://b/logs/a", "s3a://b/logs/"])) == sorted(
        [given[2], given[3], "s3a://b/logs/"],
    )


def test_a_path_without_logs_is_named(tmp_path: Path) -> None:
    from triack.tools.replay.spark_files import require_files

    (tmp_path / "empty").mkdir()
    found = [str(tmp_path / "logs" / "a.jsonl")]
    require_files([str(tmp_path / "logs"), "s3a://bucket/*"], found)
    with pytest.raises(ReplayError, match=r"^no session log .* in .*/empty$"):
        require_files([str(tmp_path / "empty")], found)
    with pytest.raises(ReplayError, match=r"^no session log .* in s3a://bucket/logs$"):
        require_files(["s3a://bucket/logs"], [])
