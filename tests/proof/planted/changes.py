"""A patch that looks closely at what is changed, for the tests of each room's bugs."""

import inspect
from collections.abc import Mapping
from typing import Any

import pytest

from proof.planted.bug import Bug


class Changes:
    """Makes the changes through ``pytest.MonkeyPatch``, and keeps which they were."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self._patch = monkeypatch

    def setattr(self, target: object, name: str, value: object, /) -> None:
        old = inspect.getattr_static(target, name)
        self._compare(name, old, value)
        self._patch.setattr(target, name, value)
        self.made.append(f"{getattr(target, '__name__', target)}.{name}")

    def setitem(self, table: Mapping[Any, Any], key: Any, value: Any, /) -> None:
        self._compare(repr(key), table[key], value)
        self._patch.setitem(table, key, value)
        self.made.append(repr(key))

    def _compare(self, name: str, old: object, new: object) -> None:
        """Something else takes its place, and can be called as it was."""
        assert old != new, f"{name} stays what it is"
        old, new = (function_of(value) for value in (old, new))
        if inspect.isfunction(old):
            assert inspect.isfunction(new), f"{name} was a function"
            taken, given = (list(inspect.signature(function).parameters.values()) for function in (old, new))
            assert [(one.name, one.kind) for one in taken] == [(one.name, one.kind) for one in given], name


def function_of(value: object) -> object:
    if isinstance(value, property):
        return value.fget
    return inspect.unwrap(value.__func__ if isinstance(value, classmethod) else value)  # type: ignore[arg-type]


def changes_of(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    changes = Changes(monkeypatch)
    bug.plant(changes)
    return changes.made
