"""Reports Spark's progress in words while it works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S: Final = 0.5
"""Interval between two looks: soon enough for a person."""


@contextmanager
def telling(spark: SparkSession, say: Callable[[str], None]) -> Iterator[None]:
    """Report Spark's progress until the block is left; a Spark that runs elsewhere gives none."""
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
