"""Records of the session log as columns: what Parquet files of compacted logs and tables of records are made of.

A field is a column of its name, in the order of the schema, null where a record has none; a list of pairs is a list of
lists. A file of columns has the records of one segment in their order.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from triack.base.errors import ReplayError
from triack.base.session_log import COMMON, FIELDS

Record = dict[str, Any]

BATCH_RECORDS: Final = 8_192
"""Records that are looked at together: enough that a batch costs nothing, few enough to hold."""
_TYPES: Final[dict[type, pa.DataType]] = {
    int: pa.int64(),
    str: pa.string(),
    bool: pa.bool_(),
    list: pa.list_(pa.list_(pa.int64())),
}
SCHEMA: Final = pa.schema([(name, _TYPES[field.type]) for name, field in (COMMON | FIELDS).items()])
"""Every field of every event."""
_SPARK_TYPES: Final = {int: "bigint", str: "string", bool: "boolean", list: "array<array<bigint>>"}
SPARK_SCHEMA: Final = ", ".join(f"`{name}` {_SPARK_TYPES[field.type]}" for name, field in (COMMON | FIELDS).items())
"""The same as Spark says it."""


def pack(records: list[Record]) -> pa.RecordBatch:
    """Return records as columns.

    Args:
        records: as today's version has them.

    Raises:
        ReplayError: a number that no column holds.
    """
    try:
        columns = [pa.array([record.get(name) for record in records], SCHEMA.field(name).type) for name in SCHEMA.names]
    except (pa.ArrowInvalid, OverflowError) as error:
        raise ReplayError(f"a record from {records[0].get('n')} on is damaged: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def unpack(batch: pa.RecordBatch) -> list[Record]:
    """Return the records of columns, of which there may be others than those of records.

    Records of one event have the same fields, so each column is turned into Python's values at once.
    """
    records: list[Record] = [{}] * batch.num_rows
    events = batch.column("event").dictionary_encode()
    names = [name for name in batch.schema.names if name in SCHEMA.names]
    for code in range(len(events.dictionary)):
        mask = pc.equal(events.indices, code)
        part = batch.filter(mask)
        present = [name for name in names if part.column(name).null_count < part.num_rows]
        rows = zip(*(_values(part.column(name)) for name in present), strict=True)
        made = [dict(zip(present, row, strict=True)) for row in rows]
        for name in present:
            if part.column(name).null_count:
                _drop(made, name)
        for at, record in zip(pc.indices_nonzero(mask).to_pylist(), made, strict=True):
            records[at] = record
    return records


def unpack_rows(batch: pa.RecordBatch) -> Iterator[tuple[str, Record]]:
    """Yield the records of a table with the file of each, which is in a column ``file``."""
    return zip(batch.column("file").to_pylist(), unpack(batch), strict=True)


def _values(column: pa.Array) -> list[Any]:
    """Return a column's values; lists of pairs are cut out of all their numbers, in a tenth of the time."""
    values: list[Any]
    if not pa.types.is_list(column.type):
        values = column.to_pylist()
        return values
    pairs = column.flatten()
    numbers = pairs.flatten().to_pylist()
    made = [numbers[at : at + 2] for at in range(0, len(numbers), 2)]
    found: list[Any] = []
    at = 0
    for length in pc.list_value_length(column).to_pylist():
        found.append(None if length is None else made[at : at + length])
        at += length or 0
    return found


def _drop(records: list[Record], name: str) -> None:
    for record in records:
        if record[name] is None:
            del record[name]


class Columns:
    """One segment as a Parquet file.

    Args:
        path: its file.
        content: what is in it; None to read the file.
        complain: says what is wrong with a record, or nothing.

    Raises:
        ReplayError: it cannot be read, or is not what it should be.
    """

    def __init__(self, path: str | Path, content: bytes | None, complain: Callable[[Record], str]) -> None:
        self._path = path
        self._complain = complain
        try:
            self._file = pq.ParquetFile(str(path) if content is None else io.BytesIO(content))
        except (pa.ArrowInvalid, OSError) as error:
            raise ReplayError(f"{path} is damaged: {error}") from error
        if not set(COMMON) <= set(self._file.schema_arrow.names):
            raise ReplayError(f"{path} has no records of a session log")

    def records(self) -> Iterator[Record]:
        """Yield its records in their order.

        Raises:
            ReplayError: one is not as the schema says.
        """
        number = 0
        for batch in self._batches():
            for record in unpack(batch):
                number += 1
                if said := self._complain(record):
                    raise ReplayError(f"{self._path} line {number} {said}")
                yield record

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._file.iter_batches(BATCH_RECORDS)
        except (pa.ArrowInvalid, OSError) as error:
            raise ReplayError(f"{self._path} is damaged: {error}") from error


def write_parquet(records: Iterator[Record], file: Any) -> int:
    """Write the records of a segment as a Parquet file.

    Args:
        records: in their order.
        file: a file that is open for writing.

    Returns:
        How many there were.
    """
    count = 0
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        while batch := list(islice(records, BATCH_RECORDS)):
            writer.write_batch(pack(batch), row_group_size=BATCH_RECORDS)
            count += len(batch)
    return count
