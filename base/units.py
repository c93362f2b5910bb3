"""Units of time. Inside Triack every duration is an integer of nanoseconds; at its surface, seconds."""

from functools import lru_cache

__all__ = ["MS", "SECOND", "US", "in_ns"]

_KEPT = 256
"""Durations that are kept: of settings there are fewer, and each session has some."""

US = 1_000
"""A microsecond."""
MS = 1_000_000
"""A millisecond."""
SECOND = 1_000_000_000
"""A second."""


def in_ns(seconds: float) -> int:
    """A duration of the public settings, as the machines take it; the same object for all that are equal."""
    return _in_ns(seconds)


@lru_cache(maxsize=_KEPT)
def _in_ns(seconds: float) -> int:
    return round(seconds * SECOND)
