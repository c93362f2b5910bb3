"""Real nodes tell their programs of acknowledgements."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import SCHEMES, WAIT, make, quick, take_acknowledgements, until
from triack import AckEvent, AckKind
from triack.node.node import port_of
from triack.queues.streams.ack_events import AckEvents
from triack.testing import World
from triack.tools.replay.log.files import find_logs, read_records

WIDE_BYTES = 30_000
"""Two times 85 of the smallest packets, and some more: nobody stands still before the policy acknowledges."""


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_each_message_has_its_event_in_the_order_of_sending(scheme: str) -> None:
    """And has the number of its receipt."""
    async with make("b", scheme=scheme) as b, make("a") as a:
        events = a.acknowledgements(f"{b.address}/q")
        receipts = await a.send_many(f"{b.address}/q", [b"%d" % number for number in range(100)])
        assert await take_acknowledgements(events, 100) == list(range(1, 101))
        assert [receipt.number for receipt in receipts] == list(range(1, 101))


async def test_solace_speaks_to_msmq_and_its_events_are_the_documented_ones(triack_world: World) -> None:
    """One of sixteen is not delivered: 6, -7, 16 ranged, fifteen and a failure else; three alone wait for a second."""
    listen, third = "udp://127.0.0.1:7800", triack.AckTrigger(window_share=1 / 3, delay_s=1.0)
    to = f"{listen}/q"
    with triack_world.machine("a"):
        a = await triack.open("a", data="a", insecure=True, settings=triack.policies.SOLACE).start()
    ranged, single = a.acknowledgements(to, every=third), a.acknowledgements(to)
    await a.send_many(to, [b"x"] * 6)
    await a.send(to, b"too late", time_to_reach_queue=0.1)
    await a.send_many(to, [b"y"] * 9)
    await triack_world.until(lambda: a.queue_lengths().get("dead-letter") == 1)
    with triack_world.machine("b"):
        b = await triack.open("b", data="b", listen=listen, insecure=True, settings=triack.policies.MSMQ).start()
    assert await take_acknowledgements(ranged, 16) == [6, -7, 16]
    assert await take_acknowledgements(single, 16) == [*range(1, 7), -7, *range(8, 17)]
    began = triack_world.now
    await a.send_many(to, [b"z"] * 3)
    assert await take_acknowledgements(ranged, 19) == [19]
    assert 1 <= triack_world.now - began < 1.1
    await a.close()
    await b.close()


async def test_a_handler_is_called_with_one_after_the_other() -> None:
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
    async with make("b", scheme="udp") as b, make("a") as a:
        a.acknowledgements(f"{b.address}/q", handler=handle)
        await a.send_many(f"{b.address}/q", [b"x"] * 5)
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


async def test_a_queue_of_the_node_itself_is_acknowledged_with_its_commit() -> None:
    async with make("a") as a:
        events = a.acknowledgements("q", every=triack.AckTrigger(count=1))
        await a.send_many("q", [b"x"] * 3)
        assert (await take_acknowledgements(events, 3))[-1] == 3


async def test_an_iterator_ends_with_its_node_or_when_it_is_closed() -> None:
    async with make("a") as a:
        closed, left = a.acknowledgements("q"), a.acknowledgements("q")
        await a.send("q", b"x")
        assert await take_acknowledgements(left, 1) == [1]
        closed.close()
        await (await a.send("q", b"y")).ordered(WAIT)
    assert [event.last async for event in closed] == [1]
    assert [event.last async for event in left] == [2]
    with pytest.raises(triack.NodeClosed):
        a.acknowledgements("q")


async def test_a_reader_that_is_dropped_stops_no_sender() -> None:
    async with make("a") as a:
        a.acknowledgements("q")
        gc.collect()
        await (await a.send("q", b"x")).ordered(WAIT)
        assert not port_of(a).outgoing_stream("q", triack.TRANSACTIONAL).readers


@pytest.mark.plain
async def test_a_reader_that_is_dropped_in_a_thread_is_closed_in_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector runs anywhere, and the node is of one thread."""
    ended: list[int] = []
    monkeypatch.setattr(AckEvents, "end", lambda _events: ended.append(threading.get_ident()))
    async with make("a") as a:
        held = [a.acknowledgements("q")]
        await asyncio.to_thread(held.clear)
        await until(lambda: ended)
    assert ended[0] == threading.get_ident()


@pytest.mark.gate
async def test_senders_go_on_when_a_full_reader_reads() -> None:
    """A thousand ranges that alternate are as many as it keeps."""

    def alternating() -> Iterator[dict[str, float]]:
        for _ in range(501):
            yield {}
            yield {"time_to_reach_queue": 0.1}

    async with make("a", settings=quick(messages_per_packet=1)) as a:
        async with make("b", scheme="udp") as b:
            to = f"{b.address}/q"
        events = a.acknowledgements(to)
        for properties in alternating():
            await a.send(to, b"x", **properties)  # type: ignore[arg-type]
        await until(lambda: a.queue_lengths().get("dead-letter") == 501)
        async with triack.open("b", data=None, listen=to.rpartition("/")[0], insecure=True, settings=quick()) as b:
            await until(lambda: b.queue_lengths().get("q") == 501)
            with pytest.raises(triack.WouldBlock):
                await until(lambda: a.send_nowait(to, b"no room") is None)
            waiting = asyncio.create_task(a.send(to, b"waits"))
            told = await take_acknowledgements(events, 1_002)
            assert [abs(number) for number in told[:1_002]] == list(range(1, 1_003))
            await asyncio.wait_for(waiting, WAIT)


