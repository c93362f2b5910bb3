"""All scopes: a bounded look in the suite, a long one, on every core, for ``make exhaustive``."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from itertools import repeat
from multiprocessing import get_context
from typing import Any

from proof.search.chain import CHAIN_SCOPES, search_chain
from proof.search.relay import RELAY_SCOPES, search_relay
from proof.search.scopes import SCOPES
from proof.search.search import Search, SearchResult

STATES = 150_000
"""States of one scope, in the long run: well over a million in all."""
FAIR_RUNS = 200


def run_scope(index: int, states: int = STATES) -> SearchResult:
    """Search one of ``SCOPES``, or of the scopes behind them, up to ``states`` states: of a relay, and of a chain."""
    relay, chain = index - len(SCOPES), index - len(SCOPES) - len(RELAY_SCOPES)
    if chain >= 0:
        return search_chain(CHAIN_SCOPES[chain], states)
    if relay >= 0:
        return search_relay(RELAY_SCOPES[relay], states, fair_runs=FAIR_RUNS)
    return Search(SCOPES[index]).run(states, fair_runs=FAIR_RUNS)


def run_all(states: int = STATES, say: Callable[[str], None] = lambda _line: None, jobs: int = 0) -> list[SearchResult]:
    """Search every scope."""
    results = []
    for result in _results(states, jobs or os.cpu_count() or 1):
        results.append(result)
        extent = "all there is" if result.complete else f"to depth {result.depth}"
        found = result.violation or "no promise broken"
        say(
            f"{result.scope}: {result.states:,} states, {result.transitions:,} steps, {extent}, "
            f"{result.fair_runs} fair ends, {result.seconds:.1f} s: {found}"
        )
        for line in result.trace:
            say(f"  {line}")
    return results


def _results(states: int, jobs: int) -> Iterator[SearchResult]:
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_scope, range(len(SCOPES) + len(RELAY_SCOPES) + len(CHAIN_SCOPES)), repeat(states))


def as_json(result: SearchResult) -> dict[str, Any]:
    """One object with all figures."""
    return asdict(result)
