"""The exhaustive search: nothing is found where nothing is wrong, and every planted bug with the steps to it."""

import os
import subprocess
import sys

import pytest

from proof.planted.bug import Bug
from proof.planted.catalogue import BUGS
from proof.planted.run import search_for
from proof.planted.worlds import RECOVERABLE
from proof.search.chain import CHAIN_SCOPES
from proof.search.relay import RELAY_SCOPES
from proof.search.run import run_all
from proof.search.scope import Scope
from proof.search.scopes import SCOPES
from proof.search.search import Search
from tests.machine import PATIENCE_S

STATES, FAIR_RUNS = 100, 20
DEEP = {
    "numbers are used again after a restart",
    "an order ack is said only once",
    "messages come again after a restart without a word",
    "a stream's position is forgotten by a restart",
    "the position is not in the commit of the messages",
}
"""Found by ``make teeth``, as all are, behind more states than others."""


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(SCOPES)), ids=[scope.name for scope in SCOPES])
def test_no_promise_breaks_in_the_first_states_of_every_scope(index: int) -> None:
    """A hundred of each, and a fair end from states spread over them; ``make exhaustive`` goes on."""
    result = Search(SCOPES[index]).run(STATES, fair_runs=FAIR_RUNS)
    assert (result.scope, result.violation) == (SCOPES[index].name, None)
    assert result.states >= STATES or result.complete
    assert result.fair_runs > 10


@pytest.mark.slow
def test_all_scopes_are_searched_and_told_of() -> None:
    """In the order of the list, whichever process is done first."""
    said: list[str] = []
    results = run_all(10, said.append, jobs=2)
    names = [scope.name for scope in (*SCOPES, *RELAY_SCOPES, *CHAIN_SCOPES)]
    assert [result.scope for result in results] == names
    assert [line.partition(":")[0] for line in said] == names
    assert {result.violation for result in results} == {None}


@pytest.mark.slow
def test_a_whole_world_is_searched_to_its_end() -> None:
    """A message, and its receiver dies: every order of events, with and without each datagram."""
    result = Search(RECOVERABLE).run(100_000, fair_runs=10)
    assert (result.complete, result.violation) == (True, None)
    assert result.states > 1_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "bug", [bug for bug in BUGS if isinstance(bug.scope, Scope) and bug.name not in DEEP], ids=lambda bug: bug.name
)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its sentence and the shortest way to it."""
    assert isinstance(bug.scope, Scope)
    bug.plant(monkeypatch)
    result = search_for(bug.scope)
    assert result.violation is not None
    assert bug.says in result.violation
    assert result.trace


@pytest.mark.slow
def test_the_same_search_finds_the_same_states() -> None:
    """Whatever the hash seed is."""
    code = (
        "from proof.search.scopes import SCOPES\nfrom proof.search.search import Search\n"
        "result = Search(SCOPES[0]).run(200)\nprint(result.states, result.transitions, result.depth)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_S,
        ).stdout
        for hash_seed in ("0", "777")
    }
    assert len(found) == 1
