"""The exhaustive search: nothing is found where nothing is wrong, and every planted mistake with the steps to it."""

import os
import subprocess
import sys

import pytest

from tests.tools.search.mutations import MUTATIONS, Mutation
from triack.tools.search.run import run_all
from triack.tools.search.scopes import SCOPES
from triack.tools.search.search import Search

STATES = 6_000


@pytest.mark.slow
def test_no_promise_breaks_in_the_first_states_of_every_scope() -> None:
    """Some thousand of each, and a fair end from states spread over them; ``triack chaos --exhaustive`` goes on."""
    said: list[str] = []
    results = run_all(STATES, said.append)
    assert [(result.scope, result.violation) for result in results] == [(scope.name, None) for scope in SCOPES]
    assert all(result.states >= STATES or result.complete for result in results)
    assert all(result.fair_runs > 100 for result in results)
    assert len(said) == len(SCOPES)


@pytest.mark.slow
def test_a_whole_world_is_searched_to_its_end() -> None:
    """A message, and both nodes die: every order of events, with and without each datagram."""
    (scope,) = (scope for scope in SCOPES if scope.name == "crash")
    result = Search(scope).run(100_000, fair_runs=50)
    assert (result.complete, result.violation) == (True, None)
    assert result.states > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_planted_mistake_is_found(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its sentence and the shortest way to it."""
    mutation.plant(monkeypatch)
    result = Search(mutation.scope).run(60_000, fair_runs=200)
    assert result.violation is not None
    assert mutation.says in result.violation
    assert result.trace


def test_the_same_search_finds_the_same_states() -> None:
    """Whatever the hash seed is."""
    code = (
        "from triack.tools.search.scopes import SCOPES\nfrom triack.tools.search.search import Search\n"
        "result = Search(SCOPES[0]).run(2_000)\nprint(result.states, result.transitions, result.depth)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for hash_seed in ("0", "1", "777")
    }
    assert len(found) == 1
