"""Simulated machines: crashes, power, pauses, disks, clocks and addresses, under services that do not know."""

import asyncio
from collections import Counter

import pytest

import triack
from tests.tools.testing.services import B, collect, feed, numbers
from triack.node.platform import MACHINE
from triack.testing import MachineCrashed, ServiceDied, World


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
    # What was in a transaction when the machine died was taken again; the numbers are those of the first time.
    assert sorted(set(got), key=int) == numbers(50)
    assert len(got) <= 52


def test_a_dead_machine_has_no_effects() -> None:
    """No datagram leaves, nothing reaches the disk, and no line of the service runs before the test is over."""
    steps: list[object] = []

    async def service() -> None:
        async with triack.open("a", data="a", insecure=True) as node:
            try:
                await node.send(f"{B}/q", b"x")
                await asyncio.sleep(1)
                steps.append("woke up")
            finally:
                try:
                    await node.send(f"{B}/q", b"y")
                    await node.flush()
                    steps.append("flushed")
                finally:
                    steps.append((machine.disk.files(), world.network.counts["sent"]))

    async def test() -> tuple[dict[str, bytes], int]:
        machine.start(service)
        await world.advance(0.5)
        before = machine.disk.files(), world.network.counts["sent"]
        machine.crash()
        await world.advance(100)
        assert steps == []
        return before

    with World() as world:
        machine = world.machine("a")
        before = world.run(test())
    assert steps == [before]


@pytest.mark.parametrize("power", [False, True])
def test_a_commit_that_a_crash_cuts_off_is_there_or_not(power: bool) -> None:
    """As the seed decides: not begun, cut off in the middle or done; and after the restart all of it or nothing."""
    fates: Counter[tuple[bool, bytes | None]] = Counter()
    for seed in range(30):
        with World(seed) as world:
            fates[world.run(_cut_off_a_commit(world, power=power))] += 1
    assert fates[False, None] > 5
    assert fates[True, b"1"] > 5
    assert fates[True, None] > 0


async def _cut_off_a_commit(world: World, *, power: bool) -> tuple[bool, bytes | None]:
    """Returns whether the disk was changed, and what was remembered."""
    machine = world.machine("a")
    machine.disk_delay = 1.0

    async def commit() -> None:
        async with triack.open("a", data="a", insecure=True) as node:
            await asyncio.sleep(10)
            async with node.transaction() as transaction:
                transaction.remember("both", b"1")
                await transaction.send("q", b"1")

    machine.start(commit)
    await world.advance(11.8)
    before = machine.disk.files(), machine.disk.snapshot().durable
    if power:
        machine.lose_power()
    else:
        machine.crash()
    changed = (machine.disk.files(), machine.disk.snapshot().durable) != before
    machine.services.clear()
    machine.restart()
    with machine:
        async with triack.open("a", data="a", insecure=True) as node:
            remembered = node.recall("both")
            assert node.queue_lengths().get("q", 0) == (1 if remembered else 0)
    return changed, remembered


@pytest.mark.parametrize("effects", range(0, 40, 4))
async def test_only_a_power_cut_takes_what_was_not_synced(triack_world: World, effects: int) -> None:
    a, b = triack_world.machine("a"), triack_world.machine("b")
    for machine, power in ((a, False), (b, True)):
        machine.crash_after(effects, power=power)
        machine.start(feed, 5)
    await triack_world.until(lambda: not a.is_up and not b.is_up)
    assert b.disk.unsynced == []
    if effects in (4, 8, 12):
        assert a.disk.unsynced != []


async def test_datagrams_are_effects_too(triack_world: World) -> None:
    """A node in memory has no others, but for its session log."""
    a = triack_world.machine("a")

    async def call() -> None:
        async with triack.open("a", data=None, insecure=True) as node:
            await node.send(f"{B}/q", b"x", delivery=triack.EXPRESS)
            await asyncio.sleep(1_000)

    a.crash_after(10)
    a.start(call)
    await triack_world.until(lambda: not a.is_up)
    assert 0 < triack_world.network.counts["sent"] < 10


