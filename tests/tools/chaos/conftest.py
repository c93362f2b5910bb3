"""Shared by the tests of chaos."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.tools.chaos.scenes import Scenario, plan_of

Make = Callable[..., Scenario]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes a scene of a plan; its disks are closed after the test."""
    with ExitStack() as stack:

        def build(*streams: Any, **changes: Any) -> Scenario:
            return stack.enter_context(closing(Scenario(plan_of(*streams, **changes))))

        yield build
