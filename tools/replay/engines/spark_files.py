"""Session logs as a table of Spark: which files there are to read, as ``listing.py`` lists them.

Python's workers read files of this machine, or mounted on every machine, and get their names as bytes. Java would
change names that its locale cannot represent, treats brackets as patterns and skips names that begin with ``_`` or
``.``. So Spark itself reads only paths with a scheme of their own (``s3a://``, ``hdfs://``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f
from pyspark.sql.utils import is_remote as is_connect

from triack.base.errors import ReplayError
from triack.tools.replay.engines.arrow_rows import pack
from triack.tools.replay.engines.summary import read_here
from triack.tools.replay.log.listing import SUFFIXES, Listed, Listing, is_remote, list_logs, local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

FILES: Final = "name binary, size bigint, content binary"
"""A file to read: its name, its size when it was listed, and its content, or nothing if a worker opens it."""
TASK_BYTES: Final = 16 << 20
"""Bytes of files that one task reads: a few seconds' work, or one large segment."""
_SPECIAL: Final = re.compile(r"([\[\]{}*?\\])")
"""Characters that make Spark treat a name as a pattern."""
_HIDDEN: Final = ("_", ".")
"""Spark passes over files and directories whose names begin with one of these."""


def list_files(spark: SparkSession, paths: Iterable[str], *, may_be_empty: bool = False) -> Listing:
    """Return the session logs under paths."""
    given = list(paths)
    # Where Spark's own files are elsewhere, so are paths that are not there on this machine.
    away = [path for path in given if is_remote(path) or not (os.path.lexists(path) or _is_here(spark, path))]
    here = [local_path(path) for path in given if path not in away]
    if is_connect() or not str(spark.sparkContext.master).startswith("local"):
        # Workers of a cluster have working directories of their own.
        here = [os.path.abspath(path) if path else path for path in here]  # noqa: PTH100 - a link keeps its name
    listing = list_logs(here, may_be_empty=may_be_empty) if here or not away else Listing()
    for path in away:
        if not _list_away(spark, path, listing) and not may_be_empty:
            raise ReplayError(f"no session log (*{', *'.join(SUFFIXES)}) in {path}")
    listing.logs.sort()
    return listing


def tabulate_files(spark: SparkSession, listing: Listing) -> DataFrame:
    """Return the files of a listing as a table of ``FILES``, in as many parts as tasks are to read them."""
    import pyarrow as pa

    here = [it for it in listing.logs if not is_remote(it.path)]
    tasks = tasks_of(here, spark)
    # From large to small, one after the other to each task: so each has about as much to do.
    here.sort(key=lambda it: -it.size)
    rows = pack([(os.fsencode(it.path), it.size, None) for it in here], FILES)
    files = spark.createDataFrame(pa.Table.from_batches([rows]), FILES).repartition(max(1, tasks))
    away = [it.path for it in listing.logs if is_remote(it.path)]
    if not away:
        return files
    loaded = spark.read.format("binaryFile").load([_SPECIAL.sub(r"\\\1", path) for path in away])
    named = loaded.select(f.encode("path", "UTF-8").alias("name"), f.col("length").alias("size"), "content")
    return files.unionByName(named) if here else named


def tasks_of(logs: list[Listed], spark: SparkSession) -> int:
    """Return how many tasks are to read these logs."""
    return min(len(logs), sum(it.size for it in logs) // TASK_BYTES + processors(spark))


def read_files(spark: SparkSession, names: list[str]) -> dict[str, bytes]:
    """Return the content of files, which fit into memory, by their names."""
    contents = read_here([name for name in names if not is_remote(name)])
    for name in filter(is_remote, names):
        row = spark.read.format("binaryFile").load(_SPECIAL.sub(r"\\\1", name)).select("content").first()
        contents[name] = bytes(row["content"]) if row is not None else b""
    return contents


def processors(spark: SparkSession) -> int:
    """Return how many tasks Spark runs at a time; over Spark Connect nobody tells."""
    return 1 if is_connect() else spark.sparkContext.defaultParallelism


def _is_here(spark: SparkSession, path: str) -> bool:
    """Whether Spark looks for a path without a scheme on this machine."""
    if path.startswith("file:") or is_connect():
        return not is_connect()
    session: Any = spark
    jvm = session._jvm  # noqa: SLF001 - Spark has no other way to Hadoop's file systems
    default = jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(session._jsc.hadoopConfiguration())  # noqa: SLF001
    return str(default.getScheme()) == "file"


def _list_away(spark: SparkSession, path: str, listing: Listing) -> bool:
    """List what Spark finds in a path; return whether there is any log, or anything that looks like one."""
    found, known = False, {it.path for it in (*listing.logs, *listing.summaries)}
    for name, size, is_hidden in _names_by_spark(spark, path) if is_connect() else _names_by_hadoop(spark, path):
        unseen = "is passed over by Spark, as its name begins with _ or .: rename it" if is_hidden else ""
        found = name in known or listing.take(name, size, unseen) or found
    return found


def _names_by_hadoop(spark: SparkSession, path: str) -> Iterable[tuple[str, int, bool]]:
    """Yield the name and size of each file, and whether Spark would pass over it, with Hadoop's own file systems."""
    session: Any = spark
    hadoop = session._jvm.org.apache.hadoop.fs.Path(path)  # noqa: SLF001 - as above
    system = hadoop.getFileSystem(session._jsc.hadoopConfiguration())  # noqa: SLF001
    roots = system.globStatus(hadoop)
    if not roots:
        raise ReplayError(f"no such directory: {path}")
    for root in roots:
        begin = root.getPath().toString()
        files = system.listFiles(root.getPath(), True)
        while files.hasNext():
            status = files.next()
            name = status.getPath().toString()
            below = name.removeprefix(begin).split("/")
            yield name, status.getLen(), any(part.startswith(_HIDDEN) for part in [*below, name.rpartition("/")[2]])


def _names_by_spark(spark: SparkSession, path: str) -> Iterable[tuple[str, int, bool]]:
    """Do the same over Spark Connect, which offers no other way; it cannot tell what Spark passes over."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    found = rows_of(lambda: reader.load(path).select("path", "length"))
    if found is None:
        raise ReplayError(f"no such directory: {path}")
    for row in found:
        yield row["path"], row["length"], False


def rows_of(files: Callable[[], DataFrame]) -> list[Row] | None:
    """Return the rows of files; None if there is no such path."""
    try:
        return files().collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return None