async def test_what_cannot_be_is_refused() -> None:
    async with make("a") as a:
        with pytest.raises(triack.UsageError, match="every must be an AckTrigger or 'message', not 'second'"):
            a.acknowledgements("q", every="second")  # type: ignore[arg-type]
        with pytest.raises(triack.AddressError):
            a.acknowledgements("nobody/q")
        with pytest.raises(triack.UsageError, match="ack_now must be True or False, not 1"):
            await a.send("q", b"x", ack_now=1)  # type: ignore[arg-type]


AMPS_CASES = [
    ({3}, [2, -3, 5]),
    ({1}, [-1, 5]),
    ({5}, [4, -5]),
    ({2, 3}, [1, -2, -3, 5]),
    ({1, 2, 3, 4, 5}, [-1, -2, -3, -4, -5]),
]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["udp", "tcp"])
@pytest.mark.parametrize(("late", "expected"), AMPS_CASES)
async def test_a_failure_splits_the_interval_of_amps(late: set[int], expected: list[int], scheme: str) -> None:
    """Five messages over real sockets, of which some are too late: by number, and no event goes back."""
    amps = replace(triack.policies.amps(ack_conflation_s=0.2, logon_ack_conflation_s=0.2), close_timeout_s=0.5)
    async with make("a", settings=amps) as a:
        async with make("b", scheme=scheme, settings=amps) as b:
            to = f"{b.address}/q"
        events = a.acknowledgements(to)
        for number in range(1, 6):
            await a.send(to, b"%d" % number, time_to_reach_queue=0.05 if number in late else 60)
        await until(lambda: a.queue_lengths().get("dead-letter") == len(late))
        listen = to.rpartition("/")[0]
        async with triack.open("b", data=None, listen=listen, insecure=True, settings=amps) as b:
            assert await take_acknowledgements(events, 5) == expected
            assert b.queue_lengths().get("q", 0) == 5 - len(late)


async def first_acks(world: World, window: int, packets: int, scheme: str, logs: Path) -> set[tuple[str, int]]:
    """How the first session ack and the first store ack of a burst came about, and how many packets they speak of."""
    solace = triack.policies.solace(window=window)
    listen = f"{scheme}://127.0.0.1:7800"
    with world.machine("b"):
        b = await triack.open("b", data="b", listen=listen, insecure=True, settings=solace, log="b").start()
    with world.machine("a"):
        a = await triack.open("a", data="a", insecure=True, settings=solace, log="a").start()
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
    acks = [record for log in find_logs([logs]) for record in read_records(log) if record["at_ns"] > began_ns]
    said = [
        [(record["trigger"], record["pending"]) for record in acks if record["event"] == event and record["pending"]]
        for event in ("ack_sent", "store_ack_sent")
    ]
    return {next(iter(of_a_kind), ("none", 0)) for of_a_kind in said}


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
async def test_solace_acknowledges_its_numbers(
    triack_world: World, window: int, packets: int, scheme: str, trigger: str, tmp_path: Path
) -> None:
    """A third of the window makes one session ack and one store ack due, and three messages wait for a second.

    Over UDP no more than ten datagrams leave at once at first: the path has to have carried more before.
    """
    assert await first_acks(triack_world, window, packets, scheme, tmp_path) == {(trigger, packets)}


@pytest.mark.parametrize(
    ("link_s", "client_s", "reported_s"), [(1.0, 0.5, 1.5), (0.5, 1.0, 1.5), (2.0, 0.001, 2.0), (0.001, 2.0, 2.0)]
)
async def test_the_interval_of_a_link_of_amps_and_that_of_its_client_add_up_for_transactional_messages(
    triack_world: World, link_s: float, client_s: float, reported_s: float
) -> None:
    """AMPS: lowering one of the two may change nothing. The receiver has the default policy."""
    listen = "udp://127.0.0.1:7800"
    amps = triack.policies.amps(ack_conflation_s=link_s, logon_ack_conflation_s=client_s)
    with triack_world.machine("b"):
        b = await triack.open("b", data="b", listen=listen, insecure=True).start()
    with triack_world.machine("a"):
        a = await triack.open("a", data="a", insecure=True, settings=amps).start()
        await (await a.send(f"{listen}/q", b"opens")).ordered()
        await triack_world.advance(5)
        told: list[tuple[float, AckEvent]] = []
        a.acknowledgements(f"{listen}/q", handler=lambda event: told.append((triack_world.now, event)))
        began = triack_world.now
        await a.send(f"{listen}/q", b"x")
        await triack_world.until(lambda: bool(told))
        assert reported_s <= told[0][0] - began < reported_s + 0.05
        await a.close()
    await b.close()