async def test_tasks_made_inside_with_belong_to_the_machine(triack_world: World) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(triack_world.now)

    a = triack_world.machine("a")
    with a:
        ticking = asyncio.create_task(tick())
    await triack_world.advance(1.5)
    a.crash()
    await triack_world.advance(10)
    assert ticks == [1.0]
    assert not ticking.done()


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


@pytest.mark.parametrize("effects", [0, 1, 5, 20, 60])
async def test_a_crash_can_be_planned_to_the_effect(triack_world: World, effects: int) -> None:
    got: list[bytes] = []
    a, b = triack_world.machine("a"), triack_world.machine("b")
    a.crash_after(effects)
    b.start(collect, got)
    a.start(feed, 20, B, 0.01)
    await triack_world.until(lambda: not a.is_up)
    if effects == 0:
        assert triack_world.network.counts["sent"] == 0
        assert a.disk.files() == {}
    a.restart()
    await triack_world.until(lambda: len(got) == 20)
    assert got == numbers(20)


async def test_a_planned_crash_can_be_called_off(triack_world: World) -> None:
    a = triack_world.machine("a")
    a.crash_after(1)
    a.crash_after(None)
    a.start(feed, 5)
    await triack_world.advance(5)
    assert a.is_up


async def test_what_was_queued_survives_a_power_cut(triack_world: World) -> None:
    """At the very moment at which the receipt says so."""
    a = triack_world.machine("a")

    async def send() -> int:
        async with triack.open("a", data="a", insecure=True) as node:
            receipts = [await node.send(f"{B}/q", b"%d" % number) for number in range(10)]
            await receipts[-1].queued()
            a.lose_power()
            await asyncio.sleep(1)
            raise AssertionError("dead code runs")

    with pytest.raises(MachineCrashed):
        await a.run(send())
    a.restart()
    got: list[bytes] = []
    triack_world.machine("b").start(collect, got)

    async def stay() -> None:
        async with triack.open("a", data="a", insecure=True) as node:
            raise await node.failed()

    a.start(stay)
    await triack_world.until(lambda: len(got) == 10)
    assert got == numbers(10)


async def test_a_paused_machine_is_late(triack_world: World) -> None:
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(triack_world.now)

    a = triack_world.machine("a")
    a.start(tick)
    await triack_world.advance(1.5)
    a.pause()
    assert a.state == "paused"
    await triack_world.advance(100)
    a.resume()
    await triack_world.advance(1.1)
    assert ticks == [1.0, 101.5, 102.5]


async def test_a_pause_breaks_no_promise(triack_world: World) -> None:
    """Sessions end meanwhile, and everything arrives after it; being late is no finding."""
    got: list[bytes] = []
    a, b = triack_world.machine("a"), triack_world.machine("b")
    b.start(collect, got)
    a.start(feed, 60, B, 0.1)
    await triack_world.advance(2)
    b.pause()
    await triack_world.advance(60)
    b.resume()
    await triack_world.until(lambda: len(got) == 60)
    assert got == numbers(60)


async def test_stop_ends_services_in_good_order(triack_world: World) -> None:
    """Without a signal handler they are cancelled, and their nodes close."""
    got: list[bytes] = []
    b = triack_world.machine("b")
    service = b.start(collect, got)
    await triack_world.advance(1)
    await b.stop()
    assert not service.is_running
    assert b.is_up
    with b:  # the data directory is free again
        async with triack.open("b", data="b", listen=B, insecure=True):
            pass


async def test_a_full_disk_ends_the_service(triack_world: World) -> None:
    a = triack_world.machine("a")
    service = a.start(feed, 60, B, 0.1)
    await triack_world.advance(1)
    a.fill_disk()
    with pytest.raises(triack.StoreFailed, match="the disk is full"):
        await service
    a.mend_disk()
    got: list[bytes] = []
    triack_world.machine("b").start(collect, got)
    a.restart()
    await triack_world.until(lambda: len(got) == 60)
    assert got == numbers(60)


