"""A simulated process: its effects on the outside, that it ends as planned, and that nothing follows then."""

import asyncio
from collections import Counter

import pytest

import triack
from tests.tools.testing.services import B, collect, feed, numbers
from triack.node.shell.platform import PLATFORM
from triack.testing import MachineCrashed, World
from triack.testing.hardware import Hardware
from triack.testing.process import SimProcess


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


@pytest.mark.slow
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

    async def commit() -> None:
        async with triack.open("a", data="a", insecure=True) as node:
            # After the start, whose steps on the disk would else decide where the commit is when the crash comes.
            machine.disk_delay = 1.0
            await asyncio.sleep(10)
            async with node.transaction() as transaction:
                transaction.remember("both", b"1")
                await transaction.send("q", b"1")

    machine.start(commit)
    await world.advance(10.5)
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


async def test_a_closed_worker_takes_no_job(triack_world: World) -> None:
    """Jobs that it had begun are done, as a thread that is joined would have; in order, and with their errors."""
    with triack_world.machine("a"):
        worker = PLATFORM.get().worker()
    done: list[int] = []
    jobs = [worker.start(lambda number=number: done.append(number)) for number in range(3)]  # type: ignore[misc]
    wrong = worker.start(lambda: int("no number"))
    assert done == []
    worker.close()
    assert done == [0, 1, 2]
    await asyncio.gather(*jobs)
    with pytest.raises(ValueError, match="no number"):
        await wrong
    with pytest.raises(RuntimeError, match="after the worker was closed"):
        worker.start(lambda: None)


async def test_a_job_takes_the_time_of_the_disk(triack_world: World) -> None:
    """One after the other; one that nobody waits for any more is left out."""
    machine = triack_world.machine("a")
    machine.disk_delay = 1.0
    with machine:
        worker = PLATFORM.get().worker()
    done: list[tuple[int, float]] = []
    jobs = [worker.start(lambda number=number: done.append((number, triack_world.now))) for number in range(3)]  # type: ignore[misc]
    jobs[1].cancel()
    await asyncio.gather(jobs[0], jobs[2])
    assert [number for number, _ in done] == [0, 2]
    assert 0.5 <= done[0][1] <= 1.5
    assert 0.5 <= done[1][1] - done[0][1] <= 1.5


def test_a_process_ends_before_its_planned_effect_and_has_none_after_it() -> None:
    """Records and datagrams: it says of each whether it happens."""
    with World() as world:
        hardware = Hardware(world, "a")
        ended: list[int] = []

        def end() -> None:
            ended.append(process.effects.count)
            process.die(hardware.disk.kill)

        process = SimProcess(hardware, end)
        log = process.open_log(None, "node", 1, None)
        process.effects.left = 2
        for record in (b"one\n", b"", b"two\n", b"three\n", b"four\n"):
            log.append(record)
        assert (bytes(log.records), ended, process.is_dead) == (b"one\ntwo\n", [3], True)
        process.effects.left = 0
        assert not process.take_effect()
        assert ended == [3], "a dead process ends nobody"
        hardware.disk.close()


def test_the_logs_of_a_machine_have_different_names() -> None:
    """By the node, by its start and by their order on the machine: two processes may run nodes of one name."""
    with World() as world:
        hardware = Hardware(world, "a")
        names = []
        for incarnation in (1, 2):
            process = SimProcess(hardware, lambda: None)
            names += [process.open_log(None, node, incarnation, None).name for node in ("x", "y")]
            process.die(hardware.disk.kill)
        assert names == ["a-x-000001-000001", "a-y-000001-000002", "a-x-000002-000003", "a-y-000002-000004"]
        hardware.disk.close()


@pytest.mark.parametrize("delivery", [triack.RECOVERABLE, triack.TRANSACTIONAL])
async def test_a_crash_before_a_message_of_its_own_is_recorded_breaks_no_promise(
    triack_world: World, delivery: triack.Delivery
) -> None:
    """It is on the disk and handed out after the next start; its records are gone, as the crash came before them."""
    machine = triack_world.machine("a")

    async def send() -> None:
        async with triack.open("a", data="a") as node:
            await node.send("q", b"x", delivery=delivery, until="queued")
            machine.crash_after(0)
            await asyncio.sleep(1)

    async def read() -> bytes:
        async with triack.open("a", data="a") as node:
            return (await node.receive("q").get(timeout=5)).body

    with pytest.raises(MachineCrashed):
        await machine.run(send())
    assert b"committed" not in triack_world.logs[0].records
    machine.restart()
    assert await machine.run(read()) == b"x"
    triack_world.check()


async def test_a_message_of_its_own_keeps_its_class_over_a_restart(triack_world: World) -> None:
    """The log of the next start calls it what that of the first has called it."""
    machine = triack_world.machine("a")

    async def send() -> None:
        async with triack.open("a", data="a") as node:
            await node.send("q", b"x", delivery=triack.RECOVERABLE)

    async def read() -> bytes:
        async with triack.open("a", data="a") as node:
            return (await node.receive("q").get(timeout=5)).body

    await machine.run(send())
    assert await machine.run(read()) == b"x"
    handed = [line for line in bytes(triack_world.logs[1].records).splitlines() if b'"handed"' in line]
    assert len(handed) == 1
    assert b'"class":"recoverable"' in handed[0]
    triack_world.check()
