"""Which objects are used: for the promise that what is at rest costs nothing."""

from inspect import getattr_static
from typing import Any

import pytest


def watch(patch: pytest.MonkeyPatch, kind: type, *names: str) -> list[Any]:
    """Return a list that gets every object of a class, each time one of these methods or properties is used."""
    looked: list[Any] = []
    for name in names:
        real: Any = getattr_static(kind, name)

        def look(self: Any, *args: Any, real: Any = real) -> Any:
            looked.append(self)
            found = real.__get__(self)
            return found if isinstance(real, property) else found(*args)

        patch.setattr(kind, name, property(look) if isinstance(real, property) else look)
    return looked
