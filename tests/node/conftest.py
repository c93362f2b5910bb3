"""A node, and the two ways to it: the object in its process, and a client of it over its control socket."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import triack
from tests.node.nodes import Face, make, quick
from triack.node.files import private_files


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[triack.Node]:
    async with make("a", tmp_path / "a", "udp", settings=quick(max_redeliveries=1)) as node:
        yield node


@pytest.fixture
async def client(node: triack.Node, tmp_path: Path) -> AsyncIterator[triack.Client]:
    async with triack.connect(tmp_path / "a") as client:
        yield client


@pytest.fixture
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that changed are seen at once."""
    monkeypatch.setattr(private_files, "POLL_SECONDS", 0.01)


@pytest.fixture(params=["node", "client"])
async def face(node: triack.Node, request: pytest.FixtureRequest) -> AsyncIterator[Face]:
    """A test with this runs twice: what applications hold is the same on both."""
    if request.param == "node":
        yield node
        return
    data = node._data  # noqa: SLF001 - each file makes its own node
    assert data is not None
    async with triack.connect(data) as client:
        yield client
