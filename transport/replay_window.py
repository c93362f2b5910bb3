"""Which counters of a direction have come, so that no datagram is taken twice (RFC 4303, section 3.4.3; RFC 6479).

The window ends at the greatest counter that was taken, and never goes back: what is older than the window counts as
seen.
"""

__all__ = ["WINDOW", "ReplayWindow"]

WINDOW = 8_192
"""Counters that can be told apart: more than a path reorders by, and a power of two, so that a slot is a mask away. A
byte each takes 8 KiB for a direction, and taking the next counter is then one assignment."""
_MASK = WINDOW - 1  # cuts a counter to its slot
_NEVER = bytes(WINDOW)  # every slot empty


class ReplayWindow:
    """Remembers the last ``WINDOW`` counters.

    Attributes:
        newest: the greatest counter that was taken; -1 before the first.
    """

    __slots__ = ("_seen", "newest")

    def __init__(self) -> None:
        self.newest = -1
        self._seen = bytearray(_NEVER)

    def has(self, counter: int) -> bool:
        """Whether it was taken, or is too old to tell."""
        behind = self.newest - counter
        return behind >= 0 and (behind >= WINDOW or self._seen[counter & _MASK] != 0)

    def take(self, counter: int) -> None:
        """It has come, and was authentic; ``has`` was False."""
        skipped = counter - self.newest - 1
        if skipped >= 0:
            if skipped:
                self._forget(counter, skipped)
            self.newest = counter
        self._seen[counter & _MASK] = 1

    def _forget(self, counter: int, skipped: int) -> None:
        """The slots of those that were skipped are those of counters a window ago."""
        if skipped >= WINDOW:
            self._seen[:] = _NEVER
            return
        end = counter & _MASK
        start = end - skipped
        self._seen[max(start, 0) : end] = bytes(end - max(start, 0))
        if start < 0:
            self._seen[start:] = bytes(-start)
