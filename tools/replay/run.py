"""Replaying logs: find them, run an engine over them, write the report."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from triack.base.errors import ReplayError
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.log.files import in_order
from triack.tools.replay.log.listing import Listed, is_remote, list_logs, local_path
from triack.tools.replay.log.schema import Timeline, Verdict, Violation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Done = TypeVar("Done")

ENGINES: Final = ("auto", "local", "spark")
"""The default first; ``auto`` takes the one that is done first, by what both took when they were measured."""
BYTES_PER_S: Final = 10_000_000
"""What the judges read in a second of one processor: 3.5 MB of logs full of losses, 25 MB of logs without any."""
FILE_S: Final = 0.004
"""What a file costs beside its bytes: 449 files of 10 KB took 3.1 s of processor time, their bytes alone 1.3 s."""
SPARK_START_S: Final = 15
"""Spark's start, its plans and the second count."""
SPARK_MORE: Final = 1.5
"""How much more processor time the same records take on Spark: they travel between processes."""
_NO_REASON: Final = re.compile(r"^\s*(at |\.\.\. |$)|spark-class: ")
"""Lines of a dying Java process that do not say why: where in its code it was, and its launcher's complaint."""

_CALLED: Final = re.compile(r"An error occurred while calling \S+$")
"""How py4j begins; Java's own message is in the next line."""
_AWAITED: Final = "Exception thrown in awaitResult:"
"""How Spark begins where it waited for another thread; what that said is in the first cause."""
_TRACED: Final = "Traceback (most recent call last):"
"""How Python begins; what was raised is in the first line behind it that is not indented."""
_CAUSE: Final = re.compile(r"Caused by: (?:java\.util\.concurrent\.ExecutionException: )?")


