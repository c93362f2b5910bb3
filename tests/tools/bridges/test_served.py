"""Bridges as an operator meets them: in triack.toml, in ``triack status``, ``check`` and ``top``, and by hand."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
from aio_pika.abc import AbstractChannel

from tests.tools.bridges.brokers import Broker, publish
from tests.tools.bridges.rabbits import Rabbit, channel_of, fresh_queue
from tests.tools.bridges.test_amqp import publish as send_all
from tests.tools.bridges.test_amqp import taken_from
from tests.tools.processes import Server, start, triack, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.gate]
T = TypeVar("T")


def stats_of(data: Path) -> list[dict[str, object]]:
    bridges: list[dict[str, object]] = json.loads(triack("status", "--json", "--data", data).stdout)["bridges"]
    return bridges


def is_up(data: Path, name: str) -> bool:
    return any(it["name"] == name and it["is_up"] for it in stats_of(data))


def at(rabbit: Rabbit, work: Callable[[AbstractChannel], Awaitable[T]]) -> T:
    async def done() -> T:
        async with channel_of(rabbit) as channel:
            return await work(channel)

    return asyncio.run(done())


async def clear(channel: AbstractChannel) -> None:
    for queue in ("orders", "out"):
        await fresh_queue(channel, queue)


async def answer(channel: AbstractChannel) -> bytes:
    (message,) = await taken_from(await channel.get_queue("out"), 1)
    return message.body


class Place(NamedTuple):
    """A broker, what sends to ``orders`` there, and what reads the queue ``out``, if it has queues."""

    broker: Broker
    send: Callable[[str], None]
    answer: Callable[[], bytes] | None = None


@pytest.fixture(params=["mqtt", "amqp"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "mqtt":
        broker = request.getfixturevalue("broker")
        return Place(broker, partial(publish, broker, "orders"))
    rabbit = request.getfixturevalue("rabbitmq")
    at(rabbit, clear)
    orders = partial(send_all, queue="orders")
    return Place(rabbit, lambda body: at(rabbit, partial(orders, bodies=[body.encode()])), lambda: at(rabbit, answer))


def test_a_node_runs_the_bridges_of_its_file_and_takes_up_others(tmp_path: Path, place: Place) -> None:
    """The node says that a broker is away, and why, at its start and later."""
    file, data, broker = tmp_path / "triack.toml", tmp_path / "gate", place.broker
    out = "/out" if place.answer else "out"
    rules = f'take = ["orders -> here"]\ngive = ["commands -> {out}"]'
    table = f'[[bridges]]\nname = "office"\n{broker.url.partition(":")[0]} = "{broker.url}"\n{rules}\n'

    def told() -> str:
        return triack("status", "--data", data).stdout.decode()

    def received() -> bytes:
        return triack("receive", "here", "--count", "1", "--create", "--data", data).stdout

    file.write_text(table)
    broker.stop()
    with Server(data, "--config", file) as server:
        wait_until(lambda: "trouble: bridge office is not connected" in told(), "the node says it")
        assert b"not connected" in triack("check", "--data", data).stdout
        broker.start()
        wait_until(lambda: is_up(data, "office"), "it connects")
        assert "trouble" not in told()
        place.send("six pumps")
        assert received() == b"six pumps\n"
        rows = [line.split()[:6] for line in told().splitlines() if line.startswith("office")]
        assert rows == [["office", broker.url, "up", "1", "0", "0"]]
        assert "office" in triack("top", "--once", "--data", data).stdout.decode()
        if place.answer:
            triack("send", "commands", "--data", data, stdin=b"start\n")
            assert place.answer() == b"start"
        broker.kill()
        wait_until(lambda: "trouble: bridge office is not connected" in told(), "the node says it again")
        broker.start()
        wait_until(lambda: is_up(data, "office"), "it connects again")
        file.write_text(table.replace("office", "others"))
        assert b"in force: bridges.0.name" in triack("reload", "--data", data).stdout
        wait_until(lambda: is_up(data, "others"), "the other bridge is up")
        assert len(stats_of(data)) == 1
        place.send("nine seals")
        assert received() == b"nine seals\n"
        file.write_text("")
        triack("reload", "--data", data)
        assert stats_of(data) == []
        assert server.stop() == 0


def test_a_bridge_by_hand_goes_on_after_the_node_was_killed(tmp_path: Path, place: Place) -> None:
    data, (kind, _, _) = tmp_path / "gate", place.broker.url.partition(":")
    with Server(data) as server:
        rules = ("--take", "orders -> all", *(("--qos", "2") if kind == "mqtt" else ()))
        bridge = start("bridge", kind, place.broker.url, *rules, "--data", data, "-v")
        assert bridge.stdout is not None
        assert bridge.stdout.readline().startswith(b"connected")
        for body in ("1", "2"):
            place.send(body)
            received = triack("receive", "all", "--count", "1", "--create", "--data", data)
            assert received.stdout == f"{body}\n".encode()
            if body == "1":
                server.restart()
        bridge.terminate()
        assert bridge.wait() == 0
        assert b"taken" in bridge.communicate()[0]


@pytest.mark.parametrize(("kind", "client"), [("mqtt", "gmqtt"), ("amqp", "aiormq")])
def test_without_its_client_a_bridge_says_what_to_install(tmp_path: Path, kind: str, client: str) -> None:
    file = tmp_path / "triack.toml"
    file.write_text(f'[[bridges]]\nname = "b"\n{kind} = "{kind}://localhost"\ntake = ["q -> all"]\n')
    code = (
        "import sys, importlib.util as util\n"
        "find = util.find_spec\n"
        f"util.find_spec = lambda name, *rest: None if name == {client!r} else find(name, *rest)\n"
        "from triack.tools.cli import main\n"
        f"main(['serve', '--config', {str(file)!r}, '--data', {str(tmp_path / 'n')!r}, '--insecure'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"pip install 'triack[{kind}]'" in done.stderr
