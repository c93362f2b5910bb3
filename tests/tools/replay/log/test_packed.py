"""Rows of numbers come back from the steps that they were kept as."""

from array import array

import pytest

from triack.tools.replay.log.packed import rows_of, steps_of


@pytest.mark.parametrize("rows", [[], [(1, 2)], [(1, 5), (7, 4), (7, -(1 << 62)), (0, 0)]])
def test_rows_come_back(rows: list[tuple[int, ...]]) -> None:
    fields = array("q", [number for row in rows for number in row])
    assert rows_of(steps_of(fields, 2)) == fields


def test_columns_that_grow_evenly_are_alike() -> None:
    assert steps_of(array("q", [5, 1, 6, 3, 7, 5]), 2) == [array("q", [5, 1, 1]), array("q", [1, 2, 2])]