async def test_a_broken_disk_does_too(triack_world: World) -> None:
    a = triack_world.machine("a")
    service = a.start(feed, 60, B, 0.1)
    await triack_world.advance(1)
    a.break_disk()
    await triack_world.until(lambda: not service.is_running)
    assert isinstance(service.error, triack.StoreFailed)


def test_a_service_that_dies_unnoticed_fails_the_test() -> None:
    async def test() -> None:
        world.machine("a").start(asyncio.to_thread, int, "no number")
        await world.advance(1)

    with pytest.raises(ServiceDied, match="to_thread on a died: ValueError: invalid") as caught, World() as world:
        world.run(test())
    assert isinstance(caught.value.__cause__, ValueError)


def test_so_does_a_task_of_its_own() -> None:
    async def service() -> None:
        task = asyncio.create_task(asyncio.to_thread(int, "no number"))
        await asyncio.sleep(1)
        del task
        await asyncio.sleep(1)

    async def test() -> None:
        await world.machine("a").start(service)

    with pytest.raises(ServiceDied, match="exception was never retrieved: ValueError"), World() as world:
        world.run(test())


@pytest.mark.parametrize("seconds", [3_600, -3_600])
async def test_the_wall_clock_may_jump(triack_world: World, seconds: float) -> None:
    """Virtual time goes on, and messages with a deadline arrive all the same."""
    a, b = triack_world.machine("a"), triack_world.machine("b")
    got: list[bytes] = []
    b.start(collect, got)
    with a:
        async with triack.open("a", data="a", insecure=True) as node:
            before, now = a.clock(), triack_world.now
            a.jump_clock(seconds)
            assert a.clock() - before == pytest.approx(seconds)
            assert triack_world.now == now
            receipt = await node.send(f"{B}/q", b"0", time_to_reach_queue=10, time_to_be_received=7_200)
            await receipt.ordered(timeout=5)
            await triack_world.until(lambda: got == [b"0"], timeout=5)


@pytest.mark.parametrize("address", [B, B.replace("udp", "tcp"), "memory://b"])
async def test_a_machine_may_get_another_address(triack_world: World, address: str) -> None:
    got: list[bytes] = []
    a, b = triack_world.machine("a"), triack_world.machine("b")
    b.start(collect, got, address)
    a.start(feed, 40, address, 0.1)
    for _ in range(3):
        await triack_world.advance(1)
        a.rebind()
    await triack_world.until(lambda: len(got) == 40)
    assert got == numbers(40)


async def test_addresses_are_shared_by_all_machines(triack_world: World) -> None:
    """As on one real host: whoever comes second is refused, and port 0 takes a free one."""
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
        await (await other.send("udp://a:7801/q", b"by the machine's name")).ordered(timeout=5)
    assert one.queue_lengths()["q"] == 2
    for node in (one, free, other):
        await node.close()


async def test_code_on_no_machine_opens_no_node(triack_world: World) -> None:
    with pytest.raises(triack.UsageError, match="runs on no machine of the simulated world"):
        await triack.open("a", data=None, insecure=True).start()


async def test_a_directory_is_for_one_node_at_a_time(triack_world: World) -> None:
    with triack_world.machine("a"):
        async with triack.open("one", data="d", insecure=True):
            with pytest.raises(triack.StoreInUse):
                await triack.open("two", data="d", insecure=True).start()
    with triack_world.machine("b"):
        async with triack.open("two", data="d", insecure=True):
            pass


async def test_work_that_is_cancelled_ends_on_its_machine(triack_world: World) -> None:
    """Who waits for it is cancelled, and so is what runs there."""
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


async def test_the_parts_of_a_simulated_process_keep_the_contracts_of_real_ones(triack_world: World) -> None:
    """A closed worker takes no job; an endpoint sends to its own kind of address only."""
    machine = triack_world.machine("a")
    with machine:
        process = MACHINE.get()
        worker, endpoint = process.worker(), await process.open_endpoint("udp", None)
    with pytest.raises(triack.AddressError, match="it is not a udp address"):
        await endpoint.send([b"x"], "tcp://10.0.0.2:1")
    await endpoint.close()
    worker.close()
    with pytest.raises(RuntimeError, match="after the worker was closed"):
        worker.start(lambda: None)
