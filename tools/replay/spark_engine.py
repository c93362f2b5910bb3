"""The Spark engine: opens the Spark session, runs the checks and brings their results together."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from triack.tools.replay import spark_records as base
from triack.tools.replay import spark_resends as resends
from triack.tools.replay import spark_sessions as sessions
from triack.tools.replay import spark_streams as streams
from triack.tools.replay.files import LogFile, find_damage
from triack.tools.replay.schema import Verdict, Violation
from triack.tools.replay.spark_timeline import gather_timeline

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from triack.tools.replay.schema import Timeline

_DURABLE: Final = f"cls >= {base.RECOVERABLE_CODE}"
_CHECKS_AT_A_TIME: Final = 4


def open_spark(master: str | None, *, adaptive: bool = True) -> SparkSession:
    """Return the Spark session for a replay: quiet, without a web page, with settings that suit small records too.

    Args:
        master: the cluster to run on; None for all processors of this machine.
        adaptive: whether Spark plans again while it runs; for small records that costs more than it gains.
    """
    cores = os.cpu_count() or 1
    builder = (
        SparkSession.builder.appName("triack replay")
        .master(master or "local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.adaptive.enabled", str(adaptive).lower())
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
    )
    if master is None or master.startswith("local"):
        # One machine: few partitions, no network, and files split so that every processor parses.
        builder = (
            builder.config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.memory", "3g")
            .config("spark.sql.shuffle.partitions", str(cores * 2))
            .config("spark.sql.files.maxPartitionBytes", str(32 << 20))
            .config("spark.sql.files.openCostInBytes", str(256 << 10))
        )
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
        self._timeline = timeline
        self._kept: list[DataFrame] = []
        self._lines = base.read_lines(spark, logs)
        self._all = self._keep(base.encode(self._lines, logs))
        self._moves, others = base.split(self._all)
        self._others = self._keep(others)
        self._incarnations = self._keep(_incarnations(self._all))

    def run(self) -> tuple[Verdict, Timeline | None]:
        """Run all checks.

        Raises:
            ReplayError: a line does not fit the schema.
        """
        try:
            verdict = Verdict(engine="spark", torn_lines=sum(bool(log.torn) for log in self._logs))
            span = self._count_records(verdict)
            links = self._keep(sessions.links(self._moves, self._others))
            rows = self._check(verdict, links)
            verdict.pending += verdict.sent - verdict.delivered - verdict.lost
            verdict.conclude(self._named(rows), span)
            timeline = gather_timeline(self._all, self._lines, links) if self._timeline else None
        finally:
            for frame in self._kept:
                frame.unpersist()
        return verdict, timeline

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame.persist())
        return frame

    def _count_records(self, verdict: Verdict) -> tuple[int, int] | None:
        """Count what single records tell; this first pass also fills the cache and finds damage."""
        rows = self._incarnations.collect()
        if any(row["damaged"] for row in rows):
            raise find_damage(self._logs)
        verdict.records = sum(row["records"] for row in rows)
        verdict.duplicates_on_wire = sum(row["wire"] for row in rows)
        verdict.resends = sum(row["control"] for row in rows)
        verdict.sent = sum(row["queued"] - row["removed"] for row in rows)
        verdict.sessions_closed = resends.failures(self._others).select("session").distinct().count()
        nodes = {row["node"] for row in rows}
        verdict.nodes = len(nodes)
        opened = base.pick(self._others, "session_opened").select("peer").distinct().collect()
        strangers = {row["peer"] for row in opened} - nodes
        verdict.peers_without_log = sorted(base.names(self._lines, strangers).values())
        begin = min((row["begin"] for row in rows if row["begin"]), default=None)
        end = max((row["end"] for row in rows if row["end"]), default=None)
        return None if begin is None or end is None else (begin, end)

    def _check(self, verdict: Verdict, links: DataFrame) -> list[Row]:
        """Count the messages of the verdict, and return the violations of all checks."""
        moves, others = self._moves, self._others
        forwarders = self._keep(streams.forwarders(moves))
        if forwarders.isEmpty():
            forwarders = forwarders.limit(0)  # the optimizer then drops every join with it
        sends = self._keep(resends.sends(links))
        arrivals = self._keep(streams.arrivals(others, forwarders))
        segments = self._keep(streams.segments(others, forwarders))
        handed = streams.handed(others)
        checks = [
            *self._weigh(verdict, links, segments, forwarders),
            streams.check_commit_order(arrivals),
            streams.check_handed_order(handed),
            streams.check_gaps(arrivals, segments),
            streams.check_order_acks(arrivals),
            streams.check_handed_again(handed),
            sessions.check_window(links, others),
            sessions.check_acks(links),
            sessions.check_store_acks(links, others),
            sessions.check_ack_timing(moves, others, self._incarnations),
            resends.check_resent(links, sends, others),
            resends.check_attempts(others),
            resends.check_waits(others),
            resends.check_serials(self._all, self._incarnations),
        ]
        verdict.resends += _sum(sends, f.col("sends") - 1)
        rows = _collect(checks)
        totals = Counter[str]()
        for row in rows:
            totals[row["check"]] += row["messages"] or 0
        verdict.out_of_order = totals["order"]
        verdict.duplicates_delivered = totals["duplicates_delivered"]
        verdict.lost = totals["lost"]
        return rows

    def _weigh(self, verdict: Verdict, links: DataFrame, segments: DataFrame, forwarders: DataFrame) -> list[DataFrame]:
        """Count what was delivered, correct the counts of whole ranges by single packets, and return their checks."""
        final = streams.at_destination(base.pick(self._others, "committed").where(_DURABLE), forwarders)
        verdict.delivered = _sum(final, "count")
        again = self._keep(streams.committed_again(self._others, forwarders))
        single = self._keep(streams.corrections(streams.effects(segments), again, links))
        if single.isEmpty():
            return []
        weighed = self._keep(streams.weighed(single, self._moves, self._others))
        add = {name: _sum(weighed, f.col(name) * f.col("messages")) for name in ("sent", "delivered", "unqueued")}
        verdict.sent += add["sent"]
        verdict.delivered += add["delivered"]
        verdict.pending += add["unqueued"]
        return [streams.check_lost(weighed), streams.check_committed_again(again, weighed)]

    def _named(self, rows: list[Row]) -> list[Violation]:
        """Return rows as violations, with names for hashed ids."""
        ids = {row[name] for row in rows for name in ("node", "session", "origin") if row[name] is not None}
        names = base.names(self._lines, ids)

        findings = []
        for row in rows:
            node, session, origin = (names.get(row[name], "") for name in ("node", "session", "origin"))
            lane, sequence, number = (-1 if row[name] is None else row[name] for name in ("lane", "sequence", "number"))
            finding = Violation(row["check"], node, session, origin, lane, sequence, number, row["evidence"])
            findings.append(finding)
        return findings


def _incarnations(records: DataFrame) -> DataFrame:
    """Return, for each incarnation of each node, what single records tell; the totals of the verdict are their sums."""
    wire = "(event = 'packet_received' and duplicate) or (event = 'rejected' and reason = 'duplicate')"
    kept = f"event = 'queued' and {_DURABLE} and not coalesce(recovered, false)"
    return records.groupBy("node", "incarnation").agg(
        f.count("*").alias("records"),
        f.min("n").alias("low"),
        f.max("n").alias("high"),
        f.sum("n").alias("sum"),
        f.max("at_ns").alias("log_end"),
        f.count_if("damaged").alias("damaged"),
        f.count_if(f.expr(wire)).alias("wire"),
        f.count_if(f.expr("event = 'packet_sent' and lane is null and resend")).alias("control"),
        _total(kept).alias("queued"),
        _total(f"event = 'removed' and {_DURABLE}").alias("removed"),
        f.min(f.when(f.expr(f"event = 'queued' and {_DURABLE}"), f.col("wall_ns"))).alias("begin"),
        f.max(f.when(f.expr(f"event = 'committed' and {_DURABLE}"), f.col("wall_ns"))).alias("end"),
    )


def _total(condition: str) -> Column:
    return f.coalesce(f.sum(f.when(f.expr(condition), f.col("count"))), f.lit(0))


def _sum(frame: DataFrame, column: Column | str) -> int:
    row = frame.agg(f.sum(column).alias("sum")).first()
    return int(row["sum"] or 0) if row else 0


def _collect(checks: list[DataFrame]) -> list[Row]:
    """Run the checks, some at a time: while one is planned, another computes."""
    with ThreadPoolExecutor(_CHECKS_AT_A_TIME) as pool:
        return [row for rows in pool.map(lambda check: check.collect(), checks) for row in rows]


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
