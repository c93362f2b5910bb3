"""The inbox is bounded, and loses nothing that it has not counted."""

import asyncio
from collections import Counter

import pytest

from triack.base.reasons import DropReason
from triack.transport.inbox import BACKLOG_MAX, BURST_MAX, Inbox, Received


@pytest.mark.asyncio
async def test_overflow_is_counted() -> None:
    """What comes after the backlog is full is dropped by name, and the rest comes out in order."""
    drops: Counter[DropReason] = Counter()
    inbox = Inbox("memory://a", drops)
    for number in range(BACKLOG_MAX + 3):
        inbox.offer(b"%d" % number, "s")
    burst = await inbox.take()
    assert burst == [Received(b"%d" % number, "s") for number in range(BURST_MAX)]
    assert drops == {"receive-overflow": 3}


@pytest.mark.asyncio
async def test_streams_wait_for_room() -> None:
    """All datagrams of a stream come through, and the end of the path after them."""
    inbox, total = Inbox("memory://a", Counter()), BACKLOG_MAX * 2
    feeding = asyncio.create_task(inbox.offer_all([b"x"] * total, "s"))
    feeding.add_done_callback(lambda _: inbox.path_gone("s"))
    found: list[Received] = []
    while len(found) <= total:
        found += await inbox.take()
    assert found == [Received(b"x", "s")] * total + [Received(b"", "s")]


@pytest.mark.asyncio
async def test_nothing_is_no_datagram() -> None:
    """An empty datagram of a stranger cannot pass for the end of a path."""
    drops: Counter[DropReason] = Counter()
    inbox = Inbox("memory://a", drops)
    inbox.offer(b"", "s")
    inbox.offer(b"x", "s")
    assert await inbox.take(coalesce=True) == [Received(b"x", "s")]
    assert drops == {"empty": 1}
