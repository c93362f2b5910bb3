"""Values over wall time, in buckets that widen as the time that they span grows; two series fold into one exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

GRAIN_BITS: Final = 23
"""The finest bucket is 2^23 ns, 8 ms: finer than anything that a plot can show."""
BUCKETS_MAX: Final = 512
"""Buckets of a series before it takes wider ones: enough for a smooth line, few enough to collect from a cluster."""
JOINS: Final[dict[str, Callable[[int, int], int]]] = {"sum": int.__add__, "max": max}


class Series:
    """Buckets of a power of two of nanoseconds since 1970, with one value each."""

    __slots__ = ("bits", "buckets", "mode")

    def __init__(self, mode: str, bits: int = GRAIN_BITS) -> None:
        self.mode = mode
        self.bits = bits
        self.buckets: dict[int, int] = {}

    def add(self, wall_ns: int, value: int) -> None:
        """Put a value in."""
        bucket = wall_ns >> self.bits
        before = self.buckets.get(bucket)
        self.buckets[bucket] = value if before is None else JOINS[self.mode](before, value)
        if len(self.buckets) > BUCKETS_MAX:
            self.widen(self.bits + 1)

    def widen(self, bits: int) -> None:
        """Make the buckets at least this wide."""
        if bits <= self.bits:
            return
        join, wide = JOINS[self.mode], dict[int, int]()
        for bucket, value in self.buckets.items():
            at = bucket >> bits - self.bits
            wide[at] = join(wide[at], value) if at in wide else value
        self.bits, self.buckets = bits, wide

    def merge(self, other: Series) -> None:
        """Put all values of another series in."""
        self.widen(other.bits)
        shift, join = self.bits - other.bits, JOINS[self.mode]
        for bucket, value in other.buckets.items():
            at = bucket >> shift
            self.buckets[at] = join(self.buckets[at], value) if at in self.buckets else value
        while len(self.buckets) > BUCKETS_MAX:
            self.widen(self.bits + 1)


LATENCY_BUCKETS_PER_DECADE: Final = 8
"""Latency buckets for each factor of ten, from a microsecond upwards: each a third wider than the one before."""


DELAY_BUCKETS_PER_DECADE: Final = 32
"""Narrow buckets, for the percentiles of the report: each is 7.5 % wider than the one before."""


def latency_bucket(latency_ns: int, per_decade: int = LATENCY_BUCKETS_PER_DECADE) -> int:
    """Return the bucket of a latency; buckets are even on a logarithmic scale from a microsecond."""
    return math.floor(math.log10(max(latency_ns, 1000) / 1000) * per_decade)
