"""Tables that grow with their logs: a query of Structured Streaming looks for what is new, and each batch adds it.

What was taken is known by the tables themselves (``table_set.append``): a batch counts when its last file is there, and
the next one takes the records behind it. So a job that is killed takes no record twice and leaves none out, wherever it
was, and keeps nothing but the tables.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING, Final

from triack.base.errors import ReplayError
from triack.replay.records import expand
from triack.replay.table_set import Added, Written, append, write
from triack.tools.replay.engines.spark_engine import explain
from triack.tools.replay.engines.spark_growth import watch
from triack.tools.replay.log.listing import is_remote, local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame, SparkSession

EVERY_S: Final = 10.0
"""Between two batches: each of them makes files of its own."""
LOOK_S: Final = 0.2
"""Between two looks at whether it is to end."""


def follow(
    spark: SparkSession,
    paths: Iterable[str],
    out: str,
    *,
    every_s: float = EVERY_S,
    until_idle_s: float | None = None,
    stop: Event | None = None,
    tell: Callable[[Added], None] | None = None,
) -> Written:
    """Write the tables of session logs while these grow, each record once, until it is to stop; then as ``write`` does.

    Args:
        spark: the Spark session.
        paths: directories with logs of this machine, or mounted on all that work; they may be empty as yet.
        out: as of ``write``; one job at a time writes there.
        every_s: seconds between two batches. What is new is in the tables a few seconds after its batch has begun.
        until_idle_s: return when nothing was written for this many seconds; None: only ``stop`` ends it.
        stop: ends it when it is set.
        tell: called with each batch that had something new.

    Returns:
        The files and records of all batches, and the violations in the end.

    Raises:
        ReplayError: a path does not exist or needs a scheme, a log is damaged, or the directory has tables of another
            version.
    """
    given, stop = expand(paths), stop or Event()
    if any(map(is_remote, given)):
        raise ReplayError("logs that are followed are of this machine, or mounted: Spark is not told when others grow")
    taken = _Taken(spark, given, out, tell)
    grown = watch(spark, [Path(local_path(path)) for path in given])
    with TemporaryDirectory(prefix="triack-tables-") as looked:
        writer = grown.writeStream.foreachBatch(taken.take).option("checkpointLocation", looked)
        query = writer.trigger(processingTime=f"{max(1, round(every_s * 1_000))} milliseconds").start()
        try:
            while query.isActive and not stop.wait(LOOK_S) and not taken.is_idle(until_idle_s):
                pass
        finally:
            query.stop()
            taken.wait()
    failure = taken.failure or query.exception()
    if failure is not None:
        raise explain(failure)
    last = write(spark, given, out)
    return Written(taken.files + last.files, taken.records + last.records, last.violations)


class _Taken:
    """Takes the batches.

    Args:
        spark, paths, out, tell: as of ``follow``.

    Attributes:
        files, records: how many were taken.
        failure: why a batch failed.
    """

    def __init__(self, spark: SparkSession, paths: list[str], out: str, tell: Callable[[Added], None] | None) -> None:
        self.files = self.records = 0
        self.failure: Exception | None = None
        self._spark = spark
        self._paths = paths
        self._out = out
        self._tell = tell
        self._heard_s = time.monotonic()
        self._rests = Event()
        self._rests.set()

    def take(self, grown: DataFrame, _: int) -> None:
        """Add what is new, as Spark calls it; what the query has seen may be in the tables since an earlier run."""
        self._rests.clear()
        try:
            if grown.isEmpty():
                return
            added = append(self._spark, self._paths, self._out, may_be_empty=True)
            self.files += added.files
            self.records += added.records
            if added.records:
                self._heard_s = time.monotonic()
                if self._tell is not None:
                    self._tell(added)
        except Exception as error:
            self.failure = error
            raise
        finally:
            self._rests.set()

    def wait(self) -> None:
        """Wait for the end of a batch that is being taken."""
        self._rests.wait()

    def is_idle(self, for_s: float | None) -> bool:
        """Whether nothing was new for that time, and no batch is being taken."""
        return for_s is not None and self._rests.is_set() and time.monotonic() - self._heard_s >= for_s
