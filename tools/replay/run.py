"""Replaying logs: find them, run an engine over them, write the report."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from triack.base.errors import ReplayError
from triack.tools.replay.files import LogFile, find_logs
from triack.tools.replay.local_engine import replay_local
from triack.tools.replay.schema import Timeline, Verdict

ENGINES: Final = ("auto", "local", "spark")
"""The default first."""
LOCAL_BYTES_MAX: Final = 64 * 1024 * 1024
"""Logs smaller than this are judged before Spark would have started, and fit into memory many times over."""
_NO_REASON: Final = re.compile(r"^\s*(at |\.\.\. |$)|spark-class: ")
"""Lines of a dying Java process that do not say why: where in its code it was, and its launcher's complaint."""


def replay(
    paths: str | Path | Iterable[str | Path],
    *,
    engine: str = "auto",
    master: str | None = None,
    report: Path | None = None,
) -> Verdict:
    """Read session logs and say whether every promise was kept.

    Args:
        paths: directories with logs of any number of nodes, or single segments; or one of them.
        engine: ``spark``; ``local`` for plain Python without Spark; ``auto`` for what suits the size. All give the same
            verdict, which says which one it was.
        master: the Spark cluster; None for all processors of this machine.
        report: where to write the HTML page; the violations go beside it. None for no report.

    Raises:
        ReplayError: there are no logs, a log is damaged, the report cannot be written, or what the engine or the
            report needs is not installed.
    """
    if engine not in ENGINES:
        raise ReplayError(f"no engine {engine!r}; there are {', '.join(ENGINES[:-1])} and {ENGINES[-1]}")
    given = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    logs = find_logs(given)
    if engine == "auto":
        engine = "local" if master is None and _size_bytes(logs) < LOCAL_BYTES_MAX else "spark"
    verdict = replay_local(logs) if engine == "local" else _on_spark(logs, master)
    if report is not None:
        write_page(verdict, given, report)
    return verdict


def write_page(verdict: Verdict, paths: Iterable[Path], report: Path) -> None:
    """Write the report page of a verdict, and its violations beside it.

    Args:
        verdict: gets to know where.
        paths: what was replayed.
        report: the HTML page.

    Raises:
        ReplayError: it cannot be written, or what it needs is not installed.
    """
    from triack.tools.replay.report import write_report

    write_report(report, verdict, verdict.timeline or Timeline(), _command(paths, verdict.engine, report))
    verdict.report = str(report)


def _command(paths: Iterable[Path], engine: str, report: Path) -> str:
    """Return what makes a report again."""
    return shlex.join(["triack", "replay", *map(str, paths), "--engine", engine, "--report", str(report)])


def _size_bytes(logs: list[LogFile]) -> int:
    return sum(log.path.stat().st_size for log in logs)


def _on_spark(logs: list[LogFile], master: str | None) -> Verdict:
    require_spark()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from triack.tools.replay.spark_engine import open_spark, replay_spark

    # PySpark brings py4j along, and hands out its errors when the virtual machine dies, or those of its sockets.
    died = (importlib.import_module("py4j.protocol").Py4JError, ConnectionError)
    running = SparkSession.getActiveSession()
    spark = running
    try:
        if spark is None:
            with _quiet_start():
                spark = open_spark(master)
        return replay_spark(spark, logs)
    except (PySparkException, *died) as error:
        reason = str(error).strip().splitlines()[0]
        raise ReplayError(f"Spark failed: {reason}; --engine local needs no Spark") from error
    finally:
        # A session that the caller opened stays open.
        if running is None and spark is not None:
            with contextlib.suppress(*died):  # it cannot be stopped any more
                spark.stop()


def require_spark() -> None:
    """Raise if PySpark or Java is missing, with what to install."""
    if importlib.util.find_spec("pyspark") is None:
        raise ReplayError("replay on Spark needs PySpark: pip install 'triack[spark]', or use --engine local")
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java").exists() if home else shutil.which("java") is not None
    if not java:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
        raise ReplayError(f"replay on Spark needs Java 17 or later, and {where}: install it, or use --engine local")


@contextlib.contextmanager
def _quiet_start() -> Iterator[None]:
    """Keep the start-up chatter of the Java process off the terminal; show it if the start fails."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as chatter:
        os.dup2(chatter.fileno(), 2)
        try:
            yield
        except Exception as error:
            chatter.seek(0)
            said = _last_words(chatter.read().decode("utf-8", "replace"))
            raise ReplayError(f"Spark did not start: {said or error}; try --engine local") from error
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def _last_words(chatter: str) -> str:
    """What Java said last: not where in its code, nor what the script around it makes of that."""
    said = [line for line in chatter.splitlines() if not _NO_REASON.search(line)]
    return said[-1].strip() if said else ""
