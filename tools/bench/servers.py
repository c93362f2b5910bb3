"""The brokers that some peers need: started on loopback with their own directory, and ended again."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from triack.base.errors import TriackError
from triack.tools.ports import free_port

START_S = 60.0
END_S = 20.0
LOOK_S = 0.05

Command = tuple[list[str], dict[str, str]]


def _redis(port: int, folder: Path) -> Command:
    # Every write is synced before it is answered. The snapshots that it would make beside that cost only time.
    options = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""]
    return ["redis-server", *options, "--appendonly", "yes", "--appendfsync", "always"], {}


def _nats(port: int, folder: Path) -> Command:
    file = folder / "nats.conf"
    # It would disconnect a reader that is 64 MiB behind.
    file.write_text(f'host: "127.0.0.1"\nport: {port}\nmax_pending: 1GB\n')
    return ["nats-server", "-c", str(file)], {}


def _mosquitto(port: int, folder: Path) -> Command:
    file = folder / "mosquitto.conf"
    limits = "max_inflight_messages 0\nmax_queued_messages 0\npersistence false\nset_tcp_nodelay true\n"
    file.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n{limits}")
    return ["mosquitto", "-c", str(file)], {}


def _rabbitmq(port: int, folder: Path) -> Command:
    places = {
        "HOME": str(folder),
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
    }
    return ["rabbitmq-server"], places


SERVERS: dict[str, Callable[[int, Path], Command]] = {
    "redis": _redis,
    "nats": _nats,
    "mosquitto": _mosquitto,
    "rabbitmq": _rabbitmq,
}


@contextlib.asynccontextmanager
async def running(name: str, folder: Path) -> AsyncIterator[dict[str, Any]]:
    """The server that a peer needs, while the block runs: its ``port`` and ``pid``, or nothing if it needs none."""
    if name not in SERVERS:
        yield {}
        return
    port = free_port()
    said, command, places = _prepare(name, port, folder)
    with said.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=out, stderr=out, cwd=folder, env={**os.environ, **places}, start_new_session=True
        )
    try:
        await _listening(process, port, said)
        yield {"port": port, "pid": process.pid}
    finally:
        await _end(process)


async def _listening(process: asyncio.subprocess.Process, port: int, said: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.returncode is None:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()
            return
        await asyncio.sleep(LOOK_S)
    raise TriackError(f"bench: the server of a peer did not start: {_last_line(said)}")


def _prepare(name: str, port: int, folder: Path) -> tuple[Path, list[str], dict[str, str]]:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "server.out", *SERVERS[name](port, folder)


def _last_line(said: Path) -> str:
    lines = said.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


async def _end(process: asyncio.subprocess.Process) -> None:
    for end in (process.terminate, process.kill):
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                end()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), END_S)
