"""Numbers, durations and times for people."""

import pytest

from triack.tools.replay.report.readable import clock, duration, moment, number, shown, size

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("value_ns", "said"),
    [
        (0, "0 s"),
        (850, "850 ns"),
        (6_300, "6.3 µs"),
        (178_236_000, "178 ms"),
        (999_700_000, "1 s"),
        (15_596_507_000, "15.6 s"),
        (119 * SECOND, "119 s"),
        (125 * SECOND, "2 min 5 s"),
        (3_840 * SECOND, "1 h 4 min"),
        (7_200 * SECOND, "2 h"),
        (400 * 86_400 * SECOND, "400 d"),
        (-5 * SECOND, "-5 s"),
    ],
)
def test_a_duration_has_three_digits_or_two_units(value_ns: int, said: str) -> None:
    assert duration(value_ns) == said


def test_numbers_and_sizes() -> None:
    assert [number(it) for it in (0, 1_234_567, 1.5, 10999.64)] == ["0", "1,234,567", "1.5", "11,000"]
    assert [size(it) for it in (12, 70_234, 5_300_000)] == ["12 B", "70.2 kB", "5.3 MB"]


def test_times_are_utc() -> None:
    assert (moment(1_500_000_000), clock(1_500_000_000)) == ("1970-01-01 00:00:01.500", "00:00:01.500")


def test_what_is_not_known_is_empty() -> None:
    assert [shown(kind, None) for kind in ("count", "ns", "text")] == ["", "", ""]
    assert [shown(kind, 2_147_483_649) for kind in ("count", "number")] == ["2,147,483,649", "2147483649"]
