"""Functions over rows as Spark's workers run them: over batches of Arrow, which they take and yield."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_BYTES: Final = 4 << 20
"""One batch from Python to Spark: enough that the batch costs nothing, little enough to stay small."""
ROW_BYTES: Final = 100
"""About what a row has beside its data."""
GC_THRESHOLD: Final = (50_000, 20, 100)
"""In a worker: records are many small objects that live for a moment, in no circles. Python's own threshold of 700 has
it look through them again and again, for a sixth of its time."""


def each(work: Callable[[Iterator[dict[str, Any]]], Iterable[Sequence[Any]]], schema: str) -> Any:
    """Turn a function over rows, which yields others of a schema, into one over batches."""
    return over(lambda batches: work(row for batch in batches for row in batch.to_pylist()), schema)


def over(work: Callable[[Iterator[Any]], Iterable[Sequence[Any]]], schema: str) -> Any:
    """Turn a function over batches, which yields rows of a schema, into one that yields batches."""

    def over_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gc.set_threshold(*GC_THRESHOLD)
        rows: list[Sequence[Any]] = []
        size_bytes = 0
        for row in work(batches):
            rows.append(row)
            size_bytes += ROW_BYTES + (len(row[-1]) if isinstance(row[-1], bytes) else 0)
            if size_bytes >= BATCH_BYTES:
                yield pack(rows, schema)
                rows.clear()
                size_bytes = 0
        if rows:
            yield pack(rows, schema)

    return over_batches


def pack(rows: Sequence[Sequence[Any]], schema: str) -> pa.RecordBatch:
    """Return rows as a batch; the schema is in Spark's notation."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "binary": pa.binary()}
    names, types = zip(*(column.split() for column in schema.split(", ")), strict=True)
    columns = list(zip(*rows, strict=True)) or [()] * len(types)
    arrays = [pa.array(column, kinds[kind]) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, [name.strip("`") for name in names])
