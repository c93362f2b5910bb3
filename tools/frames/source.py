"""Session logs as a data source of Spark: ``spark.read.format("triack").load("logs")``.

Python's workers find and read the files, with PyArrow's file systems. ``load`` leaves that to Spark, which uses
whatever the cluster is configured for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from triack.base.errors import ReplayError
from triack.replay.tables import TABLE, tabulate
from triack.tools.replay.log.files import Reading
from triack.tools.replay.log.listing import SUFFIXES, by_either_name, is_remote, list_logs, local_path, refusal_of

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
        """Return the reader of the path."""
        return TriackReader(self.options.get("path", ""))


@dataclass
class Segment(InputPartition):
    """One file, which one task reads.

    Attributes:
        path: its name: of this machine, or in its file system.
        size: bytes that it had when it was listed.
        root: the path that was asked for, which tells the file system; empty for this machine.
    """

    path: str
    size: int
    root: str = ""


class TriackReader(DataSourceReader):
    """Finds the logs under a path, and reads them.

    Args:
        path: where they are.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> Sequence[InputPartition]:
        """One for each file that has something in it.

        Raises:
            ReplayError: there is none, or something that looks like a log cannot be read.
        """
        if not is_remote(self._path):
            listing = list_logs([local_path(self._path)]).require_all()
            return [Segment(listed.path, listed.size) for listed in listing.logs]
        from pyarrow.fs import FileSelector, FileType

        system, root = _system(self._path)
        info = system.get_file_info(root)
        if info.type == FileType.NotFound:
            raise ReplayError(f"no such directory: {self._path}")
        there = [info] if info.is_file else system.get_file_info(FileSelector(root, recursive=True))
        found = [it for it in there if it.is_file and it.size and refusal_of(it.base_name) is not None]
        for it in found:
            if why := refusal_of(it.base_name):
                raise ReplayError(f"{it.path} {why}")
        if not found:
            raise ReplayError(f"no session log (*{', *'.join(SUFFIXES)}) in {self._path}")
        return [Segment(it.path, it.size, self._path) for it in sorted(found, key=lambda it: it.path)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a file."""
        assert isinstance(partition, Segment)
        content = None
        if partition.root:
            system, _ = _system(partition.root)
            opened = by_either_name(partition.path, lambda path: system.open_input_stream(path, compression=None))
            with opened as file:
                content = file.read()
        return tabulate(Reading(partition.path, content), partition.size)


def _system(path: str) -> tuple[FileSystem, str]:
    """Return the file system of a path, and the path's name there."""
    from pyarrow.fs import FileSystem

    # Hadoop's s3a is s3 everywhere else.
    found: tuple[FileSystem, str] = FileSystem.from_uri(path.replace("s3a://", "s3://", 1))
    return found
