"""The Spark engine: opens the Spark session, runs the checks and brings their results together.

What small records cost is planning and starting jobs, not computing. So all checks are one job whose rows are facts
(see ``spark_records.facts``); only what their counts show to be doubtful is looked at in a second one.
"""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from triack.tools.replay import spark_records as base
from triack.tools.replay import spark_resends as resends
from triack.tools.replay import spark_sessions as sessions
from triack.tools.replay import spark_streams as streams
from triack.tools.replay.files import LogFile, find_damage
from triack.tools.replay.schema import CHECKS, FAILURE_REASONS, Verdict, Violation
from triack.tools.replay.spark_timeline import DUPLICATE, SHOWN, empty_timeline, fill_timeline, timeline_facts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from triack.tools.replay.schema import Timeline

_SMALL_BYTES: Final = 64 << 20
"""Below this, starting and planning take longer than computing."""
_QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java process that will not live long enough to gain from its best compiler and collector."""


@dataclass(frozen=True, slots=True)
class _Frames:
    """What the checks read; each is described where it is made."""

    links: DataFrame
    sends: DataFrame
    unacked: DataFrame
    arrivals: DataFrame
    segments: DataFrame
    settled: DataFrame
    again: DataFrame
    effects: DataFrame
    timing: DataFrame


def open_spark(master: str | None, size_bytes: int) -> SparkSession:
    """Return the Spark session for a replay: quiet, without a web page, with settings that suit the size.

    Args:
        master: the cluster to run on; None for all processors of this machine.
        size_bytes: of all logs together.
    """
    cores = os.cpu_count() or 1
    small = size_bytes < _SMALL_BYTES
    local = master is None or master.startswith("local")
    settings: dict[str, object] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": str(not small).lower(),
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        # Noting the line of Python behind every expression multiplies the calls to the virtual machine.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if local:
        # One machine: few partitions, no network, and files split so that every processor parses.
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "3g",
            "spark.sql.shuffle.partitions": cores if small else cores * 2,
            "spark.sql.files.maxPartitionBytes": 32 << 20,
            "spark.sql.files.openCostInBytes": 256 << 10,
        }
    if small:
        # Compiling, by Spark or by the virtual machine, costs more than it gains.
        settings |= {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
        if local:
            settings["spark.driver.extraJavaOptions"] = _QUICK_START
            # The process that only works out how to start Spark.
            os.environ.setdefault("SPARK_LAUNCHER_OPTS", _QUICK_START)
    builder = SparkSession.builder.appName("triack replay").master(master or "local[*]")
    for name, value in settings.items():
        builder = builder.config(name, str(value))
    return builder.getOrCreate()


class SparkReplay:
    """One replay of the given segments.

    Args:
        spark: the Spark session.
        logs: the segments.
        timeline: whether to gather what the plots show.
    """

    def __init__(self, spark: SparkSession, logs: list[LogFile], *, timeline: bool) -> None:
        self._logs = logs
        self._with_timeline = timeline
        self._timeline: Timeline | None = None
        self._verdict = Verdict(engine="spark", torn_lines=sum(bool(log.torn) for log in logs))
        self._kept: list[DataFrame] = []
        self._lines = base.read_lines(spark, logs)
        self._all = self._keep(base.encode(self._lines, logs))
        self._moves, others = base.split(self._all)
        self._others = self._keep(others)
        self._incarnations = self._keep(_incarnations(self._all))
        self._serials_jump = False
        self._passed_on = False
        self._nodes: set[int] = set()
        self._seen: dict[str, set[int]] = {}

    def run(self) -> tuple[Verdict, Timeline | None]:
        """Run all checks.

        Raises:
            ReplayError: a line does not fit the schema.
        """
        verdict = self._verdict
        try:
            # The first job parses all lines; meanwhile the checks are planned.
            with ThreadPoolExecutor(1) as pool:
                counting = pool.submit(self._incarnations.collect)
                frames = self._plan()
            span = self._count_records(counting.result())
            self._note_events()
            rows = self._check(frames)
            strangers = self._seen["session_opened"] - self._nodes
            called = base.names(self._lines, strangers | _ids(rows))
        finally:
            for frame in self._kept:
                frame.unpersist()
        totals = Counter[str]()
        for row in rows:
            totals[row["kind"]] += row["value"] or 0
        verdict.sent += totals["sent"]
        verdict.delivered += totals["delivered"]
        verdict.lost = totals["lost"]
        verdict.pending = totals["unqueued"] + verdict.sent - verdict.delivered - verdict.lost
        verdict.out_of_order = totals["order"]
        verdict.duplicates_delivered = totals["duplicates_delivered"]
        verdict.resends += totals["resends"]
        verdict.peers_without_log = sorted(called[peer] for peer in strangers)
        verdict.conclude([_violation(row, called) for row in rows if row["kind"] in CHECKS], span)
        if self._timeline is not None:
            fill_timeline(self._timeline, rows, called)
        return verdict, self._timeline

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame.persist())
        return frame

    def _count_records(self, rows: list[Row]) -> tuple[int, int] | None:
        """Count what single records tell, and say when the first message was queued and the last one committed.

        Args:
            rows: of ``_incarnations``.
        """
        verdict = self._verdict
        if any(row["damaged"] for row in rows):
            raise find_damage(self._logs)
        verdict.records = sum(row["records"] for row in rows)
        verdict.duplicates_on_wire = sum(row["wire"] for row in rows)
        verdict.resends = sum(row["control"] for row in rows)
        verdict.sent = sum(row["queued"] - row["removed"] for row in rows)
        verdict.delivered = sum(row["committed"] for row in rows)
        self._nodes = {row["node"] for row in rows}
        verdict.nodes = len(self._nodes)
        self._passed_on = any(row["passed_on"] for row in rows)
        # Without a gap, the serials of an incarnation are 1 to the number of its records.
        self._serials_jump = any(
            row["low"] != 1 or row["high"] != row["records"] or row["sum"] != row["records"] * (row["records"] + 1) // 2
            for row in rows
        )
        shown = [row for row in rows if row["shown_begin"] is not None]
        if self._with_timeline and shown:
            self._timeline = empty_timeline(
                min(row["shown_begin"] for row in shown), max(row["shown_end"] for row in shown)
            )
        begin = min((row["begin"] for row in rows if row["begin"]), default=None)
        end = max((row["end"] for row in rows if row["end"]), default=None)
        return None if begin is None or end is None else (begin, end)

    def _note_events(self) -> None:
        """Note which peers and failed sessions there are, and which events; checks of absent ones are not planned."""
        failed = (f.col("event") == "session_closed") & f.col("reason").isin(*FAILURE_REASONS)
        noted = f.when(f.col("event") == "session_opened", f.col("peer")).when(failed, f.col("session"))
        rare = failed | f.col("event").isin("session_opened", "resend_scheduled", "removed", "handed")
        notes = self._others.where(rare).select("event", noted.alias("noted")).distinct()
        self._seen = {"session_opened": set(), "session_closed": set()}
        for row in notes.collect():
            self._seen.setdefault(row["event"], set()).add(row["noted"])
        self._verdict.sessions_closed = len(self._seen["session_closed"])

    def _plan(self) -> _Frames:
        """Return what the checks read, not computed yet."""
        links = self._keep(sessions.links(self._moves, self._others))
        segments = self._keep(streams.segments(self._others))
        return _Frames(
            links=links,
            sends=self._keep(resends.sends(links)),
            unacked=self._keep(sessions.unacked(links, self._others)),
            arrivals=self._keep(streams.arrivals(self._others)),
            segments=segments,
            settled=sessions.settlements(self._others),
            again=streams.committed_again(self._others),
            effects=streams.effects(segments),
            timing=sessions.check_ack_timing(self._moves, self._others, self._incarnations),
        )

    def _check(self, frames: _Frames) -> list[Row]:
        """Return the facts of all checks."""
        moves, others, seen = self._moves, self._others, self._seen
        forwarders = streams.forwarders(moves) if self._passed_on else None
        doubtful = self._keep(sessions.doubtful_store_acks(frames.links, frames.settled, forwarders))
        holes = streams.holes(frames.arrivals)
        doubts = {"holes": holes, "store acks": doubtful, "again": frames.again, "effects": frames.effects}
        parts = [
            streams.check_arrivals(frames.arrivals),
            sessions.check_window(frames.unacked),
            sessions.check_acks(frames.links),
            frames.timing,
            resends.count_resends(frames.sends),
            *(base.counted(rows, kind) for kind, rows in doubts.items()),
        ]
        if "handed" in seen:
            handed = streams.handed(others)
            parts += [streams.check_handed_order(handed), streams.check_handed_again(handed)]
        if seen["session_closed"]:
            parts.append(resends.check_resent(frames.links, frames.sends, others, removals="removed" in seen))
        if "resend_scheduled" in seen:
            parts += [resends.check_attempts(others), resends.check_waits(others)]
        if self._serials_jump:
            parts.append(resends.check_serials(self._all))
        if self._timeline is not None:
            parts += timeline_facts(self._timeline, self._all, frames.sends, frames.unacked)
        rows = base.union(parts).collect()

        found = {row["kind"] for row in rows if row["kind"] in doubts and row["value"]}
        parts = []
        if "holes" in found:
            parts.append(streams.check_gaps(holes, frames.segments))
        if "store acks" in found:
            parts.append(sessions.check_store_acks(doubtful, frames.settled))
        if found & {"again", "effects"}:
            repeated = streams.repeated(frames.again)
            single = streams.corrections(frames.effects, repeated, frames.links, forwarders)
            weighed = self._keep(streams.weighed(single, moves, others))
            parts += [streams.totals(weighed), streams.check_lost(weighed)]
            parts.append(streams.check_committed_again(repeated, weighed))
        return rows + (base.union(parts).collect() if parts else [])


def _ids(rows: list[Row]) -> set[int]:
    return {row[name] for row in rows for name in ("node", "session", "origin") if row[name] is not None}


def _violation(row: Row, called: dict[int, str]) -> Violation:
    node, session, origin = (called.get(row[name], "") for name in ("node", "session", "origin"))
    lane, sequence, number = (-1 if row[name] is None else row[name] for name in ("lane", "sequence", "number"))
    return Violation(row["kind"], node, session, origin, lane, sequence, number, row["evidence"])


def _incarnations(records: DataFrame) -> DataFrame:
    """Return, for each incarnation of each node, what single records tell; the totals of the verdict are their sums."""
    queued, committed, removed = (f"event = '{name}' and {base.DURABLE}" for name in ("queued", "committed", "removed"))
    return records.groupBy("node", "incarnation").agg(
        f.count("*").alias("records"),
        f.min("n").alias("low"),
        f.max("n").alias("high"),
        f.sum("n").alias("sum"),
        f.max("at_ns").alias("log_end"),
        f.count_if("damaged").alias("damaged"),
        f.count_if(f.expr(DUPLICATE)).alias("wire"),
        f.count_if(f.expr("event = 'packet_sent' and lane is null and resend")).alias("control"),
        f.count_if(f.expr("event = 'packet_sent' and node <> origin")).alias("passed_on"),
        _total(f"{queued} and not coalesce(recovered, false)").alias("queued"),
        _total(removed).alias("removed"),
        _total(committed).alias("committed"),
        f.min(f.when(f.expr(queued), f.col("wall_ns"))).alias("begin"),
        f.max(f.when(f.expr(committed), f.col("wall_ns"))).alias("end"),
        f.min(f.when(f.expr(SHOWN), f.col("wall_ns"))).alias("shown_begin"),
        f.max(f.when(f.expr(SHOWN), f.col("wall_ns"))).alias("shown_end"),
    )


def _total(condition: str) -> Column:
    return f.coalesce(f.sum(f.when(f.expr(condition), f.col("count"))), f.lit(0))


def replay_spark(spark: SparkSession, logs: list[LogFile], *, timeline: bool) -> tuple[Verdict, Timeline | None]:
    """Replay the segments with Spark.

    Args:
        spark: the Spark session, from ``open_spark``.
        logs: the segments, as ``find_logs`` returns them.
        timeline: whether the plots of a report will be drawn.

    Raises:
        ReplayError: the logs cannot be read.
    """
    return SparkReplay(spark, logs, timeline=timeline).run()
