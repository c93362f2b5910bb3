"""Which counters of a direction have come, so that no datagram is accepted twice (RFC 4303, section 3.4.3; RFC 6479).

The window ends at the greatest counter so far, and never goes back: older counters than the window's count as seen.
"""

WINDOW = 8_192
"""Remembered counters: more than a path reorders by. One bit each makes 1 KiB for a direction with losses; one without
needs none."""
_ALL = (1 << WINDOW) - 1  # cuts to the window


class ReplayWindow:
    """Remembers the last ``WINDOW`` counters by those that have not come: an honest path has few of these.

    Attributes:
        newest: the greatest counter so far; -1 before the first.
        missing: those of the window that have not come: bit n for the counter n before the newest.
    """

    __slots__ = ("missing", "newest")

    def __init__(self) -> None:
        self.newest = -1
        self.missing = 0

    def has(self, counter: int) -> bool:
        """Whether it has come, or is too old to tell."""
        behind = self.newest - counter
        return behind >= 0 and (behind >= WINDOW or not self.missing >> behind & 1)

    def take(self, counter: int) -> None:
        """Note a counter that came and was authentic; ``has`` was False."""
        ahead = counter - self.newest
        if ahead < 0:
            self.missing ^= 1 << -ahead
            return
        self.newest = counter
        if ahead > 1 or self.missing:
            shift = ahead if ahead < WINDOW else WINDOW
            self.missing = (self.missing << shift | ((1 << shift - 1) - 1) << 1) & _ALL
