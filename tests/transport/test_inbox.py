"""The inbox is bounded, and loses nothing that it has not counted."""

import asyncio
from collections import Counter

import pytest

from triack.base.reasons import DropReason
from triack.transport.inbox import BACKLOG_MAX, BURST_BYTES_MAX, BURST_MAX, Inbox, Received


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
async def test_a_burst_is_bounded_in_bytes() -> None:
    """Large datagrams come in smaller bursts, one at least, all of them and in order."""
    inbox, size = Inbox("memory://a", Counter()), BURST_BYTES_MAX // 4
    sent = [bytes([number]) * size for number in range(9)] + [bytes(2 * BURST_BYTES_MAX)]
    for data in sent:
        inbox.offer(data, "s")
    bursts = [await inbox.take() for _ in range(3)]
    assert [len(burst) for burst in bursts] == [4, 4, 2]
    assert [received.data for burst in bursts for received in burst] == sent


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


@pytest.mark.asyncio
async def test_a_burst_is_offered_as_its_datagrams_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """What finds no room, or is empty, is counted one by one."""
    drops: Counter[DropReason] = Counter()
    inbox = Inbox("udp://a:1", drops)
    inbox.offer_burst([b"1", b"2"], "b")
    inbox.offer_burst([b"", b"3"], "b")
    assert [received.data for received in await inbox.take()] == [b"1", b"2", b"3"]
    monkeypatch.setattr("triack.transport.inbox.BACKLOG_MAX", 2)
    inbox.offer_burst([b"4", b"5", b"6"], "b")
    assert [received.data for received in await inbox.take()] == [b"4", b"5"]
    assert drops == {DropReason.EMPTY: 1, DropReason.RECEIVE_OVERFLOW: 1}
