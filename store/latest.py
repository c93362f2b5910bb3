"""The newest versions of rows that change with nearly every commit: positions of streams, and points of peers.

Each table that a commit changes costs it a page. So these versions are stored together in one row, as text, and their
tables keep older versions, or none. When the row becomes too long, all of them move to their tables within the same
commit.

The row has its own page and is counted like any other. In the row of ``meta`` it would cost no page; but if a disk then
lost the write of that one page, nothing would contradict the old one.
"""

from ast import literal_eval
from collections.abc import Sequence
from typing import Any

from triack.store.rows import TABLES

LATEST = frozenset({"peers", "positions", "streams", "transit_streams"})
"""Tables whose rows are replaced as a whole, deleted by key, and read only at a start."""
LATEST_BYTES = 2_048
"""Rows of a dozen busy streams. A commit that changes one writes them all: more would cost more than their pages."""
ROW_SHARE = 4
"""A row longer than this share of the limit goes straight to its table: it would leave no room for others."""

_Key = tuple[str, tuple[Any, ...]]


class LatestRows:
    """The rows that are newer than their tables; ``changed`` tells whether they differ from the last ``pack``.

    Raises:
        ValueError, SyntaxError: ``packed`` is not the result of ``pack``.
    """

    __slots__ = ("_limit_bytes", "_rows", "_size_bytes", "changed")

    def __init__(self, limit_bytes: int, packed: bytes = b"") -> None:
        self._limit_bytes = limit_bytes
        self._rows: dict[_Key, tuple[str, tuple[Any, ...]]] = {}
        self._size_bytes = 0
        for text in packed.decode().splitlines():
            name, *row = literal_eval(text)
            self._rows[name, tuple(row[: TABLES[name].keys])] = text, tuple(row)
            self._size_bytes += len(text)
        self.changed = False

    def put(self, name: str, row: Sequence[Any]) -> bool:
        """Keep a row. Returns False if the caller must write it to its table."""
        key = name, tuple(row[: TABLES[name].keys])
        text = f"{(name, *row)!a}"
        size_bytes = len(text)
        if size_bytes * ROW_SHARE > self._limit_bytes:
            self._drop(key)
            return False
        if key in self._rows:
            self._size_bytes -= len(self._rows[key][0])
        self._rows[key] = text, tuple(row)
        self._size_bytes += size_bytes
        self.changed = True
        return True

    def remove(self, name: str, keys: Sequence[Sequence[Any]]) -> None:
        """Forget the rows with these keys."""
        for key in keys:
            self._drop((name, tuple(key)))

    def _drop(self, key: _Key) -> None:
        old = self._rows.pop(key, None)
        if old is not None:
            self._size_bytes -= len(old[0])
            self.changed = True

    def take_excess(self) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the rows to write to their tables now, with the tables' names: all, or none."""
        if self._size_bytes <= self._limit_bytes:
            return []
        rows = [(name, row) for (name, _), (_, row) in self._rows.items()]
        self._rows.clear()
        self._size_bytes = 0
        self.changed = True
        return rows

    def over(self, name: str, rows: list[list[Any]]) -> list[list[Any]]:
        """The rows of a table, in the order of their keys, each in its newest version."""
        keys = TABLES[name].keys
        newest = {tuple(row[:keys]): row for row in rows}
        newest.update({key: list(row) for (table, key), (_, row) in self._rows.items() if table == name})
        return [newest[key] for key in sorted(newest)]

    def pack(self) -> bytes:
        """As bytes, for their row."""
        self.changed = False
        return "\n".join([text for text, _ in self._rows.values()]).encode()
