"""RabbitMQ: a quorum queue, which is synced before the broker confirms."""

import asyncio
from collections.abc import Sequence
from typing import Any, Self

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from triack.tools.bench.application import Inlet, Outlet, Sink, SystemEnd

_QUEUE = "bench"
BATCH = 500
"""Messages that wait for their confirms together, and that the reader has leased."""


class _Connected(SystemEnd):
    """An end with a connection to the broker."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._url = f"amqp://guest:guest@127.0.0.1:{options['server']['port']}/"

    async def __aenter__(self) -> Self:
        self._connection = await aio_pika.connect(self._url)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._connection.close()


class RabbitOutlet(_Connected, Outlet):
    """Publishes a batch at a time, and waits for its confirms."""

    batch = BATCH

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        channel = await self._connection.channel(publisher_confirms=True)
        self._exchange = channel.default_exchange
        return self

    async def put(self, bodies: Sequence[bytes]) -> None:
        """One batch."""
        keep = aio_pika.DeliveryMode.PERSISTENT
        messages = [aio_pika.Message(body, delivery_mode=keep) for body in bodies]
        await asyncio.gather(*(self._exchange.publish(message, routing_key=_QUEUE) for message in messages))


class RabbitInlet(_Connected, Inlet):
    """Reads with acknowledgements."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        channel = await self._connection.channel()
        await channel.set_qos(prefetch_count=BATCH)
        await channel.queue_delete(_QUEUE)
        self._queue = await channel.declare_queue(_QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
        return self

    async def run(self, sink: Sink) -> None:
        """Read, acknowledge."""

        async def take(message: AbstractIncomingMessage) -> None:
            sink.take([message.body])
            await message.ack()

        await self._queue.consume(take)
        await asyncio.Event().wait()
