"""The simulated world of users' tests: nodes, services, endpoints."""

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import triack
import triack.testing
from tests.tools.testing.services import B, collect, feed, numbers
from triack.base.errors import TransportError
from triack.base.reasons import DropReason
from triack.testing import MachineCrashed, PromiseBroken, ServiceDied, World
from triack.testing.check import FINDINGS_MAX, check_logs
from triack.testing.endpoint import SimEndpoint
from triack.tools.replay.log.files import parse_records
from triack.tools.replay.run import replay
from triack.transport.address import Address
from triack.transport.frames import FRAME_BYTES_MAX
from triack.transport.udp import MAX_DATAGRAM_BYTES

TCP = B.replace("udp", "tcp")


@pytest.mark.gate
@pytest.mark.parametrize("address", [B, TCP])
async def test_a_bad_network_loses_and_repeats_nothing(triack_world: World, address: str) -> None:
    triack_world.set_loss(0.3)
    triack_world.set_duplicate(0.2)
    triack_world.set_reorder(0.3)
    triack_world.set_delay(0.02, jitter=0.01)
    got: list[bytes] = []
    triack_world.machine("b").start(collect, got, address)
    triack_world.machine("a").start(feed, 100, address, 0.05)
    await triack_world.until(lambda: len(got) == 100)
    assert got == numbers(100)
    assert triack_world.network.counts["lost" if address == B else "arrived"] > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "fault", "one_way"), [(B, "cut", False), (B, "clog", True), (TCP, "cut", True), (TCP, "clog", False)]
)
async def test_parted_machines_meet_again(triack_world: World, address: str, fault: str, one_way: bool) -> None:
    """First delivery within a second and three round trips after the way is free."""
    got: list[bytes] = []
    a, b = triack_world.machine("a"), triack_world.machine("b")
    b.start(collect, got, address)
    a.start(feed, 100, address, 0.1)
    await triack_world.advance(2)
    (triack_world.cut if fault == "cut" else triack_world.clog)(a, "b", one_way=one_way)
    await triack_world.advance(0.1)
    before = len(got)
    await triack_world.advance(600)
    assert len(got) == before
    triack_world.heal()
    await triack_world.until(lambda: len(got) > before, timeout=1.03)
    await triack_world.until(lambda: len(got) == 100)
    assert got == numbers(100)


async def test_until_says_how_long_it_waited_and_who_died(triack_world: World) -> None:
    service = triack_world.machine("a").start(asyncio.to_thread, int, "no number")
    died = r"not true after 7 s of virtual time; to_thread on a died: ValueError"
    with pytest.raises(triack.WaitTimeout, match=died):
        await triack_world.until(lambda: False, timeout=7)
    assert (triack_world.now, service.work.died_unnoticed) == (7, True)
    assert isinstance(service.error, ValueError)
    assert not service.work.died_unnoticed, "it was looked at, and is no failure of the test"


def exchange(seed: int) -> World:

    async def test() -> None:
        b = world.machine("b")
        b.start(collect, got)
        world.set_loss(0.2)
        world.machine("a").start(feed, 40, B, 0.1)
        await world.advance(1)
        b.lose_power()
        await world.advance(1)
        b.restart()
        await world.until(lambda: len(set(got)) == 40)

    got: list[bytes] = []
    world = World(seed)
    with world:
        world.run(test())
    return world


@pytest.mark.gate
def test_a_seed_says_it_all() -> None:
    assert exchange(1).trace == exchange(1).trace
    assert exchange(1).trace != exchange(2).trace


def test_the_logs_can_be_replayed(tmp_path: Path) -> None:
    world = exchange(5)
    tmp_path /= "logs"
    world.write_logs(str(tmp_path))
    names = ("a-a-000001-000001", "b-b-000001-000001", "b-b-000002-000002")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{name}.jsonl" for name in names]
    verdict = replay([tmp_path], engine="local")
    assert (verdict.verdict, verdict.delivered, verdict.nodes) == ("pass", 40, 2)


