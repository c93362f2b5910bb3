"""Brokers for the tests of bridges."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.bridges.brokers import Mosquitto, mosquitto
from tests.tools.bridges.rabbits import Rabbit, rabbit


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with mosquitto(tmp_path / "mosquitto") as running:
        yield running


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rabbit]:
    with rabbit(tmp_path_factory.mktemp("rabbitmq")) as running:
        yield running
