"""The worlds that are searched: each is another one, and small enough."""

from proof.search.scopes import SCOPES
from triack.base.delivery import Delivery


def test_names_and_stories_tell_scopes_apart() -> None:
    """A result names its scope, so no two share a name, and no two are the same world."""
    assert len({scope.name for scope in SCOPES}) == len({scope.story for scope in SCOPES}) == len(SCOPES)
    assert len({(scope.parts, scope.still, scope.window, scope.history, scope.echoes) for scope in SCOPES}) == len(
        SCOPES
    )


def test_together_they_have_all_that_can_befall_a_node() -> None:
    """Every class, and death, orderly end, a lost path, reading and both sides connecting."""
    parts = [part for scope in SCOPES for part in scope.parts]
    assert {part.delivery for part in parts} == set(Delivery)
    for what in ("crashes", "stops", "breaks", "reads", "sends", "ready", "patience"):
        assert any(getattr(part, what) for part in parts), what
    assert any(all(part.ready + part.sends for part in scope.parts) for scope in SCOPES)


def test_a_node_that_dies_may_connect_again() -> None:
    """Else its world would end there and prove nothing of the time after."""
    for scope in SCOPES:
        for part in scope.parts:
            assert part.sessions > part.crashes or part.crashes + part.stops == 0, scope.name
