"""A job for spark-submit: what session logs say of latency, resends and outages.

spark-submit --master 'local[2]' examples/tables_job.py logs
"""

import sys

from pyspark.sql import SparkSession

import triack.replay

LATENCY = """
    select c.queue, date_trunc('hour', timestamp_seconds(c.wall_ns div 1000000000)) as hour,
        percentile((c.wall_ns - q.wall_ns) / 1e6, array(0.5, 0.99),
            least(c.last, q.last) - greatest(c.first, q.first) + 1) as ms
    from commits q join commits c using (origin, stream, sequence)
    where q.change = 'queued' and not q.recovered and c.change = 'committed'
        and q.first <= c.last and c.first <= q.last
    group by c.queue, hour order by c.queue, hour"""
"""From queued to committed: the median and the 99th percentile of packets."""

OUTAGES = """
    select peer_name, q.queue, sum(q.messages) as messages, max(until_wall_ns - since_wall_ns) / 1e9 as away_s
    from outages join commits q using (node, peer_name)
    where q.change = 'queued' and q.wall_ns between since_wall_ns and coalesce(until_wall_ns, q.wall_ns)
    group by peer_name, q.queue order by messages desc"""
"""What was queued for a peer while it was away."""


def main(paths: list[str]) -> None:
    """Print latency per queue and hour, the links that resent most, and the queues that waited for a peer."""
    spark = SparkSession.builder.appName("tables job").getOrCreate()
    records = triack.replay.load(spark, *paths).cache()
    tables = triack.replay.tables(records)
    tables.register()
    for row in spark.sql(LATENCY).collect():
        print(f"{row.queue} {row.hour}: half within {row.ms[0]:.1f} ms, 99 % within {row.ms[1]:.1f} ms")
    for row in tables.links.orderBy("resent_packets", ascending=False).limit(5).collect():
        print(f"{row.node[:8]} to {row.peer_name}: {row.resent_packets:,} of {row.sent_packets:,} packets again")
    for row in spark.sql(OUTAGES).collect():
        print(f"{row.peer_name}/{row.queue}: {row.messages:,} messages queued while it was away")
    for row in tables.queues.orderBy("queue").collect():
        print(f"{row.queue}: {row.sent:,} sent, {row.delivered:,} delivered, {row.pending:,} pending")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
