"""The ids of received messages in the application's own database."""

import threading
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.tools.outbox.conftest import Connect
from triack.outbox import forget, is_new
from triack.outbox.database import execute


async def receive(folder: Path) -> triack.Message:
    async with triack.open("plant", data=folder) as node:
        await node.send("orders", b"12 valves")
        return await node.receive("orders", ack="manual").get(PATIENCE_S)


async def test_a_message_is_new_once(connect: Connect, tmp_path: Path) -> None:
    """What is rolled back was not noted."""
    message, db = await receive(tmp_path / "plant"), connect()
    assert is_new(db, message)
    db.rollback()
    assert is_new(db, message)
    db.commit()
    assert not is_new(db, message)
    db.commit()
    assert forget(db) == 0
    execute(db, "UPDATE triack_inbox SET received_ms = received_ms - 1000", {})
    assert forget(db, older_than_s=0.5) == 1
    assert is_new(db, message)
    db.close()


@pytest.mark.slow
async def test_of_two_readers_one_does_the_work(postgres: Any, connect: Connect, tmp_path: Path) -> None:
    """The second waits until the first has committed."""
    message, one, other = await receive(tmp_path / "plant"), connect(), connect()
    told: list[bool] = []
    assert is_new(one, message)

    def ask() -> None:
        told.append(is_new(other, message))
        other.rollback()

    waiting = threading.Thread(target=ask)
    if not hasattr(one, "in_transaction"):  # sqlite3: one thread for each connection
        waiting.start()
        one.commit()
        waiting.join()
        assert told == [False]
    one.close()
    other.close()
