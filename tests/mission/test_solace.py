"""Solace guaranteed messages: the publish window, its acknowledgements, its timer, and outcomes of consumers."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

import triack
from tests.mission.ends import LISTEN, Q, acks, pair, two
from tests.node.handles.stories.test_publish_window import FIVE, outgoing, waits
from tests.ordering.pair import StreamPair
from tests.queues.manager.test_browsing import told, watch
from tests.queues.world import numbered
from triack.base.ack_trigger import AckTrigger
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.node.handles.policies import MSMQ, SOLACE, solace
from triack.queues.messages import Outgoing
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.testing import World
from triack.tools.replay.log.files import find_logs, read_records

statement = pytest.mark.statement
RANGED = AckTrigger(window_share=1 / 3, delay_s=1)
WIDE_BYTES = 30_000
"""Two times 85 of the smallest packets, and some more: nobody stands still before the policy acknowledges."""


@statement("Acknowledging Published Messages", "solace(window=50)", "16 of 50, 85 of 255, each of 1 and 2")
@pytest.mark.parametrize(("window", "share"), [(1, 1), (2, 1), (3, 1), (50, 16), (255, 85)])
def test_the_broker_acknowledges_when_a_third_of_the_window_has_arrived(window: int, share: int) -> None:
    """Rounded down, which is ours. One less, and it is the second that counts."""
    settings = solace(window=window)
    assert acks(settings, share) == [(0.0, "count", share)]
    if share > 1:
        assert acks(settings, share - 1) == [(1.0, "delay", share - 1)]
    assert settings.order.order_ack_every == share


@statement("Acknowledging Published Messages", "solace(window=50)", "3 of 50 after 1 s")
def test_the_broker_acknowledges_after_one_second() -> None:
    assert acks(SOLACE, 3) == [(1.0, "delay", 3)]


async def first_acks(world: World, window: int, packets: int, scheme: str, logs: Path) -> set[tuple[str, int]]:
    """How the first session ack and the first store ack of a burst came about, and how many packets they speak of."""
    settings = solace(window=window)
    listen = f"{scheme}://127.0.0.1:7800"
    with world.machine("b"):
        b = await triack.open("b", data="b", listen=listen, insecure=True, settings=settings, log="b").start()
    with world.machine("a"):
        a = await triack.open("a", data="a", insecure=True, settings=settings, log="a").start()
        await (await a.send(f"{b.address}/q", b"opens")).ordered()
        while window == 255 and any(0 < (it.congestion_window_bytes or 0) < WIDE_BYTES for it in a.stats().sessions):
            await (await a.send_many(f"{b.address}/q", [bytes(900)] * 100)).ordered()
        await world.advance(1.3)  # what the opening owes has been said
        began_ns = world.time.now_ns
        await a.send_many(f"{b.address}/q", [b"x"] * packets)
        while a.stats().outgoing[0].messages:
            await world.advance(0.01)
        await a.close()
    await b.close()
    world.write_logs(logs)
    found = [record for log in find_logs([logs]) for record in read_records(log) if record["at_ns"] > began_ns]
    said = [
        [(record["trigger"], record["pending"]) for record in found if record["event"] == event and record["pending"]]
        for event in ("ack_sent", "store_ack_sent")
    ]
    return {next(iter(of_a_kind), ("none", 0)) for of_a_kind in said}


@statement("Understanding Guaranteed Message Publish Window Sizes", "solace(window=50)", "store acks as session acks")
@pytest.mark.gate
@pytest.mark.parametrize(
    ("window", "packets", "scheme", "trigger"),
    [
        (50, 16, "udp", "count"),
        (50, 16, "tcp", "count"),
        (50, 3, "udp", "delay"),
        (255, 85, "tcp", "count"),
        (255, 85, "udp", "count"),
    ],
)
async def test_an_acknowledgement_means_that_the_broker_has_received_and_persisted_a_message(
    triack_world: World, window: int, packets: int, scheme: str, trigger: str, tmp_path: Path
) -> None:
    """Over UDP no more than ten datagrams leave together at first: the path has to have carried more before."""
    assert await first_acks(triack_world, window, packets, scheme, tmp_path) == {(trigger, packets)}


@statement("Acknowledging Published Messages, Ack Immediately", "send(ack_now=True)", "0.1 s instead of 1 s")
def test_a_message_with_ack_immediately_is_acknowledged_without_delay() -> None:
    world, a, b = pair(SOLACE)
    a.send(b, "q", b"first")
    world.run(10 * SECOND)
    events = watch(a, b, RANGED)
    a.send(b, "q", b"x")
    world.run(500 * MS)
    assert told(events) == []
    a.live.submit(a.live.outgoing_stream(b.address, "q", Delivery.TRANSACTIONAL), Outgoing(b"y", ack_now=True), 1)
    a.drain()
    world.run(100 * MS)
    assert told(events) == [3]


FULL = NodeSettings(limits=Limits(queue_quota={"q": Quota(size_bytes=10_000, when_full="reject")}))


@statement("AckEventMode", 'acknowledgements(every="message")', "15 successes and 1 failure of 16")
def test_in_per_message_mode_each_message_has_its_event() -> None:
    _, single = events_of_sixteen()
    assert single == [*range(1, 7), -7, *range(8, 17)]


@statement("AckEventMode", "acknowledgements(every=AckTrigger(window_share=1 / 3, delay_s=1))", "6, -7, 16")
def test_in_windowed_mode_an_event_covers_all_before_it_and_a_rejection_comes_alone() -> None:
    ranged, _ = events_of_sixteen()
    assert ranged == [6, -7, 16]


def events_of_sixteen() -> tuple[list[int], list[int]]:
    """What two readers hear, ranged and per message, when a broker with MSMQ's policy rejects number 7 of 16."""
    world, a, b = pair(SOLACE, replace(MSMQ, limits=FULL.limits))
    ranged, single = watch(a, b, RANGED), watch(a, b, None)
    world.cut(a, b)
    bodies = numbered(0, 16)
    outgoing, _ = a.send(b, "q", *bodies[:6], bytes(11_000), *bodies[7:])
    world.run(SECOND)
    assert told(ranged) == told(single) == []
    world.heal()
    world.run(30 * SECOND)
    assert (outgoing.unacknowledged, b.length("q"), a.length("dead-letter")) == (0, 15, 1)
    return told(ranged), told(single)


