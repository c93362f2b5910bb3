"""Records of the session log as columns: what Parquet files of compacted logs and tables of records are made of.

A field is a column of its name, in the order of the schema, null where a record has none; a list of pairs is a list of
lists. A file of columns has the records of segments, one segment after the other, those of each in their order.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from triack.base.errors import ReplayError
from triack.base.session_log import COMMON, EVENTS, FIELDS

Record = dict[str, Any]

BATCH_RECORDS: Final = 8_192
"""Records of a batch: enough that the batch itself costs nothing, few enough for memory."""
GROUP_RECORDS_MAX: Final = 2 * BATCH_RECORDS
"""Records of a row group: what a batch more may bring is not written as a group of a few."""
_TYPES: Final[dict[type, pa.DataType]] = {
    int: pa.int64(),
    str: pa.string(),
    bool: pa.bool_(),
    list: pa.list_(pa.list_(pa.int64())),
}
SCHEMA: Final = pa.schema([(name, _TYPES[field.type]) for name, field in (COMMON | FIELDS).items()])
"""Every field of every event."""
OF_EVENT: Final = {
    name: frozenset((*COMMON, *event.fields, *(field for more in event.variants for field in more)))
    for name, event in EVENTS.items()
}
"""The fields that records of an event may have: a fifth of all."""
GROUPED_MIN: Final = 512
"""From this number of records on, those of each event are packed by themselves, with the columns that they may have."""
_SPARK_TYPES: Final = {int: "bigint", str: "string", bool: "boolean", list: "array<array<bigint>>"}
SPARK_COLUMNS: Final = {name: f"`{name}` {_SPARK_TYPES[field.type]}" for name, field in (COMMON | FIELDS).items()}
"""The same in Spark's notation, by name."""


def pack(records: list[Record], names: Sequence[str] = SCHEMA.names) -> pa.RecordBatch:
    """Return records as columns."""
    if len(records) < GROUPED_MIN:
        columns = columns_of_some(records, names)
        return pa.RecordBatch.from_arrays([columns[name] for name in names], list(names))
    groups: dict[str, list[int]] = {}
    for at, record in enumerate(records):
        groups.setdefault(record["event"], []).append(at)
    parts = []
    for event, places in groups.items():
        mine = OF_EVENT.get(event)
        some = [name for name in names if mine is None or name in mine]
        parts.append(widen(columns_of_some([records[at] for at in places], some), names, len(places)))
    places = pa.array([at for places in groups.values() for at in places], pa.int64())
    table = pa.Table.from_batches(parts).combine_chunks()
    (batch,) = table.take(pc.array_sort_indices(places)).combine_chunks().to_batches()
    return batch


def widen(columns: dict[str, pa.Array], names: Sequence[str], rows: int) -> pa.RecordBatch:
    """Return a batch of columns, with null where one is missing."""
    whole = [columns[name] if name in columns else pa.nulls(rows, SCHEMA.field(name).type) for name in names]
    return pa.RecordBatch.from_arrays(whole, list(names))


def columns_of_some(records: list[Record], names: Sequence[str]) -> dict[str, pa.Array]:
    """Return columns of records by name."""
    try:
        return {name: _array(_field_of(records, name), SCHEMA.field(name).type) for name in names}
    except (pa.ArrowInvalid, OverflowError) as error:
        raise ReplayError(f"a record from {records[0].get('n')} on is damaged: {error}") from error


def _field_of(records: list[Record], name: str) -> list[Any]:
    """Return a field of each record; where all have it, in half the time."""
    try:
        return list(map(itemgetter(name), records))
    except KeyError:
        return [record.get(name) for record in records]


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column; lists of pairs are made of all their numbers, in a third of the time."""
    if not pa.types.is_list(kind):
        return pa.array(values, kind)
    try:
        numbers = [number for it in values if it for first, second in it for number in (first, second)]
    except (TypeError, ValueError):
        return pa.array(values, kind)  # no pairs: the error tells what is wrong, or it can be a column all the same
    pairs = pa.ListArray.from_arrays(pa.array(range(0, len(numbers) + 1, 2), pa.int32()), pa.array(numbers, pa.int64()))
    ends = pa.array(accumulate((len(it or ()) for it in values), initial=0), pa.int32())
    return pa.ListArray.from_arrays(ends, pairs, mask=pa.array([it is None for it in values], pa.bool_()))


def unpack(batch: pa.RecordBatch) -> list[Record]:
    """Return the records of columns; columns outside of the schema are ignored.

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
        for name in [name for name in present if part.column(name).null_count]:
            for record in made:
                if record[name] is None:
                    del record[name]
        for at, record in zip(pc.indices_nonzero(mask).to_pylist(), made, strict=True):
            records[at] = record
    return records