async def test_what_cannot_be_is_refused_by_name(triack_world: World) -> None:
    """A percentage, a machine that is not there, a time that is none."""
    triack_world.machine("plant")
    triack_world.machine("shop")
    changes: list[tuple[Callable[[], None], str]] = [
        (lambda: triack_world.set_loss(30), "loss must be between 0 and 1, not 30"),
        (lambda: setattr(triack_world.faults, "duplicate", 2), "duplicate must be between 0 and 1, not 2"),
        (lambda: triack_world.set_delay(-1), "set_delay: seconds must be between 0 and 3162240000, not -1"),
        (lambda: setattr(triack_world.machine("shop").disk.faults, "write", 5), "write must be between 0 and 1, not 5"),
        (lambda: triack_world.cut("plnt"), "there is no machine plnt; did you mean plant?"),
        (lambda: triack_world.clog("shop", "quay"), "there is no machine quay; there is plant, shop"),
        (lambda: triack_world.cut(5), "there is no machine 5; there is plant, shop"),  # type: ignore[arg-type]
    ]
    for change, why in changes:
        with pytest.raises(triack.UsageError, match=f"^{re.escape(why)}$"):
            change()
    with pytest.raises(triack.UsageError, match=r"advance: seconds must be between 0 and .*, not -1"):
        await triack_world.advance(-1)
    for no_question in (True, asyncio.sleep):  # what an async function gives is always true
        asked: Any = no_question
        with pytest.raises(triack.UsageError, match=r"until: .* is no function that says yes or no, as"):
            await triack_world.until(asked)
    for settings, why in (
        ({"seed": "7"}, "seed must be a whole number of at least 0, not '7'"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"max_events": 0}, "max_events must be a whole number of at least 1, not 0"),
    ):
        with pytest.raises(triack.UsageError, match=f"^World: {why}$"):
            World(**settings)
    assert [machine.name for machine in triack_world.machines] == ["plant", "shop"]


@pytest.mark.gate
async def test_a_service_starts_again_with_its_machine(triack_world: World) -> None:
    """Its store is as it was, what it had in memory is gone, and nothing is lost or repeated."""
    got: list[bytes] = []
    a, b = triack_world.machine("a"), triack_world.machine("b")
    b.start(collect, got)
    a.start(feed, 50, B, 0.1)
    for machine in (b, a, b):
        await triack_world.advance(1)
        machine.crash()
        await triack_world.advance(0.5)
        machine.restart()
    await triack_world.until(lambda: len(set(got)) == 50)
    # A transaction that was open when the machine died was taken again; the numbers are those of the first time.
    assert sorted(set(got), key=int) == numbers(50)
    assert len(got) <= 52


async def test_work_on_a_machine_that_crashes_says_so(triack_world: World) -> None:
    a = triack_world.machine("a")
    service = a.start(asyncio.sleep, 1_000)
    running = asyncio.create_task(a.run(asyncio.sleep(1_000)))
    await triack_world.advance(1)
    a.crash()
    with pytest.raises(MachineCrashed, match="sleep on a ended: crash of machine a"):
        await running
    with pytest.raises(MachineCrashed):
        await service
    with pytest.raises(triack.UsageError, match=r"machine a: it is down; restart\(\) starts it again"):
        await a.run(asyncio.sleep(0))
    assert a.state == "down"
    a.restart()
    assert service.is_running
    assert await a.run(asyncio.sleep(1, "fine")) == "fine"


async def dies() -> None:
    await asyncio.to_thread(int, "no number")


async def loses_a_task() -> None:
    task = asyncio.create_task(dies())
    await asyncio.sleep(1)
    del task
    await asyncio.sleep(1)


@pytest.mark.parametrize(
    ("serve", "said"),
    [(dies, "dies on a died: ValueError: invalid"), (loses_a_task, "exception was never retrieved: ValueError")],
)
def test_a_service_that_dies_unnoticed_fails_a_test(serve: Callable[[], Coroutine[Any, Any, None]], said: str) -> None:
    async def test() -> None:
        world.machine("a").start(serve)
        await world.advance(3)

    with pytest.raises(ServiceDied, match=said), World() as world:
        world.run(test())