@statement("ISession.Send", "solace(window=5)", "the 6th, until acknowledgements come")
@pytest.mark.gate
@pytest.mark.parametrize("delivery", list(Delivery))
async def test_when_the_window_is_full_a_blocking_send_blocks(triack_world: World, delivery: Delivery) -> None:
    async with two(triack_world, FIVE) as (a, _):
        triack_world.cut("a", "b")
        for _ in range(5):
            await a.send(f"{LISTEN}/new", b"x", delivery=delivery)
        sixth = await waits(triack_world, a.send(f"{LISTEN}/new", b"6", delivery=delivery))
        assert outgoing(a, "new").messages == 5
        triack_world.heal()
        await triack_world.until(sixth.done)
        assert (await sixth).number == 6


@statement("Sending Guaranteed Messages", "solace(window=5)", "5 of 17")
@pytest.mark.gate
async def test_up_to_one_window_of_messages_is_buffered(triack_world: World) -> None:
    async with two(triack_world, FIVE) as (a, b):
        triack_world.cut("a", "b")
        many = await waits(triack_world, a.send_many(Q, numbered(0, 17)))
        assert outgoing(a).messages == 5
        triack_world.heal()
        await triack_world.until(many.done)
        await a.drain()
        assert b.queue_lengths()["q"] == 18


@statement("ISession.Send", "send_nowait, WouldBlock, CanSend", "one event after three refusals")
@pytest.mark.gate
async def test_a_nonblocking_send_returns_would_block_and_later_a_can_send_event(triack_world: World) -> None:
    async with two(triack_world, FIVE) as (a, _):
        events, heard = a.events(), []

        async def follow() -> None:
            heard.extend([event async for event in events if isinstance(event, triack.CanSend)])

        following = asyncio.create_task(follow())
        for _ in range(5):
            a.send_nowait(Q, b"x")
        await a.drain()
        triack_world.cut("a", "b")
        for _ in range(5):
            a.send_nowait(Q, b"x")
        for _ in range(3):
            with pytest.raises(triack.WouldBlock, match="the outgoing queue is full"):
                a.send_nowait(Q, b"x")
        await triack_world.advance(10)
        events.close()
        await following
        assert heard == []
        events = a.events()
        triack_world.heal()
        async for event in events:
            if isinstance(event, triack.CanSend):
                assert event == triack.CanSend(Q, "transactional")
                break
        a.send_nowait(Q, b"x")


@statement("statistics of the transmit window", "stats().links[PEER].window_closings", "3 for three bursts of five")
@pytest.mark.gate
async def test_a_counter_says_how_often_the_window_closed(triack_world: World) -> None:
    async with two(triack_world, FIVE) as (a, _):
        for closed in range(4):
            (link,) = a.stats().links.values()
            assert link.window_closings == closed
            await a.send_many(Q, [b"x"] * 5)
            await a.drain()


