"""Session logs as a data source of Spark: ``spark.read.format("triack").load("logs")``.

Python's workers find and read the files, with PyArrow's file systems; ``load`` leaves that to Spark, and so to whatever
the cluster is set up for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from triack.base.errors import ReplayError
from triack.replay.tables import TABLE, tabulate
from triack.tools.replay.files import PACKED, SUFFIXES, by_either_name, read_content

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def register(spark: SparkSession) -> None:
    """Let ``spark.read.format("triack")`` read session logs.

    Args:
        spark: the Spark session; its workers need Triack and PyArrow.
    """
    spark.dataSource.register(TriackSource)


class TriackSource(DataSource):
    """The records of session logs; one path, a directory or a segment, with or without a scheme."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return "triack"

    def schema(self) -> str:
        """The columns of ``triack.replay.load``."""
        return TABLE

    def reader(self, schema: StructType) -> TriackReader:  # noqa: ARG002 - there is one schema
        """Return what reads the path."""
        return TriackReader(self.options.get("path", ""))


@dataclass
class Segment(InputPartition):
    """One file, which one task reads.

    Attributes:
        path: its name in its file system.
        root: the path that was asked for, which tells the file system.
    """

    path: str
    root: str


class TriackReader(DataSourceReader):
    """Finds the segments under a path, and reads them.

    Args:
        path: where they are.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> Sequence[InputPartition]:
        """One for each segment that has something in it.

        Raises:
            ReplayError: there is none.
        """
        from pyarrow.fs import FileSelector, FileType

        system, root = _system(self._path)
        info = system.get_file_info(root)
        if info.type == FileType.NotFound:
            raise ReplayError(f"no such directory: {self._path}")
        there = [info] if info.is_file else system.get_file_info(FileSelector(root, recursive=True))
        found = [it.path for it in there if it.is_file and it.size and it.path.endswith(SUFFIXES + PACKED)]
        if not found:
            raise ReplayError(f"no session log (*{', *'.join(SUFFIXES)}) in {self._path}")
        return [Segment(path, self._path) for path in sorted(found)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a segment."""
        assert isinstance(partition, Segment)
        system, _ = _system(partition.root)
        opened = by_either_name(partition.path, lambda path: system.open_input_stream(path, compression=None))
        with opened as file:
            records, _ = read_content(partition.path, file.read())
        return tabulate(partition.path, records)


def _system(path: str) -> tuple[FileSystem, str]:
    """Return the file system of a path, and what the path is called there."""
    from pyarrow.fs import FileSystem

    if "://" not in path:
        path = str(Path(path.removeprefix("file:")).resolve())
    # What Hadoop calls s3a is what everybody else calls s3.
    found: tuple[FileSystem, str] = FileSystem.from_uri(path.replace("s3a://", "s3://", 1))
    return found
