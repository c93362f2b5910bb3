"""Which engine ``--engine auto`` takes: the one that will be done first, by what both took when they were measured."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from triack.tools.replay.log.listing import Listed

BYTES_PER_S: Final = 10_000_000
"""What the judges read in a second of one processor: 3.5 MB of logs full of losses, 25 MB of logs without any."""
FILE_S: Final = 0.004
"""What a file costs beside its bytes: 449 files of 10 KB took 3.1 s of processor time, their bytes alone 1.3 s."""
SPARK_START_S: Final = 15
"""Spark's start, its plans and the second count."""
SPARK_MORE: Final = 1.5
"""How much more processor time the same records take on Spark: they travel between processes."""


def choose(logs: Iterable[Listed]) -> tuple[str, str]:
    """Return the engine that suits logs, and why, in words."""
    sizes = [listed.size for listed in logs]
    free = free_processors()
    local_s = sum(sizes) / BYTES_PER_S + len(sizes) * FILE_S
    spark_s = SPARK_START_S + SPARK_MORE * local_s / free
    engine = "spark" if spark_s < local_s else "local"
    size = f"{sum(sizes):,} bytes in {len(sizes):,} files"
    times = f"local takes about {local_s:,.0f} s, spark {spark_s:,.0f} s on {free} free processors"
    return engine, f"{engine}: {size}, of which {times}"


def free_processors() -> int:
    """Return how many processors of this machine nobody uses, at least one."""
    try:
        busy = os.getloadavg()[0]
    except OSError:  # the system does not tell
        busy = 0.0
    return max(1, round((os.cpu_count() or 1) - busy))
