"""The small worlds of planted bugs: each is sound as long as nothing is planted."""

import pytest

from proof.planted.worlds import ALL
from proof.search.scope import Scope
from proof.search.search import Search


def test_each_has_a_name_of_its_own() -> None:
    """By which a report tells where a bug was found."""
    assert len({scope.name for scope in ALL}) == len(ALL)


@pytest.mark.slow
@pytest.mark.parametrize("scope", ALL, ids=lambda scope: scope.name)
def test_nothing_is_found_where_nothing_is_planted(scope: Scope) -> None:
    """Whatever the search says of a bug comes from the bug."""
    assert Search(scope).run(200, fair_runs=10).violation is None
