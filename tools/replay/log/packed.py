"""Rows of numbers, some dozen bytes each, which pack well: column by column, each number as the step from the last."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Generic, TypeVar

Row = TypeVar("Row")


class Rows(Generic[Row]):
    """Rows in the order in which they came; ``KIND`` is the named tuple of ints that a row is."""

    KIND: ClassVar[Any]

    def __init__(self) -> None:
        # One after the other, field by field.
        self._fields = array("q")

    def __len__(self) -> int:
        return len(self._fields) // len(self.KIND._fields)

    def __iter__(self) -> Iterator[Row]:
        fields, width = self._fields, len(self.KIND._fields)
        for at in range(0, len(fields), width):
            yield self.KIND(*fields[at : at + width])

    def __getstate__(self) -> Any:
        """The state for a file: numbers that grow pack well as steps."""
        return steps_of(self._fields, len(self.KIND._fields))

    def __setstate__(self, steps: Any) -> None:
        """Rows are again what they were."""
        self._fields = rows_of(steps)


def steps_of(rows: array[int], width: int) -> list[array[int]]:
    """Return the columns of rows, as steps."""
    columns = [rows[at::width] for at in range(width)]
    return [array("q", [*column[:1], *(after - before for before, after in pairwise(column))])
            for column in columns]  # fmt: skip


def rows_of(steps: list[array[int]]) -> array[int]:
    """Return the rows that ``steps_of`` made steps of."""
    columns = [list(accumulate(column)) for column in steps]
    return array("q", [number for row in zip(*columns, strict=True) for number in row])
