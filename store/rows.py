"""The store's tables, and how a row proves that it is unchanged.

Each row has a checksum over all its columns and the name of its table. Each commit records how many rows each table
then has, and the sum of their checksums: so a lost row, or an old one that came back, is found as well.
"""

# ruff: noqa: S608 - all that goes into a statement is written in this file

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error
from typing import Any, ClassVar, get_type_hints
from zlib import crc32

from triack.base.commit import HEAD_BYTES, OutgoingStreamRow, PeerRow, PositionRow, SubscriptionRow, TransitStreamRow
from triack.store.meta import Meta
from triack.store.runs import MESSAGE_BYTES, OUTGOING_BYTES, TRANSIT_BYTES

UNREADABLE = (TypeError, ValueError, AttributeError, OverflowError, struct_error)
"""Python's errors for a damaged row whose values have the wrong type."""


class Table:
    """One table: its statements, and the form of its rows.

    Args:
        name: its name.
        columns: its columns, keys first, without checksums and body.
        keys: how many of the columns are the key.
        part_bytes: if above 0, each row has packets (``runs``), each with this many bytes in ``parts``, and a body with
            its own checksum, so that the rest can be checked without it.
        rowid: False if the keys are no numbers, and the table is kept in their order.

    Attributes:
        create: makes the table; SQLite keeps the statement word for word, so that it can be compared.
        find: gives the checksum of the row with a key.
        fetch: gives one whole row; of packets, the one with the greatest key up to a key.
        delete_runs: deletes rows of packets whose keys all lie in a span, and gives key, packets and checksum of each.
            It checks the number of packets twice: a wrong one would delete wanted packets.
        touch: like ``load``, for the rows that may have packets in a span.
    """

    def __init__(self, name: str, *columns: str, keys: int = 1, part_bytes: int = 0, rowid: bool = True) -> None:
        names = [column.split()[0] for column in columns]
        packets = part_bytes > 0
        key = ", ".join(names[:keys])
        where = " AND ".join(f"{name} = ?" for name in names[:keys])
        sums = ["body_checksum", "checksum", "body"] if packets else ["checksum"]
        head = [f"body_checksum, length(body), substr(body, 1, {HEAD_BYTES})"] if packets else []
        marks = ", ".join("?" * (len(names) + len(sums)))
        replaced = "" if packets or name in ("queues", "starts") else "OR REPLACE "
        self.name = name
        self.keys = keys
        self.packets = packets
        self.checksum_at = -2 if packets else -1
        self.create = f"CREATE TABLE {name} ({', '.join((*columns, *sums))}, PRIMARY KEY ({key}))"
        self.create += "" if rowid else " WITHOUT ROWID"
        self.put = f"INSERT {replaced}INTO {name} VALUES ({marks})"
        self.find = f"SELECT checksum FROM {name} WHERE {where}"
        found = f"{key} <= ? ORDER BY {key} DESC LIMIT 1" if packets else where
        self.fetch = f"SELECT {', '.join((*names, *sums))} FROM {name} WHERE {found}"
        loaded = f"SELECT {', '.join((*names, *head, 'checksum'))} FROM {name}"
        begin = f"SELECT coalesce(max({key}), 0) FROM {name} WHERE {key} <= ?"
        self.load = f"{loaded} ORDER BY {key}"
        every = f"{key} BETWEEN ?1 AND ?2 AND {key} + packets - 1 <= ?2 AND length(parts) = packets * {part_bytes}"
        self.delete_runs = f"DELETE FROM {name} WHERE {every} RETURNING {key}, packets, checksum" if packets else ""
        self.touch = f"{loaded} WHERE {key} BETWEEN ({begin}) AND ?" if packets else ""
        self.delete = f"DELETE FROM {name} WHERE {where} RETURNING checksum"
        self.delete_range = f"DELETE FROM {name} WHERE {key} BETWEEN ? AND ? RETURNING checksum"

    def checksum(self, values: Sequence[Any]) -> int:
        """The checksum of a row: of the table's name and the values, in their order and with their types."""
        return crc32(f"{(self.name, *values)!a}".encode())

    def with_checksums(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """A row as it is stored. The last of its values is the body, if it has one."""
        if not self.packets:
            return (*values, crc32(f"{(self.name, *values)!a}".encode()))
        *columns, body = values
        body_checksum = crc32(body, values[0] & 0xFFFFFFFF)
        checksum = self.checksum((*columns, body_checksum, len(body), bytes(body[:HEAD_BYTES])))
        return (*columns, body_checksum, checksum, body)

    def is_intact(self, row: Sequence[Any]) -> bool:
        """Whether a whole stored row is unchanged."""
        values = (*row[:-3], row[-1]) if self.packets else row[:-1]
        try:
            return self.with_checksums(values) == tuple(row)
        except UNREADABLE:
            return False


_TYPES = {int: "INTEGER", str: "TEXT", bytes: "BLOB"}
"""SQLite's names of the types of columns."""


def _columns(row: type) -> list[str]:
    """The columns of a table that has the fields of a class, in their order."""
    return [f"{name} {_TYPES[kind]}" for name, kind in get_type_hints(row).items()]


META = Table("meta", "id INTEGER", *_columns(Meta), "tallies BLOB")

TABLES = {
    table.name: table
    for table in (
        Table("starts", "incarnation INTEGER", "start INTEGER", "serial INTEGER"),
        Table("peers", *_columns(PeerRow), rowid=False),
        Table("streams", *_columns(OutgoingStreamRow)),
        Table("outgoing", "key INTEGER", "packets INTEGER", "parts BLOB", part_bytes=OUTGOING_BYTES),
        Table("queues", "id INTEGER", "name TEXT UNIQUE"),
        Table(
            "messages",
            "key INTEGER",
            "packets INTEGER",
            "origin BLOB",
            "stream INTEGER",
            "sequence INTEGER",
            "number INTEGER",
            "delivery INTEGER",
            "topic TEXT",
            "place INTEGER",
            "parts BLOB",
            part_bytes=MESSAGE_BYTES,
        ),
        Table("freed", "name TEXT", "key INTEGER", "packets BLOB", keys=2, rowid=False),
        Table("progress", "key INTEGER", "progress BLOB"),
        Table("subscriptions", *_columns(SubscriptionRow)),
        Table("positions", *_columns(PositionRow), keys=2, rowid=False),
        Table("transit_streams", *_columns(TransitStreamRow)),
        Table("transit", "key INTEGER", "packets INTEGER", "parts BLOB", part_bytes=TRANSIT_BYTES),
        Table("state", "key TEXT", "value BLOB", rowid=False),
        Table("addresses", "name TEXT", "address TEXT", rowid=False),
        Table("latest", "id INTEGER", "rows BLOB"),
    )
}

_MASK = (1 << 64) - 1
"""Counts and sums are stored in 64 bits each, and wrap around."""


class Tallies:
    """How many rows each table has, and the sum of their checksums.

    ``packed`` is the result of ``pack``; without it all tables are empty. Raises struct.error: it is not.
    """

    __slots__ = ("_numbers",)

    _STRUCT = Struct(f"<{2 * len(TABLES)}Q")
    _AT: ClassVar = {table: 2 * place for place, table in enumerate(TABLES)}
    """Where the count of a table is; its sum is next to it."""

    def __init__(self, packed: bytes | None = None) -> None:
        self._numbers = list(self._STRUCT.unpack(packed)) if packed is not None else [0] * 2 * len(TABLES)

    def change(self, table: str, rows: int, checksums: int) -> None:
        """Add a number of rows and the sum of their checksums; both are negative for rows that have gone."""
        numbers, at = self._numbers, self._AT[table]
        # A damaged row may subtract more than was ever added: that is found later, and must not fail here.
        numbers[at] = (numbers[at] + rows) & _MASK
        numbers[at + 1] = (numbers[at + 1] + checksums) & _MASK

    def rows_of(self, table: str) -> int:
        """How many rows a table has."""
        return self._numbers[self._AT[table]]

    def pack(self) -> bytes:
        """As bytes, for the store."""
        return self._STRUCT.pack(*self._numbers)

    def differing(self, other: "Tallies") -> list[str]:
        """The tables whose tallies differ."""
        mine, its = self._numbers, list(self._STRUCT.unpack(other.pack()))
        return [table for table, at in self._AT.items() if mine[at : at + 2] != its[at : at + 2]]
