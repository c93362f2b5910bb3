"""Values that every kind of settings refuses, for the tests of each."""

from dataclasses import fields

import pytest

from triack.base.errors import UsageError

WRONG_NUMBERS: list[object] = [-1, 1.5, True, "9"]
WRONG_DURATIONS: list[object] = [-0.1, float("inf"), float("nan"), True, "9"]


def refuse_wrong_values(kind: type) -> None:
    """Every number is whole, every duration is seconds; none is negative, infinite, a bool or a text."""
    numbers = [field.name for field in fields(kind) if field.init and field.type in (int, int | None)]
    durations = [field.name for field in fields(kind) if field.name.endswith("_s")]
    assert numbers + durations
    for names, values, what in (
        (numbers, WRONG_NUMBERS, "a whole number of at least"),
        (durations, WRONG_DURATIONS, "a number of seconds"),
    ):
        for name in names:
            for value in values:
                with pytest.raises(UsageError, match=f"{kind.__name__}: {name} must be {what}"):
                    kind(**{name: value})
