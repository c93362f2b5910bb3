"""Many seeds, on every core, in the order of the seeds: the same campaign gives the same trace."""

import gc
import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import count, islice
from multiprocessing import get_context
from typing import NamedTuple

from triack.base.units import SECOND
from triack.tools.chaos.run import Outcome, run_seed

CHUNK_SEEDS = 8
GC_THRESHOLD = 100_000
"""New objects between two collections in a worker: a world lives as long as its run, and most collections find nothing.
"""


class Report(NamedTuple):
    """The part of one run that is kept."""

    seed: int
    violations: list[tuple[str, str]]
    virtual_ns: int
    events: int
    trace: str
    seen: Counter[str]

    @classmethod
    def of(cls, run: Outcome) -> "Report":
        """Leave out the plan and the logs."""
        return cls(run.plan.seed, run.violations, run.virtual_ns, run.events, run.trace, run.seen)


@dataclass(slots=True)
class Campaign:
    """The results of a campaign; ``failures`` are the runs that broke a promise."""

    seeds: int = 0
    failures: list[Report] = field(default_factory=list)
    seconds: float = 0.0
    virtual_ns: int = 0
    events: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    runs_with: Counter[str] = field(default_factory=Counter)
    _chain: bytes = b""

    def add(self, report: Report) -> None:
        """Count one run, in the order of the seeds."""
        self.seeds += 1
        self.virtual_ns += report.virtual_ns
        self.events += report.events
        self.seen.update(report.seen)
        self.runs_with.update(set(report.seen))
        if report.violations:
            self.failures.append(report)
        self._chain = hashlib.blake2b(self._chain + report.trace.encode(), digest_size=16).digest()

    @property
    def trace(self) -> str:
        """32 hex digits over the traces of all runs, in order."""
        return self._chain.hex()

    def summary(self) -> dict[str, object]:
        """The closing line."""
        seconds = max(self.seconds, 1e-9)
        return {
            "seeds": self.seeds,
            "violations": len(self.failures),
            "seconds": round(self.seconds, 1),
            "seeds_per_second": round(self.seeds / seconds, 2),
            "virtual_seconds": round(self.virtual_ns / SECOND, 1),
            "virtual_per_real": round(self.virtual_ns / SECOND / seconds, 1),
            "events": self.events,
            "failing_seeds": [failure.seed for failure in self.failures[:20]],
            "first_violation": self.failures[0].violations[0] if self.failures else None,
            "runs_with": dict(sorted(self.runs_with.items())),
            "trace": self.trace,
        }


def run_campaign(
    first: int,
    seeds: int | None,
    *,
    minutes: float | None = None,
    jobs: int = 0,
    fail_fast: bool = False,
    progress: Callable[[Campaign], None] = lambda _campaign: None,
) -> Campaign:
    """Run seeds ``first``, ``first + 1``, ..."""
    campaign = Campaign()
    start = time.monotonic()
    numbers: Iterator[int] = count(first) if seeds is None else iter(range(first, first + seeds))
    for report in _reports(numbers, jobs or os.cpu_count() or 1):
        campaign.add(report)
        campaign.seconds = time.monotonic() - start
        progress(campaign)
        if (fail_fast and campaign.failures) or (minutes is not None and campaign.seconds >= minutes * 60):
            break
    return campaign


def _reports(numbers: Iterator[int], jobs: int) -> Iterator[Report]:
    if jobs == 1:
        yield from map(_report, numbers)
        return
    # A fresh interpreter for each worker: nothing of this process can leak into a run.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin_worker) as pool:
        waiting = [pool.submit(_run_chunk, chunk) for chunk in islice(_chunks(numbers), 2 * jobs)]
        try:
            while waiting:
                yield from waiting.pop(0).result()
                waiting += [pool.submit(_run_chunk, chunk) for chunk in islice(_chunks(numbers), 1)]
        finally:
            for future in waiting:
                future.cancel()


def _begin_worker() -> None:
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def _chunks(numbers: Iterator[int]) -> Iterator[list[int]]:
    while chunk := list(islice(numbers, CHUNK_SEEDS)):
        yield chunk


def _run_chunk(seeds: list[int]) -> list[Report]:
    return [_report(seed) for seed in seeds]


def _report(seed: int) -> Report:
    return Report.of(run_seed(seed))
