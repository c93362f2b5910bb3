"""A shop whose every process is killed at random, its database included: each order arrives once, and in order."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.machine import PATIENCE_S
from tests.postgres import Postgres, connected
from tests.tools.outbox.conftest import prepare
from triack.tools.ports import free_port

ORDERS = 200
KILLS = 12


@pytest.mark.slow
def test_every_order_arrives_once(postgres: Postgres, tmp_path: Path) -> None:
    conninfo, chance, port = postgres.conninfo(), random.Random(7), str(free_port())
    prepare(lambda: connected(conninfo))
    with connected(conninfo) as db:
        db.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY)")
        db.execute("CREATE TABLE stock (place INTEGER GENERATED ALWAYS AS IDENTITY, number INTEGER)")

    def start(*arguments: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-m", "tests.tools.outbox.shop", *arguments])

    commands = [
        ("worker", conninfo, "0", str(ORDERS // 2)),
        ("worker", conninfo, str(ORDERS), str(ORDERS // 2)),
        ("pump", conninfo, str(tmp_path / "shop"), port),
        ("warehouse", conninfo, str(tmp_path / "warehouse"), port),
    ]
    running = [start(*command) for command in commands]
    try:
        for _ in range(KILLS):
            time.sleep(chance.random())
            victim = chance.randrange(len(commands) + 1)
            if victim == len(commands):
                postgres.kill()
                postgres.start()
            else:
                running[victim].send_signal(signal.SIGKILL)
                running[victim].wait()
                running[victim] = start(*commands[victim])
        assert [one.wait(PATIENCE_S) for one in running[:2]] == [0, 0]
        end_s = time.monotonic() + PATIENCE_S
        found: list[int] = []
        while len(found) < ORDERS:
            assert time.monotonic() < end_s, sorted(found)
            time.sleep(0.2)
            with connected(conninfo) as db:
                found = [number for (number,) in db.execute("SELECT number FROM stock ORDER BY place").fetchall()]
    finally:
        for one in running:
            one.kill()
            one.wait()
    wanted = [*range(ORDERS // 2), *range(ORDERS, ORDERS + ORDERS // 2)]
    assert sorted(found) == wanted
    for mine in (wanted[: ORDERS // 2], wanted[ORDERS // 2 :]):
        assert [number for number in found if number in mine] == mine
