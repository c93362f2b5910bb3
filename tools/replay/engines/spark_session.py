"""Opening Spark for a replay: on this machine with suitable settings, or as the user's environment configures it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread, current_thread, main_thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT: Final = "sc://"
"""How the address of a remote Spark begins that is reached by Spark Connect."""
_CONFIGURED: Final = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_REMOTE")
"""Where one of these is set, Spark's settings are already chosen; spark-submit sets the first."""
_QUIET: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    # Noting the line of Python behind every expression multiplies the calls to the virtual machine.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Rows are chunks for the judges, and few: code made for each query would cost more than it saves, and fill the
    # cache of compiled code while logs are followed.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_COMPILED: Final = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
_ONE_MACHINE: Final = {
    # Few partitions, no network, and a virtual machine that need not live long.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.sql.adaptive.enabled": "false",
    # Files that Spark itself reads travel to Python one by one: all of a task's together are copied again and again.
    "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
    # A task reads few of these, or one processor is done long before the other.
    "spark.sql.files.maxPartitionBytes": "20m",
}
LOOK_S: Final = 0.5
"""Interval between two looks: soon enough for a person."""


def open_spark(master: str | None) -> SparkSession:
    """Return a Spark session for a replay.

    Args:
        master: the cluster to run on, ``sc://HOST`` included; None for what ``spark-submit`` or the environment says,
            or else all processors of this machine.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("triack replay")
    if master is not None and master.startswith(CONNECT):
        return builder.remote(master).getOrCreate()
    settings = settings_for(master, os.environ)
    if settings.get("spark.master", "").startswith("local"):
        # The judges are Python, and that of this process has them.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in settings.items():
        builder = builder.config(name, value)
    # PySpark takes Ctrl-C for itself, in the main thread.
    on_interrupt = signal.getsignal(signal.SIGINT)
    spark = builder.getOrCreate()
    if current_thread() is main_thread():
        signal.signal(signal.SIGINT, on_interrupt)
    return spark


@contextmanager
def compiling(spark: SparkSession) -> Iterator[None]:
    """Let Spark make code for its expressions meanwhile, which takes seconds and pays for many rows."""
    before = {name: spark.conf.get(name) for name in _COMPILED}
    try:
        for name, value in _COMPILED.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            spark.conf.set(name, str(was))


@contextmanager
def telling(spark: SparkSession, say: Callable[[str], None]) -> Iterator[None]:
    """Report Spark's progress in words until the block is left; a Spark that runs elsewhere gives none."""
    from pyspark.sql.utils import is_remote

    if is_remote():
        yield
        return
    over, tracker = Event(), spark.sparkContext.statusTracker()

    def tell() -> None:
        while not over.wait(LOOK_S):
            stages = [it for it in map(tracker.getStageInfo, tracker.getActiveStageIds()) if it is not None]
            if stages:
                done, tasks = (sum(it.numCompletedTasks for it in stages), sum(it.numTasks for it in stages))
                say(f"step {max(it.stageId for it in stages) + 1}, {done:,} of its {tasks:,} tasks done")

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def settings_for(master: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a new Spark session."""
    if any(name in environ for name in _CONFIGURED):
        return {} if master is None else {"spark.master": master}
    settings = {"spark.master": master or "local[*]", **_QUIET}
    if settings["spark.master"].startswith("local"):
        settings |= _ONE_MACHINE
    return settings
