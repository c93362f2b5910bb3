"""The replay window against an oracle that keeps every counter in a set: ``make window``.

Counters come as a bad network brings them: mostly the next, some late, some again, some far ahead. Window and oracle
must agree on each.
"""

import time
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from triack.transport.replay_window import WINDOW, ReplayWindow

COUNTERS = 10_000_000
_KEPT = 1_000_000


class Compared(NamedTuple):
    """The result: how many counters, how many of them were accepted, and on how many the two disagreed."""

    counters: int
    taken: int
    violations: int
    seconds: float


def compare(counters: int = COUNTERS, seed: int = 0) -> Compared:
    """Show ``counters`` counters to both."""
    random, window, start = Random(seed), ReplayWindow(), time.monotonic()
    seen: set[int] = set()
    newest, taken, violations = -1, 0, 0
    for _ in range(counters):
        counter = max(0, newest + _step(random))
        old = counter in seen or newest - counter >= WINDOW
        violations += window.has(counter) != old
        if not old:
            window.take(counter)
            seen.add(counter)
            newest = max(newest, counter)
            taken += 1
            if len(seen) > _KEPT:
                seen = {kept for kept in seen if newest - kept < WINDOW}
    return Compared(counters, taken, violations, round(time.monotonic() - start, 1))


def _step(random: Random) -> int:
    (step,) = random.choices(_STEPS, _WEIGHTS)
    return step(random)


# How often, of a thousand: the next, a little late, late, at the end of the window, skipping some, skipping all.
_STEPS: tuple[Callable[[Random], int], ...] = (
    lambda _: 1,
    lambda random: -random.randrange(64),
    lambda random: -random.randrange(WINDOW + 10),
    lambda random: -WINDOW + random.randrange(-2, 3),
    lambda random: random.randrange(1, 8),
    lambda random: random.randrange(1, 3 * WINDOW),
)
_WEIGHTS = (500, 200, 200, 50, 49, 1)
