"""What a served node tells systemd: the test has the socket that systemd would have."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.nodes import WAIT, hanging_disk, make
from tests.tools.processes import SECONDS, start
from triack.tools.operate import notify
from triack.tools.operate.notify import notifying, starting


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(WAIT)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield sock


def heard(sock: socket.socket) -> list[str]:
    return sock.recv(4096).decode().splitlines()


async def test_a_node_says_that_it_is_ready_and_that_it_stops(manager: socket.socket) -> None:
    async with make("a", scheme="udp") as node:
        async with notifying(node):
            ready = heard(manager)
        assert (ready[0], ready[2]) == ("READY=1", f"STATUS=a listens on {node.address}")
        assert heard(manager) == ["STOPPING=1"]


async def test_a_start_has_more_time_as_long_as_it_comes_nearer(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million messages take longer than systemd waits. A start that hangs says nothing more."""
    read: list[int] = [0]
    monkeypatch.setattr(notify, "TELL_S", 0.01)
    monkeypatch.setattr(notify, "rows_read", lambda _: read[-1])
    node = make("a")
    async with starting(node):
        for rows in (0, 5):
            read.append(rows)
            said = await asyncio.to_thread(heard, manager)
            assert said == ["EXTEND_TIMEOUT_USEC=60000000", f"STATUS=a starts: {rows} rows read"]
        for _ in range(5):
            await asyncio.sleep(0.01)
        manager.setblocking(False)
        with pytest.raises(BlockingIOError):
            heard(manager)


async def test_the_watchdog_hears_of_a_node_only_while_its_disk_works(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    async with make("a", scheme="udp") as node, notifying(node):
        heard(manager)
        assert await asyncio.to_thread(heard, manager) == ["WATCHDOG=1"]
        said = ["WATCHDOG=1"]
        with hanging_disk(node, 11):
            while said == ["WATCHDOG=1"]:  # those that were sent before
                said = await asyncio.to_thread(heard, manager)
        assert said[0].startswith("STATUS=the disk of node a has not answered for")


async def test_a_watchdog_of_another_process_is_none(manager: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    async with make("a", scheme="udp") as node, notifying(node):
        assert heard(manager)[0] == "READY=1"
    assert heard(manager) == ["STOPPING=1"]


@pytest.mark.slow
def test_a_real_process_says_it_in_order(manager: socket.socket, tmp_path: Path) -> None:
    served = start("serve", "--listen", "udp://127.0.0.1:0", "--insecure", "--data", tmp_path / "a")
    try:
        assert heard(manager)[0].startswith("EXTEND_TIMEOUT_USEC=")
        assert heard(manager)[:2] == ["READY=1", f"MAINPID={served.pid}"]
        os.kill(served.pid, signal.SIGTERM)
        assert heard(manager) == ["STOPPING=1"]
    finally:
        served.communicate(timeout=SECONDS)
    assert served.wait() == 0


async def test_without_a_manager_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    async with make("a") as node, notifying(node):
        assert node.name == "a"
