"""Checks that all settings share: they refuse an invalid number where it is given, by name."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from math import isfinite
from typing import Any, get_args, get_origin

from triack.base.errors import UsageError
from triack.base.printable import written
from triack.base.units import in_ns

DATAGRAM_MIN_BYTES = 576
"""Every IPv4 host accepts a datagram of this size (RFC 791); an ack with all its ranges fits."""
DATAGRAM_BASE_BYTES = 1_200
"""Every path for UDP today carries this size (BASE_PLPMTU of RFC 8899, section 5.1.2; RFC 9000, section 14)."""
DATAGRAM_MAX_BYTES = 0xFFFF
"""No UDP datagram is longer (RFC 768), and a packet's length field holds no more; TCP could carry more."""
LONGEST_LIFE_S = 100 * 366 * 86_400
"""A century: a longer time is a mistake of units, and no deadline at all is another setting."""


def check_settings(settings: Any, *, may_be_zero: tuple[str, ...] = ()) -> None:
    """Refuse settings with invalid numbers.

    Args:
        settings: a dataclass. Its integers must be whole and at least 1; its durations (names that end in ``_s``) must
            be seconds above 0; its nested settings and mappings must be such.
        may_be_zero: the fields that may also be 0.

    Raises:
        UsageError: names the field and its value.
    """
    kind: Any = type(settings)
    for field in _fields(kind):
        value, zero = getattr(settings, field.name), field.name in may_be_zero
        if field.name.endswith("_s"):
            if value is not None:
                _check_seconds(f"{kind.__name__}: {field.name}", value, zero=zero)
        elif field.type in (int, int | None) and not (value is None and field.type is not int):
            least = int(not zero)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UsageError(
                    f"{kind.__name__}: {field.name} must be a whole number of at least {least}, not {value!r}"
                )
        else:
            _check_part(f"{kind.__name__}: {field.name}", field.type, value)


def _check_part(what: str, wanted: Any, value: object) -> None:
    """Check settings within settings, so that a misplaced value is found before a node runs with it.

    A class checks its own optional settings: compiled code does not show what ``A | None`` is.
    """
    if Mapping in (wanted, get_origin(wanted)):
        check_kind(what, value, Mapping)
    elif is_dataclass(wanted):
        check_kind(what, value, wanted)


def check_kind(what: str, value: object, wanted: Any) -> None:
    """Raise UsageError for a value that is no instance of a class, or of one of several (``A | None``)."""
    if not isinstance(value, wanted):
        names = " or ".join(one.__name__ for one in get_args(wanted) or (wanted,) if one is not type(None))
        raise UsageError(f"{what} must be {'an' if names[0].lower() in 'aeiou' else 'a'} {names}, not {value!r}")


_fields = cache(fields)
"""The fields of a class, looked up once: a policy that comes with each handshake is checked too."""


def check_most(queue: str, most: object) -> None:
    """Raise UsageError for anything but a number of messages."""
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise UsageError(f"receive from {queue}: the number of messages must be a whole number above 0, not {most!r}")


def _check_seconds(what: str, seconds: object, *, zero: bool) -> None:
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not isfinite(seconds)
        or seconds > LONGEST_LIFE_S
        or not (in_ns(seconds) > 0 or (zero and seconds == 0))
    ):
        raise UsageError(f"{what} must be a number of seconds{' of at least' if zero else ' above'} 0, not {seconds!r}")


def check_between(name: str, value: object, least: float, most: float) -> None:
    """Raise UsageError for a value that is no number, or beyond the limits."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        wanted = f"between {written(least)} and {written(most)}" if isfinite(most) else f"at least {written(least)}"
        raise UsageError(f"{name} must be {wanted}, not {value!r}")


def check_choice(what: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise UsageError for a value that is none of these."""
    if value not in choices:
        *others, last = map(str, choices)
        raise UsageError(f"{what} must be {', '.join(others)} or {last}, not {value!r}")


def check_datagram(name: str, size_bytes: int) -> None:
    """Raise UsageError if no datagram can have that size."""
    if not DATAGRAM_MIN_BYTES <= size_bytes <= DATAGRAM_MAX_BYTES:
        raise UsageError(f"{name} must be {DATAGRAM_MIN_BYTES} to {DATAGRAM_MAX_BYTES}, not {size_bytes}")


def check_texts(what: str, values: object) -> list[str]:
    """Several texts, such as names of queues. A single one is refused: it would be read letter by letter.

    Raises UsageError: that is no list of texts.
    """
    if isinstance(values, Iterable) and not isinstance(values, str):
        found = list(values)
        if all(isinstance(one, str) for one in found):
            return found
    raise UsageError(f"{what} must be a list of texts, not {values!r}")


def check_life(what: str, seconds: Any) -> None:
    """Raise UsageError for a lifetime that is no number of seconds above 0."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST_LIFE_S:
        raise UsageError(f"{what} must be a number of seconds, above 0 and at most {LONGEST_LIFE_S}, not {seconds!r}")


def check_timeout(what: str, timeout: object) -> None:
    """Raise UsageError for a timeout that is neither None (no limit) nor seconds of at least 0."""
    if timeout is not None:
        _check_seconds(f"{what}: timeout", timeout, zero=True)
