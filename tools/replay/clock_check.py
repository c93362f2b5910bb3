"""Whether the clocks of a session's two ends agree with what caused what.

Monotonic clocks of two machines begin anywhere, so only differences can be compared. What left one end at ``a`` and
came to the other one at ``b`` bounds the distance of their clocks from above: it is at most ``b - a``. What went the
other way bounds it from below. Honest clocks may do this:

- run at another rate: a clock that is set right by steps of its rate runs up to 500 ppm off with ntpd, up to 8.4 % with
  chrony. Two of them, in opposite directions, differ by less than a fifth (``RATE``);
- stand still, each time its virtual machine is paused: the distance jumps, and stays. Nothing tells that from a clock
  that was set, so a jump is never held against anybody. A host that suspends several machines stops their clocks one
  after the other, with fractions of a second in between (``STEP_NS``).

So an arrival is before its send only if what went back just before it and just behind it says so, and a clock is slow
only if it loses more than a fifth in nearly every part of the session.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from triack.tools.replay.moments import Moments

__all__ = ["Pair", "arrivals_before", "loses", "pairs_of"]

RATE: Final = 0.2
"""By how much less of one clock may pass than of the other: see above."""
STEP_NS: Final = 500_000_000
"""By how much an arrival must be before its send."""
WINDOWS: Final = 8
"""Parts of a session that are looked at, each by itself: a pause is in one of them, or in two."""
WINDOW_NS: Final = 1_000_000_000
"""No part is shorter: then round trips of 50 ms, which are added to what passes at the other end, hide no quarter."""
WINDOWS_MIN: Final = 4
"""In fewer parts a few pauses of a virtual machine look like a slow clock."""
MS: Final = 1_000_000


class Pair(NamedTuple):
    """Something that left one end and came to the other one: when, by the clock of each, and with which record."""

    left_ns: int
    came_ns: int
    n: int = 0


def pairs_of(left: Moments, came: Moments) -> list[Pair]:
    """Return what left one end and came to the other one, by the time at which it left."""
    known = left.sorted()
    found = (Pair(sent.at_ns, moment.at_ns, moment.n) for moment in came if (sent := known.of(moment.last)) is not None)
    return sorted(found)


def arrivals_before(out: list[Pair], back: list[Pair]) -> Iterator[tuple[Pair, int]]:
    """Yield what came before it had left, and by how many nanoseconds at least.

    Args:
        out: what left an end, in order.
        back: what came back to it.
    """
    returns = sorted((pair.came_ns, pair.left_ns - pair.came_ns) for pair in back)
    times = [at_ns for at_ns, _ in returns]
    for pair in out:
        behind, at = bisect_right(times, pair.left_ns), bisect_left(times, pair.left_ns)
        if not behind or at == len(times):
            continue
        distance_ns = pair.came_ns - pair.left_ns
        least_ns = min(
            returns[place][1] - RATE * abs(pair.left_ns - times[place]) - distance_ns for place in (behind - 1, at)
        )
        if least_ns > STEP_NS:
            yield pair, int(least_ns)


def loses(out: list[Pair], back: list[Pair]) -> float:
    """Return the share of its time that the other end's clock loses at least, in nearly all of a session; 0 for none.

    Between sending something back and getting what left behind that, more time must have passed there than here.

    Args:
        out: what left an end, in order.
        back: what came back to it.
    """
    returns = sorted(Pair(pair.came_ns, pair.left_ns) for pair in back)
    if not out or not returns:
        return 0.0
    begin_ns, end_ns = returns[0].left_ns, out[-1].left_ns
    width_ns = max(WINDOW_NS, (end_ns - begin_ns) // WINDOWS)
    lost = [
        share
        for start_ns in range(begin_ns, end_ns - width_ns + 1, width_ns)
        if (share := _lost_within(out, returns, start_ns, start_ns + width_ns)) is not None
    ]
    slow = sorted(share for share in lost if share > RATE)
    if len(lost) < WINDOWS_MIN or len(slow) < len(lost) - len(lost) // WINDOWS:
        return 0.0
    return slow[len(slow) // 2]


def _lost_within(out: list[Pair], returns: list[Pair], start_ns: int, end_ns: int) -> float | None:
    """Return the share of a window that passed here and not there; None if too little went each way to say."""
    first = bisect_left(returns, Pair(start_ns, -(1 << 62)))
    last = bisect_right(out, Pair(end_ns, 1 << 62)) - 1
    if first == len(returns) or last < 0:
        return None
    here_ns = out[last].left_ns - returns[first].left_ns
    there_ns = out[last].came_ns - returns[first].came_ns
    return 1 - there_ns / here_ns if here_ns * 2 >= end_ns - start_ns else None
