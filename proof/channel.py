"""Measures the cost of the secure channel: ``make channel``.

The work of ``triack demo`` without its relay - two processes, stores and session logs on the disk, every message acked
as ordered and checked - is done with keys and without, in turns, so that whatever slows the machine down meanwhile
slows both. Which goes first changes with each pair.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from triack.tools.demo.run import Plan, Transfer, transfer

__all__ = ["COST_MAX", "MESSAGES", "RUNS", "SIZE_BYTES", "TIMEOUT_S", "Cost", "compare"]

COST_MAX = 0.25
"""The promise: the most throughput that keys may cost."""
MESSAGES = 100_000
"""As many as the demo sends."""
SIZE_BYTES = 100
"""As large as the demo's: the most messages a second, so that the cost per datagram counts."""
RUNS = 5
"""Of each kind: two disturbed runs do not move the median of five."""
TIMEOUT_S = 600.0
"""For one run, as in the demo: a hundred times what it takes."""

Say = Callable[[str], object]


class Cost(NamedTuple):
    """The result.

    Attributes:
        secured: messages a second with keys, of each run.
        insecure: the same without.
        secured_median: of the first.
        insecure_median: of the second.
        ratio: of the two medians; 1 would be no cost.
        violations: runs in which a message was lost, doubled, out of order or changed, and one more if the ratio is
            too small.
    """

    secured: list[float]
    insecure: list[float]
    secured_median: float
    insecure_median: float
    ratio: float
    violations: int
    seconds: float


def compare(plan: Plan, runs: int, say: Say) -> Cost:
    """Do the same work ``runs`` times with keys, and as often without."""
    start = time.monotonic()
    rates: dict[bool, list[float]] = {False: [], True: []}
    broken = 0
    for number in range(runs):
        for insecure in (False, True) if number % 2 else (True, False):
            done = _run(replace(plan, insecure=insecure))
            kind = "without keys" if insecure else "with keys"
            say(f"{kind}: {done.delivered:,} messages in {done.seconds:.2f} s, {done.rate:,.0f} a second")
            rates[insecure].append(round(done.rate, 1))
            broken += not _is_whole(done, plan.messages)
    secured, insecure_rates = rates[False], rates[True]
    ratio = median(secured) / median(insecure_rates) if all(insecure_rates) else 0.0
    return Cost(
        secured,
        insecure_rates,
        median(secured),
        median(insecure_rates),
        round(ratio, 3),
        broken + (ratio < 1 - COST_MAX),
        round(time.monotonic() - start, 1),
    )


def _run(plan: Plan) -> Transfer:
    progress = Transfer()
    with tempfile.TemporaryDirectory(prefix="triack-channel-") as folder:
        asyncio.run(transfer(plan, Path(folder), progress))
    return progress


def _is_whole(done: Transfer, messages: int) -> bool:
    wrong = done.duplicates + done.out_of_order + done.corrupt
    return done.delivered == done.ordered == messages and not wrong
