"""What must be there: the rest of a test has no sense without it."""

from typing import TypeVar

T = TypeVar("T")


def sure(value: T | None) -> T:
    assert value is not None
    return value
