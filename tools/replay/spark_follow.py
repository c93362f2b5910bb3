"""Follows logs that grow with Structured Streaming: a batch judges what is new, and a table keeps what was judged.

A batch (``spark_batch.py``) reads the table and writes a piece of it, under the number that Spark gives it, so that a
batch that is run again after a crash judges nothing twice.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING, Final

from triack.base.errors import ReplayError
from triack.tools.replay.checkpoint import load, save
from triack.tools.replay.findings import DisorderError
from triack.tools.replay.follow import POLL_S
from triack.tools.replay.pieces import merged_by, pieces_of
from triack.tools.replay.schema import Timeline, Verdict, Violation
from triack.tools.replay.spark_batch import KNOWN, in_force, judge_batch
from triack.tools.replay.spark_engine import IDENTITY, Found, conclude_found, explain
from triack.tools.replay.spark_files import name_of, outermost
from triack.tools.replay.spark_growth import watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PIECE: Final = "upto="
"""How the name of a piece begins: Spark makes a column of it."""
Finish = Callable[[Verdict, Iterable[Violation]], None]

TRIGGER: Final = "1 second"
"""Between two looks for new records: a batch costs more than that."""


def follow_spark(
    spark: SparkSession,
    paths: Iterable[str],
    tell: Callable[[Violation, Timeline], None],
    *,
    until_idle_s: float | None = None,
    checkpoint: Path | None = None,
    stop: Event | None = None,
    finish: Finish | None = None,
) -> Verdict:
    """Tell violations as they turn up in growing logs; return the verdict, as ``replay`` gives it of the same logs.

    Args:
        spark: the Spark session.
        paths: directories with logs (searched in depth; they may be empty as yet), or single segments; all workers see
            them by these names.
        tell: called once with each violation, and with how nodes are called.
        until_idle_s: return when nothing was written for so many seconds; None: only ``stop`` ends it.
        checkpoint: a directory for what was judged so far, which all workers see, to go on from there after a restart;
            what was told just before a crash is told again. None: begin anew each time.
        stop: ends it when it is set.
        finish: as of ``replay_spark``.

    Raises:
        ReplayError: a path does not exist, a log is damaged, or the checkpoint is something else.
    """
    given = [Path(path) for path in outermost(paths)]
    for path in given:
        if not path.exists():
            raise ReplayError(f"no such directory: {path}")
    with nullcontext(str(checkpoint)) if checkpoint else TemporaryDirectory(prefix="triack-replay-") as folder:
        stream = Stream(spark, given, Kept(Path(folder), given))
        try:
            _follow(stream, tell, until_idle_s, stop or Event())
            return stream.conclude(finish)
        except Exception as error:
            raise explain(error) from error
        finally:
            stream.stop()


def _follow(
    stream: Stream, tell: Callable[[Violation, Timeline], None], until_idle_s: float | None, stop: Event
) -> None:
    heard_s = time.monotonic()
    while not stop.is_set() and (until_idle_s is None or time.monotonic() - heard_s < until_idle_s):
        if stream.read():
            heard_s = time.monotonic()
        stream.tell(tell)
        if not stream.fresh:
            stop.wait(POLL_S)
    stream.read()
    stream.tell(tell)
    while stream.fresh:
        stream.read()
        stream.tell(tell)


class Kept:
    """The directory of a checkpoint.

    Args:
        path: the directory, ours or not there or empty.
        paths: whose logs; what was kept of others is dropped.

    Attributes:
        forgets: whether what is settled is kept as sums only.

    Raises:
        ReplayError: there is something else in it.
    """

    def __init__(self, path: Path, paths: list[Path]) -> None:
        self._path = path.resolve()
        self._paths = [str(path.resolve()) for path in paths]
        self._path.mkdir(parents=True, exist_ok=True)
        about = self._path / "about"
        if not about.exists() and any(self._path.iterdir()):
            raise ReplayError(f"{path} is not empty, and no checkpoint of triack replay on Spark")
        known = load(about, dict) or {}
        self.forgets: bool = known.get("forgets", True)
        self._generation: int = known.get("generation", 0)
        self._told: int = known.get("told", 0)
        if known.get("paths") != self._paths:
            self._begin(forgets=True)
            self._told = self._generation
            self._save()

    def begin_anew(self) -> None:
        """Drop what was judged, but not what was told; forget nothing from now on."""
        self._begin(forgets=False)
        self._save()

    def _begin(self, *, forgets: bool) -> None:
        # What an earlier version left, of which the number is not known, is not taken for ours.
        there = [int(path.name) for path in self._path.iterdir() if path.name.isdecimal()]
        self._generation = 1 + max([self._generation, *there])
        self.forgets = forgets

    def _save(self) -> None:
        """Write what is valid from now on, and remove the rest."""
        names = ("paths", "forgets", "generation", "told")
        values = (self._paths, self.forgets, self._generation, self._told)
        save(self._path / "about", dict(zip(names, values, strict=True)))
        for path in self._path.iterdir():
            if path.name.isdecimal() and int(path.name) not in (self._generation, self._told):
                shutil.rmtree(path)

    @property
    def stream(self) -> str:
        """Where Spark keeps how far it is."""
        return name_of(self._path / str(self._generation) / "stream")

    @property
    def told_before(self) -> Path:
        """Where it is kept which violations were told."""
        return self._path / str(self._told) / "told"

    @property
    def judged(self) -> Path:
        """Where the pieces of the table are."""
        return self._path / str(self._generation) / "judged"

    def piece(self, batch: int) -> Path:
        """Where the piece is that a batch writes."""
        return self.judged / f"{_PIECE}{batch}"

    def last(self) -> int:
        """The last batch that was written as a whole, or -1."""
        whole = self.judged.glob(f"{_PIECE}*/_SUCCESS")
        return max((int(path.parent.name.removeprefix(_PIECE)) for path in whole), default=-1)

    def drop(self, batch: int) -> None:
        """Remove the pieces that nobody needs when this batch is there; that of the next one may be in the making.

        A crash may make Spark begin again behind the one before it.
        """
        needed = {*pieces_of(batch), *pieces_of(batch - 1)}
        for path in self.judged.glob(f"{_PIECE}*"):
            piece = int(path.name.removeprefix(_PIECE))
            if piece < batch and piece not in needed:
                shutil.rmtree(path)


class Stream:
    """The running query, and what it has found.

    Args:
        spark: the Spark session.
        paths: what is followed.
        kept: where it is kept.

    Attributes:
        fresh: whether something was found that was not looked at a second time.
    """

    def __init__(self, spark: SparkSession, paths: list[Path], kept: Kept) -> None:
        self.fresh = False
        self._spark = spark
        self._paths = paths
        self._kept = kept
        self._failure: Exception | None = None
        self._query = self._start()
        self._looked = -1
        # What the last look found and nobody was told, and how nodes are called.
        self._suspects: DataFrame | None = None
        self._timeline = Timeline()

    def _start(self) -> StreamingQuery:
        self._last = self._kept.last()
        grown = watch(self._spark, self._paths)
        writer = grown.writeStream.foreachBatch(self._judge).option("checkpointLocation", self._kept.stream)
        return writer.trigger(processingTime=TRIGGER).start()

    def stop(self) -> None:
        """End the query."""
        self._query.stop()

    def _judge(self, grown: DataFrame, batch: int) -> None:
        """Judge a batch, as Spark calls it."""
        try:
            merging = merged_by(batch)
            merged = self._pieces(merging) if merging else None
            to = name_of(self._kept.piece(batch))
            judge_batch(grown, self._pieces(pieces_of(batch - 1)), merged, to, forgets=self._kept.forgets)
            self._last = batch
        except Exception as error:
            self._failure = error
            raise

    def _pieces(self, pieces: list[int]) -> DataFrame:
        if not pieces:
            return self._spark.createDataFrame([], KNOWN)
        reader = self._spark.read.schema(KNOWN).option("basePath", name_of(self._kept.judged))
        return reader.parquet(*(name_of(self._kept.piece(piece)) for piece in pieces))

    def read(self) -> bool:
        """Judge all that is there by now, and return whether there was anything new.

        Raises:
            ReplayError: a log is damaged.
        """
        before = self._last
        try:
            self._query.processAllAvailable()
        except Exception:
            failure, self._failure = self._failure, None
            if failure is None:
                raise
            if DisorderError.__name__ not in str(failure):
                raise failure from None
            self._query.stop()
            self._kept.begin_anew()
            self._query, self._looked = self._start(), -1
            self._query.processAllAvailable()
            return True
        # Here, and not where batches are judged: nothing is read that is removed meanwhile.
        self._kept.drop(self._last)
        return self._last != before

    def tell(self, tell: Callable[[Violation, Timeline], None]) -> None:
        """Tell the violations that two looks have found, the second one after all was read that the first one missed.

        One end's log may have been read before the other's: what was sent in between seems forged.
        """
        suspects, sure = self._suspects, None
        if self._looked == self._last:
            sure, self._suspects = suspects, None
        else:
            self._look()
            if suspects is not None and self._suspects is not None:
                sure = self._suspects.join(suspects, IDENTITY, "left_semi")
        if sure is not None:
            self._tell(self._untold(sure), tell)
        if suspects is not None:
            suspects.unpersist()
        self.fresh = self._suspects is not None and not self._untold(self._suspects).isEmpty()

    def _look(self) -> None:
        self._looked = self._last
        found = self._found()
        verdict = Verdict()
        found.summarize(verdict)
        self._timeline = verdict.timeline or Timeline()
        self._suspects = None
        if found.any:
            # All of them, now: what they were made of is removed when two batches more are there.
            self._suspects = self._untold(found.violations).persist()
            self._suspects.count()

    def _tell(self, sure: DataFrame, tell: Callable[[Violation, Timeline], None]) -> None:
        for row in sure.orderBy(*(field.name for field in fields(Violation))).toLocalIterator():
            tell(Violation(**row.asDict()), self._timeline)
        sure.select(*IDENTITY).write.mode("append").parquet(name_of(self._kept.told_before))

    def _untold(self, violations: DataFrame) -> DataFrame:
        if not (self._kept.told_before / "_SUCCESS").exists():
            return violations
        known = self._spark.read.parquet(name_of(self._kept.told_before))
        return violations.join(known, IDENTITY, "left_anti")

    def _found(self) -> Found:
        return Found(in_force(self._pieces(pieces_of(self._last))).where("kind = 'found'"))

    def conclude(self, finish: Finish | None) -> Verdict:
        """Return what ``replay`` says of the logs as far as they were read.

        Args:
            finish: as of ``replay_spark``.
        """
        kept: list[DataFrame] = []
        try:
            return conclude_found(self._found(), kept, finish)
        finally:
            for frame in kept:
                frame.unpersist()
