"""A node, and a client of it that is in the same loop."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import triack
from tests.node.nodes import make, quick
from triack.node.client.client import Client


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[triack.Node]:
    async with make("a", tmp_path / "a", "udp", settings=quick(max_redeliveries=1)) as node:
        yield node


@pytest.fixture
async def client(node: triack.Node, tmp_path: Path) -> AsyncIterator[Client]:
    async with triack.connect(tmp_path / "a") as client:
        yield client
