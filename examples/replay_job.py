"""A job for spark-submit: judges session logs that Spark can read, and counts their records.

spark-submit --master 'local[2]' examples/replay_job.py logs
"""

import sys

from pyspark.sql import SparkSession

import triack.replay


def main(paths: list[str]) -> int:
    """Print how many records of each event there are, and the verdict; 0 if every promise was kept."""
    spark = SparkSession.builder.appName("replay job").getOrCreate()
    records = triack.replay.load(spark, *paths).cache()
    for event, count in records.groupBy("event").count().orderBy("event").collect():
        print(f"{event:20} {count:10,}")
    found = triack.replay.verdict(records)
    print(f"{found.verdict}: {found.sent:,} messages sent, {found.delivered:,} delivered, {found.lost:,} lost")
    for violation in found.findings:
        print(f"{violation.check}: {violation.evidence}, {violation.file} line {violation.line}")
    spark.stop()
    return 0 if found.verdict == "pass" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
