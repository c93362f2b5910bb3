"""HornetQ: sends that wait, the confirmation window and its flush, reattachment, duplicate ids."""

import asyncio
from collections.abc import Awaitable

import pytest

import triack
from tests.mission.ends import Q, acks, pair, two, waits_s
from tests.queues.stories.test_paths import given_up_after_ns
from tests.queues.world import numbered
from triack import policies
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.node_settings import synced_by
from triack.testing import World
from triack.tools.sim.disk import Disk

statement = pytest.mark.statement
ROUND_TRIP_S = 0.000_25
ASYNC = policies.hornetq(block_on_durable_send=False)


@statement("Guarantees of sends and commits", "hornetq(block_on_durable_send=True)", "returns when it is stored")
async def test_block_on_durable_send_is_true_by_default(triack_world: World) -> None:
    assert policies.HORNETQ.blocking == triack.Blocking(durable="stored", express=None, acknowledge=False)
    async with two(triack_world, policies.HORNETQ) as (a, _):
        triack_world.cut("a", "b")
        for delivery in (triack.RECOVERABLE, triack.TRANSACTIONAL):
            send = asyncio.ensure_future(a.send(Q, b"x", delivery=delivery))
            await triack_world.advance(10)
            assert not send.done()
            triack_world.heal()
            await triack_world.until(send.done)
            await (await send).stored(timeout=0)
            triack_world.cut("a", "b")


@statement("Guarantees of sends and commits", "hornetq(block_on_non_durable_send=False)", "0 s")
async def test_block_on_non_durable_send_is_false_by_default(triack_world: World) -> None:
    async with two(triack_world, policies.HORNETQ) as (a, _):
        triack_world.cut("a", "b")
        began = triack_world.now
        await a.send(Q, b"x", delivery=triack.EXPRESS)
        assert triack_world.now == began


@statement(
    "Guarantees of sends and commits",
    "hornetq(block_on_durable_send=True)",
    "4,000 messages a second, with disks that take no time",
)
@pytest.mark.gate
async def test_blocking_at_a_round_trip_of_a_quarter_millisecond_sends_4000_a_second(triack_world: World) -> None:
    triack_world.set_delay(ROUND_TRIP_S / 2)
    async with two(triack_world, policies.HORNETQ) as (a, _):
        for name in "ab":
            triack_world.machine(name).disk_delay = 0
        began = triack_world.now
        for _ in range(100):
            await a.send(Q, b"x")
        assert 100 / (triack_world.now - began) == pytest.approx(4_000)


@statement("Guarantees of sends and commits", "", "the time of the disk")
async def test_a_commit_waits_for_the_disk_of_its_node(triack_world: World) -> None:
    async with two(triack_world, policies.HORNETQ) as (a, _):
        triack_world.cut("a", "b")
        triack_world.machine("a").disk_delay = 1
        began = triack_world.now
        async with a.transaction() as tx:
            await tx.send(Q, b"x")
        assert triack_world.now - began >= 0.5


@statement(
    "Client Reconnection and Session Reattachment",
    "hornetq(confirmation_window_bytes=-1)",
    "50 messages at the flush, after 2 s",
)
async def test_a_confirmation_window_of_minus_one_is_off(triack_world: World) -> None:
    """No number of bytes is confirmed at once: all of it is at the flush, two seconds after the first."""
    off = policies.hornetq(confirmation_window_bytes=-1, block_on_durable_send=False)
    assert off.session.ack_trigger.bytes_ is None
    async with two(triack_world, off, off) as (a, _):
        await triack_world.advance(10)
        began = triack_world.now
        receipt = (await a.send_many(Q, [b"x"] * 50, delivery=triack.EXPRESS))[49]
        events = a.acknowledgements(Q, delivery=triack.EXPRESS)
        assert (await anext(events)).first == 1
        assert triack_world.now - began == pytest.approx(2, abs=0.1)
        await receipt.received(timeout=0)


