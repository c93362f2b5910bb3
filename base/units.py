"""Units of time. Inside Triack every duration is an integer of nanoseconds; at its surface, seconds."""

__all__ = ["MS", "SECOND", "US", "in_ns"]

US = 1_000
"""A microsecond."""
MS = 1_000_000
"""A millisecond."""
SECOND = 1_000_000_000
"""A second."""


def in_ns(seconds: float) -> int:
    """A duration of the public settings, as the machines take it."""
    return round(seconds * SECOND)
