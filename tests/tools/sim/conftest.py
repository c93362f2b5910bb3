"""A disk for each test that asks for one."""

from collections.abc import Iterator
from random import Random

import pytest

from triack.tools.sim.disk import Disk


@pytest.fixture
def disk() -> Iterator[Disk]:
    found = Disk(Random(1))
    yield found
    found.close()
