"""Plants each bug in a separate process, and lets the proofs that must find it look for it.

``python -m proof.planted.run "the window is off by one"`` looks for one, in this process.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from types import MappingProxyType
from typing import NamedTuple

from proof.planted.bug import Bug, ForGood
from proof.planted.catalogue import BUGS, bug_named
from proof.planted.stories import Story
from proof.search.scope import Scope
from proof.search.search import Search, SearchResult
from triack.base.errors import ChaosError
from triack.tools.chaos.campaign import Report, run_campaign

SEEDS_MAX = 1_500
"""Seeds tried for each bug; the rarest needs a thousand."""
STATES = 60_000
FAIR_RUNS = 200
MISFITS = ("TypeError", "AttributeError", "NameError")
"""The errors that Python raises for a bug written for other code than there is: no run has found the bug then."""


class Found(NamedTuple):
    """How a bug was found.

    Attributes:
        seed: the seed that failed, -1 if none did, or none was to be tried.
        said: what the search or the story reported; empty if it found nothing, or was not to look.
    """

    bug: Bug
    seed: int = -1
    rule: str = ""
    sentence: str = ""
    said: str = ""

    @property
    def by_seeds(self) -> bool:
        """Whether a campaign found it."""
        return self.seed >= 0

    @property
    def by_search(self) -> bool:
        """Whether the search found it, by the sentence that was expected."""
        return self.bug.scope is not None and bool(self.said) and self.bug.says in self.said

    @property
    def whole(self) -> bool:
        """Whether everything found it that must."""
        return self.by_seeds >= self.bug.seeds and self.by_search >= (self.bug.scope is not None)

    @property
    def looked(self) -> str:
        """What looked into a small world."""
        return "story" if isinstance(self.bug.scope, Story) else "search"

    @property
    def finders(self) -> list[str]:
        """What found it: a seed, with the rule that it broke; the search of a world, or its story."""
        by_seeds = [f"seed {self.seed}: {self.rule}"] if self.by_seeds else []
        if self.by_search and self.bug.scope is not None:
            return [*by_seeds, f"{self.looked}: {self.bug.scope.name}"]
        return by_seeds

    @property
    def told(self) -> str:
        """For people."""
        told = []
        if self.bug.seeds:
            told.append(f"seed {self.seed} {self.rule}: {self.sentence}" if self.by_seeds else "found by no seed")
        if self.bug.scope is not None:
            told.append(f"{self.looked} of {self.bug.scope.name}: {self.said or 'nothing'}")
            if self.said and not self.by_search:
                told[-1] += f" (not {self.bug.says!r})"
        return "; ".join(told)


def hunt_all(
    bugs: Iterable[Bug] = BUGS,
    *,
    seeds_max: int = SEEDS_MAX,
    known: Mapping[str, int] = MappingProxyType({}),
    jobs: int = 0,
    say: Callable[[Found], None] = lambda _found: None,
) -> list[Found]:
    """Plant each bug in a fresh process, and look for it there."""
    results = []
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as hunters:
        for found in hunters.map(partial(_hunt_apart, seeds_max=seeds_max, known=known), bugs):
            say(found)
            results.append(found)
    return results


def _hunt_apart(bug: Bug, seeds_max: int, known: Mapping[str, int]) -> Found:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        try:
            return process.submit(hunt, bug, seeds_max, known.get(bug.name)).result()
        except Exception as cause:
            raise ChaosError(f"plant {bug.name!r}: {type(cause).__name__}: {cause}") from cause


def hunt(bug: Bug, seeds_max: int = SEEDS_MAX, known: int | None = None) -> Found:
    """Plant a bug in this process for good, and look for it: with the known seed, and if that fails to, with all."""
    bug.plant(ForGood())
    found = Found(bug)
    if bug.scope is not None:
        said = bug.scope.run() if isinstance(bug.scope, Story) else search_for(bug.scope).violation or ""
        found = found._replace(said=said)
    if bug.seeds:
        again = _first_failure(known, 1) if known is not None else None
        failure = again or _first_failure(bug.first, seeds_max)
        if failure is not None:
            rule, sentence = failure.violations[0]
            found = found._replace(seed=failure.seed, rule=rule, sentence=sentence)
    return found


def _first_failure(first: int, seeds: int) -> Report | None:
    for failure in run_campaign(first, seeds, jobs=1, fail_fast=True).failures:
        rule, sentence = failure.violations[0]
        if rule == "crash" and sentence.startswith(MISFITS):
            raise ChaosError(sentence)
        return failure
    return None


def search_for(scope: Scope) -> SearchResult:
    """Search a small world with what is planted now."""
    return Search(scope).run(STATES, fair_runs=FAIR_RUNS)


if __name__ == "__main__":
    result = hunt(bug_named(sys.argv[1]))
    sys.stdout.write(f"{result.bug.name}: {result.told}\n")
    sys.exit(0 if result.whole else 1)
