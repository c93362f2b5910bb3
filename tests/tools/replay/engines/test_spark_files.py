"""Spark itself: its files, batches and sessions."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from proof.lies.engines import unlike
from tests.tools.replay.builder import healthy, ready
from tests.tools.replay.faults import FAULTS, rename
from tests.tools.replay.log.test_listing import BEGIN, ODD_NAMES
from triack.base.errors import ReplayError
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.engines.spark_session import settings_for
from triack.tools.replay.log.files import in_order
from triack.tools.replay.log.listing import Listed, Listing, list_logs

# The files that Spark is given to read: those that are listed, by whatever names they have.

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")

NAME_BYTES = bytes(set(range(1, 256)) - {ord("/"), ord(".")})
"""What names may be made of; here without dots, so that no folder is a directory above."""


@pytest.mark.spark
@pytest.mark.slow
def test_both_engines_read_the_same_whatever_it_is_called(spark: "SparkSession", tmp_path: Path) -> None:
    """Names that Java, Hadoop or a pattern makes something else of, links, and what cannot be read."""
    from triack.tools.replay.engines.spark_engine import replay_spark

    for number, name in enumerate(ODD_NAMES):
        world = ready()
        if number % 2:
            FAULTS["order_ack_too_early"](world)
        rename(world, f"{number:04x}").save(tmp_path / name)
        log = next((tmp_path / name).rglob("*.open"))
        log.rename(log.with_name(f"{name}.jsonl.open"))
    rng = random.Random(7)
    for number in range(len(ODD_NAMES), len(ODD_NAMES) + 20):
        folder, name = (os.fsdecode(bytes(rng.choices(NAME_BYTES, k=rng.randint(1, 12)))) for _ in range(2))
        rename(ready(), f"{number:04x}").save(tmp_path / f"{number}{folder}" / name)
    (tmp_path / "elsewhere").symlink_to(tmp_path / "zürich")
    (tmp_path / "gone.jsonl").symlink_to("nowhere")
    (tmp_path / "_packed.jsonl.gz").write_bytes(b"packed")
    (tmp_path / ".damaged.jsonl").write_text(f"{BEGIN}\n")
    (damaged,) = (tmp_path / ".hidden").glob("alpha*/*-000001.jsonl")
    damaged.write_text(damaged.read_text() + '{"v": 6, "ev\n')
    listing = list_logs([tmp_path])
    local = replay_local(in_order(listing), None, listing)
    judged = replay_spark(spark, [str(tmp_path)])
    assert unlike(local, judged) == []
    assert local.verdict == judged.verdict == "incomplete"
    assert len(judged.unread) == 4
    assert judged.unread[str(damaged)].endswith("is damaged: no JSON from character 13 on")
    assert len(judged.files) > 2 * (len(ODD_NAMES) + 20)
    assert judged.violations == {"order_ack_before_commit": len(ODD_NAMES) // 2}


@pytest.mark.spark
@pytest.mark.slow
def test_what_has_a_scheme_is_listed_whole(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark passes over names that begin with _ or .: they are said to be unread. Here the scheme is that of files."""
    from triack.tools.replay.engines import spark_files
    from triack.tools.replay.engines.spark_engine import replay_spark

    monkeypatch.setattr(spark_files, "is_remote", lambda path: path.startswith("file:"))
    healthy().save(tmp_path / "[a]")
    hidden = ready()
    FAULTS["order_ack_too_early"](hidden)
    rename(hidden, "beef").save(tmp_path / "_hidden")
    (tmp_path / "a.jsonl.open").touch()
    (tmp_path / "a.jsonl.gz").touch()
    verdict = replay_spark(spark, [f"file:{tmp_path}", f"file:{tmp_path}/\\[a\\]"])
    assert verdict.verdict == "incomplete"
    assert {Path(path).parts[-3 if "_hidden" in path else -1] for path in verdict.unread} == {"_hidden", "a.jsonl.gz"}
    assert len(verdict.files) == 8
    assert verdict.violations == {}
    with pytest.raises(ReplayError, match=r"^no such directory: file:.*/nowhere$"):
        replay_spark(spark, [f"file:{tmp_path}/nowhere"])


@pytest.mark.spark
@pytest.mark.slow
def test_tasks_have_about_as_much_to_read(spark: "SparkSession") -> None:
    """By size, and not by number: hundreds of small files cost few tasks, and large ones are shared out."""
    from triack.tools.replay.engines.spark_files import TASK_BYTES, tabulate_files

    def tasks(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            rows = {"task": [context.partitionId()] * batch.num_rows, "size": batch.column("size")}
            yield pa.RecordBatch.from_pydict(rows)

    for count, size in ((12, TASK_BYTES // 2), (300, 1_000)):
        listing = Listing([Listed(f"{number}.jsonl", size) for number in range(count)])
        read = tabulate_files(spark, listing).mapInArrow(tasks, "task bigint, size bigint").collect()
        loads = Counter[int]()
        for row in read:
            loads[row["task"]] += row["size"]
        assert sum(loads.values()) == count * size
        assert len(loads) <= 1 + count * size // TASK_BYTES + spark.sparkContext.defaultParallelism
        assert max(loads.values()) <= 2 * TASK_BYTES


# Spark is set up for one machine, or as somebody has set it up.


def test_without_a_word_it_is_this_machine() -> None:
    """A cluster has the memory that it has; what spark-submit or the environment says holds, but a master asked for."""
    settings = settings_for(None, {})
    assert (settings["spark.master"], settings["spark.driver.memory"]) == ("local[*]", "2g")
    settings = settings_for("spark://host:7077", {})
    assert settings["spark.master"] == "spark://host:7077"
    assert "spark.driver.memory" not in settings
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_REMOTE"):
        assert settings_for(None, {name: "some"}) == {}
        assert settings_for("local[1]", {name: "some"}) == {"spark.master": "local[1]"}
