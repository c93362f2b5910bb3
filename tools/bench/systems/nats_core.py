"""NATS core: published to the listeners of that moment, and forgotten."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import nats
from nats.aio.msg import Msg

from triack.tools.bench.application import Inlet, Outlet, Sink, SystemEnd
from triack.tools.bench.work import Work

_SUBJECT = "bench"
PENDING_BYTES = 1024 * 1024 * 1024
"""The reader's limit. The server reaches its own first, so the server drops messages, and never the client."""


class _Connected(SystemEnd):
    """An end with a connection to the server."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._url = f"nats://127.0.0.1:{options['server']['port']}"

    async def __aenter__(self) -> Self:
        self._nats = await nats.connect(self._url)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._nats.close()


class NatsOutlet(_Connected, Outlet):
    """Publishes."""

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Publish one after the other."""
        publish = self._nats.publish
        for body in bodies:
            await publish(_SUBJECT, body)
        await asyncio.sleep(0)

    async def settle(self) -> None:
        """Wait until the server has everything; arrivals at the reader are not reported."""
        await self._nats.flush()


class NatsInlet(_Connected, Inlet):
    """Subscribes."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self._readers = Work(**options["work"]).readers or 1
        self._sinks: Sequence[Sink] = ()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        for number in range(self._readers):
            take = partial(self._take, number)
            await self._nats.subscribe(
                _SUBJECT, cb=take, pending_msgs_limit=PENDING_BYTES, pending_bytes_limit=PENDING_BYTES
            )
        await self._nats.flush()
        return self

    async def _take(self, number: int, message: Msg) -> None:
        if self._sinks:
            self._sinks[number].take([message.data])

    async def run(self, sink: Sink) -> None:
        """Read the messages."""
        await self.run_all([sink])

    async def run_all(self, sinks: Sequence[Sink]) -> None:
        """The same with a subscription for each."""
        self._sinks = sinks
        await asyncio.Event().wait()
