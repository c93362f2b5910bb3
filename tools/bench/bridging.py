"""BRIDGE: messages of QoS 1 between mosquitto and a queue, by a bridge, and by gmqtt, its client, alone.

They are measured in turns. The messages have ten topics in turn, so that no two neighbours are alike.

Inward, a session at the broker has all messages before the clock runs: nothing but the reader works. gmqtt acknowledges
each when a function that only counts has returned; the bridge, when it is on the disk. Outward, the bridge reads them
from a queue; gmqtt alone makes them.
"""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import triack
from triack.tools.bench.figures import Result
from triack.tools.bench.options import Meter, Options
from triack.tools.bench.rows import Row
from triack.tools.bench.servers import running
from triack.tools.demo.progress import beside

TOPIC, TAKER, QUEUE = "bench/hall", "taker", "out"
SESSION_S = 600
LIST_MESSAGES = 5_000
LOOK_S = 0.002
MESSAGES = 20_000
BODY = bytes(100)
TOPICS = 10
IN_FLIGHT = 100

_MISSING = {"gmqtt": "pip install 'triack[mqtt]'", "mosquitto": "apt-get install mosquitto"}


async def measure_bridge(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """Measure both directions, in turns with the bare client."""
    for missing, advice in _MISSING.items():
        if find_spec(missing) is None and shutil.which(missing) is None:
            result.note(f"{missing} is not installed here: {advice}")
            return
    messages = MESSAGES if options.messages is None else options.messages
    async with running("mosquitto", options.folder / "server") as server:
        for number in range(options.runs):
            found: dict[str, float] = {}
            for name, measure in _RUNS.items():
                said = f"{row.name} {name} {number + 1}/{options.runs}"
                meter.begin(said, row.work)
                seconds = await measure(server["port"], options.folder_of(said), messages)
                found[name] = messages / seconds
                meter.say(f"{said}: {found[name]:,.0f} msg/s")
            for way in ("in", "out"):
                result.figures[f"{way}, of gmqtt"].values.append(100 * found[f"{way}, bridge"] / found[f"{way}, gmqtt"])
                result.figures[f"{way}, rate"].values.append(found[f"{way}, bridge"])
    result.verified = True
    result.guarantee = ["complete"]


async def _in_gmqtt(port: int, _folder: Path, messages: int) -> float:
    """Read all that a session has; returns the seconds."""
    came, all_came = [0], asyncio.Event()

    async def take(*_said: object) -> int:  # gmqtt acknowledges only after a coroutine
        came[0] += 1
        if came[0] == messages:
            all_came.set()
        return 0

    async with _client(port):
        pass
    await _publish(port, messages)
    began_s = time.perf_counter()
    async with _client(port, take):
        await all_came.wait()
        seconds = time.perf_counter() - began_s
    await _forget(port)
    return seconds


async def _in_bridge(port: int, folder: Path, messages: int) -> float:
    async with _bridge(port, folder, take=["bench/# -> all"]):
        pass
    await _publish(port, messages)
    async with _bridge(port, folder, take=["bench/# -> all"]) as (node, bridge, began_s):
        while bridge.stats().taken < messages:  # noqa: ASYNC110 - a bridge counts, and sets no event
            await asyncio.sleep(LOOK_S)
        seconds: float = time.perf_counter() - began_s
        assert node.stats().queues["all"].messages == messages, "each is in the queue once"
    await _forget(port)
    return seconds


async def _out_gmqtt(port: int, _folder: Path, messages: int) -> float:
    began_s = time.perf_counter()
    await _publish(port, messages)
    return time.perf_counter() - began_s


async def _out_bridge(port: int, folder: Path, messages: int) -> float:
    async with triack.open("bench", data=folder, insecure=True) as node:
        for sent in range(0, messages, LIST_MESSAGES):
            bodies = [BODY] * min(LIST_MESSAGES, messages - sent)
            await node.send_many(QUEUE, bodies, until="queued")
    async with _bridge(port, folder, give=[f"{QUEUE} -> {TOPIC}"]) as (node, bridge, began_s):
        while bridge.stats().given < messages:  # noqa: ASYNC110 - a bridge counts, and sets no event
            await asyncio.sleep(LOOK_S)
        seconds: float = time.perf_counter() - began_s
        assert node.stats().queues[QUEUE].messages == 0, "the broker has all"
    return seconds


@asynccontextmanager
async def _bridge(port: int, folder: Path, **rules: Any) -> AsyncIterator[Any]:
    from triack.bridges import Bridge, BridgeTable

    table = BridgeTable(
        "b", f"mqtt://127.0.0.1:{port}", client_id=TAKER, session_s=SESSION_S, in_flight=IN_FLIGHT, **rules
    )
    async with triack.open("bench", data=folder, insecure=True) as node:
        bridge, began_s = Bridge(node, table), time.perf_counter()
        async with beside(bridge.run()):
            await bridge.up.wait()
            yield node, bridge, began_s


@asynccontextmanager
async def _client(
    port: int, take: Callable[..., Awaitable[int]] | None = None, name: str = TAKER
) -> AsyncIterator[Any]:
    """Only the client, as the reader with its session and subscription, or a publisher."""
    from gmqtt import Client

    lasting = {"session_expiry_interval": SESSION_S, "receive_maximum": IN_FLIGHT} if name == TAKER else {}
    client = Client(name, clean_session=name != TAKER, optimistic_acknowledgement=False, **lasting)
    if take is not None:
        client.on_message = take
    subscribed = asyncio.Event()
    client.on_subscribe = lambda *_said: subscribed.set()
    await client.connect("127.0.0.1", port)
    if name == TAKER:
        client.subscribe("bench/#", qos=1)
        await subscribed.wait()
    yield client
    await client.disconnect()


async def _publish(port: int, messages: int) -> None:
    room, left = asyncio.Event(), [messages]
    async with _client(port, name="giver") as client:
        handler, in_flight = client._package_handler, [0]  # noqa: SLF001 - it reports no PUBACK
        forget = handler._handle_puback_packet  # noqa: SLF001

        def acked(command: int, packet: bytes) -> None:
            forget(command, packet)
            in_flight[0] -= 1
            room.set()

        handler._handle_puback_packet = acked  # noqa: SLF001
        while left[0] or in_flight[0]:
            while left[0] and in_flight[0] < IN_FLIGHT:
                client.publish(f"{TOPIC}/{left[0] % TOPICS}", BODY, qos=1)
                left[0] -= 1
                in_flight[0] += 1
            room.clear()
            await room.wait()


async def _forget(port: int) -> None:
    from gmqtt import Client

    client = Client(TAKER, clean_session=True)
    await client.connect("127.0.0.1", port)
    await client.disconnect()


_RUNS: dict[str, Callable[[int, Path, int], Awaitable[float]]] = {
    "in, gmqtt": _in_gmqtt,
    "in, bridge": _in_bridge,
    "out, gmqtt": _out_gmqtt,
    "out, bridge": _out_bridge,
}
