"""What every test of queues shares."""

from collections.abc import Iterator

import pytest

from tests.queues.world import WORLDS


@pytest.fixture(autouse=True)
def close_worlds() -> Iterator[None]:
    """SQLite must let go of the simulated disks before Python does."""
    yield
    while WORLDS:
        WORLDS.pop().close()
