"""Records as a table: what is in it is what is in the logs, and the judges say the same of both."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from triack.base.errors import ReplayError, UsageError
from triack.base.session_log import COMMON, FIELDS
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.log.files import find_logs, read_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_row_for_each_record_and_a_column_for_each_field(records: "DataFrame", logs: Path) -> None:
    rows = [row.asDict() for row in records.orderBy("node", "incarnation", "n").collect()]
    assert list(rows[0]) == [*COMMON, *FIELDS, "file", "line"]
    written = [
        {**record, "file": str(log.path), "line": line}
        for log in find_logs([logs])
        for line, record in enumerate(read_records(log), start=1)
    ]
    there = [{name: value for name, value in row.items() if value is not None} for row in rows]
    assert there == sorted(written, key=lambda record: (record["node"], record["incarnation"], record["n"]))


def test_the_verdict_is_that_of_the_logs(records: "DataFrame", logs: Path) -> None:
    """Evidence, file and line included."""
    from triack import replay

    judged, local = replay.verdict(records), replay_local(find_logs([logs]))
    assert (judged.engine, judged.verdict) == ("spark", "fail")
    judged.engine = "local"
    assert judged == local


def test_other_tables_and_paths_are_refused(spark: "SparkSession", records: "DataFrame", tmp_path: Path) -> None:
    from triack import replay

    with pytest.raises(UsageError, match=r"lacks ack_at_once, ack_bytes, .*, window$"):
        replay.verdict(spark.range(1))
    with pytest.raises(UsageError, match=r"lacks previous, queue$"):
        replay.verdict(records.drop("queue", "previous"))
    with pytest.raises(ReplayError, match=f"no such directory: {tmp_path}/nowhere$"):
        replay.load(spark, f"{tmp_path}/nowhere")
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(ReplayError, match=r"a\.jsonl is empty, as no complete segment is"):
        replay.load(spark, str(tmp_path))


def test_a_table_that_somebody_has_changed_is_judged_or_refused(spark: "SparkSession", records: "DataFrame") -> None:
    """Two starts may be in one file of it; a record that is none is named with its line."""
    from pyspark.sql import functions as f
    from pyspark.sql.window import Window

    from triack import replay

    line = f.row_number().over(Window.orderBy("node", "incarnation", "n")).cast("bigint")
    together = records.withColumn("line", line).withColumn("file", f.lit("all"))
    judged = replay.verdict(together)
    assert judged.verdict == "fail"
    assert judged.violations == replay.verdict(records).violations
    assert judged.files == {"all": judged.records}
    with pytest.raises(ReplayError, match=r"-00000\d\.jsonl.* line \d+ is damaged: \w+ with the fields"):
        replay.verdict(records.withColumn("queue", f.lit(None).cast("string")))