def replay(
    paths: str | Path | Iterable[str | Path],
    *,
    engine: str = "auto",
    master: str | None = None,
    report: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> Verdict:
    """Read session logs and say whether every promise was kept.

    Args:
        paths: directories with logs of any number of nodes, or single segments; or one of them. Spark takes names with
            schemes, too, and patterns in these.
        engine: ``spark``; ``local`` for plain Python without Spark; ``auto`` for the one that is done first, as far as
            bytes, files and free processors tell, and is installed. All read the same files and give the same verdict,
            which says which one it was, and why.
        master: the Spark cluster; None for a session that is open, for what ``spark-submit`` says, or else for all
            processors of this machine.
        report: where to write the HTML page; the violations go beside it. None for no report.
        say: called now and then with the progress in words, perhaps in another thread.

    Raises:
        ReplayError: there are no logs, one is there twice, the report cannot be written, or what the engine or the
            report needs is not installed. What cannot be read of the logs is in the verdict.
    """
    if engine not in ENGINES:
        raise ReplayError(f"no engine {engine!r}; there are {', '.join(ENGINES[:-1])} and {ENGINES[-1]}")
    if report is not None:
        from triack.tools.replay.report.report import make_way

        make_way(report)
    given = [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    why = ""
    if engine == "auto":
        engine, why = _choose(given, master)

    def finish(verdict: Verdict, violations: Iterable[Violation]) -> None:
        verdict.chosen = why
        if report is not None:
            write_page(verdict, given, report, violations)

    if engine == "spark":

        def work(spark: SparkSession) -> Verdict:
            from triack.tools.replay.engines.spark_engine import replay_spark
            from triack.tools.replay.engines.spark_session import telling

            with telling(spark, say) if say is not None else contextlib.nullcontext():
                return replay_spark(spark, given, finish)

        return on_spark(master, work)
    listing = list_logs(map(local_path, given))
    verdict = replay_local(in_order(listing), say, listing)
    finish(verdict, verdict.findings)
    return verdict


def _choose(paths: list[str], master: str | None) -> tuple[str, str]:
    if master is not None:
        return "spark", "spark: a master was named"
    if any(map(is_remote, paths)):
        return "spark", "spark: a path is of another machine"
    engine, why = choose(list_logs(map(local_path, paths)).logs)
    if engine == "spark" and (missing := missing_of_spark()) is not None:
        return "local", f"local: {missing}"
    return engine, why


def choose(logs: Iterable[Listed]) -> tuple[str, str]:
    """Return the engine that suits logs, and why, in words."""
    sizes = [listed.size for listed in logs]
    free = free_processors()
    local_s = sum(sizes) / BYTES_PER_S + len(sizes) * FILE_S
    spark_s = SPARK_START_S + SPARK_MORE * local_s / free
    engine = "spark" if spark_s < local_s else "local"
    size = f"{sum(sizes):,} bytes in {len(sizes):,} files"
    times = f"local takes about {local_s:,.0f} s, spark {spark_s:,.0f} s on {free} free processors"
    return engine, f"{engine}: {size}, of which {times}"


def free_processors() -> int:
    """Return how many processors of this machine nobody uses, at least one."""
    try:
        busy = os.getloadavg()[0]
    except OSError:  # the system does not tell
        busy = 0.0
    return max(1, round((os.cpu_count() or 1) - busy))


def write_page(verdict: Verdict, paths: Iterable[str], report: Path, violations: Iterable[Violation]) -> None:
    """Write the report page of a verdict, and its violations beside it."""
    from triack.tools.replay.report.report import write_report

    again = shlex.join(["triack", "replay", *paths, "--engine", verdict.engine, "--report", str(report)])
    write_report(report, verdict, verdict.timeline or Timeline(), again, violations)
    verdict.report = str(report)


def on_spark(master: str | None, work: Callable[[SparkSession], Done]) -> Done:
    """Work with a Spark session: with one that is open, or with one that is stopped afterwards."""
    require_spark(master)
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from triack.tools.replay.engines.spark_session import open_spark

    # When the virtual machine is gone: by py4j, which PySpark brings along, or by its sockets.
    died = importlib.import_module("py4j.protocol").Py4JError, ConnectionError
    running = SparkSession.getActiveSession()
    if running is not None and master is not None:
        raise ReplayError(f"this process has a Spark session already; it cannot run on {master} as well")
    spark = running
    try:
        if spark is None:
            with _quiet_start():
                spark = open_spark(master)
        return work(spark)
    except (PySparkException, ReplayError, *died) as error:
        if _comes_of_interrupt(error):
            raise KeyboardInterrupt from error
        if isinstance(error, ReplayError):
            raise
        raise ReplayError(f"Spark failed: {reason_of(str(error))}; --engine local needs no Spark") from error
    finally:
        # A session that the caller opened stays open.
        if running is None and spark is not None:
            with contextlib.suppress(*died):  # it cannot be stopped any more
                spark.stop()


def _comes_of_interrupt(error: BaseException | None) -> bool:
    """Whether a Ctrl-C came before it: after that, calls to Spark for cleaning up may fail."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def reason_of(text: str) -> str:
    """Summarize an error of Spark in a line: why, where it comes from Java, and not which call it was."""
    lines = [line for line in text.strip().splitlines() if line]
    if any(line.endswith(_TRACED) for line in lines):
        at = next(at for at, line in enumerate(lines) if line.endswith(_TRACED))
        raised = next((line for line in lines[at + 1 :] if not line.startswith(" ")), text)
        hint = "; PYSPARK_PYTHON names the Python of the workers, which need triack[spark]"
        return f"a worker in Python: {raised}{hint if raised.startswith('ModuleNotFoundError') else ''}"
    reason = next((line.removeprefix(": ") for line in lines if not _CALLED.match(line)), text)
    if _AWAITED not in reason:
        return reason
    return next((line[found.end() :] for line in lines if (found := _CAUSE.match(line))), reason)


def require_spark(master: str | None = None) -> None:
    """Raise if PySpark or Java is missing, with how to install it or do without; see ``missing_of_spark``."""
    missing = missing_of_spark(master)
    if missing is not None:
        raise ReplayError(f"{missing}, or use --engine local")


def missing_of_spark(master: str | None = None) -> str | None:
    """Say what a replay on Spark still wants, PySpark or Java, and how to install it; None if nothing is missing."""
    if importlib.util.find_spec("pyspark") is None:
        return "replay on Spark needs PySpark: pip install 'triack[spark]'"
    if (master or os.environ.get("SPARK_REMOTE", "")).startswith("sc://"):
        more = importlib.util.find_spec("grpc") is not None
        return None if more else "Spark Connect needs more of PySpark: pip install 'triack[connect]'"
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java").exists() if home else shutil.which("java") is not None
    where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
    return None if java else f"replay on Spark needs Java 17 or later, and {where}: install it"


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
            lines = chatter.read().decode("utf-8", "replace").splitlines()
            said = next((line.strip() for line in reversed(lines) if not _NO_REASON.search(line)), "")
            raise ReplayError(f"Spark did not start: {said or error}; try --engine local") from error
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
