"""The sender goes no further ahead than its limit, and knows when everything is in order at the other end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from triack.tools.demo import sender
from triack.tools.demo.bodies import Bodies
from triack.tools.demo.sender import Sender

SIZE = 100


class Receipt:
    def __init__(self) -> None:
        self.done = asyncio.Event()

    async def ordered(self) -> None:
        await self.done.wait()


class Node:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.receipts: list[Receipt] = []

    async def send_many(self, destination: str, bodies: Iterable[bytes]) -> list[Receipt]:
        assert destination == "udp://127.0.0.1:1/demo"
        before = len(self.bodies)
        self.bodies += bodies
        self.receipts += [Receipt() for _ in self.bodies[before:]]
        return self.receipts[before:]


@contextlib.asynccontextmanager
async def sending(messages: int) -> AsyncIterator[tuple[Sender, Any, asyncio.Task[None]]]:
    """A sender at work, and its task that waits until all is ordered."""
    node: Any = Node()
    options = {"messages": messages, "size": SIZE, "seed": 1, "address": "udp://127.0.0.1:1", "insecure": True}
    at_work = Sender(options)
    tasks = [asyncio.create_task(at_work.send(node)), asyncio.create_task(at_work.follow())]
    try:
        yield at_work, node, tasks[1]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def four_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "IN_FLIGHT_BYTES", 4 * SIZE)


async def test_it_waits_when_too_much_is_in_flight() -> None:
    """Every second message is watched; each one that is in order lets two more go."""
    async with sending(9) as (at_work, node, ordered):
        await settle()
        assert at_work.progress() == {"sent": 4, "ordered": 0}
        for watched, sent in ((1, 6), (3, 8), (5, 9)):
            node.receipts[watched].done.set()
            await settle()
            assert at_work.progress() == {"sent": sent, "ordered": watched + 1}
        node.receipts[7].done.set()
        await settle()
        assert not ordered.done()
        node.receipts[8].done.set()
        await ordered
        assert at_work.progress() == {"sent": 9, "ordered": 9}
        assert node.bodies == [Bodies(SIZE, 1).make(index) for index in range(9)]
        assert at_work.first_ns > 0


async def test_large_messages_go_two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when one alone is more than the limit: else nothing would be under way while it is acknowledged."""
    monkeypatch.setattr(sender, "IN_FLIGHT_BYTES", SIZE // 2)
    async with sending(3) as (at_work, node, _):
        await settle()
        assert at_work.sent == 2
        node.receipts[0].done.set()
        await settle()
        assert at_work.sent == 3
