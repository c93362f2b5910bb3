"""Shared by the tests of chaos."""

from collections.abc import Callable, Iterator

import pytest

from tests.tools.chaos.scenes import Trusting
from triack.tools.chaos.plan import Plan


@pytest.fixture
def make() -> Iterator[Callable[[Plan], Trusting]]:
    """Makes a scene; its disks are closed after the test."""
    made: list[Trusting] = []

    def build(plan: Plan) -> Trusting:
        made.append(Trusting(plan))
        return made[-1]

    yield build
    for scene in made:
        scene.close()
