"""Durations are whole nanoseconds."""

from datetime import timedelta

from triack.base.units import MS, SECOND, US


def test_units_are_nanoseconds() -> None:
    """By the standard library's measure, and without a fraction."""
    units = {"microseconds": US, "milliseconds": MS, "seconds": SECOND}
    for name, unit in units.items():
        assert unit == 1_000 * (timedelta(**{name: 1}) // timedelta(microseconds=1))
        assert type(unit) is int
