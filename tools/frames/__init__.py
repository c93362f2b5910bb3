"""Session logs in Spark, for notebooks and jobs: their records as a table, checks as functions of it, and the verdict.

    records = triack.replay.load(spark, "s3a://bucket/logs")    # a row for each record, a column for each field
    triack.replay.verdict(records).verdict                      # "pass", "fail" or "incomplete"
    triack.replay.checks.order(records).show()                  # what breaks one promise

``tables(records)`` are the tables of docs/tables.md; ``write`` keeps them as Parquet files, ``follow`` does so while
logs grow, and ``read_tables`` reads these.
``register(spark)`` makes ``spark.read.format("triack")`` read the same table.
"""

from triack.replay import checks
from triack.replay.live import follow
from triack.replay.records import verdict, violations
from triack.replay.source import load, register
from triack.replay.table_set import Tables, read_tables, tables, write

__all__ = ["Tables", "checks", "follow", "load", "read_tables", "register", "tables", "verdict", "violations", "write"]
