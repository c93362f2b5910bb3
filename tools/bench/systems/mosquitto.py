"""Mosquitto, MQTT with QoS 2: exactly once on each of the two hops, as long as nothing is restarted."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Self

import aiomqtt

from triack.tools.bench.application import Inlet, Outlet, Sink

_TOPIC = "bench"
QOS = 2
IN_FLIGHT = 1_000


def _client(options: dict[str, Any]) -> aiomqtt.Client:
    quiet = logging.getLogger("triack.bench.mqtt")
    quiet.setLevel(logging.ERROR)  # it warns of every call beyond ten that waits
    return aiomqtt.Client("127.0.0.1", port=options["server"]["port"], max_inflight_messages=IN_FLIGHT, logger=quiet)


class MosquittoOutlet(Outlet):
    """Publishes a batch at a time, and waits for its four steps."""

    batch = IN_FLIGHT

    def __init__(self, options: dict[str, Any]) -> None:
        self._client = _client(options)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.__aexit__(None, None, None)

    async def put(self, bodies: Sequence[bytes]) -> None:
        """One batch."""
        await asyncio.gather(*(self._client.publish(_TOPIC, body, qos=QOS) for body in bodies))

    async def settle(self) -> None:
        """Does nothing: the broker has all messages already."""


class MosquittoInlet(Inlet):
    """Subscribes with QoS 2."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._client = _client(options)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        await self._client.subscribe(_TOPIC, qos=QOS)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.__aexit__(None, None, None)

    async def run(self, sink: Sink) -> None:
        """Read the messages."""
        async for message in self._client.messages:
            sink.take([bytes(message.payload)])
