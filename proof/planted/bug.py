"""A planted bug: a small, realistic mistake that is put into the running Triack, and where it must be found.

A bug changes classes and tables through a ``Patch`` before anything uses them. It never changes files.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol, TypeAlias

from proof.planted.stories import Story
from proof.search.scope import Scope
from triack.base.errors import ChaosError


class Patch(Protocol):
    """Changes the running program; ``pytest.MonkeyPatch`` does, and undoes that when its test is over."""

    def setattr(self, target: object, name: str, value: object, /) -> None:
        """Give a class or module another value by a name that it has."""

    def setitem(self, table: Mapping[Any, Any], key: Any, value: Any, /) -> None:
        """Put another value in a table under a key that it has."""


Plant: TypeAlias = Callable[[Patch], None]


class ForGood:
    """Changes its own process, and undoes nothing."""

    def setattr(self, target: object, name: str, value: object, /) -> None:
        """Give a class or module another value by a name that it has."""
        if not hasattr(target, name):
            raise ChaosError(f"patch {target!r}: it has no {name}")
        setattr(target, name, value)

    def setitem(self, table: Mapping[Any, Any], key: Any, value: Any, /) -> None:
        """Put another value in a table under a key that it has."""
        if key not in table or not isinstance(table, dict):
            raise ChaosError(f"patch a table: it has no {key!r}")
        table[key] = value


@dataclass(frozen=True, slots=True)
class Bug:
    """One mistake.

    Attributes:
        seeds: whether a campaign of ``triack chaos`` must find it.
        scope: the small world in which the exhaustive search must find it, or the story that does; or None.
        says: words of the sentence that they report.
        first: the seed with which the campaign begins.
    """

    name: str
    plant: Plant
    seeds: bool = True
    scope: Scope | Story | None = None
    says: str = ""
    first: int = 0


def _in_place_of(stand_in: Callable[..., Any], right: object, name: str) -> Plant:
    """Plant a function in the place of a class or module's own, which becomes its first argument."""

    @wraps(stand_in)
    def plant(patch: Patch) -> None:
        own, signature = getattr(right, name), inspect.signature(stand_in)

        def planted(*arguments: Any, **named: Any) -> Any:
            return stand_in(own, *arguments, **named)

        planted.__name__ = name  # by which the search finds it again in a copy of what holds it
        planted.__signature__ = signature.replace(parameters=[*signature.parameters.values()][1:])  # type: ignore[attr-defined]
        patch.setattr(right, name, planted)

    return plant


@dataclass(frozen=True, slots=True)
class Always:
    """Plants a method that returns one value, whatever it gets, and does nothing."""

    value: object
    home: type
    name: str

    def __call__(self, patch: Patch) -> None:
        """Plant it."""

        def planted(*_arguments: Any, **_named: Any) -> object:
            return self.value

        planted.__name__ = self.name  # as above
        planted.__signature__ = inspect.signature(getattr(self.home, self.name))  # type: ignore[attr-defined]
        patch.setattr(self.home, self.name, planted)


class Bugs(list[Bug]):
    """The bugs of one room. Each function that plants one states above it where it must be found.

    Such a function gets a ``Patch``; or, with a class or module and a name, it replaces what has that name. ``Always``
    is such a function, too.
    """

    def __init__(self, first: int = 0) -> None:
        super().__init__()
        self._first = first

    def by_seeds(self, name: str, *place: Any) -> Callable[[Callable[..., Any]], Plant]:
        """List a bug that a campaign finds."""
        return self._lister(name, place, seeds=True)

    def by_search(
        self, name: str, scope: Scope | Story, says: str, *place: Any
    ) -> Callable[[Callable[..., Any]], Plant]:
        """List a bug that the exhaustive search finds, or a story."""
        return self._lister(name, place, seeds=False, scope=scope, says=says)

    def by_both(self, name: str, scope: Scope | Story, says: str, *place: Any) -> Callable[[Callable[..., Any]], Plant]:
        """List a bug that each of them finds."""
        return self._lister(name, place, seeds=True, scope=scope, says=says)

    def _lister(
        self, name: str, place: tuple[Any, ...], *, seeds: bool, scope: Scope | Story | None = None, says: str = ""
    ) -> Callable[[Callable[..., Any]], Plant]:
        def add(function: Callable[..., Any]) -> Plant:
            plant = _in_place_of(function, *place) if place else function
            self.append(Bug(name, plant, seeds, scope, says, self._first))
            return plant

        return add
