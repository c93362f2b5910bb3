"""A broker for the tests of bridges."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.bridges.brokers import Mosquitto, mosquitto


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    """A mosquitto of its own for each test."""
    with mosquitto(tmp_path / "mosquitto") as running:
        yield running
