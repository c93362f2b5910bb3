"""Whether the clocks of a session's two ends agree with what caused what.

The monotonic clocks of two machines have no common origin, so only differences can be compared. A packet that leaves
one end at ``a`` and arrives at the other at ``b`` bounds the offset of their clocks from above: it is at most
``b - a``. A packet in the other direction bounds it from below. Honest clocks may do this:

- run at another rate: a clock that is set right by steps of its rate runs up to 500 ppm off with ntpd, up to 8.4 % with
  chrony. Two of them, in opposite directions, differ by less than a fifth (``RATE``);
- stand still each time the virtual machine is paused: the offset jumps, and stays. This looks the same as a clock that
  was set, so a jump never counts as a violation. A host that suspends several machines stops their clocks one after
  the other, fractions of a second apart (``STEP_NS``).

So an arrival precedes its send only if the packets that went back just before and just after it confirm that, and a
clock is slow only if it loses more than a fifth in three quarters of the parts of a session.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from triack.tools.replay.checks.moments import Moments

RATE: Final = 0.2
"""How much slower one clock may run than the other: see above."""
STEP_NS: Final = 500_000_000
"""How far an arrival must precede its send."""
WINDOWS: Final = 8
"""Parts of a session, each judged by itself: a pause falls into one of them, or into two."""
WINDOW_NS: Final = 200_000_000
"""No part is shorter. Round trips are added to what passes at the other end: one of 10 ms hides a quarter of less."""
WINDOWS_MIN: Final = 6
"""In fewer parts a few pauses of a virtual machine look like a slow clock."""
_LEAST: Final = -(1 << 62)


class Pair(NamedTuple):
    """Something that left one end and arrived at the other: when, by the clock of each, and with which record."""

    left_ns: int
    came_ns: int
    n: int = 0


def pairs_of(left: Moments, came: Moments) -> list[Pair]:
    """Return what left one end and arrived at the other, by the time at which it left."""
    known = left.sorted()
    found = (Pair(sent.at_ns, moment.at_ns, moment.n) for moment in came if (sent := known.of(moment.last)) is not None)
    return sorted(found)


def arrivals_before(out: list[Pair], back: list[Pair]) -> Iterator[tuple[Pair, int]]:
    """Yield what came before it had left, and by how many nanoseconds at least."""
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
    """Return the share of its time that the other end's clock loses at least, in most of a session; 0 for none.

    Between sending something back and receiving what left after that came, more time must pass there than here.
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
    lost.sort()
    # A quarter of the windows lose at most this share; all others lose at least as much.
    return lost[len(lost) // 4] if len(lost) >= WINDOWS_MIN and lost[len(lost) // 4] > RATE else 0.0


def _lost_within(out: list[Pair], returns: list[Pair], start_ns: int, end_ns: int) -> float | None:
    """Return the share of a window that passed here and not there; None if too little went each way to say."""
    half_ns = (start_ns + end_ns) // 2
    began = returns[bisect_left(returns, Pair(start_ns, _LEAST)) : bisect_left(returns, Pair(half_ns, _LEAST))]
    ended = out[bisect_left(out, Pair(half_ns, _LEAST)) : bisect_left(out, Pair(end_ns, _LEAST))]
    if not began or not ended:
        return None
    # Those that were least on their way, which add least to what passes there.
    first, last = max(began, key=_headway), min(ended, key=_headway)
    here_ns, there_ns = last.left_ns - first.left_ns, last.came_ns - first.came_ns
    return 1 - there_ns / here_ns


def _headway(pair: Pair) -> float:
    """How far the other end's clock is, beside one that loses as much as an honest one may."""
    return pair.came_ns - (1 - RATE) * pair.left_ns
