"""Session logs as a data source of Spark: ``spark.read.format("triack").load("logs")``.

Python's workers find and read the files, with PyArrow's file systems. ``load`` gives it the files that it has listed;
paths of other machines it leaves to Spark, which uses whatever the cluster is configured for.

It takes no filters. Spark keeps those that a source in Python has taken with the table, and not with each use of it:
a frame that is used twice with two filters would have the rows of the last one in both places. Nor does Spark say which
columns it needs: name them by ``schema``, or ``columns`` of ``load``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakSet

from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from triack.base.errors import ReplayError, UsageError
from triack.replay.records import COLUMNS, column, expand, tabulate
from triack.tools.replay.engines.spark_files import TASK_BYTES, list_files, processors, tabulate_files
from triack.tools.replay.log.files import Reading
from triack.tools.replay.log.listing import SUFFIXES, Listed, Listing, by_either_name, is_remote, list_logs, local_path
from triack.tools.replay.run import reason_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_known: WeakSet[SparkSession] = WeakSet()
"""The sessions that know the source."""


def register(spark: SparkSession) -> None:
    """Let ``spark.read.format("triack")`` read session logs.

    Args:
        spark: the Spark session; its workers need Triack and PyArrow.
    """
    if spark not in _known:
        spark.dataSource.register(TriackSource)
        _known.add(spark)


class TriackSource(DataSource):
    """The records of session logs: directories, files and patterns, with or without a scheme."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return "triack"

    def schema(self) -> str:
        """The columns of ``triack.replay.load``."""
        return ", ".join(map(column, json.loads(self.options.get("columns", json.dumps(COLUMNS)))))

    def reader(self, schema: StructType) -> TriackReader:
        """Return the reader of the paths."""
        for field in schema:
            known, given = column(field.name), f"`{field.name}` {field.dataType.simpleString()}"
            if known != given:
                raise UsageError(f"this column of session logs is {known}, not {given}")
        one = [self.options["path"]] if "path" in self.options else []
        paths = [*one, *json.loads(self.options.get("paths", "[]"))]
        files = json.loads(self.options.get("files", "[]"))
        tasks = int(self.options.get("tasks", os.cpu_count() or 1))
        return TriackReader(paths, tuple(schema.fieldNames()), [Listed(*it) for it in files], tasks)


@dataclass
class Segments(InputPartition):
    """The files that one task reads."""

    files: list[Listed]
    root: str = ""


class TriackReader(DataSourceReader):
    """Finds the logs under paths, and reads them."""

    def __init__(
        self, paths: Sequence[str], columns: Sequence[str], files: Sequence[Listed] = (), tasks: int = 1
    ) -> None:
        self._paths = list(paths)
        self._files = list(files)
        self._tasks = tasks
        self._columns = tuple(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """As many as tasks run at a time, or one for every 16 MiB; each has about as much to read."""
        if self._files:
            return _packed(self._files, "", self._tasks)
        if not self._paths:
            raise ReplayError('no path was given: load("logs") reads what is in a directory')
        here = [path for path in self._paths if not is_remote(path)]
        parts: list[InputPartition] = []
        if here:
            # Spark's workers may have another working directory.
            names = [os.path.abspath(local_path(path)) for path in expand(here)]  # noqa: PTH100 - a link keeps its name
            listing = list_logs(names).require_all()
            parts += _packed(listing.logs, "", self._tasks)
        for path in self._paths:
            if is_remote(path):
                parts += _packed(_list_away(path), path, self._tasks)
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of the files of a task."""
        assert isinstance(partition, Segments)
        for path, size in partition.files:
            content = None
            if partition.root:
                system, _ = _system(_fixed(partition.root))
                opened = by_either_name(path, lambda name: system.open_input_stream(name, compression=None))  # noqa: B023
                with opened as file:
                    content = file.read()
            yield from tabulate(Reading(path, content), size, self._columns)


def load(spark: SparkSession, *paths: str, columns: Sequence[str] | None = None) -> DataFrame:
    """Return the records of session logs, and of Parquet files that were made of them.

    Files of this machine are read by the data source ``triack``.

    Args:
        spark: the Spark session; its workers need Triack and PyArrow.
        paths: directories with logs (searched in depth), or single files, as of ``triack replay`` on Spark; patterns
            where no file has that name.
        columns: the only columns that are wanted, which are read in less time; None for all.

    Raises:
        UsageError: there is no column of a name.
        ReplayError: a path does not exist, or something that looks like a log cannot be read, which a table cannot
            express; or the workers have no Triack. Damage in a log fails the job that reads it.
    """
    wanted = COLUMNS if columns is None else tuple(columns)
    schema = ", ".join(map(column, wanted))
    listing = list_files(spark, expand(paths)).require_all()
    if any(is_remote(it.path) for it in listing.logs):
        return tabulate_files(spark, listing).mapInArrow(partial(_load_files, wanted), schema)
    register(spark)
    files = json.dumps([[it.path, it.size] for it in listing.logs])
    reader = spark.read.format("triack").option("files", files).option("tasks", processors(spark))
    try:
        frame = reader.option("columns", json.dumps(wanted)).load()
        frame.schema  # noqa: B018 - a worker says it: without Triack there, each use of the frame ends in a long trace
    except PySparkException as error:
        raise ReplayError(reason_of(str(error))) from error
    return frame


def _load_files(columns: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            yield from tabulate(Reading(os.fsdecode(row["name"]), row["content"]), row["size"], columns)


def _packed(files: Sequence[Listed], root: str, tasks: int) -> list[InputPartition]:
    """Deal files out to tasks, the largest first, one after the other to each: so each has about as much to read."""
    count = max(1, min(len(files), max(tasks, sum(it.size for it in files) // TASK_BYTES)))
    ordered = sorted(files, key=lambda it: (-it.size, it.path))
    return [Segments(ordered[at::count], root) for at in range(count)]


def _fixed(path: str) -> str:
    """Return the part of a path before any pattern: a directory."""
    found = _MAGIC.search(path)
    return path if found is None else path[: path.rindex("/", 0, found.start())]


_MAGIC = re.compile(r"[*?\[]")


def _list_away(path: str) -> list[Listed]:
    """Return the logs in a path of another machine, or in those that a pattern stands for."""
    from pyarrow.fs import FileSelector, FileType

    system, root = _system(_fixed(path))
    pattern = root + path[len(_fixed(path)) :]
    info = system.get_file_info(root)
    if info.type == FileType.NotFound:
        raise ReplayError(f"no such directory: {path}")
    there = [info] if info.is_file else system.get_file_info(FileSelector(root, recursive=True))
    # A pattern names files, or directories that are searched in depth.
    depth = pattern.count("/") + 1
    listing = Listing()
    for it in there:
        if it.is_file and (pattern == root or fnmatchcase("/".join(it.path.split("/")[:depth]), pattern)):
            listing.take(it.path, it.size)
    if not listing.require_all().logs:
        raise ReplayError(f"no session log (*{', *'.join(SUFFIXES)}) in {path}")
    return listing.logs


def _system(path: str) -> tuple[FileSystem, str]:
    """Return the file system of a path, and the path's name there."""
    from pyarrow.fs import FileSystem

    # Hadoop's s3a is s3 everywhere else.
    found: tuple[FileSystem, str] = FileSystem.from_uri(path.replace("s3a://", "s3://", 1))
    return found
