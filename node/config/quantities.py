"""Sizes and durations as people write them: ``8 GiB``, ``500 ms``."""

import re
from collections.abc import Mapping

SIZES: Mapping[str, int] = {
    "B": 1,
    "kB": 1_000,
    "KiB": 1 << 10,
    "MB": 1_000**2,
    "MiB": 1 << 20,
    "GB": 1_000**3,
    "GiB": 1 << 30,
    "TB": 1_000**4,
    "TiB": 1 << 40,
}
"""Bytes in each unit (IEC 80000-13)."""
SECONDS: Mapping[str, float] = {"ms": 0.001, "s": 1, "min": 60, "h": 3_600, "d": 86_400}

_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([A-Za-z]+)")
"""Accepts more digits than any limit has."""
_BINARY = ("TiB", "GiB", "MiB", "KiB")
_LONG = ("d", "h", "min", "s")


def read_quantity(text: str, units: Mapping[str, float]) -> float | None:
    """The number of bytes or seconds that a text states; None if it is no number with one of these units."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or found[2] not in units:
        return None
    value = float(found[1]) * units[found[2]] if "." in found[1] else int(found[1]) * units[found[2]]
    return int(value) if value == int(value) else value


def write_quantity(value: float, units: Mapping[str, float]) -> str | None:
    """The shortest such text for a number that is a whole multiple of a large unit, or None."""
    for unit in _BINARY if units is SIZES else _LONG:
        if value and not value % units[unit]:
            return f"{int(value // units[unit])} {unit}"
    return None