@statement(
    "Client Reconnection and Session Reattachment",
    "hornetq(confirmation_window_bytes=-1)",
    "handed back; with 1 MiB sent again",
)
@pytest.mark.parametrize(("window_bytes", "lost"), [(-1, 1), (1024**2, 0)])
async def test_without_a_window_there_is_no_reattachment(triack_world: World, window_bytes: int, lost: int) -> None:
    settings = policies.hornetq(
        confirmation_window_bytes=window_bytes, block_on_durable_send=False, client_failure_check_period_s=4
    )
    async with two(triack_world, settings, settings) as (a, b):
        triack_world.cut("a", "b")
        receipt = await a.send(Q, b"x")
        await triack_world.advance(60)
        assert a.queue_lengths().get("dead-letter", 0) == lost
        triack_world.heal()
        if lost:
            with pytest.raises(triack.DeliveryFailed) as failed:
                await receipt.ordered()
            assert failed.value.reason == "session-lost"
        else:
            await receipt.ordered()
        assert b.queue_lengths()["q"] == 2 - lost


@statement(
    "Guarantees of sends and commits", "hornetq(block_on_acknowledge=True)", "the time of the disk; 0 s by default"
)
@pytest.mark.parametrize("ack", ["auto", "manual"])
async def test_block_on_acknowledge_waits_for_the_disk_before_the_next_message(triack_world: World, ack: str) -> None:
    for blocks in (False, True):
        name = f"node-{blocks}"
        with triack_world.machine(name):
            node = triack.open(name, data=name, insecure=True, settings=policies.hornetq(block_on_acknowledge=blocks))
        async with node:
            for body in (b"1", b"2"):
                await node.send("q", body)
            await node.flush()
            triack_world.machine(name).disk_delay = 1
            async with node.receive("q", ack=ack) as reader:  # type: ignore[arg-type]
                first = await reader.get()
                began = triack_world.now
                if ack == "manual":
                    first.ack()
                await reader.get()
                assert (triack_world.now - began >= 0.5) is blocks


@statement("Guarantees of sends and commits", "hornetq(block_on_non_durable_send=True)", "returns when it has arrived")
async def test_with_block_on_non_durable_send_a_send_returns_after_the_response(triack_world: World) -> None:
    async with two(triack_world, policies.hornetq(block_on_non_durable_send=True)) as (a, _):
        receipt = await a.send(Q, b"x", delivery=triack.EXPRESS)
        await receipt.received(timeout=0)


@statement("ChannelImpl", "hornetq(confirmation_window_bytes=15)", "the packet that fills 15 bytes")
def test_the_server_confirms_when_the_bytes_of_the_window_have_come() -> None:
    """Packets 1 to 9 of one byte and three of two are fifteen bytes."""
    assert acks(policies.hornetq(confirmation_window_bytes=15), 12) == [(0.0, "bytes", 12)]


@statement("RemotingServiceImpl", "hornetq()", "after 2 s, whatever the window")
def test_the_server_flushes_confirmations_after_two_seconds() -> None:
    assert acks(policies.hornetq(confirmation_window_bytes=15), 11) == [(2.0, "delay", 11)]
    assert acks(policies.HORNETQ, 500) == [(2.0, "delay", 500)]


@statement("ChannelImpl", "hornetq()", "10,000 messages without a confirmation")
async def test_the_confirmation_window_does_not_block(triack_world: World) -> None:
    async with two(triack_world, ASYNC) as (a, _):
        triack_world.cut("a", "b")
        began = triack_world.now
        await a.send_many(Q, [b"x"] * 10_000)
        assert triack_world.now - began < 1
        assert [it.messages for it in a.stats().outgoing] == [10_000]


@statement("Guarantees of sends and commits", "acknowledgements(handler=)", "5 calls, in order, by the message's id")
async def test_the_handler_is_called_for_each_message_after_its_confirmation(triack_world: World) -> None:
    async with two(triack_world, ASYNC) as (a, _):
        told: list[tuple[str, float]] = []
        a.acknowledgements(Q, handler=lambda event: told.append((event.ids[0], triack_world.now)))
        receipts = await a.send_many(Q, [b"x"] * 5)
        sent = triack_world.now
        await triack_world.until(lambda: len(told) == 5)
        assert [name for name, _ in told] == [receipt.id for receipt in receipts]
        assert told[-1][1] - sent == pytest.approx(2, abs=0.05)


