"""Rows of numbers, kept so that they pack well: column by column, each number as the step from the one before it."""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise


def steps_of(rows: array[int], width: int) -> list[array[int]]:
    """Return the columns of rows, as steps."""
    columns = [rows[at::width] for at in range(width)]
    return [array("q", [*column[:1], *(after - before for before, after in pairwise(column))])
            for column in columns]  # fmt: skip


def rows_of(steps: list[array[int]]) -> array[int]:
    """Return the rows that ``steps_of`` made steps of."""
    columns = [list(accumulate(column)) for column in steps]
    return array("q", [number for row in zip(*columns, strict=True) for number in row])
