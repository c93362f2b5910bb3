"""Session logs in Spark, for notebooks and jobs: their records as a table, checks as functions of it, and the verdict.

    records = triack.replay.load(spark, "s3a://bucket/logs")    # a row for each record, a column for each field
    triack.replay.verdict(records).verdict                      # "pass", "fail" or "incomplete"
    triack.replay.checks.order(records).show()                  # what breaks one promise

``register(spark)`` makes ``spark.read.format("triack")`` read the same table.
"""

from triack.replay import checks
from triack.replay.records import load, verdict, violations
from triack.replay.source import register

__all__ = ["checks", "load", "register", "verdict", "violations"]
