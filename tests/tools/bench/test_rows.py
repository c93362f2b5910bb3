"""The table of rows."""

import pytest

from triack.base.errors import UsageError
from triack.tools.bench.rows import CURVES, ROWS, rows_of


def test_all_rows_are_there_in_order() -> None:
    assert list(ROWS) == [f"T{number}" for number in range(1, 17)]
    assert [row.name for row in rows_of(())] == list(ROWS)


def test_every_goal_is_beyond_its_floor() -> None:
    for row in ROWS.values():
        for goal in row.goals:
            if goal.goal is not None and goal.floor is not None:
                assert goal.goal < goal.floor if goal.is_cost else goal.goal > goal.floor


def test_rows_are_found_by_name() -> None:
    assert [row.name for row in rows_of(("t3", "T1", "sizes"))] == ["T3", "T1", "SIZES"]
    assert CURVES["SIZES"].points["1,024"].size == 1_024


def test_a_wrong_name_raises() -> None:
    with pytest.raises(UsageError, match="no row window; did you mean windows"):
        rows_of(("window",))
    with pytest.raises(UsageError, match=r"no row q; there are T1, T2, .*, sizes"):
        rows_of(("q",))
