"""A plant's broker, an office's, and a link between them that is down for a while: ``python -m proof bridges``.

A publisher gives numbers to the plant's mosquitto at QoS 1. Mosquitto's own bridge passes them on, or Triack: a gateway
beside the plant's broker, and a cloud beside the office's. While the link is down, the process that passes messages on
is killed once and started again. Lost is what the plant's broker acknowledged, and the office never got.

With ``--away N`` the cloud is never there, and the memory of a gateway that accepts N messages is measured.
"""

import asyncio
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import triack
from triack.base.errors import TriackError
from triack.tools.bench.process import peak_bytes
from triack.tools.demo.relay import Relay
from triack.tools.ports import free_port

RATE, OUTAGE_S = 2_000, 60.0
BEFORE_S, AFTER_S = 5.0, 10.0
QUIET_S = 20.0
"""After this long without a message nothing more comes: a bridge tries again at least as often."""
TICK_S = 0.01
PROBE_S = 0.2
FIRST = -1
START_S = 60.0
IN_FLIGHT = 2_000
BODY = 100
KEYS = 'key = "{topic} {payload}"\n[keys]\nlifetime_s = 20\n'
"""Messages that the broker resends after the kill count once; at this rate no more keys are kept than there may be."""
BROKER = ["allow_anonymous true", "max_inflight_messages 0"]
KEEPS_ALL = ["max_queued_messages 0"]
WRITES = ["persistence true", "autosave_on_changes true", "autosave_interval 1"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened to the messages."""

    acknowledged: int
    lost: int
    repeated: int


class _Process:
    """A process that can be killed and started again."""

    def __init__(self, folder: Path, name: str, command: list[str], ready: bytes) -> None:
        self._log, self._command, self._ready = folder / f"{name}.log", command, ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The running process."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it, and wait until it is ready."""
        with self._log.open("ab") as log:
            before = log.tell()
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)  # noqa: ASYNC220 - it does not wait
        await _until(lambda: self._ready in self._log.read_bytes()[before:], f"{self._log.stem} is ready")

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class _TcpLink:
    """A way to a port that can be cut."""

    def __init__(self, target: int) -> None:
        self.port, self._target = free_port(), target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def heal(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.close()
        while self._writers:  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(TICK_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, onward = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._pass_on(reader, onward), self._pass_on(there, writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while content := await reader.read(1 << 16):
                writer.write(content)
                await writer.drain()
        except OSError:
            pass  # the other end has gone, or the link was cut
        finally:
            self._writers.discard(writer)
            writer.close()


def _client(port: int, name: str) -> paho.Client:
    lasting = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    lasting.SessionExpiryInterval = 3_600
    client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5)
    client.max_inflight_messages_set(IN_FLIGHT)
    client.max_queued_messages_set(0)
    client.reconnect_delay_set(1, 1)
    client.connect("127.0.0.1", port, clean_start=False, properties=lasting)
    return client


class _Publisher:
    """Publishes numbers at a rate, in a thread, until it is stopped."""

    def __init__(self, port: int, rate: float, most: int | None = None) -> None:
        self.acked = set[int]()
        # Numbers with their packet ids, and packet ids that were acknowledged: the other thread only adds some.
        self._sent, self._done = deque[tuple[int, int]](), set[int]()
        self._rate, self._most, self._stopping = rate, most, threading.Event()
        self._client = _client(port, "sensor")
        self._client.on_publish = lambda _client, _data, mid, *_said: self._done.add(mid)
        self._client.loop_start()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        began_s, number = time.monotonic(), 0
        while not self._stopping.wait(TICK_S):
            due = int((time.monotonic() - began_s) * self._rate)
            due = due if self._most is None else min(due, self._most)
            while number < due and len(self._sent) < 2 * IN_FLIGHT:
                self._sent.append((number, self._client.publish(f"t/{number % 10}", str(number).zfill(BODY), 1).mid))
                number += 1
            self._look()

    def _look(self) -> None:
        while self._sent and self._sent[0][1] in self._done:
            number, mid = self._sent.popleft()
            self._done.discard(mid)
            self.acked.add(number)

    def stop(self) -> None:
        """Stop publishing."""
        self._stopping.set()
        self._thread.join()
        self._look()
        self._client.disconnect()
        self._client.loop_stop()


class _Scene:
    """Two brokers, and the folder of all."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.folder, self.stack = folder, stack
        self.plant, self.office = free_port(), free_port()
        self.came = Counter[int]()

    async def broker(self, name: str, port: int, *lines: str) -> _Process:
        """Start a mosquitto."""
        home = self.folder / name
        home.mkdir()
        said = [f"listener {port} 127.0.0.1", *BROKER, f"persistence_location {home}/", "user root", *lines]
        (home / "conf").write_text("\n".join(said) + "\n")
        program = shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
        if program is None:
            raise TriackError("no mosquitto on this machine: apt-get install mosquitto")
        return await self._run(name, [program, "-c", str(home / "conf")], b" running")

    async def node(self, name: str, *lines: str) -> _Process:
        """Start a node with a bridge."""
        file = self.folder / f"{name}.toml"
        file.write_text("\n".join([f'[node]\nname = "{name}"\ndata = "{self.folder / name}"', *lines]) + "\n")
        command = [sys.executable, "-m", "triack", "serve", "--insecure", "--config", str(file)]
        return await self._run(name, command, b"listening ")

    async def _run(self, name: str, command: list[str], ready: bytes) -> _Process:
        process = _Process(self.folder, name, command, ready)
        self.stack.callback(process.kill)
        await process.start()
        return process

    def listen(self) -> None:
        """Note what arrives at the office."""
        client = _client(self.office, "reader")
        client.on_message = lambda _client, _data, message: self.came.update((int(message.payload),))
        client.subscribe("#", 1)
        client.loop_start()
        self.stack.callback(client.loop_stop)
        self.stack.callback(client.disconnect)


Link = tuple[_Process, Callable[[], Any], Callable[[], Any]]


async def _mosquitto(scene: _Scene, *lines: str) -> Link:
    await scene.broker("office", scene.office, *KEEPS_ALL)
    link = _TcpLink(scene.office)
    await link.heal()
    scene.stack.push_async_callback(link.cut)
    bridge = ["connection office", f"address 127.0.0.1:{link.port}", "topic # out 1", "cleansession false"]
    bridge += ["restart_timeout 1", "notifications false"]
    plant = await scene.broker("plant", scene.plant, *lines, *bridge)
    return plant, link.cut, link.heal


async def _triack(scene: _Scene) -> Link:
    """A gateway reads from the plant's broker, and a cloud gives to the office's."""
    await scene.broker("office", scene.office, *KEEPS_ALL)
    await scene.broker("plant", scene.plant, *KEEPS_ALL)
    at = free_port()
    link = Relay(target=f"udp://127.0.0.1:{at}")
    await link.start()
    scene.stack.push_async_callback(link.close)
    give = f'[[bridges]]\nname = "office"\nmqtt = "mqtt://127.0.0.1:{scene.office}"\ngive = ["all -> {{mqtt-topic}}"]'
    await scene.node("cloud", f'listen = "udp://127.0.0.1:{at}"', give)
    gateway = await _gateway(scene, link.address, KEYS)

    async def change(call: Callable[[], None]) -> None:
        call()

    return gateway, lambda: change(link.cut), lambda: change(link.heal)


async def _gateway(scene: _Scene, cloud: str, keys: str = "") -> _Process:
    bridge = f'[[bridges]]\nname = "plant"\nmqtt = "mqtt://127.0.0.1:{scene.plant}"\ntake = ["# -> {cloud}/all"]\n'
    return await scene.node("gateway", bridge + keys)


WAYS: dict[str, Callable[[_Scene], Any]] = {
    "mosquitto as it comes": lambda scene: _mosquitto(scene, "persistence true"),
    "mosquitto that writes and keeps all": lambda scene: _mosquitto(scene, *KEEPS_ALL, *WRITES),
    "Triack": _triack,
}


@asynccontextmanager
async def _scene() -> AsyncIterator[_Scene]:
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="triack-bridges-"))
        yield _Scene(Path(folder), stack)


async def outage(way: str, rate: float, seconds: float) -> Outcome:
    """Have the link down for a while, and kill what passes messages on in the middle of that."""
    async with _scene() as scene:
        process, cut, heal = await WAYS[way](scene)
        scene.listen()
        await asyncio.to_thread(_until_one_passes, scene)
        publisher = _Publisher(scene.plant, rate)
        await asyncio.sleep(BEFORE_S)
        await cut()
        await asyncio.sleep(seconds / 2)
        process.kill()
        await process.start()
        await asyncio.sleep(seconds / 2)
        await heal()
        await asyncio.sleep(AFTER_S)
        await asyncio.to_thread(publisher.stop)
        scene.came.pop(FIRST)
        last, since_s = -1, time.monotonic()
        while time.monotonic() - since_s < QUIET_S:
            if scene.came.total() != last:
                last, since_s = scene.came.total(), time.monotonic()
            await asyncio.sleep(TICK_S)
        lost = publisher.acked - scene.came.keys()
        return Outcome(len(publisher.acked), len(lost), last - len(scene.came))


def _until_one_passes(scene: _Scene) -> None:
    client = _client(scene.plant, "first")
    client.loop_start()
    end_s = time.monotonic() + START_S
    while FIRST not in scene.came:
        if time.monotonic() > end_s:
            raise TriackError(f"not within {START_S:g} s: a first message comes to the office")
        client.publish("t/first", str(FIRST), 1)
        time.sleep(PROBE_S)
    client.disconnect()
    client.loop_stop()


async def away(messages: int, say: Callable[[str], None]) -> None:
    """Let a gateway accept messages for a cloud that is away, and say how much memory it has needed."""
    async with _scene() as scene:
        await scene.broker("plant", scene.plant, *KEEPS_ALL)
        gateway = await _gateway(scene, f"udp://127.0.0.1:{free_port()}")
        async with triack.connect(scene.folder / "gateway", start_timeout=START_S) as node:
            publisher, step = _Publisher(scene.plant, messages, messages), max(1, messages // 10)
            for at in range(step, messages + 1, step):
                while (await node.stats()).bridges[0].taken < at:  # noqa: ASYNC110 - it only counts
                    await asyncio.sleep(0.1)
                say(f"{at:>9,} messages taken: at most {peak_bytes(gateway.pid) / 2**20:.0f} MiB")
            await asyncio.to_thread(publisher.stop)


async def _until(holds: Callable[[], object], what: str) -> None:
    end_s = time.monotonic() + START_S
    while not holds():
        if time.monotonic() > end_s:
            raise TriackError(f"not within {START_S:g} s: {what}")
        await asyncio.sleep(TICK_S)
