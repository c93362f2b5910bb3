"""Bridges to a RabbitMQ as an operator meets them: in triack.toml, in ``triack status`` and ``check``, and by hand."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from aio_pika.abc import AbstractChannel, AbstractQueue

from tests.tools.bridges.rabbits import Rabbit, channel_of, fresh_queue
from tests.tools.bridges.test_amqp import publish, taken_from
from tests.tools.bridges.test_served import is_up, stats_of
from tests.tools.processes import Server, start, triack, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.gate]

T = TypeVar("T")


def told(data: Path, text: bytes) -> bool:
    return text in triack("status", "--data", data).stdout


def at(broker: Rabbit, work: Callable[[AbstractChannel], Awaitable[T]]) -> T:
    async def done() -> T:
        async with channel_of(broker) as channel:
            return await work(channel)

    return asyncio.run(done())


def order(broker: Rabbit, *bodies: bytes) -> None:
    at(broker, lambda channel: publish(channel, "orders", bodies))


async def clear(channel: AbstractChannel) -> AbstractQueue:
    await fresh_queue(channel, "orders")
    return await fresh_queue(channel, "out")


async def answer(channel: AbstractChannel) -> bytes:
    (message,) = await taken_from(await channel.get_queue("out"), 1)
    return message.body


def test_a_node_runs_the_bridges_of_its_file_and_says_that_the_broker_is_away(tmp_path: Path, rabbitmq: Rabbit) -> None:
    at(rabbitmq, clear)
    file, data = tmp_path / "triack.toml", tmp_path / "gate"
    rules = 'take = ["orders -> here"]\ngive = ["commands -> /out"]'
    file.write_text(f'[[bridges]]\nname = "office"\namqp = "{rabbitmq.url}"\n{rules}\n')
    with Server(data, "--config", file) as server:
        wait_until(lambda: is_up(data, "office"), "the bridge is up")
        order(rabbitmq, b"six pumps")
        assert triack("receive", "here", "--count", "1", "--create", "--data", data).stdout == b"six pumps\n"
        shown = triack("status", "--data", data).stdout.decode()
        assert [line.split()[:6] for line in shown.splitlines() if line.startswith("office")] == [
            ["office", rabbitmq.url, "up", "1", "0", "0"]
        ]
        triack("send", "commands", "--data", data, stdin=b"start\n")
        assert at(rabbitmq, answer) == b"start"
        assert "office" in triack("top", "--once", "--data", data).stdout.decode()
        rabbitmq.kill()
        wait_until(lambda: told(data, b"trouble: bridge office is not connected"), "it is told")
        assert b"not connected" in triack("check", "--data", data).stdout
        rabbitmq.start()
        wait_until(lambda: is_up(data, "office"), "it connects")
        assert not told(data, b"trouble")
        order(rabbitmq, b"nine seals")
        assert triack("receive", "here", "--count", "1", "--data", data).stdout == b"nine seals\n"
        file.write_text("")
        triack("reload", "--data", data)
        assert stats_of(data) == []
        assert server.stop() == 0


def test_a_bridge_by_hand_goes_on_after_the_node_was_killed(tmp_path: Path, rabbitmq: Rabbit) -> None:
    at(rabbitmq, clear)
    data = tmp_path / "gate"
    with Server(data) as server:
        bridge = start("bridge", "amqp", rabbitmq.url, "--take", "orders -> all", "--data", data, "-v")
        assert bridge.stdout is not None
        assert bridge.stdout.readline().startswith(b"connected")
        order(rabbitmq, b"1")
        assert triack("receive", "all", "--count", "1", "--create", "--data", data).stdout == b"1\n"
        server.kill()
        server.start()
        order(rabbitmq, b"2")
        assert triack("receive", "all", "--count", "1", "--create", "--data", data).stdout == b"2\n"
        bridge.terminate()
        assert bridge.wait() == 0
        assert b"taken" in bridge.communicate()[0]