def test_a_death_is_named_when_the_test_fails_first() -> None:
    """And the story of the test has what came before it."""

    async def test() -> None:
        world.set_loss(0.25)
        world.machine("a").start(asyncio.to_thread, int, "no number")
        await world.advance(3)
        world.cut("a", world.machine("b"), one_way=True)
        world.machine("b").crash()
        raise AssertionError("no order arrived")

    with pytest.raises(AssertionError, match="no order arrived") as caught, World(9) as world:
        world.run(test())
    (note,) = caught.value.__notes__
    assert note.startswith("to_thread on a died: ValueError: invalid literal")
    head, *lines = world.story().splitlines()
    assert head == f"seed 9, 3.000 s of virtual time, trace {world.trace}"
    said = [line.rpartition(" s  ")[2] for line in lines]
    assert said == ["network: loss 0.25", "network: cut a -> b", "b: crash", f"at the end: {note}"]


async def test_work_that_is_cancelled_ends_on_its_machine(triack_world: World) -> None:
    """Its waiter is cancelled, and so is what runs there."""
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            ended.set()

    waiting = asyncio.create_task(triack_world.machine("a").run(work()))
    await triack_world.advance(1)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    await asyncio.wait_for(ended.wait(), 1)


async def test_a_service_gives_its_result_or_is_cancelled(triack_world: World) -> None:
    machine = triack_world.machine("a")
    service = machine.start(asyncio.sleep, 1, "result")
    assert service.is_running
    assert [await service, await service, service.error] == ["result", "result", None]
    assert not service.is_running
    endless = machine.start(asyncio.sleep, 1_000)
    await triack_world.advance(1)
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless
    assert endless.error is None


async def test_a_cut_holds_for_addresses_to_come(triack_world: World) -> None:
    got: list[bytes] = []
    triack_world.machine("b")
    triack_world.cut("b")
    triack_world.machine("a").start(feed, 1)
    triack_world.cut("b", "a")
    triack_world.machine("b").start(collect, got)
    await triack_world.advance(10)
    assert got == []
    triack_world.calm()
    await triack_world.until(lambda: got == [b"0"], timeout=2)


async def test_addresses_are_shared_by_all_machines(triack_world: World) -> None:
    """As on one real host: the second node at an address is refused, and port 0 takes a free one."""
    a, b = triack_world.machine("a"), triack_world.machine("b")
    with a:
        one = await triack.open("one", data="one", listen="udp://127.0.0.1:7801", insecure=True).start()
        free = await triack.open("free", data="free", listen="tcp://127.0.0.1:0", insecure=True).start()
    assert free.address.startswith("tcp://127.0.0.1:49")
    with b:
        two = triack.open("two", data="one", listen="udp://localhost:7801", insecure=True)
        with pytest.raises(triack.TransportError, match="address already in use on machine a"):
            await two.start()
        other = await triack.open("other", data="one", insecure=True).start()
        await (await other.send("udp://localhost:7801/q", b"by name")).ordered(timeout=5)
    assert one.queue_lengths()["q"] == 1
    for node in (one, free, other):
        await node.close()


@pytest.fixture
def open_end(triack_world: World) -> Callable[..., SimEndpoint]:
    """Opens an endpoint on a machine; its datagrams are effects that happen."""

    def open_it(machine: str, scheme: str, listen: str | None = None) -> SimEndpoint:
        address = None if listen is None else Address.parse(listen, listening=True)
        return SimEndpoint(triack_world.links, machine, scheme, address, lambda: True)

    return open_it


@pytest.mark.parametrize(("scheme", "limit_bytes"), [("udp", MAX_DATAGRAM_BYTES), ("tcp", FRAME_BYTES_MAX)])
async def test_what_a_real_endpoint_drops_is_dropped(
    open_end: Callable[..., SimEndpoint], scheme: str, limit_bytes: int
) -> None:
    one, other = open_end("a", scheme), open_end("b", scheme)
    await one.send([bytes(limit_bytes), bytes(limit_bytes + 1)], other.address)
    assert [len(data) for data, _ in await other.receive()] == [limit_bytes]
    await one.close()
    await one.send([b"x"], other.address)
    assert one.drops == {DropReason.TOO_LARGE: 1, DropReason.CLOSED: 1}
    await other.close()


