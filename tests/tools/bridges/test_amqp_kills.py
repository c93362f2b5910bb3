"""Bridge, node and RabbitMQ are killed again and again, while messages pass: what is promised is what comes.

The broker has on its disk what it has confirmed. The publisher sends what was not confirmed again, by the same ids.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aio_pika import DeliveryMode, Message

import triack
from tests.machine import PATIENCE_S
from tests.tools.bridges.rabbits import Rabbit, channel_of, fresh_queue
from tests.tools.bridges.test_amqp import taken_from, waiting_in
from tests.tools.bridges.test_kills import ALL, Scenario, end_some_time, parts
from tests.tools.processes import Server

pytestmark = pytest.mark.slow

MESSAGES, KILLS = 20_000, 5
RUN = 500
"""Messages that the publisher sends at a time."""


async def publish_all(broker: Rabbit, numbers: range) -> None:
    """Publish numbers, in order, until the broker has confirmed all of them."""
    left = list(numbers)
    while left:
        try:
            async with channel_of(broker) as channel:
                while left:
                    sends = [
                        channel.default_exchange.publish(
                            Message(b"%d" % it, message_id=str(it), delivery_mode=DeliveryMode.PERSISTENT), "orders"
                        )
                        for it in left[:RUN]
                    ]
                    answers = await asyncio.gather(*sends, return_exceptions=True)
                    if any(isinstance(it, BaseException) for it in answers):
                        break
                    del left[:RUN]
        except (OSError, RuntimeError):
            await asyncio.sleep(0.05)


@asynccontextmanager
async def scene_of(folder: Path, broker: Rabbit, *rules: str) -> AsyncIterator[tuple[Scenario, triack.Client]]:
    """The three processes, and a client of the node."""
    async with channel_of(broker) as channel:
        for queue in ("orders", "out"):
            await fresh_queue(channel, queue)
    with ExitStack() as stack:
        node = stack.enter_context(Server(folder / "gate"))
        scene = Scenario(broker, node, *rules, in_order=False)
        stack.callback(scene.close)
        await asyncio.to_thread(scene.wait_connected)
        async with triack.connect(node.data, patience=None) as client:
            yield scene, client


async def read_all(client: triack.Client, least: int) -> list[triack.Message]:
    """All of the queue, when it has at least so many messages."""
    async with asyncio.timeout(PATIENCE_S):
        while (await client.stats()).queues["here"].messages < least:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
    found: list[triack.Message] = []
    async with client.receive("here", ack="manual") as queue:
        while len(found) < least:
            found += await queue.get_many()
        try:
            while True:
                found += await queue.get_many(timeout=2)
        except triack.WaitTimeout:
            return found


@pytest.mark.parametrize("option", ["--by-message-id", "--no-by-message-id"])
async def test_what_the_broker_had_is_in_the_queue(tmp_path: Path, rabbitmq: Rabbit, option: str) -> None:
    """With message ids, each message once and in order. Without, none is lost."""
    async with scene_of(tmp_path, rabbitmq, "--take", "orders -> here", option) as (scene, client):
        for part, whom in parts(MESSAGES, ALL, KILLS):
            await asyncio.gather(publish_all(rabbitmq, part), end_some_time(scene, whom, part.start))
        came = await read_all(client, MESSAGES)
    numbers = [int(it.body) for it in came]
    marked = sum("amqp-again" in it.headers for it in came)
    print(f"{option}: {len(came) - MESSAGES} repeats of {MESSAGES}, {marked} marked")  # noqa: T201 - for -s
    if option == "--by-message-id":
        assert numbers == list(range(MESSAGES))
    else:
        assert first_times(numbers) == list(range(MESSAGES))


async def test_what_was_in_the_queue_is_at_the_broker(tmp_path: Path, rabbitmq: Rabbit) -> None:
    """None is lost, each comes first in its order, and what comes twice has the same message id."""
    async with scene_of(tmp_path, rabbitmq, "--give", "commands -> /out") as (scene, client):
        for part, whom in parts(MESSAGES, ALL, KILLS):
            bodies, keys = [b"%d" % it for it in part], [str(it) for it in part]
            await asyncio.gather(
                client.send_many("commands", bodies, keys=keys, until="queued"),
                end_some_time(scene, whom, part.start),
            )
        async with asyncio.timeout(PATIENCE_S):
            while (await client.stats()).queues["commands"].messages:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)
    async with channel_of(rabbitmq) as channel:
        queue = await channel.get_queue("out")
        came = await taken_from(queue, await waiting_in(queue))
    print(f"to the broker: {len(came) - MESSAGES} repeats of {MESSAGES}")  # noqa: T201 - for -s
    assert first_times([int(it.body) for it in came]) == list(range(MESSAGES))
    assert len({it.message_id for it in came}) == MESSAGES


def first_times(numbers: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(numbers))
