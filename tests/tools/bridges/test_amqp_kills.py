"""Bridge, node and RabbitMQ are killed again and again, while messages pass: what is promised is what comes.

The broker has on its disk what it has confirmed. The publisher sends what was not confirmed again, by the same ids.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aio_pika import DeliveryMode, Message

import triack
from tests.machine import PATIENCE_S
from tests.tools.bridges.brokers import judged
from tests.tools.bridges.rabbits import Rabbit, channel_of, fresh_queue
from tests.tools.bridges.test_amqp import taken_from, waiting_in
from tests.tools.bridges.test_kills import ALL, Scenario, bad_link, end_some_time, logged, parts

pytestmark = pytest.mark.slow

MESSAGES, KILLS = 20_000, 10
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
async def scene_of(folder: Path, broker: Rabbit, *options: str, take: bool) -> AsyncIterator[tuple[Any, ...]]:
    """The three processes, a client of the node at the other end of a bad link, and a queue over that link."""
    async with channel_of(broker) as channel:
        for queue in ("orders", "out"):
            await fresh_queue(channel, queue)
    async with AsyncExitStack() as stack:
        node, cloud = (stack.enter_context(logged(folder / name)) for name in ("gate", "cloud"))
        queue = f"{await stack.enter_async_context(bad_link(cloud.address if take else node.address))}/through"
        rule = ("--take", f"orders -> {queue}") if take else ("--give", "through -> /out")
        scene = Scenario(broker, node, *rule, *options, in_order=False)
        stack.callback(scene.close)
        await asyncio.to_thread(scene.wait_connected)
        yield scene, await stack.enter_async_context(triack.connect(cloud.data, patience=None)), queue
    judged(folder / "log")


async def read_all(client: triack.Client, least: int) -> list[triack.Message]:
    """All of the queue, when at least so many messages have come."""
    found: list[triack.Message] = []
    async with client.receive("through") as queue:
        while len(found) < least:
            found += await queue.get_many(timeout=PATIENCE_S)
        try:
            while True:
                found += await queue.get_many(timeout=10)
        except triack.WaitTimeout:
            return found


@pytest.mark.parametrize("option", ["--by-message-id", "--no-by-message-id"])
async def test_what_the_broker_had_is_in_the_queue(tmp_path: Path, rabbitmq: Rabbit, option: str) -> None:
    """With message ids, each message once and in order. Without, none is lost."""
    async with scene_of(tmp_path, rabbitmq, option, take=True) as (scene, client, _):
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
    async with scene_of(tmp_path, rabbitmq, take=False) as (scene, client, queue):
        for part, whom in parts(MESSAGES, ALL, KILLS):
            bodies, keys = [b"%d" % it for it in part], [str(it) for it in part]
            await asyncio.gather(
                client.send_many(queue, bodies, keys=keys, until="ordered"), end_some_time(scene, whom, part.start)
            )
        async with triack.connect(scene.node.data, patience=None) as gate, asyncio.timeout(PATIENCE_S):
            while (await gate.stats()).queues["through"].messages:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)
    async with channel_of(rabbitmq) as channel:
        out = await channel.get_queue("out")
        came = await taken_from(out, await waiting_in(out))
    print(f"to the broker: {len(came) - MESSAGES} repeats of {MESSAGES}")  # noqa: T201 - for -s
    assert first_times([int(it.body) for it in came]) == list(range(MESSAGES))
    assert len({it.message_id for it in came}) == MESSAGES


def first_times(numbers: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(numbers))