@statement("Client Reconnection and Session Reattachment", "hornetq()", "100 of 100, once each, in order")
def test_after_a_reconnect_the_client_replays_what_the_server_has_not_confirmed_in_order() -> None:
    world, a, b = pair(ASYNC)
    a.send(b, "q", b"opens")
    world.run(10 * SECOND)
    world.cut(a, b)
    a.send(b, "q", *numbered(0, 50))
    world.run(10 * MS)
    world.heal()
    world.cut(b, a, both=False)
    a.send(b, "q", *numbered(50, 100))
    assert world.run(300 * SECOND, lambda: bool(a.log("session_closed")))
    world.heal()
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"opens", *numbered(0, 100)]


@statement("Detecting Dead Connections", "hornetq(client_failure_check_period_s=30)", "30 s; 120 s likewise")
@pytest.mark.parametrize("period_s", [30, 120])
def test_a_silent_peer_is_given_up_after_the_client_failure_check_period(period_s: int) -> None:
    settings = policies.hornetq(client_failure_check_period_s=period_s)
    assert (period_s - 2) * SECOND < given_up_after_ns(settings, Delivery.TRANSACTIONAL) <= period_s * SECOND + 50 * MS


@statement(
    "Client Reconnection and Session Reattachment", "hornetq(retry_interval_s=2)", "2 s after each attempt of 10 s"
)
@pytest.mark.gate
def test_a_connection_is_tried_again_after_the_retry_interval_without_end() -> None:
    assert waits_s(policies.HORNETQ) == [12.0] * 14


@statement("Duplicate Message Detection", "send(key=)", "accepted once; not for another queue")
async def test_a_message_with_a_duplicate_id_is_ignored(triack_world: World) -> None:
    async with two(triack_world, policies.HORNETQ) as (a, b):
        for _ in range(3):
            await a.send(Q, b"x", key="order-1")
        await a.drain()
        assert b.queue_lengths()["q"] == 2


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("other", [True, False])
@statement(
    "Persistence, journal-sync-transactional, journal-sync-non-transactional",
    "hornetq(journal_sync_transactional=, journal_sync_non_transactional=)",
    "each alone; both are true by default",
)
async def test_the_journal_is_synced_for_transactional_and_for_other_messages_by_two_switches(
    triack_world: World, transactional: bool, other: bool
) -> None:
    """Transactions are transactional, and acknowledgements outside of them are not. A commit may have some of both."""
    assert synced_by(policies.HORNETQ) == (True, True)
    settings = policies.hornetq(
        journal_sync_transactional=transactional, journal_sync_non_transactional=other, block_on_durable_send=False
    )
    async with two(triack_world, settings) as (a, b):
        here, there = (triack_world.machine(name).disk for name in "ab")

        async def is_synced(disk: Disk, step: Awaitable[object]) -> bool:
            await triack_world.advance(10)
            disk.unsynced.clear()
            await step
            return not disk.unsynced

        for delivery, synced in ((triack.TRANSACTIONAL, transactional), (triack.RECOVERABLE, other)):
            await a.send(Q, b"opens the stream", delivery=delivery, until="stored")
            assert await is_synced(there, a.send(Q, b"x", delivery=delivery, until="stored")) is synced
            assert await is_synced(here, a.send(Q, b"x", delivery=delivery, until="queued")) is synced
        async with a.transaction() as tx:
            await tx.send(Q, b"x", delivery=triack.RECOVERABLE)
            assert await is_synced(here, tx.commit()) is (transactional or other)
        async with b.receive("q", ack="manual") as reader:

            async def acknowledge() -> None:
                (await reader.get()).ack()
                await b.flush()

            assert await is_synced(there, acknowledge()) is other
        assert b.stats().survives == ("power loss" if transactional and other else "process crash")


@statement("Persistence, journal-datasync", "NodeSettings.survives", "power loss, by default")
async def test_a_response_is_sent_after_the_journal_is_on_the_disk(triack_world: World) -> None:
    async with two(triack_world, policies.HORNETQ) as (a, _):
        assert a.stats().survives == "power loss"
        triack_world.machine("b").disk_delay = 4
        began = triack_world.now
        await a.send(Q, b"x", delivery=triack.RECOVERABLE)
        assert triack_world.now - began >= 2