def unpack_rows(batch: pa.RecordBatch) -> Iterator[tuple[str, int, Record]]:
    """Yield the records of a table with the file and line of each, which are in columns of these names."""
    return zip(batch.column("file").to_pylist(), batch.column("line").to_pylist(), unpack(batch), strict=True)


def _values(column: pa.Array) -> list[Any]:
    """Return a column's values; lists of pairs are cut out of all their numbers, in a tenth of the time."""
    values: list[Any]
    if not pa.types.is_list(column.type):
        values = column.to_pylist()
        return values
    pairs = column.flatten()
    if len(pairs) and (pairs.null_count or not pc.all(pc.equal(pc.list_value_length(pairs), 2)).as_py()):
        values = column.to_pylist()  # its record reports what is wrong with it
        return values
    numbers = pairs.flatten().to_pylist()
    made = [numbers[at : at + 2] for at in range(0, len(numbers), 2)]
    found: list[Any] = []
    at = 0
    for length in pc.list_value_length(column).to_pylist():
        found.append(None if length is None else made[at : at + length])
        at += length or 0
    return found


class Columns:
    """Segments as a Parquet file."""

    def __init__(self, path: str | Path, content: bytes | None, complain: Callable[[Record], str]) -> None:
        self._path = path
        self._complain = complain
        with self._reading():
            self._file = pq.ParquetFile(str(path) if content is None else io.BytesIO(content))
        if not set(COMMON) <= set(self._file.schema_arrow.names):
            raise ReplayError(f"{path} has no records of a session log")

    @property
    def count(self) -> int:
        """The number of records that the file claims."""
        count: int = self._file.metadata.num_rows
        return count

    def told(self, key: bytes) -> bytes:
        """Return the file's own metadata under a key, or nothing."""
        told: bytes = (self._file.metadata.metadata or {}).get(key, b"")
        return told

    def records(self) -> Iterator[Record]:
        """Yield its records in their order."""
        number = 0
        for batch in self.batches():
            with self._reading():
                records = unpack(batch)
            for record in records:
                number += 1
                if said := self._complain(record):
                    raise ReplayError(f"{self._path} line {number} {said}")
                yield record
        if number != self._file.metadata.num_rows:
            raise ReplayError(
                f"{self._path} has {number} of the {self._file.metadata.num_rows} records that it tells of"
            )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield its records as columns of the schema's types."""
        with self._reading():
            for batch in self._file.iter_batches(BATCH_RECORDS):
                yield _typed(batch)

    def table(self) -> pa.Table:
        """Return all of them."""
        return pa.Table.from_batches(self.batches())

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Report errors of reading as damage of the file."""
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise ReplayError(f"{self._path} is damaged: {error}") from error


def _typed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns of the schema that a batch has, each with its type; others may have written the file."""
    names = [name for name in batch.schema.names if name in SCHEMA.names]
    columns = [batch.column(name) for name in names]
    types = [SCHEMA.field(name).type for name in names]
    cast = [it if it.type == wanted else it.cast(wanted) for it, wanted in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(cast, names)


def write_parquet(batches: Iterable[pa.RecordBatch], file: Any, tell: Callable[[], dict[bytes, bytes]]) -> None:
    """Write records as a Parquet file.

    Args:
        batches: all of them, as columns of the schema; a missing column becomes null.
        file: a file that is open for writing.
        tell: called after all of them were written; returns the file's metadata.
    """
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            there = dict(zip(batch.schema.names, batch.columns, strict=True))
            waiting.append(widen(there, SCHEMA.names, batch.num_rows))
            rows += batch.num_rows
            if rows >= BATCH_RECORDS:
                writer.write_table(pa.Table.from_batches(waiting, SCHEMA), row_group_size=GROUP_RECORDS_MAX)
                waiting.clear()
                rows = 0
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting, SCHEMA), row_group_size=GROUP_RECORDS_MAX)
        writer.add_key_value_metadata(tell())
