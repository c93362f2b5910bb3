"""The web shop as its users run it: two workers of uvicorn, a served node, a warehouse and PostgreSQL, all killed.

uvicorn is no dependency of the tests: ``pip install uvicorn``, or this is skipped.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

import pytest

from tests.machine import PATIENCE_S
from tests.postgres import Postgres, connected
from tests.tools.outbox.conftest import prepare
from triack.tools.ports import free_port

ORDERS = 600
ROUNDS = 10
"""Of kills, each of all four; the web application's are those of one worker, which uvicorn replaces."""


class Shop:
    """All processes but the database."""

    def __init__(self, conninfo: str, folder: Path) -> None:
        self.web, warehouse = free_port(), free_port()
        surroundings = {
            "SHOP_DATABASE": conninfo,
            "SHOP_DATA": str(folder / "shop"),
            "SHOP_WAREHOUSE": f"udp://127.0.0.1:{warehouse}",
        }
        self._environment = {**os.environ, **surroundings}
        data, listen = str(folder / "shop"), f"udp://127.0.0.1:{free_port()}"
        self._commands = {
            "serve": ["-m", "triack", "serve", "--insecure", "--listen", listen, "--data", data],
            "warehouse": ["-m", "tests.tools.outbox.shop", "warehouse", conninfo, str(folder / "b"), str(warehouse)],
            "web": ["-m", "uvicorn", "tests.tools.outbox.web_shop:app", "--workers", "2", "--port", str(self.web)],
        }
        self._running = {name: self._start(name) for name in self._commands}

    def _start(self, name: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, *self._commands[name]], env=self._environment)

    def kill(self, name: str) -> None:
        """A process dies; somebody starts it again."""
        self._running[name].kill()
        self._running[name].wait()
        self._running[name] = self._start(name)

    def kill_worker(self, chance: random.Random) -> None:
        """One of the workers dies, and uvicorn starts another one."""
        pid = self._running["web"].pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        workers = [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
        if workers:
            os.kill(chance.choice(workers), signal.SIGKILL)

    def close(self) -> None:
        """End all of them."""
        self._running["web"].terminate()
        for name, one in self._running.items():
            if name != "web":
                one.kill()
            one.wait()


@contextmanager
def running(conninfo: str, folder: Path) -> Iterator[Shop]:
    shop = Shop(conninfo, folder)
    try:
        yield shop
    finally:
        shop.close()


def place(port: int, numbers: range, until_s: float) -> None:
    """Order, as a browser does: again, when there is no answer."""
    for number in numbers:
        while time.monotonic() < until_s:
            connection = HTTPConnection("127.0.0.1", port, timeout=10)
            try:
                connection.request("POST", f"/orders/{number}")
                if connection.getresponse().status == 200:
                    break
            except (OSError, HTTPException):
                pass
            finally:
                connection.close()
            time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("uvicorn") is None, reason="no uvicorn on this machine")
def test_every_order_is_there_once(postgres: Postgres, tmp_path: Path) -> None:
    conninfo, chance = postgres.conninfo(), random.Random(5)
    prepare(lambda: connected(conninfo))
    with connected(conninfo) as db:
        db.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY)")
        db.execute("CREATE TABLE stock (place INTEGER GENERATED ALWAYS AS IDENTITY, number INTEGER)")
    end_s = time.monotonic() + 10 * PATIENCE_S
    with running(conninfo, tmp_path) as shop:
        buyers = [
            Thread(target=place, args=(shop.web, range(first, ORDERS, 2), end_s), daemon=True) for first in range(2)
        ]
        for buyer in buyers:
            buyer.start()
        for _ in range(ROUNDS):
            for victim in chance.sample(["serve", "warehouse", "worker", "database"], 4):
                time.sleep(2 * chance.random())
                if victim == "database":
                    postgres.kill()
                    postgres.start()
                elif victim == "worker":
                    shop.kill_worker(chance)
                else:
                    shop.kill(victim)
        for buyer in buyers:
            buyer.join(max(0, end_s - time.monotonic()))
            assert not buyer.is_alive()
        found: list[int] = []
        while len(found) < ORDERS:
            assert time.monotonic() < end_s, sorted(found)
            time.sleep(0.5)
            with connected(conninfo) as db:
                found = [number for (number,) in db.execute("SELECT number FROM stock ORDER BY place").fetchall()]
    assert sorted(found) == list(range(ORDERS))
