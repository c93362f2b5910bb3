"""Units of time. Inside Triack every duration is an integer of nanoseconds; the public API uses seconds."""

from functools import lru_cache

_KEPT = 256
"""Cached durations: settings have fewer, and each session has some."""

MS = 1_000_000
"""A millisecond."""
SECOND = 1_000_000_000
"""A second."""

_LONG_NS = 1 * SECOND
"""A wait of this length or more may end a quarter of a second early."""
_STEP_NS = 250 * MS
"""Long waits end four times a second: to wake a process costs six times as much as to end one more wait."""


def end_ns(at_ns: int, wait_ns: int) -> int:
    """When a wait ends that must end by ``at_ns`` and need not be exact."""
    return at_ns if wait_ns < _LONG_NS else at_ns // _STEP_NS * _STEP_NS


def in_ns(seconds: float) -> int:
    """A duration of the public settings in nanoseconds; equal ones share one object."""
    return _in_ns(seconds)


@lru_cache(maxsize=_KEPT)
def _in_ns(seconds: float) -> int:
    return round(seconds * SECOND)
