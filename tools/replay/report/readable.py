"""Numbers, durations and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_STEPS: Final = ((1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s"))
_LONG: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SIZES: Final = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_TWO_MINUTES_NS: Final = 120_000_000_000
"""From here on a duration has two units, such as 2 min 5 s."""


def number(value: float) -> str:
    """Return a number with its thousands apart; one with a fraction with three digits."""
    return f"{value:,}" if isinstance(value, int) else _three(value)


def duration(value_ns: int) -> str:
    """Return a duration with at most three digits, or two units."""
    if value_ns < 0:
        return f"-{duration(-value_ns)}"
    if value_ns >= _TWO_MINUTES_NS:
        return _long(round(value_ns / 1e9))
    if value_ns == 0:
        return "0 s"
    for at, (unit_ns, name) in enumerate(_STEPS):
        # What rounds up to a thousand is one of the next unit.
        if at == len(_STEPS) - 1 or value_ns < 999.5 * unit_ns:
            return f"{_three(value_ns / unit_ns)} {name}"
    raise AssertionError  # the last step takes all


def _long(seconds: int) -> str:
    for at, (unit, name) in enumerate(_LONG[:-1]):
        if seconds >= unit:
            smaller, below = _LONG[at + 1]
            rest = seconds % unit // smaller
            return f"{seconds // unit:,} {name}" + (f" {rest} {below}" if rest else "")
    raise AssertionError  # it is at least two minutes


def _three(value: float) -> str:
    """Return a number with three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{float(f'{value:.3g}'):,g}"  # noqa: PLR2004 - three digits


def size(value_bytes: int) -> str:
    """Return a number of bytes with three digits."""
    for unit, name in _SIZES:
        if value_bytes >= unit:
            return f"{_three(value_bytes / unit)} {name}"
    return f"{value_bytes} B"


def moment(wall_ns: int) -> str:
    """Return a wall time with its date, to the millisecond, UTC."""
    return f"{datetime.fromtimestamp(wall_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]


def clock(wall_ns: int) -> str:
    """Return a wall time without its date, to the millisecond, UTC."""
    return moment(wall_ns)[11:]


def shown(kind: str, value: object) -> str:
    """Return a value of a table as the page shows it.

    Args:
        kind: what it is: ``text``, ``number`` (of a thing), ``count``, ``bytes``, ``ns`` (a duration), or
            ``wall_ns``.
        value: None if it is not known, or does not apply.
    """
    if value is None:
        return ""
    if isinstance(value, int):
        says = {"count": number, "bytes": size, "ns": duration, "wall_ns": moment}.get(kind)
        return says(value) if says else str(value)
    return str(value)
