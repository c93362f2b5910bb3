"""Segments that grow, as a streaming source of Spark: which ones have more than before, and how much.

The source reads no records: the judge of a segment reads on from where it was, up to the size that this source gives.
So a batch that Spark runs once more after a crash finds the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from triack.tools.replay.log.files import size_bytes
from triack.tools.replay.log.listing import OPEN_SUFFIX, list_growing, there

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

GROWN: Final = "path binary, size bigint, grown bigint"
"""A segment, its size, and how much of that is new, both in bytes. Its name is bytes, as not each name is text."""
Row = tuple[bytes, int, int]


def watch(spark: SparkSession, paths: Iterable[Path]) -> DataFrame:
    """Return the streaming table of segments that have grown.

    Args:
        spark: the Spark session.
        paths: directories with logs (searched in depth), or single segments; all workers see them by these names.
    """
    spark.dataSource.register(GrowthSource)
    return spark.readStream.format(GrowthSource.name()).option("paths", json.dumps([*map(str, paths)])).load()


class GrowthSource(DataSource):
    """What ``watch`` reads."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return "triack-growth"

    def schema(self) -> str:
        """``GROWN``."""
        return GROWN

    def simpleStreamReader(self, schema: StructType) -> GrowthReader:  # noqa: ARG002, N802 - as Spark calls it
        """Return the reader that watches the paths."""
        return GrowthReader([Path(path) for path in json.loads(self.options["paths"])])


class GrowthReader(SimpleDataSourceStreamReader):
    """Looks how large segments are; an offset is path -> bytes. A segment that was renamed has grown by nothing.

    Args:
        paths: as of ``watch``.
    """

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self._known: set[str] = set()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - as Spark calls it
        """Nothing was there."""
        return {}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Row], dict[str, int]]:
        """Return what has grown since an offset, and the offset of now.

        Raises:
            ReplayError: a path does not exist, or a log is one that does not grow.
        """
        # Sizes are read after all names are known: a segment that has a next one is complete by then.
        listing = list_growing(self._paths, self._known)
        self._known = {path for path, _ in listing.logs}
        sizes = {path: size_bytes(Path(path)) for path in sorted(map(there, self._known))}
        now = {path: size for path, size in sizes.items() if size}
        return self.readBetweenOffsets(start, now), now

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[Row]:  # noqa: N802
        """Return what has grown between two offsets."""
        grown = [(path, size, size - _before(path, start)) for path, size in end.items() if start.get(path) != size]
        return iter([(os.fsencode(path), size, more) for path, size, more in grown])


def _before(path: str, start: dict[str, int]) -> int:
    return start.get(path, start.get(path + OPEN_SUFFIX, 0))
