"""Follows logs that grow with Structured Streaming: a batch judges what is new, and a table keeps what was judged.

A batch (``spark_batch.py``) reads the table and writes a piece of it, under the number that Spark gives it, so that a
batch that is run again after a crash judges nothing twice.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Condition, Event
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from triack.base.errors import ReplayError
from triack.tools.replay.checks.findings import DisorderError
from triack.tools.replay.engines.checkpoint import load, save
from triack.tools.replay.engines.follow import POLL_S
from triack.tools.replay.engines.pieces import merged_by, pieces_of
from triack.tools.replay.engines.spark_batch import KNOWN, in_force, judge_batch, rows_of_past
from triack.tools.replay.engines.spark_engine import DEALT, conclude_found, explain, first_of_each, pack, recount
from triack.tools.replay.engines.spark_files import name_of
from triack.tools.replay.engines.spark_found import Found
from triack.tools.replay.engines.spark_growth import watch
from triack.tools.replay.engines.spark_session import gone
from triack.tools.replay.engines.summary import Loaded, load_summaries
from triack.tools.replay.log.listing import Listing, list_growing
from triack.tools.replay.log.schema import BROKEN, Timeline, Verdict, Violation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PIECE: Final = "upto="
"""How the name of a piece begins: Spark makes a column of it."""
Finish = Callable[[Verdict, Iterable[Violation]], None]
Tell = Callable[[Violation, Timeline], None]
Identity = tuple[object, ...]
"""Two findings that agree in these are the same."""

RECOUNTED_MAX: Final = 10_000_000
"""Records that are read once more in the end, for the second count: a minute or two on one machine."""
TRIGGER: Final = "500 milliseconds"
"""Interval between two looks for new records: a batch takes longer than that."""


def follow_spark(
    spark: SparkSession,
    paths: Iterable[str],
    tell: Tell,
    *,
    until_idle_s: float | None = None,
    checkpoint: Path | None = None,
    stop: Event | None = None,
    finish: Finish | None = None,
) -> Verdict:
    """Report violations as they turn up in growing logs; return the verdict that ``replay`` gives of the same logs.

    Args:
        spark: the Spark session.
        paths: directories with logs (searched in depth; they may be empty as yet), or single segments; all workers see
            them by these names.
        tell: called once with each violation, and with the names of nodes; when many violations of one check are found
            at a time, with the first ones (``FIRST_OF_EACH``).
        until_idle_s: return when nothing was written for this many seconds; None: only ``stop`` ends it.
        checkpoint: a directory for what was judged so far, which all workers see, to go on from there after a restart;
            what was reported just before a crash is reported again. None: start from scratch each time.
        stop: ends it when it is set.
        finish: as of ``replay_spark``.

    Raises:
        ReplayError: a path does not exist, a log is damaged, or the checkpoint is something else.
    """
    given = list(map(Path, paths))
    listing = list_growing(given, ())
    loaded = load_summaries(listing).require(listing)
    with nullcontext(str(checkpoint)) if checkpoint else TemporaryDirectory(prefix="triack-replay-") as folder:
        stream = Stream(spark, given, Kept(Path(folder), given, loaded))
        try:
            _follow(stream, tell, until_idle_s, stop or Event())
            return stream.conclude(finish)
        except Exception as error:
            raise explain(error) from error
        finally:
            stream.stop()


def _follow(stream: Stream, tell: Tell, until_idle_s: float | None, stop: Event) -> None:
    heard_s = time.monotonic()
    while not stop.is_set() and (until_idle_s is None or time.monotonic() - heard_s < until_idle_s):
        if stream.read():
            heard_s = time.monotonic()
        stream.tell(tell)
        if not stream.fresh:
            stop.wait(POLL_S)
    # Once more for what the last look has found; the logs may go on growing.
    stream.expect()
    for _ in range(2):
        stream.read_all()
        stream.tell(tell)


class Kept:
    """The directory of a checkpoint.

    Args:
        path: the directory, ours or not there or empty.
        paths: whose logs; what was kept of others is dropped.
        loaded: what their summaries hold; what was kept before they were written is dropped.

    Attributes:
        loaded: as given.
        forgets: whether what is settled is kept as sums only.

    Raises:
        ReplayError: there is something else in it, or its name is one that Spark misreads.
    """

    def __init__(self, path: Path, paths: list[Path], loaded: Loaded | None = None) -> None:
        self.loaded = loaded or Loaded()
        self._path = path.resolve()
        name_of(str(self._path))
        self._paths = [str(path.resolve()) for path in paths]
        self._path.mkdir(parents=True, exist_ok=True)
        about = self._path / "about"
        if not about.exists() and any(self._path.iterdir()):
            raise ReplayError(f"{path} is not empty, and no checkpoint of triack replay on Spark")
        known = load(about, dict) or {}
        self.forgets: bool = known.get("forgets", True)
        self._generation: int = known.get("generation", 0)
        self._told: int = known.get("told", 0)
        self._summaries = sorted(self.loaded.digests.values())
        if known.get("paths") != self._paths or known.get("summaries", []) != self._summaries:
            self._begin(forgets=True)
            self._told = self._generation
            self._save()

    def begin_anew(self) -> None:
        """Drop what was judged, but not what was reported; forget nothing from now on."""
        self._begin(forgets=False)
        self._save()

    def _begin(self, *, forgets: bool) -> None:
        # Files of an earlier version, with an unknown number, are not taken for ours.
        there = [int(path.name) for path in self._path.iterdir() if path.name.isdecimal()]
        self._generation = 1 + max([self._generation, *there])
        self.forgets = forgets

    def _save(self) -> None:
        """Write what is valid from now on, and remove the rest."""
        names = ("paths", "summaries", "forgets", "generation", "told")
        values = (self._paths, self._summaries, self.forgets, self._generation, self._told)
        save(self._path / "about", dict(zip(names, values, strict=True)))
        for path in self._path.iterdir():
            if path.name.isdecimal() and int(path.name) not in (self._generation, self._told):
                _remove(path)

    @property
    def stream(self) -> str:
        """Where Spark keeps how far it is."""
        return name_of(str(self._path / str(self._generation) / "stream"))

    @property
    def _told_before(self) -> Path:
        return self._path / str(self._told) / "told"

    def told(self) -> set[Identity]:
        """The violations that were reported."""
        return load(self._told_before, set) or set()

    def save_told(self, told: set[Identity]) -> None:
        """Keep it."""
        self._told_before.parent.mkdir(exist_ok=True)
        save(self._told_before, told)

    @property
    def judged(self) -> Path:
        """Where the pieces of the table are."""
        return self._path / str(self._generation) / "judged"

    def piece(self, batch: int) -> Path:
        """Where the piece is that a batch writes."""
        return self.judged / f"{_PIECE}{batch}"

    def last(self) -> int:
        """The last batch that was written as a whole and that Spark has noted, or -1.

        Spark begins one anew that it has not noted, and so replaces its piece: nobody may read that meanwhile.
        """
        whole = {path.parent.name.removeprefix(_PIECE) for path in self.judged.glob(f"{_PIECE}*/_SUCCESS")}
        noted = {path.name for path in (self.judged.parent / "stream" / "commits").glob("*")}
        return max(map(int, whole & noted), default=-1)

    def drop(self, batch: int) -> None:
        """Remove the pieces that this batch makes obsolete; the next batch may be writing its own already.

        After a crash Spark may begin again behind the batch before this one.
        """
        needed = {*pieces_of(batch), *pieces_of(batch - 1)}
        for path in self.judged.glob(f"{_PIECE}*"):
            piece = int(path.name.removeprefix(_PIECE))
            if piece < batch and piece not in needed:
                _remove(path)


def _remove(path: Path) -> None:
    """Remove a folder that nobody reads. A task of Spark that was cancelled may still write into it: the rest stays."""
    shutil.rmtree(path, ignore_errors=True)


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
        self._loaded = kept.loaded
        self._spark = spark
        self._paths = paths
        self._kept = kept
        self._expected = Listing()
        self._told = kept.told()
        # Held where batches begin and end, and notified when one ends or there is nothing to judge.
        self._progress = Condition()
        self._begun = self._done = 0
        self._failure: Exception | None = None
        self._asking = ThreadPoolExecutor(max_workers=1)
        self._asked: Future[None] | None = None
        self._query = self._start()
        self._looked = -1
        # What the last look found and has not reported, by identity, and the names of nodes.
        self._suspects: dict[Identity, Violation] = {}
        self._timeline = Timeline()

    def _start(self) -> StreamingQuery:
        self._last = self._kept.last()
        self._past = self._table_of_past()
        grown = watch(self._spark, self._paths)
        writer = grown.writeStream.foreachBatch(self._judge).option("checkpointLocation", self._kept.stream)
        return writer.trigger(processingTime=TRIGGER).start()

    def _table_of_past(self) -> DataFrame | None:
        """Return what summaries hold as ``KNOWN``: every piece is newer."""
        import pyarrow as pa

        if self._loaded.past is None:
            return None
        rows = pa.Table.from_batches([pack(list(rows_of_past(self._loaded.past, forgets=self._kept.forgets)))])
        return self._spark.createDataFrame(rows, DEALT).withColumn("upto", f.lit(-1))

    def stop(self) -> None:
        """End the query. An error of a Spark that is gone, or that a second Ctrl-C cut off, must not hide the cause."""
        with suppress(*gone()):
            self._query.stop()
        self._asking.shutdown()

    def _judge(self, grown: DataFrame, batch: int) -> None:
        """Judge a batch, as Spark calls it."""
        with self._progress:
            self._begun += 1
        try:
            merging = merged_by(batch)
            merged = self._in_force(merging) if merging else None
            to = name_of(str(self._kept.piece(batch)))
            news = [(row["path"], row["size"], row["grown"]) for row in grown.collect()]
            before = self._pieces(pieces_of(batch - 1))
            if self._past is not None:
                before = before.unionByName(self._past)
            cuts = self._loaded.past.cuts if self._loaded.past is not None else {}
            judge_batch(news, before, merged, to, forgets=self._kept.forgets, cuts=cuts)
        except Exception as error:
            self._failure = error
            raise
        with self._progress:
            self._last = batch
            self._done += 1
            self._progress.notify_all()

    def _pieces(self, pieces: list[int]) -> DataFrame:
        if not pieces:
            return self._spark.createDataFrame([], KNOWN)
        reader = self._spark.read.schema(KNOWN).option("basePath", name_of(str(self._kept.judged)))
        return reader.parquet(*(name_of(str(self._kept.piece(piece))) for piece in pieces))

    def _in_force(self, pieces: list[int]) -> DataFrame:
        """Return the rows of some pieces that none of them has made invalid: of a single one, all."""
        return in_force(self._pieces(pieces)) if len(pieces) > 1 else self._pieces(pieces)

    def read(self) -> bool:
        """Wait until a batch was judged that was not looked at, or nothing is left to judge; return whether one was.

        Raises:
            ReplayError: a log is damaged.
        """
        self._await(lambda: self._last != self._looked)
        return self._last != self._looked

    def read_all(self) -> None:
        """Wait until all is judged that is there by now.

        Raises:
            ReplayError: a log is damaged.
        """
        # The next batch may have looked at the logs already; the one after it has not.
        enough = self._begun + 2
        self._await(lambda: self._done >= enough)

    def _await(self, is_enough: Callable[[], bool]) -> None:
        """Wait for something, or until Spark says that nothing is left to judge; it may never, while logs grow."""
        mine: Future[None] | None = None
        while not is_enough():
            if self._asked is None:
                mine = self._asked = self._asking.submit(self._query.processAllAvailable)
                mine.add_done_callback(self._wake)
            asked = self._asked
            with self._progress:
                while not (is_enough() or asked.done()):
                    self._progress.wait()
            if asked.done():
                self._asked = None
                # An answer to an earlier request holds for an earlier moment.
                if self._answers(asked) and asked is mine:
                    break
        # Here, and not where batches are judged: nothing that is read is removed meanwhile.
        self._kept.drop(self._last)

    def _wake(self, _: object) -> None:
        with self._progress:
            self._progress.notify_all()

    def _answers(self, asked: Future[None]) -> bool:
        """Whether nothing was left to judge; if all has to be judged again, that has begun."""
        try:
            asked.result()
        except Exception:
            failure, self._failure = self._failure, None
            if failure is None:
                raise
            if DisorderError.__name__ not in str(failure):
                raise failure from None
            self._query.stop()
            self._kept.begin_anew()
            self._query, self._looked, self._done = self._start(), -1, self._begun
            return False
        return True

    def tell(self, tell: Tell) -> None:
        """Report the violations that two looks have found, the second after reading everything that the first missed.

        One end's log may have been read before the other's: then what was sent in between seems forged.
        """
        suspects, last = self._suspects, self._last
        if self._looked == last:
            sure, self._suspects = suspects, {}
        else:
            self._look(last)
            sure = {identity: it for identity, it in self._suspects.items() if identity in suspects}
        for identity, violation in sure.items():
            tell(violation, self._timeline)
            self._told.add(identity)
            self._suspects.pop(identity, None)
        if sure:
            self._kept.save_told(self._told)
        self.fresh = bool(self._suspects)

    def _look(self, last: int) -> None:
        """Judge what holds after a batch."""
        kept = [self._found(last).persist()]
        try:
            found, verdict = Found(kept[0], kept), Verdict()
            found.summarize(verdict, Listing())
            broken = f.col("standing") == BROKEN
            violations = first_of_each(found.violations.where(broken)) if found.any else []
        finally:
            for frame in kept:
                frame.unpersist()
        self._looked, self._timeline = last, verdict.timeline or Timeline()
        self._suspects = {it.identity: it for it in violations if it.identity not in self._told}

    def _found(self, last: int) -> DataFrame:
        known = self._in_force(pieces_of(last))
        if self._past is not None:
            known = in_force(known.unionByName(self._past))
        return known.where("kind = 'found'")

    def expect(self) -> None:
        """Note which logs there are, all of which have to be in the verdict."""
        self._expected = list_growing(self._paths, ())

    def conclude(self, finish: Finish | None) -> Verdict:
        """Return the verdict that ``replay`` gives of the logs as far as they were read.

        Args:
            finish: as of ``replay_spark``.
        """
        kept: list[DataFrame] = []
        try:
            found = Found(self._found(self._last), kept)
            left = self._expected.without({it.path for it in found.files})
            read = [it for it in found.files if not it.fault]
            is_whole = self._past is None and sum(it.records for it in read) <= RECOUNTED_MAX
            found.files += self._loaded.read
            return conclude_found(found, left, kept, finish, recount(self._spark, read) if is_whole else None)
        finally:
            for frame in kept:
                frame.unpersist()
