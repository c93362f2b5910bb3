"""Endpoints that are closed after the test, and the features that the system has for them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.transport.endpoints import Opener
from triack.transport.endpoint import Endpoint
from triack.transport.opening import open_endpoint

LISTEN = {"udp": "udp://127.0.0.1:0", "tcp": "tcp://127.0.0.1:0", "memory": None}


@pytest_asyncio.fixture
async def opened() -> AsyncIterator[Opener]:
    endpoints: list[Endpoint] = []

    async def open_one(scheme: str, listen: str | None = "any", **options: Any) -> Endpoint:
        endpoints.append(await open_endpoint(scheme, LISTEN[scheme] if listen == "any" else listen, **options))
        return endpoints[-1]

    yield open_one
    for endpoint in endpoints:
        await endpoint.close()


@pytest.fixture(params=["batched", "portable"])
def socket_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both kinds of UDP socket, one after the other: as this system offers them, and as one without batches does."""
    if request.param == "portable":
        monkeypatch.setattr("triack.transport.udp.offers_batches", lambda _sock: False)
    return str(request.param)