@statement("AckEventMode", "solace(window=5)", "each of 24 rejections lets one send return")
@pytest.mark.gate
async def test_a_rejection_opens_the_window_for_exactly_one_message(triack_world: World) -> None:
    """The queue has one place: of five messages one is taken, and each of the others frees one place."""
    full = replace(FIVE, limits=Limits(queue_quota={"small": Quota(1, when_full="reject")}))
    async with two(triack_world, FIVE, full) as (a, _):
        triack_world.cut("a", "b")
        receipts = [await a.send(f"{LISTEN}/small", b"%d" % number) for number in range(5)]
        sends = [asyncio.ensure_future(a.send(f"{LISTEN}/small", b"more")) for _ in range(20)]
        await triack_world.advance(10)
        assert not any(send.done() for send in sends)
        ended = 0

        def look() -> bool:
            nonlocal ended
            ended = a.queue_lengths().get("dead-letter", 0)
            accepted = 5 + sum(send.done() for send in sends)
            assert accepted - ended <= 5 + 1  # one was taken, and its place is free
            return ended == 24

        triack_world.heal()
        await triack_world.until(look)
        assert all(send.done() for send in sends)
        await receipts[0].ordered()


@statement("Understanding Guaranteed Message Publish Window Sizes", "solace(window=1)", "10 messages in 10 round trips")
@pytest.mark.gate
async def test_a_window_of_one_is_stop_and_wait(triack_world: World) -> None:
    triack_world.set_delay(0.5)
    async with two(triack_world, solace(window=1)) as (a, _):
        for name in "ab":
            triack_world.machine(name).disk_delay = 0
        began = triack_world.now
        for _ in range(11):
            await a.send(Q, b"x")
        assert triack_world.now - began == pytest.approx(10, abs=0.01)


@statement("ADPublishAckTimerInMsecs", "solace(publish_ack_timer_s=2)", "all of them, 100 times every 2 s")
@pytest.mark.parametrize("timer_s", [1, 2, 60])
def test_unacknowledged_messages_are_retransmitted_each_time_the_publish_ack_timer_expires_without_limit(
    timer_s: int,
) -> None:
    ends = StreamPair(solace(publish_ack_timer_s=timer_s).order, lose_order_acks=True)
    ends.append(3)
    ends.run(100 * timer_s * SECOND)
    assert [it[:2] for it in ends.sent] == [
        (at * timer_s * SECOND, number) for at in range(101) for number in (1, 2, 3)
    ]


@statement(
    "GdReconnectFailAction, AUTO_RETRY", 'Reconnect(after_session_lost="resend")', "10 of 10, once each, in order"
)
def test_auto_retry_republishes_everything_that_is_unacknowledged() -> None:
    world, a, b = pair(SOLACE)
    a.send(b, "q", b"opens")
    world.run(10 * SECOND)
    world.cut(b, a, both=False)
    a.send(b, "q", *numbered(0, 10))
    assert world.run(300 * SECOND, lambda: bool(a.log("session_closed")))
    world.heal()
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"opens", *numbered(0, 10)]


@statement("GdReconnectFailAction, DISCONNECT", 'Reconnect(after_session_lost="hand back")', "1, 3, 2")
def test_disconnect_leaves_it_to_the_application_to_send_again_so_that_old_messages_may_land_after_new_ones() -> None:
    world, a, b = pair(replace(SOLACE, reconnect=triack.Reconnect(after_session_lost="hand back")))
    a.send(b, "q", b"1")
    world.run(10 * SECOND)
    world.cut(a, b)
    a.send(b, "q", b"2")
    assert world.run(300 * SECOND, lambda: a.length("dead-letter") == 1)
    world.heal()
    a.send(b, "q", b"3")
    a.send(b, "q", *a.read_all("dead-letter"))
    assert world.run(60 * SECOND, lambda: not a.busy)
    assert b.read_all("q") == [b"1", b"3", b"2"]


@statement(
    "MessageOutcome, FAILED", "message.reject(), max_redeliveries", "3 tries with a limit of 2; failures 0, 1, 2"
)
@pytest.mark.gate
async def test_a_failed_message_is_redelivered_and_counted_and_a_dead_message_at_the_limit(triack_world: World) -> None:
    async with two(triack_world, SOLACE, replace(SOLACE, max_redeliveries=2)) as (_, b):
        async with b.receive("q", ack="manual") as reader:
            for failures in range(3):
                message = await reader.get(3_600)
                assert (message.failures, message.redelivered) == (failures, failures > 0)
                message.reject()
            await triack_world.advance(3_600)
        assert b.queue_lengths() == {"dead-letter": 1, "q": 0}


@statement("MessageOutcome, REJECTED", "message.reject(dead=True)", "1 try; a dead letter")
@pytest.mark.gate
async def test_a_rejected_message_is_never_redelivered(triack_world: World) -> None:
    async with two(triack_world, SOLACE) as (_, b):
        async with b.receive("q", ack="manual") as reader:
            (await reader.get()).reject(dead=True)
            await triack_world.advance(3_600)
        assert b.queue_lengths() == {"dead-letter": 1, "q": 0}
