"""Durations are whole nanoseconds."""

from datetime import timedelta

from triack.base.units import MS, SECOND, US, in_ns


def test_units_are_nanoseconds() -> None:
    """By the standard library's measure, and without a fraction."""
    units = {"microseconds": US, "milliseconds": MS, "seconds": SECOND}
    for name, unit in units.items():
        assert unit == 1_000 * (timedelta(**{name: 1}) // timedelta(microseconds=1))
        assert type(unit) is int


def test_a_tenth_of_a_second_is_one() -> None:
    """Seconds of settings are rounded, and not cut off."""
    assert [in_ns(seconds) for seconds in (0, 0.1, 1.5, 2, 1.1)] == [0, 100 * MS, 1_500 * MS, 2 * SECOND, 1_100 * MS]
