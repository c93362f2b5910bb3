"""Tables that grow with their logs: every few seconds a batch adds what is new.

What was taken is known by the tables themselves (``table_set.append``): a batch counts when its last file is there, and
the next one takes the records behind it. So a job that is killed takes no record twice and leaves none out, wherever it
was, and keeps nothing but the tables.
"""

from __future__ import annotations

import time
from threading import Event
from typing import TYPE_CHECKING, Final

from triack.replay.records import expand
from triack.replay.table_set import Added, Written, append, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

EVERY_S: Final = 10.0
"""Between the begins of two batches: each of them makes files of its own."""


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
        paths: as of ``write``; directories may be empty as yet.
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
    files = records = 0
    heard_s = time.monotonic()
    while True:
        next_s = time.monotonic() + every_s
        added = append(spark, given, out, may_be_empty=True)
        files, records = files + added.files, records + added.records
        if added.records:
            heard_s = time.monotonic()
            if tell is not None:
                tell(added)
        if until_idle_s is not None:
            next_s = min(next_s, heard_s + until_idle_s)
        is_over = until_idle_s is not None and time.monotonic() >= heard_s + until_idle_s
        if is_over or stop.wait(max(next_s - time.monotonic(), 0)):
            break
    last = write(spark, given, out)
    return Written(files + last.files, records + last.records, last.violations)
