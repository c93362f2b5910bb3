"""A mosquitto of the system's packages, on loopback and in a folder of its own, and a client of it for the tests."""

import asyncio
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.machine import PATIENCE_S
from triack.tools.ports import free_port
from triack.tools.replay.engines.local_engine import replay_local
from triack.tools.replay.log.files import find_logs
from triack.tools.replay.log.schema import Timeline

PROGRAM = shutil.which("mosquitto", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
MISSING = "no mosquitto on this machine (Debian: apt-get install mosquitto)"


class Broker:
    """A broker that can be ended, killed and started again at the same place.

    Attributes:
        url: as a bridge has it.
    """

    def __init__(self, scheme: str, port: int, log: Path, command: Sequence[str | Path], **options: Any) -> None:
        self.url, self.port = f"{scheme}://127.0.0.1:{port}", port
        self._log, self._command, self._options = log, command, options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=out, **self._options)
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                assert self._process.poll() is None, self._log.read_text()
                assert time.monotonic() < end, f"{self._command!r} does not answer"
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """End it in good order: it writes down what it has."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None


class Mosquitto(Broker):
    """A broker of MQTT.

    Args:
        folder: what it keeps.
        in_flight: messages of QoS 1 and 2 that it leaves unacknowledged; 0 for no limit.
        more: lines of its configuration.
    """

    def __init__(self, folder: Path, in_flight: int = 0, more: Sequence[str] = ()) -> None:
        assert PROGRAM is not None
        port, config = free_port(), folder / "mosquitto.conf"
        lines = [f"listener {port} 127.0.0.1", "allow_anonymous true", "persistence true"]
        lines += [f"persistence_location {folder}/", f"max_inflight_messages {in_flight}", "max_queued_messages 0"]
        # So that a test in which it is killed need not wait for half an hour: it writes what it has at each change.
        lines += ["autosave_on_changes true", "autosave_interval 1", "user root", *more]
        config.write_text("\n".join(lines) + "\n")
        super().__init__("mqtt", port, config.with_suffix(".log"), [PROGRAM, "-c", config])
        self.start()


@contextmanager
def mosquitto(folder: Path, in_flight: int = 0, more: Sequence[str] = ()) -> Iterator[Mosquitto]:
    """A broker while the block runs; without the program, the test is skipped."""
    if PROGRAM is None:
        pytest.skip(MISSING)
    folder.mkdir(exist_ok=True)
    broker = Mosquitto(folder, in_flight, more)
    try:
        yield broker
    finally:
        broker.kill()


@asynccontextmanager
async def client_of(broker: Mosquitto, name: str | None = None) -> AsyncIterator[aiomqtt.Client]:
    """A client; with a name it has a session that stays."""
    lasting = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    lasting.SessionExpiryInterval = 3600 if name else 0
    client = aiomqtt.Client(
        "127.0.0.1",
        broker.port,
        identifier=name,
        protocol=aiomqtt.ProtocolVersion.V5,
        clean_start=name is None,
        properties=lasting,
        timeout=PATIENCE_S,
    )
    async with client:
        yield client


def as_properties(**properties: Any) -> Properties:
    """Properties of a PUBLISH, as paho names them."""
    found = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    for name, value in properties.items():
        setattr(found, name, value)
    return found


async def until(holds: Any, what: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - what others do sets no event here
            await asyncio.sleep(0.01)


def judged(log: Path) -> Timeline:
    """What the session log of a node says of its bridges; all promises were kept."""
    verdict = replay_local(find_logs([log]))
    assert verdict.verdict == "pass", verdict.findings
    assert verdict.timeline is not None
    return verdict.timeline


def publish(broker: Mosquitto, topic: str, payload: str, qos: int = 1) -> None:
    from paho.mqtt.publish import single

    single(topic, payload, qos, hostname="127.0.0.1", port=broker.port)
