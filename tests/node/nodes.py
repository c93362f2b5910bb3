"""Real nodes on loopback with short timeouts."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import triack
from tests.machine import PATIENCE_S
from triack.base.units import SECOND
from triack.node.control.handover import Served
from triack.node.files.notes import read_note
from triack.node.node import port_of
from triack.node.shell.platform import PLATFORM, Platform
from triack.ordering.order_settings import OrderSettings
from triack.session.protocol.settings import SessionSettings
from triack.stats.node_stats import DiskFigures
from triack.tools.ports import free_port

Face = triack.Node | triack.Client
"""What programs hold of a node: the node itself, or a client of it."""
WAIT = PATIENCE_S
"""Seconds after which a wait that should end has failed."""
SOON = 0.2
"""Seconds after which something has not happened."""
SCHEMES = ["udp", "tcp", "memory"]


def quick(**changes: Any) -> triack.NodeSettings:
    """Settings for tests: acks, retries and closing take no time."""
    wanted: dict[str, Any] = {
        "session": SessionSettings(ack_timeout_min_s=0.2, drain_timeout_s=0.3),
        "order": OrderSettings(order_ack_idle_s=0.02, seq_resend_13_s=0.5),
        "reconnect": triack.Reconnect(first_s=0.01, most_s=0.05),
        "redelivery": triack.Redelivery(first_wait_s=0.02, max_wait_s=0.1),
        "close_timeout_s": 0.02,
        **changes,
    }
    return triack.NodeSettings(**wanted)


def make(name: str = "node", data: Path | None = None, scheme: str | None = None, **more: Any) -> triack.Node:
    """A node that listens on a free address, if ``scheme`` says on what; another may come there after it."""
    listen = {None: None, "memory": f"memory://{name}"}.get(scheme, f"{scheme}://127.0.0.1:{free_port()}")
    more.setdefault("settings", quick())
    return triack.open(name, data=data, listen=listen, insecure=True, **more)


def with_keys(name: str, data: Path | None = None, scheme: str = "udp", **more: Any) -> triack.Node:
    """A node with keys, which listens if ``scheme`` says on what."""
    listen = {"": None, "memory": f"memory://{name}"}.get(scheme, f"{scheme}://127.0.0.1:0")
    return triack.open(name, data=data, listen=listen, settings=quick(), **more)


def control_of(data: Path) -> Path:
    """The control socket of the node that serves a directory."""
    served = read_note(data, Served)
    assert served is not None
    return Path(served.control)


class HangingDisk(DiskFigures):
    """Figures of a disk whose job does not end, whatever jobs of the node end meanwhile."""

    began_ns = property(lambda self: self.since_ns, lambda self, began_ns: None)

    def __init__(self, since_ns: int) -> None:
        self.commits = DiskFigures().commits
        self.since_ns = since_ns


@contextmanager
def hanging_disk(node: triack.Node, seconds: int) -> Iterator[None]:
    """Within the block, the disk of the node has not answered for ``seconds``."""
    port = port_of(node)
    driver = port._driver  # noqa: SLF001 - a disk that hangs takes its thread with it
    with patch.object(driver, "disk", HangingDisk(port.clock() - seconds * SECOND)):
        yield


@contextmanager
def on_platform(platform: Platform) -> Iterator[None]:
    """Nodes that are made within the block run there."""
    before = PLATFORM.set(platform)
    try:
        yield
    finally:
        PLATFORM.reset(before)


async def cancelled_by_others() -> None:
    """As when a pool is closed: what a task waits for is cancelled, and not the task."""
    inner = asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0)
    inner.cancel()
    await inner


async def until(condition: Any) -> None:
    """Wait for what no event tells of; WAIT at most."""
    async with asyncio.timeout(WAIT):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.005)


async def bodies(node: triack.Node, queue: str, count: int) -> list[bytes]:
    async with node.receive(queue) as consumer:
        return [(await consumer.get(WAIT)).body for _ in range(count)]


async def take_acknowledgements(events: AsyncIterable[triack.AckEvent], up_to: int) -> list[int]:
    """The last message of each event until one has that number; negative for failures."""
    told: list[int] = []
    async with asyncio.timeout(WAIT):
        async for event in events:
            told.append(event.last if event.kind is triack.AckKind.ACK else -event.last)
            if event.last >= up_to:
                break
    return told


def open_sync(name: str, data: Path | None = None, *, listen: bool = False) -> triack.sync.SyncNode:
    """A node on a free port, if it is to listen."""
    listening = "udp://127.0.0.1:0" if listen else None
    return triack.sync.open(name, data=data, listen=listening, insecure=True, settings=quick())


async def cancel_at_every_turn(begin: Callable[[], Coroutine[Any, Any, object]], turns: int = 12) -> None:
    """Begin it again and again, cancelled at the first turn of the loop, at the second, and so on."""
    for turn in range(turns):
        task = asyncio.create_task(begin())
        for _ in range(turn):
            await asyncio.sleep(0)
        task.cancel()


def alive(kind: type) -> int:
    """The number of objects of a class that are still referred to."""
    gc.collect()
    return sum(isinstance(it, kind) for it in gc.get_objects())


@contextmanager
def interrupted(*, early: bool = False) -> Iterator[None]:
    """What this thread waits for in here ends with Ctrl-C: when its outcome is there, or before that."""
    result, me = Future.result, threading.current_thread()

    def interrupt(future: Future[Any], timeout: float | None = None) -> Any:
        if threading.current_thread() is not me:
            return result(future, timeout)
        if not early:
            result(future, timeout)
        raise KeyboardInterrupt

    with patch.object(Future, "result", interrupt), pytest.raises(KeyboardInterrupt):
        yield
