"""Shared by the tests of chaos."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.tools.chaos.scenes import Scene, plan_of

Make = Callable[..., Scene]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes a scene of a plan; its disks are closed after the test."""
    with ExitStack() as stack:

        def build(*streams: Any, **changes: Any) -> Scene:
            return stack.enter_context(closing(Scene(plan_of(*streams, **changes))))

        yield build
