"""The inbox is bounded, and counts every datagram that it drops."""

import asyncio
from collections import Counter

import pytest

from triack.base.datagram import Header, Kind, connection_id_of
from triack.base.reasons import DropReason
from triack.transport.received import BACKLOG_MAX, BURST_BYTES_MAX, BURST_MAX, Inbox, Received


@pytest.mark.asyncio
async def test_overflow_is_counted() -> None:
    """Datagrams that find the backlog full are dropped by name, and the rest comes out in order."""
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
    """Datagrams that find no room, or are empty, are counted one by one."""
    drops: Counter[DropReason] = Counter()
    inbox = Inbox("udp://a:1", drops)
    inbox.offer_burst([b"1", b"2"], "b")
    inbox.offer_burst([b"", b"3"], "b")
    assert [received.data for received in await inbox.take()] == [b"1", b"2", b"3"]
    monkeypatch.setattr("triack.transport.received.BACKLOG_MAX", 2)
    inbox.offer_burst([b"4", b"5", b"6"], "b")
    assert [received.data for received in await inbox.take()] == [b"4", b"5"]
    assert drops == {DropReason.EMPTY: 1, DropReason.RECEIVE_OVERFLOW: 1}


@pytest.mark.asyncio
async def test_each_connection_in_a_burst_has_its_own_turn() -> None:
    """Also when all of them come from one address."""
    inbox = Inbox("udp://a:1", Counter())
    inbox.source_of = connection_id_of
    burst = [Header(Kind.DATA, connection_id, counter).encode() for counter in range(3) for connection_id in (7, 9)]
    inbox.offer_burst(burst, "b")
    inbox.offer_burst([data for data in burst if connection_id_of(data) == 9], "b")
    taken = await inbox.take()
    assert taken.turns == [(7, 3), (9, 6)]
    assert sorted(received.data for received in taken) == sorted([*burst, *burst[1::2]])


@pytest.mark.asyncio
async def test_a_flood_of_one_source_takes_no_room_from_others() -> None:
    """When all is full, its newest datagram makes room for one of theirs; and theirs do not wait for it."""
    drops: Counter[DropReason] = Counter()
    inbox = Inbox("udp://a:1", drops)
    inbox.source_of = lambda data: data[:1]
    for _ in range(BACKLOG_MAX + 10):
        inbox.offer(b"flood", "evil")
    inbox.offer_burst([b"1", b"2"], "b")
    assert drops == {DropReason.RECEIVE_OVERFLOW: 12}
    burst = await inbox.take()
    assert {received.data for received in burst if received.sender == "b"} == {b"1", b"2"}


@pytest.mark.asyncio
async def test_a_stream_that_brings_much_makes_nobody_wait_but_itself() -> None:
    """It is not read while much of it waits; others are."""
    inbox = Inbox("tcp://a:1", Counter())
    inbox.source_of = lambda data: data[:1]
    flooding = asyncio.create_task(inbox.offer_all([b"flood"] * BACKLOG_MAX, "evil"))
    await asyncio.sleep(0)
    await inbox.offer_all([b"1"] * 3, "b")
    burst = await inbox.take()
    assert sum(received.sender == "b" for received in burst) == 3
    assert not flooding.done()
    flooding.cancel()


@pytest.mark.asyncio
async def test_others_in_the_loop_have_their_turn_before_each_burst() -> None:
    """However much there is: a node that takes burst after burst works through no backlog in one go."""
    inbox, turns = Inbox("memory://a", Counter()), 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    for _ in range(10 * BURST_MAX):
        inbox.offer(b"x", "s")
    beside = asyncio.create_task(other())
    for _ in range(10):
        await inbox.take()
    assert turns >= 10
    beside.cancel()
