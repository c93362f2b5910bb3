"""A replay says what it needs before the work, and what fails in it is said in its own words."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.machine import PATIENCE_S
from tests.tools.replay.builder import close_segments, healthy
from triack.base.errors import ReplayError
from triack.tools.replay import run
from triack.tools.replay.log.listing import Listing, list_logs
from triack.tools.replay.run import reason_of, replay


def test_an_engine_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """And those that do exist."""
    with pytest.raises(ReplayError, match=r"^no engine 'steam'; there are auto, local and spark$"):
        replay(healthy().save(tmp_path), engine="steam")


def test_without_java_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Spark engine without Java says what to install, and what works without."""
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ReplayError, match=r"needs Java 17 .* --engine local"):
        replay(healthy().save(tmp_path), engine="spark")


def test_without_pyspark_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Spark engine without PySpark says what to install, and what works without."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ReplayError, match=r"^replay on Spark needs PySpark: .* --engine local$"):
        replay(healthy().save(tmp_path), engine="spark")


def test_the_page_needs_no_matplotlib_for_its_plots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    verdict = replay(healthy().save(tmp_path), engine="local", report=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert verdict.verdict == "pass"
    assert 'id="plot-throughput"' in page


def test_without_jinja_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page needs it; the verdict does not."""
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ReplayError, match=r"^the report needs Jinja, .*: pip install 'triack\[report\]'$"):
        replay(healthy().save(tmp_path / "logs"), engine="local", report=tmp_path / "page.html")
    assert replay(tmp_path / "logs", engine="local").verdict == "pass"


@pytest.mark.slow
def test_a_java_that_does_not_start_is_said_in_its_own_words(tmp_path: Path) -> None:
    """Its chatter stays off the terminal, but for the last line that is a reason."""
    pytest.importorskip("pyspark")
    healthy().save(tmp_path / "logs")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    trace = "Exception in thread main: out of luck\\n\\tat java.Main(Main.java)\\n\\t... 3 more\\n"
    java.write_text(f"#!/bin/sh\nprintf 'chatter\\n{trace}' >&2\nexit 1\n")
    java.chmod(0o755)
    finished = subprocess.run(
        [sys.executable, "-m", "triack", "replay", tmp_path / "logs", "--engine", "spark"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert finished.returncode == 2
    said = "triack replay: Spark did not start: Exception in thread main: out of luck; try --engine local"
    assert finished.stderr.decode().splitlines() == [said]


def test_the_reason_of_a_failure_is_what_java_said() -> None:
    """Not that a call has failed, which is all that the first line tells."""
    begin, why = (
        "An error occurred while calling o61.load.",
        "java.lang.ClassNotFoundException: S3AFileSystem not found",
    )
    assert reason_of(f"{begin}\n: {why}\n\tat org.apache.hadoop.Load\n") == why
    assert reason_of("[PATH_NOT_FOUND] no such path\n\tat x") == "[PATH_NOT_FOUND] no such path"
    assert reason_of(begin) == begin
    waited = f"{begin}\n: org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat x"
    assert reason_of(f"{waited}\nCaused by: java.util.concurrent.ExecutionException: {why}\n\tat y") == why


def test_a_java_that_dies_is_a_failure_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then neither the replay nor a request to stop Spark gets an answer; that is no broken promise."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from triack.tools.replay.engines import spark_engine, spark_session

    class Dead:
        def stop(self) -> None:
            socket.create_connection(("127.0.0.1", 9))

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(spark_session, "open_spark", lambda master: Dead())
    monkeypatch.setattr(spark_engine, "replay_spark", lambda spark, paths, finish: spark.stop())
    with pytest.raises(ReplayError, match=r"^Spark failed: .*Connection refused; --engine local needs no Spark$"):
        replay(healthy().save(tmp_path), engine="spark")


def test_what_fails_behind_a_ctrl_c_is_no_failure_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call that it cut off leaves a connection on which nothing can be cleared up."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from triack.tools.replay.engines import spark_engine, spark_session

    class Cut:
        def stop(self) -> None:
            raise ConnectionError("the answer is empty")

    def interrupted(spark: Cut, *_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            spark.stop()

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(spark_session, "open_spark", lambda master: Cut())
    monkeypatch.setattr(spark_engine, "replay_spark", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replay(healthy().save(tmp_path), engine="spark")


def test_small_logs_are_judged_here(tmp_path: Path) -> None:
    """Without being asked, and the verdict says so; a directory may be a string."""
    healthy().save(tmp_path)
    assert replay(str(tmp_path)).engine == "local"


def test_large_logs_are_judged_here_where_there_is_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that runs each night does not end on the day on which its logs have grown."""
    monkeypatch.setattr(run, "choose", lambda _: ("spark", "spark: it is done first"))
    monkeypatch.setattr(run, "missing_of_spark", lambda: "replay on Spark needs PySpark")
    healthy().save(tmp_path)
    verdict = replay(tmp_path)
    assert (verdict.engine, verdict.chosen) == ("local", "local: replay on Spark needs PySpark")


def test_a_segment_may_be_renamed_before_the_engine_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy().save(tmp_path)

    def listing(paths: Iterable[str | Path]) -> Listing:
        found = list_logs(paths)
        close_segments(tmp_path)
        return found

    monkeypatch.setattr(run, "list_logs", listing)
    assert replay(tmp_path).verdict == "pass"
