"""Real nodes tell their programs of acknowledgements."""

import asyncio
import gc
import threading
from typing import Any

import pytest

import triack
from tests.mission.ends import Q, two
from tests.node.nodes import SCHEMES, WAIT, Face, make, quick, take_acknowledgements, until
from triack import AckEvent, AckKind
from triack.node.client.client_events import ClientAcknowledgements
from triack.node.handles.acknowledgements import Every
from triack.node.node import port_of
from triack.queues.node_settings import NodeSettings
from triack.queues.streams.ack_events import AckEvents
from triack.testing import World


async def follow(face: Face, destination: str, **how: Any) -> triack.Acknowledgements | ClientAcknowledgements:
    """The events, which a client waits for."""
    events = face.acknowledgements(destination, **how)
    return events if isinstance(events, triack.Acknowledgements) else await events


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_each_message_has_its_event_in_the_order_of_sending(face: Face, scheme: str) -> None:
    """And has the number and the id of its receipt. By a trigger many are one event."""
    async with make("b", scheme=scheme) as b:
        to, each_five = f"{b.address}/q", triack.AckTrigger(window_share=None, count=5, delay_s=100.0)
        events, ranges = await follow(face, to, every="message"), await follow(face, to, every=each_five)
        receipts = await face.send_many(to, [b"%d" % number for number in range(100)])
        assert (await take_acknowledgements(ranges, 5))[0] >= 5
        async with asyncio.timeout(WAIT):
            told = [await anext(events) for _ in receipts]
        assert [(event.last, event.ids) for event in told] == [(one.number, [one.id]) for one in receipts]
        assert [one.number for one in receipts] == list(range(1, 101))


@pytest.mark.parametrize("every", ["message", triack.AckTrigger(count=1)])
async def test_events_have_the_ids_of_receipts(triack_world: World, every: Every) -> None:
    """Also of messages sent before; over more than a queue numbers at a time, with a large body among them."""
    async with two(triack_world, NodeSettings(large=triack.LargeBodies(from_bytes=1_000))) as (a, _):
        triack_world.cut("a", "b")
        first = await a.send_many(Q, [b"x"] * 3_000)
        events = a.acknowledgements(Q, every=every)
        await a.send(f"{Q}-other", b"takes numbers between")
        triack_world.heal()
        receipts = [*first, await a.send_stream(Q, b"y" * 100_000), *await a.send_many(Q, [b"z"] * 3_000)]
        receipts.append(await a.send_stream(Q, b"y" * 100_000))
        ids: list[str] = []
        while len(ids) < len(receipts):
            event = await anext(events)
            assert len(event.ids) == event.count
            ids += event.ids
        assert ids == [receipt.id for receipt in receipts]


async def test_the_end_of_a_reader_takes_no_ids_away(triack_world: World) -> None:
    """However many messages follow before what it has gathered is read."""
    async with two(triack_world, NodeSettings()) as (a, _):
        events = a.acknowledgements(Q)
        receipt = await a.send(Q, b"x")
        await triack_world.advance(10)
        events.close()
        await a.send_many(Q, [b"x"] * 10_000, until="ordered")
        assert [event.ids async for event in events] == [[receipt.id]]


async def test_messages_of_an_earlier_start_have_events_without_ids(triack_world: World) -> None:
    """As their numbers, these are of no receipt of this process."""
    async with two(triack_world, NodeSettings()) as (a, _):
        triack_world.cut("a", "b")
        await a.send_many(Q, [b"x"] * 3, until="queued")
        await a.close()
        with triack_world.machine("a"):
            again = triack.open("a", data="a", insecure=True)
        async with again:
            events = again.acknowledgements(Q, every=triack.AckTrigger(count=1))
            receipt = await again.send(Q, b"y")
            triack_world.heal()
            told = [await anext(events)]
            while told[-1].last < 4:
                told.append(await anext(events))
            assert [name for event in told for name in event.ids] == [receipt.id]


