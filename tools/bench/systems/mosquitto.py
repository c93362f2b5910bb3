"""Mosquitto, MQTT with QoS 2: exactly once on each of the two hops, as long as nothing is restarted."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Self

import aiomqtt

from triack.tools.bench.application import Inlet, Outlet, Sink, SystemEnd

_TOPIC = "bench"
QOS = 2
IN_FLIGHT = 1_000


class _Connected(SystemEnd):
    """An end with a client of the broker."""

    def __init__(self, options: dict[str, Any]) -> None:
        quiet, port = logging.getLogger("triack.bench.mqtt"), options["server"]["port"]
        quiet.setLevel(logging.ERROR)  # it warns of every call beyond ten that waits
        self._client = aiomqtt.Client("127.0.0.1", port=port, max_inflight_messages=IN_FLIGHT, logger=quiet)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.__aexit__(None, None, None)


class MosquittoOutlet(_Connected, Outlet):
    """Publishes a batch at a time, and waits for its four steps."""

    batch = IN_FLIGHT

    async def put(self, bodies: Sequence[bytes]) -> None:
        """One batch."""
        await asyncio.gather(*(self._client.publish(_TOPIC, body, qos=QOS) for body in bodies))


class MosquittoInlet(_Connected, Inlet):
    """Subscribes with QoS 2."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self._client.subscribe(_TOPIC, qos=QOS)
        return self

    async def run(self, sink: Sink) -> None:
        """Read the messages."""
        async for message in self._client.messages:
            sink.take([bytes(message.payload)])
