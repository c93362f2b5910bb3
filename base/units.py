"""Units of time. Inside Triack every duration is an integer of nanoseconds."""

__all__ = ["MS", "SECOND", "US"]

US = 1_000  # nanoseconds
MS = 1_000_000  # nanoseconds
SECOND = 1_000_000_000  # nanoseconds