async def test_a_handler_is_called_with_one_after_the_other(face: Face) -> None:
    """It is awaited if it is async. The next call comes when it is done, and its exceptions go to the event loop."""
    told: list[int] = []
    errors: list[dict[str, Any]] = []
    busy = False

    async def handle(event: AckEvent) -> None:
        nonlocal busy
        assert not busy
        busy = True
        await asyncio.sleep(0)
        busy = False
        told.append(event.last)
        if event.last == 2:
            raise RuntimeError("of the application")
        if event.last == 3:
            raise asyncio.CancelledError("of a task that it awaits")

    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context))
    async with make("b", scheme="udp") as b:
        await follow(face, f"{b.address}/q", handler=handle)
        await face.send_many(f"{b.address}/q", [b"x"] * 5)
        await until(lambda: len(told) == 5)
    assert told == [1, 2, 3, 4, 5]
    assert [str(context["exception"]) for context in errors] == ["of the application", "of a task that it awaits"]
    assert "handler of acknowledgements of udp://" in errors[0]["message"]


async def test_a_handler_hears_of_all_before_its_node_has_closed() -> None:
    """The program need not sleep before its end: events that the interval holds back come before the close returns."""
    told: list[AckEvent] = []
    rarely = quick(ack_events=triack.AckTrigger(window_share=None, delay_s=60.0), close_timeout_s=WAIT)
    async with make("b", scheme="udp") as b, make("a", settings=rarely) as a:
        a.acknowledgements(f"{b.address}/q", handler=told.append)
        await a.send_many(f"{b.address}/q", [b"x"] * 50)
    assert told == [AckEvent(AckKind.ACK, 1, 50)]


async def test_a_queue_of_the_node_itself_is_acknowledged_with_its_commit(face: Face) -> None:
    events = await follow(face, "q", every=triack.AckTrigger(count=1))
    await face.send_many("q", [b"x"] * 3)
    assert (await take_acknowledgements(events, 3))[-1] == 3


async def test_events_that_are_closed_tell_what_is_unread_and_end(face: Face) -> None:
    events, others = [await follow(face, "q", every="message") for _ in range(2)]
    await face.send_many("q", [b"x"] * 2)
    assert await take_acknowledgements(others, 2) == [1, 2]
    events.close()
    events.close()
    await face.send("q", b"y", until="ordered", timeout=WAIT)
    async with asyncio.timeout(WAIT):
        assert [event.last async for event in events] == [1, 2]
        assert await events.get_many() == []


@pytest.mark.plain
async def test_a_reader_that_is_dropped_stops_no_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """In its loop, whatever thread it is dropped in: the garbage collector runs anywhere, the node is of one thread."""
    ended, end = list[int](), AckEvents.end

    def note(events: AckEvents) -> None:
        ended.append(threading.get_ident())
        end(events)

    monkeypatch.setattr(AckEvents, "end", note)
    async with make("a") as a:
        held = [a.acknowledgements("q")]
        await asyncio.to_thread(held.clear)
        gc.collect()
        await until(lambda: ended)
        await (await a.send("q", b"x")).ordered(WAIT)
        assert not port_of(a).outgoing_stream("q", triack.TRANSACTIONAL).readers
    assert ended[0] == threading.get_ident()


@pytest.mark.parametrize(
    ("destination", "how", "says"),
    [
        ("q", {"every": "second"}, "every must be an AckTrigger or 'message', not 'second'"),
        ("nobody/q", {}, "unknown peer nobody"),
        (5, {}, "a destination is text"),
        ("q", {"delivery": "fast"}, "a class is a triack.Delivery"),
        ("udp://plant", {}, "udp://plant"),
    ],
)
async def test_what_cannot_be_is_refused(face: Face, destination: Any, how: dict[str, Any], says: str) -> None:
    with pytest.raises(triack.TriackError, match=says):
        await follow(face, destination, **how)


async def test_whether_to_ask_for_acks_now_is_true_or_false(face: Face) -> None:
    with pytest.raises(triack.UsageError, match="ack_now must be True or False, not 1"):
        await face.send("q", b"x", ack_now=1)  # type: ignore[arg-type]
