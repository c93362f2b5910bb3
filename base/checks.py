"""Checks that all settings share: a number that cannot be is refused where it is given, by name."""

from dataclasses import fields
from typing import Any

from triack.base.errors import UsageError

__all__ = ["DATAGRAM_MAX_BYTES", "DATAGRAM_MIN_BYTES", "check_datagram", "check_numbers"]

DATAGRAM_MIN_BYTES = 576
"""What every IPv4 host takes (RFC 791); an ack with all its ranges fits."""
DATAGRAM_MAX_BYTES = 0xFFFF
"""What the length field of IPv4 and UDP can say (RFC 791, RFC 768)."""


def check_numbers(settings: Any, *, may_be_zero: tuple[str, ...] = ()) -> None:
    """Refuse settings whose numbers cannot be.

    Args:
        settings: a dataclass; its fields that are numbers must be whole and at least 1.
        may_be_zero: those for which 0 has a meaning.

    Raises:
        UsageError: names the field and its value.
    """
    for field in fields(settings):
        value, least = getattr(settings, field.name), int(field.name not in may_be_zero)
        if field.type not in (int, int | None) or (value is None and field.type is not int):
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            kind = type(settings).__name__
            raise UsageError(f"{kind}: {field.name} must be a whole number of at least {least}, not {value!r}")


def check_datagram(name: str, size_bytes: int) -> None:
    """Raises UsageError if no datagram can have that size."""
    if not DATAGRAM_MIN_BYTES <= size_bytes <= DATAGRAM_MAX_BYTES:
        raise UsageError(f"{name} must be {DATAGRAM_MIN_BYTES} to {DATAGRAM_MAX_BYTES}, not {size_bytes}")
