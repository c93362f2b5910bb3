"""When messages of a topic were dispatched, by their places, in memory that does not grow with their number."""

from array import array
from bisect import bisect_left

GRAINS = 1_000
"""Number of times that are kept for one timeout: an age is at most a thousandth of it too small, and never too large.
"""


class DispatchTimes:
    """The times of one topic; ages above ``timeout_ns`` are alike."""

    def __init__(self, timeout_ns: int) -> None:
        self._timeout_ns = timeout_ns
        # The last place of each group of messages, ascending, and when the last of them was dispatched.
        self._lasts = array("Q")
        self._times_ns = array("Q")

    def add(self, last: int, now_ns: int) -> None:
        """All messages up to a place are dispatched by now."""
        lasts, times_ns = self._lasts, self._times_ns
        if len(times_ns) > 1 and now_ns - times_ns[-2] < self._timeout_ns // GRAINS:
            lasts[-1], times_ns[-1] = last, now_ns
            return
        lasts.append(last)
        times_ns.append(now_ns)
        if len(lasts) > 2 * GRAINS:
            # All that are older than the timeout are one group, which is as old as its youngest.
            old = max(0, bisect_left(times_ns, now_ns - self._timeout_ns) - 1)
            del lasts[:old], times_ns[:old]

    def set_timeout(self, timeout_ns: int) -> None:
        """Ages above this are alike from now on."""
        self._timeout_ns = timeout_ns

    def of(self, place: int) -> int:
        """When the message at a place was dispatched, or hardly later."""
        return self._times_ns[bisect_left(self._lasts, place)]
