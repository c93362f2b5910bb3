"""The two ways to a node: the object in its process, and a client of it over its control socket."""

from collections.abc import AsyncIterator

import pytest

import triack
from tests.node.nodes import Face


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
