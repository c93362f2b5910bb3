"""Units of time. Inside Triack every duration is an integer of nanoseconds; at its surface, seconds."""

from functools import lru_cache

_KEPT = 256
"""Durations that are kept: of settings there are fewer, and each session has some."""

US = 1_000
"""A microsecond."""
MS = 1_000_000
"""A millisecond."""
SECOND = 1_000_000_000
"""A second."""

_LONG_NS = 1 * SECOND
"""A wait of this length may end by a quarter of a second sooner."""
_STEP_NS = 250 * MS
"""Long waits end four times a second, as a process that wakes costs six times what one more of them does."""


def end_ns(at_ns: int, wait_ns: int) -> int:
    """When a wait really ends that should end at ``at_ns`` at the latest, and need not be exact."""
    return at_ns if wait_ns < _LONG_NS else at_ns // _STEP_NS * _STEP_NS


def in_ns(seconds: float) -> int:
    """A duration of the public settings, as the machines take it; the same object for all that are equal."""
    return _in_ns(seconds)


@lru_cache(maxsize=_KEPT)
def _in_ns(seconds: float) -> int:
    return round(seconds * SECOND)
