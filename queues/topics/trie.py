"""Which subscriptions match a topic: their patterns, by levels.

Promise: a match costs as many steps as the name has levels, and as there are ``*`` on the way, however many patterns
and values there are.
"""

from typing import Generic, TypeVar

from triack.base.names import ALL_BELOW, LEVEL_END, ONE_LEVEL

T = TypeVar("T")


class _Level(Generic[T]):
    """The patterns that begin alike: by the next level, those that end here, and those whose last level is ``#``."""

    __slots__ = ("all", "below", "here")

    def __init__(self) -> None:
        self.below: dict[str, _Level[T]] = {}
        self.here: dict[T, None] = {}
        self.all: dict[T, None] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.below or self.here or self.all)


class Trie(Generic[T]):
    """Values by pattern."""

    __slots__ = ("_top",)

    def __init__(self) -> None:
        self._top: _Level[T] = _Level()

    def add(self, pattern: str, value: T) -> bool:
        """Add a value under a pattern that ``check_pattern`` accepts. Returns whether it is the first one there."""
        levels, ends = _divide(pattern)
        at = self._top
        for level in levels:
            at = at.below.setdefault(level, _Level())
        values = at.all if ends else at.here
        values[value] = None
        return len(values) == 1

    def remove(self, pattern: str, value: T) -> None:
        """Remove a value that was added under this pattern."""
        levels, ends = _divide(pattern)
        path = [self._top]
        for level in levels:
            path.append(path[-1].below[level])
        del (path[-1].all if ends else path[-1].here)[value]
        for level, above, at in reversed(list(zip(levels, path, path[1:], strict=False))):
            if at.is_empty:
                del above.below[level]

    def match(self, name: str) -> list[dict[T, None]]:
        """The values of each pattern that matches a name, in the order of the patterns' levels.

        The result shows values that are added or removed later, except for the first value of a pattern.
        """
        found: list[dict[T, None]] = []
        reached = [self._top]
        for level in name.split(LEVEL_END):
            following: list[_Level[T]] = []
            for at in reached:
                found.append(at.all)
                following += [at.below[key] for key in (level, ONE_LEVEL) if key in at.below]
            reached = following
        for at in reached:
            found += [at.all, at.here]
        return [values for values in found if values]


def stands_for(pattern: str, name: str) -> bool:
    """Whether one pattern matches a name, in as many steps as they have levels."""
    levels, ends = _divide(pattern)
    names = name.split(LEVEL_END)
    if len(names) < len(levels) or (len(names) > len(levels) and not ends):
        return False
    return all(level in (ONE_LEVEL, at) for level, at in zip(levels, names, strict=False))


def _divide(pattern: str) -> tuple[list[str], bool]:
    """The levels of a pattern, and whether it matches all names below them, too."""
    levels = pattern.split(LEVEL_END)
    return (levels[:-1], True) if levels[-1] == ALL_BELOW else (levels, False)
