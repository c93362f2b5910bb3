"""Waits of the tests of endpoints."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.machine import PATIENCE_S
from triack.base.reasons import DropReason
from triack.transport.endpoint import Endpoint
from triack.transport.turns import Received

TIMEOUT_SECONDS = PATIENCE_S

Opener = Callable[..., Awaitable[Endpoint]]
"""Opens an endpoint of a scheme, at any address or at a given one, for as long as the test takes."""


async def received(endpoint: Endpoint, count: int) -> list[Received]:
    found: list[Received] = []
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while len(found) < count:
            found += await endpoint.receive()
    assert len(found) == count
    return found


async def dropped(endpoint: Endpoint, reason: DropReason) -> int:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not endpoint.drops[reason]:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.001)
    return endpoint.drops[reason]
