"""Units of time. Inside Triack every duration is an integer of nanoseconds."""

__all__ = ["MS", "SECOND", "US"]

US = 1_000
"""A microsecond."""
MS = 1_000_000
"""A millisecond."""
SECOND = 1_000_000_000
"""A second."""
