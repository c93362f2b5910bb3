"""All scopes, one after the other: a bounded look in the suite, a long one for ``triack chaos --exhaustive``."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from triack.tools.search.scopes import SCOPES
from triack.tools.search.search import Search, SearchResult

__all__ = ["STATES", "as_json", "run_all"]

STATES = 150_000
"""States of one scope, in the long run: well over a million in all."""
FAIR_RUNS = 200


def run_all(states: int | None = None, say: Callable[[str], None] = lambda _line: None) -> list[SearchResult]:
    """Search every scope.

    Args:
        states: of each scope at most; None for ``STATES``.
        say: is told of each scope that is done.
    """
    results = []
    for scope in SCOPES:
        result = Search(scope).run(states or STATES, fair_runs=FAIR_RUNS)
        results.append(result)
        extent = "all there is" if result.complete else f"to depth {result.depth}"
        found = result.violation or "no promise broken"
        say(
            f"{scope.name}: {result.states:,} states, {result.transitions:,} steps, {extent}, "
            f"{result.fair_runs} fair ends, {result.seconds:.1f} s: {found}"
        )
        for line in result.trace:
            say(f"  {line}")
    return results


def as_json(result: SearchResult) -> dict[str, Any]:
    """One object with all figures."""
    return asdict(result)
