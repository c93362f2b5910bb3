"""Tables that grow with their logs: each record once, wherever the job was killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from tests.machine import PATIENCE_S
from tests.tools.frames.test_table_set import rows_of
from tests.tools.replay.builder import healthy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FACTS = ("packets", "acks", "commits", "deliveries", "resends", "starts", "openings")
KILLS = 3 if "TRIACK_LONG_TESTS" in os.environ else 1
"""Each is one more start of Spark."""
EVERY = ("--every", "0.2")


class Growing:
    """Logs that get line by line what whole ones have; each last segment is complete in the end."""

    def __init__(self, whole: Path, logs: Path) -> None:
        self.logs = logs
        self._parts = [
            (logs / file.relative_to(whole), file.read_bytes().splitlines(keepends=True))
            for file in sorted(whole.rglob("*.jsonl*"))
        ]
        self.lines = sum(len(lines) for _, lines in self._parts)

    def grow(self, until: int) -> None:
        """Have the first lines of each segment, and half of the next line."""
        for path, lines in self._parts:
            torn = lines[until][: len(lines[until]) // 2] if until < len(lines) else b""
            self._extend(path, b"".join(lines[:until]) + torn)

    def finish(self) -> None:
        for path, lines in self._parts:
            self._extend(path, b"".join(lines))
            if path.suffix == ".open":
                path.rename(path.with_suffix(""))

    def _extend(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(content[file.tell() :])


def assert_same(spark: "SparkSession", out: Path, logs: Path) -> None:
    """The tables are those of the logs as they are: no record is missing, and none is there twice."""
    from triack import replay

    kept, fresh = replay.read_tables(spark, str(out)), replay.tables(replay.load(spark, str(logs)).cache())
    for name in (*FACTS, "nodes"):
        assert [row.replace(".open'", "'") for row in rows_of(kept[name])] == rows_of(fresh[name]), name


def started(logs: Path, out: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "triack", "log", "tables", str(logs), "--out", str(out), "--follow", *EVERY]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


def test_a_job_that_is_killed_takes_each_record_once(spark: "SparkSession", tmp_path: Path) -> None:
    """Killed with all of its processes in the midst of batches, while the logs go on growing."""
    healthy().save(tmp_path / "whole")
    growing, out = Growing(tmp_path / "whole", tmp_path / "logs"), tmp_path / "out"
    lines = 2
    growing.grow(lines)
    for _ in range(KILLS):
        job = started(growing.logs, out)
        assert job.stdout is not None
        try:
            assert job.stdout.readline().startswith("batch ")
            lines += 20
            growing.grow(lines)
            # The next batch writes by now, or has begun to.
            wait_for_more(out)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            job.stdout.close()
    growing.finish()
    job = started(growing.logs, out)
    assert job.stdout is not None
    assert job.stdout.readline().startswith("batch ")
    os.kill(job.pid, signal.SIGINT)
    assert "violations in all" in job.communicate(timeout=PATIENCE_S)[0]
    assert job.returncode == 0
    assert_same(spark, out, growing.logs)


def wait_for_more(out: Path) -> None:
    """Wait until something more is written."""
    known, end_s = len(list(out.rglob("*.parquet"))), time.monotonic() + PATIENCE_S
    while len(list(out.rglob("*.parquet"))) <= known:
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_tables_are_there_while_their_logs_grow(spark: "SparkSession", tmp_path: Path) -> None:
    """From Python: each batch is reported, and what is made of facts is computed when it is used."""
    from triack import replay

    healthy().save(tmp_path / "whole")
    growing, out, stop, seen = Growing(tmp_path / "whole", tmp_path / "logs"), str(tmp_path / "out"), Event(), []
    growing.logs.mkdir()
    growing.grow(5)
    news = Event()

    def tell(added: object) -> None:
        seen.append(added)
        news.set()

    done: list[replay.Tables | object] = []
    thread = Thread(
        target=lambda: done.append(replay.follow(spark, [str(growing.logs)], out, every_s=0.2, stop=stop, tell=tell))
    )
    thread.start()
    assert news.wait(PATIENCE_S)
    tables = replay.read_tables(spark, out)
    assert tables.packets.count() == replay.tables(replay.load(spark, str(growing.logs))).packets.count()
    assert tables.nodes.count() > 0
    assert "violations" not in tables
    growing.finish()
    news.clear()
    assert news.wait(PATIENCE_S)
    stop.set()
    thread.join(PATIENCE_S)
    assert len(done) == 1
    assert "violations" in replay.read_tables(spark, out)
    assert_same(spark, tmp_path / "out", growing.logs)
