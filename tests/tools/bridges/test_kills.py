"""Bridge, node and broker are killed again and again, while messages pass: what each QoS promises is what comes.

The session logs of the nodes show it. A mosquitto that is killed forgets what it has acknowledged since it last wrote
its file. So publishers send again what has not arrived, which a key shows to be the same; where there is no key, the
broker is ended in good order. At QoS 2 without a key it stays: as it starts again, mosquitto 2.0 sends anew what was
received and not completed.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import triack
from tests.tools.bridges.brokers import Mosquitto, judged, until
from tests.tools.bridges.rabbits import Rabbit
from tests.tools.processes import Server, start
from triack.tools.demo.relay import Relay, rough

TOPICS = 10
ALL, WITHOUT_BROKER = ("bridge", "node", "broker"), ("bridge", "node")
LOSS = 0.1
"""Of the datagrams on the link between two nodes, each way."""
ROUND_S = 0.4
"""About how long a process works before the next one is killed."""
LONG = [pytest.mark.slow]
GATE = [pytest.mark.slow, pytest.mark.gate]
KEY = "{topic} {payload}"


class Scenario:
    """The three processes.

    Args:
        broker: the broker.
        node: the node.
        rules: options of the bridge.
        in_order: whether the broker is never killed, but ended.
    """

    def __init__(self, broker: Mosquitto | Rabbit, node: Server, *rules: str, in_order: bool) -> None:
        self.broker, self.node, self._rules, self._in_order = broker, node, rules, in_order
        self._start()

    def _start(self) -> None:
        options = ("--in-flight", "500", "--data", str(self.node.data))
        kind = self.broker.url.partition(":")[0]
        self._bridge = start("bridge", kind, self.broker.url, *self._rules, *options)

    def wait_connected(self) -> None:
        assert self._bridge.stdout is not None
        assert self._bridge.stdout.readline().startswith(b"connected")

    def end(self, whom: str) -> None:
        if whom == "bridge":
            self.close()
            self._start()
        elif whom == "node":
            self.node.restart()
        else:
            self.broker.stop() if self._in_order else self.broker.kill()
            self.broker.start()

    def close(self) -> None:
        self._bridge.kill()
        self._bridge.communicate()


def parts(messages: int, victims: tuple[str, ...], kills: int) -> Iterator[tuple[range, str | None]]:
    """The numbers of messages, a part for each end of a process, and one in which none ends."""
    plan = [*victims] * kills
    random.Random(messages).shuffle(plan)
    for at, whom in enumerate([*plan, None]):
        yield range(messages * at // (len(plan) + 1), messages * (at + 1) // (len(plan) + 1)), whom


async def end_some_time(scene: Scenario, whom: str | None, seed: int) -> None:
    if whom is not None:
        await asyncio.sleep(random.Random(seed).uniform(0, ROUND_S))
        await asyncio.to_thread(scene.end, whom)


def logged(data: Path) -> Server:
    """A node that writes its session log beside its folder, for ``judged``."""
    return Server(data, "--log", data.parent / "log")


@asynccontextmanager
async def bad_link(target: str) -> AsyncIterator[str]:
    """A way to a node that loses datagrams, as its address."""
    relay = Relay(target=target, faults=rough(loss=LOSS), seed=1)
    await relay.start()
    try:
        yield relay.address
    finally:
        await relay.close()


@pytest.mark.parametrize(
    ("messages", "kills", "qos", "key", "over_link"),
    [
        pytest.param(2_000, 1, 1, KEY, False, marks=GATE),
        *(pytest.param(20_000, 10, qos, key, True, marks=LONG) for qos in (1, 2) for key in (KEY, "")),
    ],
)
async def test_what_the_broker_had_is_in_the_queue(
    tmp_path: Path, broker: Mosquitto, messages: int, kills: int, qos: int, key: str, over_link: bool
) -> None:
    """With a key, or at QoS 2: each message once, in order per topic. At QoS 1 without one: none is lost."""
    came: list[tuple[str, int]] = []
    async with AsyncExitStack() as stack:
        node = end = stack.enter_context(logged(tmp_path / "gate"))
        to = "all"
        if over_link:
            end = stack.enter_context(logged(tmp_path / "cloud"))
            to = f"{await stack.enter_async_context(bad_link(end.address))}/all"
        options = ("--take", f"# -> {to}", "--qos", str(qos), *(("--key", key) if key else ()))
        scene = Scenario(broker, node, *options, in_order=not key)
        stack.callback(scene.close)
        await asyncio.to_thread(scene.wait_connected)
        reading = asyncio.create_task(read_all(end.data, came))
        publisher = Publisher(broker, qos)
        stack.callback(publisher.close)
        for part, whom in parts(messages, ALL if key or qos == 1 else WITHOUT_BROKER, kills):
            publisher.publish(part)
            await end_some_time(scene, whom, part.start)
            if whom == "broker" and key:  # it has forgotten something
                publisher.begin_anew()
                publisher.publish(part)
            await until(lambda: len(set(came)) >= part.stop, f"all come until {part.stop}")  # noqa: B023 - awaited here
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    judged(tmp_path / "log")
    assert set(came) == {(topic_of(number), number) for number in range(messages)}
    how = f"{'with' if key else 'without'} a key{', over a bad link' if over_link else ''}"
    print(f"QoS {qos}, {how}: {len(came) - messages} repeats of {messages}")  # noqa: T201 - for -s
    if key or qos == 2:
        assert [it for it, count in Counter(came).items() if count > 1] == []
        for topic in range(TOPICS):
            mine = [number for name, number in came if name == f"t/{topic}"]
            assert mine == sorted(mine)


def topic_of(number: int) -> str:
    return f"t/{number % TOPICS}"


async def read_all(data: Path, came: list[tuple[str, int]]) -> None:
    """Read the queue, whatever becomes of the node: each message once, also if its acknowledgement was lost."""
    seen = set[str]()
    async with triack.connect(data, patience=None) as client, client.receive("all", ack="manual") as queue:
        while True:
            for message in await queue.get_many():
                if message.id not in seen:
                    seen.add(message.id)
                    came.append((message.headers["mqtt-topic"], int(message.body)))
                try:
                    message.ack()
                except triack.HandOverEnded:
                    break  # it comes again


@pytest.mark.parametrize(
    ("messages", "kills", "qos", "over_link"),
    [
        pytest.param(2_000, 1, 2, False, marks=GATE),
        *(pytest.param(20_000, 10, qos, True, marks=LONG) for qos in (1, 2)),
    ],
)
async def test_what_was_in_the_queue_is_at_the_broker(
    tmp_path: Path, broker: Mosquitto, messages: int, kills: int, qos: int, over_link: bool
) -> None:
    """At QoS 2, each message once and in order; at QoS 1 none is lost."""
    came: list[int] = []
    async with AsyncExitStack() as stack:
        node = stack.enter_context(logged(tmp_path / "gate"))
        subscriber = connect(broker.port, "subscriber")
        stack.callback(leave, subscriber)
        subscriber.on_message = lambda _client, _data, message: came.append(int(message.payload))
        subscriber.subscribe("plant", 2)
        scene = Scenario(broker, node, "--give", "commands -> plant", "--qos", str(qos), in_order=True)
        stack.callback(scene.close)
        start, to = node, "commands"
        if over_link:
            start = stack.enter_context(logged(tmp_path / "cloud"))
            to = f"{await stack.enter_async_context(bad_link(node.address))}/commands"
        async with triack.connect(start.data, patience=None) as client:
            for part, whom in parts(messages, ALL if qos == 1 else WITHOUT_BROKER, kills):
                await client.send_many(to, [b"%d" % it for it in part], keys=[str(it) for it in part], until="queued")
                await end_some_time(scene, whom, part.start)
                await until(lambda: len(set(came)) >= part.stop, f"all come until {part.stop}")  # noqa: B023 - awaited here
    judged(tmp_path / "log")
    print(f"to the broker, QoS {qos}: {len(came) - messages} repeats of {messages}")  # noqa: T201 - for -s
    if qos == 2:
        assert came == list(range(messages))
    else:
        assert list(dict.fromkeys(came)) == list(range(messages))


def connect(port: int, name: str) -> paho.Client:
    lasting = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    lasting.SessionExpiryInterval = 3600
    client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5)
    client.max_inflight_messages_set(500)
    client.reconnect_delay_set(1, 1)
    client.connect("127.0.0.1", port, clean_start=False, properties=lasting)
    client.loop_start()
    return client


def leave(client: Any) -> None:
    client.disconnect()
    client.loop_stop()


class Publisher:
    """Publishes numbers. It sends again what a broker that went away has not acknowledged."""

    def __init__(self, broker: Mosquitto, qos: int) -> None:
        self._qos, self._port = qos, broker.port
        self._client = connect(self._port, "publisher")

    def publish(self, numbers: range) -> None:
        for number in numbers:
            self._client.publish(topic_of(number), str(number), self._qos)

    def begin_anew(self) -> None:
        self.close()
        self._client = connect(self._port, f"publisher-{time.monotonic()}")

    def close(self) -> None:
        leave(self._client)
