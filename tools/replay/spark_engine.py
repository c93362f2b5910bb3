"""The Spark engine: opens the Spark session, runs the checks and brings their results together."""

from __future__ import annotations

import os
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

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
    from pyspark.sql import DataFrame

    from triack.tools.replay.schema import Timeline

_DURABLE: Final = f"cls >= {base.RECOVERABLE_CODE}"


def open_spark(master: str | None) -> SparkSession:
    """Return the Spark session for a replay: quiet, without a web page, with settings that suit small records too.

    Args:
        master: the cluster to run on; None for all processors of this machine.
    """
    cores = os.cpu_count() or 1
    builder = (
        SparkSession.builder.appName("triack replay")
        .master(master or "local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.adaptive.enabled", "true")
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
        self._lines = base.read_lines(spark, logs)
        self._records = base.encode(self._lines, logs).persist()
        self._kept: list[DataFrame] = [self._records]

    def run(self) -> tuple[Verdict, Timeline | None]:
        """Run all checks.

        Raises:
            ReplayError: a line does not fit the schema.
        """
        try:
            verdict = Verdict(engine="spark", torn_lines=sum(bool(log.torn) for log in self._logs))
            span = self._count_records(verdict)
            links = self._keep(sessions.links(self._records))
            findings = self._count_messages(verdict, links)
            verdict.conclude(findings, span)
            timeline = gather_timeline(self._records, self._lines, links) if self._timeline else None
        finally:
            for frame in self._kept:
                frame.unpersist()
        return verdict, timeline

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame.persist())
        return frame

    def _count_records(self, verdict: Verdict) -> tuple[int, int] | None:
        """Count what single records tell; this first pass also fills the cache and finds damage."""
        records = self._records
        wire = "(event = 'packet_received' and duplicate) or (event = 'rejected' and reason = 'duplicate')"
        kept = f"event = 'queued' and {_DURABLE} and not coalesce(recovered, false)"
        row = records.agg(
            f.count("*").alias("records"),
            f.count_if("damaged").alias("damaged"),
            f.count_if(f.expr(wire)).alias("wire"),
            f.count_if(f.expr("event = 'packet_sent' and lane is null and resend")).alias("control"),
            _total(kept, "count").alias("queued"),
            _total(f"event = 'removed' and {_DURABLE}", "count").alias("removed"),
            f.min(f.when(f.expr(f"event = 'queued' and {_DURABLE}"), f.col("wall_ns"))).alias("begin"),
            f.max(f.when(f.expr(f"event = 'committed' and {_DURABLE}"), f.col("wall_ns"))).alias("end"),
        ).first()
        numbers: dict[str, Any] = row.asDict() if row else {}
        if numbers["damaged"]:
            raise find_damage(self._logs)
        verdict.records = numbers["records"]
        verdict.duplicates_on_wire = numbers["wire"]
        verdict.resends = numbers["control"]
        verdict.sent = numbers["queued"] - numbers["removed"]
        verdict.sessions_closed = resends.failures(records).select("session").distinct().count()
        self._count_nodes(verdict)
        return None if numbers["begin"] is None or numbers["end"] is None else (numbers["begin"], numbers["end"])

    def _count_nodes(self, verdict: Verdict) -> None:
        nodes = {log.order[0] for log in self._logs if log.order[0]}
        verdict.nodes = len(nodes)
        opened = base.pick(self._records, "session_opened").select("peer").distinct().collect()
        known = self._records.select("node").distinct().collect()
        strangers = {row["peer"] for row in opened} - {row["node"] for row in known}
        verdict.peers_without_log = sorted(base.names(self._lines, strangers).values())

    def _count_messages(self, verdict: Verdict, links: DataFrame) -> list[Violation]:
        """Count the messages of the verdict, and return the violations of all checks."""
        records = self._records
        arrivals = self._keep(streams.arrivals(records))
        handed = self._keep(streams.handed(records))
        segments = self._keep(streams.segments(records))
        sends = self._keep(resends.sends(links))
        again = self._keep(streams.committed_again(records))
        single = streams.corrections(streams.effects(segments), again, links)
        weighed = self._keep(streams.weighed(single, records))

        final = streams.at_destination(records, base.pick(records, "committed").where(_DURABLE))
        verdict.delivered = _sum(final, "count")
        verdict.resends += _sum(sends, f.col("sends") - 1)
        verdict.out_of_order = _sum(streams.disordered(arrivals), "count")
        verdict.out_of_order += _sum(streams.handed_disordered(handed), f.expr("last - first + 1"))
        verdict.duplicates_delivered = _sum(streams.handed_again(handed), "extra")
        self._correct(verdict, weighed)
        checks = [
            streams.check_commit_order(arrivals),
            streams.check_handed_order(handed),
            streams.check_gaps(arrivals, segments),
            streams.check_order_acks(arrivals),
            streams.check_handed_again(handed),
            streams.check_committed_again(again, weighed),
            streams.check_lost(weighed),
            sessions.check_window(links, records),
            sessions.check_acks(links),
            sessions.check_store_acks(links, records),
            sessions.check_ack_timing(records),
            resends.check_resent(links, sends, records),
            resends.check_attempts(records),
            resends.check_waits(records),
            resends.check_serials(records),
        ]
        return self._collect(checks)

    def _correct(self, verdict: Verdict, weighed: DataFrame) -> None:
        sums = [f.sum(f.col(name) * f.col("messages")).alias(name) for name in streams.EFFECTS]
        row = weighed.agg(*sums).first()
        add = {name: int(value or 0) for name, value in row.asDict().items()} if row else {}
        verdict.sent += add["sent"]
        verdict.delivered += add["delivered"]
        verdict.lost += add["lost"]
        verdict.duplicates_delivered += add["duplicates"]
        verdict.pending = verdict.sent - verdict.delivered - verdict.lost + add["unqueued"]

    def _collect(self, checks: list[DataFrame]) -> list[Violation]:
        rows = reduce(lambda one, other: one.unionByName(other), checks).collect()
        ids = {row[name] for row in rows for name in ("node", "session", "origin") if row[name] is not None}
        names = base.names(self._lines, ids)

        def number(value: int | None) -> int:
            return -1 if value is None else value

        return [
            Violation(
                row["check"],
                *(names.get(row[name], "") for name in ("node", "session", "origin")),
                *(number(row[name]) for name in ("lane", "sequence", "number")),
                row["evidence"],
            )
            for row in rows
        ]


def _total(condition: str, column: str) -> Any:
    return f.coalesce(f.sum(f.when(f.expr(condition), f.col(column))), f.lit(0))


def _sum(frame: DataFrame, column: Any) -> int:
    row = frame.agg(f.sum(column).alias("sum")).first()
    return int(row["sum"] or 0) if row else 0


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