async def test_who_waits_learns_that_an_endpoint_is_closed(open_end: Callable[..., SimEndpoint]) -> None:
    """Its address is free again; of one that vanishes nobody learns anything."""
    endpoint = open_end("a", "udp", B)
    waiting = asyncio.create_task(endpoint.receive())
    await asyncio.sleep(0)
    await endpoint.close()
    with pytest.raises(TransportError):
        await waiting
    again = open_end("b", "udp", B)
    waiting = asyncio.create_task(again.receive())
    again.vanish()
    await asyncio.sleep(10)
    assert not waiting.done()
    waiting.cancel()
    open_end("a", "udp", B).vanish()


async def test_what_is_clogged_arrives_after_it(triack_world: World, open_end: Callable[..., SimEndpoint]) -> None:
    """Between addresses of one kind; those that are opened meanwhile are clogged, too."""
    triack_world.links.clog("a", "b")
    one, other = open_end("a", "udp"), open_end("b", "udp")
    await one.send([b"held"], other.address)
    await other.send([b"free"], one.address)
    assert [data for data, _ in await one.receive()] == [b"free"]
    waiting = asyncio.create_task(other.receive())
    await asyncio.sleep(100)
    assert not waiting.done()
    triack_world.links.heal()
    assert [data for data, _ in await waiting] == [b"held"]
    assert triack_world.links.routes_of("a") == [one.address]
    await one.close()
    await other.close()


@pytest.mark.gate
def test_a_broken_promise_is_found() -> None:
    """The logs of a good run, but for one commit that the receiver did not write down, or for all of them.

    No more is listed than can be read.
    """
    logs = {log.name: bytes(log.records) for log in exchange(4).logs}
    check_logs(logs)
    name = next(name for name in logs if name.startswith("b-"))
    lines = [json.dumps(record).encode() + b"\n" for record in parse_records(logs[name])]
    commits = [line for line in lines if b'"event": "committed"' in line]
    with pytest.raises(PromiseBroken, match=r"the session logs show .* broken promises:\n.*check="):
        check_logs(logs | {name: b"".join(line for line in lines if line is not commits[-1])})
    with pytest.raises(PromiseBroken) as broken:
        check_logs(logs | {name: b"".join(line for line in lines if line not in commits)})
    first, *listed = str(broken.value).splitlines()
    assert len(listed) == FINDINGS_MAX
    assert int(first.split()[4]) > FINDINGS_MAX


REFUSED = triack.NodeSettings(max_redeliveries=2, redelivery=triack.Redelivery(first_wait_s=0))


async def refuse() -> None:
    async with triack.open("b", data="b", listen=B, settings=REFUSED, insecure=True) as node:
        async for message in node.receive("q", ack="manual"):
            message.reject()


async def test_messages_that_all_went_to_the_dead_letter_queue_are_counted_by_reason(triack_world: World) -> None:
    triack_world.machine("b").start(refuse)
    triack_world.machine("a").start(feed, 20)
    with pytest.raises(triack.WaitTimeout) as told:
        await triack_world.until(lambda: False, timeout=30)
    lines = str(told.value).splitlines()
    assert "still not true after 30 s of virtual time" in lines
    dead = "queue q has 0 messages; dead-letter has 20 messages (20 for max-redeliveries)"
    assert f"  b on b: {dead}; session with a, 0 of 64 packets unacknowledged" in lines
    assert "  a on a: session with b, 0 of 64 packets unacknowledged" in lines


async def test_what_is_on_its_way_is_counted_and_who_is_down_is_left_out(triack_world: World) -> None:
    triack_world.machine("b").start(collect, [])
    triack_world.machine("a").start(feed, 3)
    triack_world.cut("a", "b")
    with pytest.raises(triack.WaitTimeout, match=rf"a on a: 3 packets on the way to {B}/q; no session"):
        await triack_world.until(lambda: False, timeout=1)
    triack_world.machine("a").crash()
    assert triack_world.story().splitlines()[-1] == "at the end: b on b: queue q has 0 messages; no session"
