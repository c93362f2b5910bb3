"""The hardware of a machine: a disk that fails as planned, a clock that may be wrong, changing addresses."""

import pytest

import triack
from tests.tools.testing.services import B, collect, feed, numbers
from triack.testing import World
from triack.testing.ground import Ground
from triack.testing.hardware import Hardware
from triack.tools.sim.disk import DiskFaults
from triack.tools.sim.world import START_NS, WALL_NS


@pytest.mark.slow
@pytest.mark.gate
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


def test_a_wall_clock_is_the_machines_own() -> None:
    """It begins at a time that is one, and the jump of one leaves the others."""
    ground = Ground(1, 1_000)
    one, other = Hardware(ground, "one"), Hardware(ground, "other")
    assert one.wall_ns() == other.wall_ns() == WALL_NS + START_NS
    one.jump_clock(-1.5)
    assert one.wall_ns() == other.wall_ns() - 1_500_000_000
    assert one.clock() == one.wall_ns() / 1e9
    assert ground.told == ["    0.000000 s  one: clock jumps by -1.5 s"]
    for hardware in (one, other):
        hardware.disk.close()
    ground.loop.close()


def test_a_disk_fails_in_one_way_until_it_is_mended() -> None:
    """And the story tells of it."""
    ground = Ground(1, 1_000)
    hardware = Hardware(ground, "a")
    hardware.fill_disk()
    assert hardware.disk.faults == DiskFaults(full=1.0)
    hardware.break_disk()
    assert hardware.disk.faults == DiskFaults(write=1.0, sync=1.0)
    hardware.mend_disk()
    assert hardware.disk.faults == DiskFaults()
    assert [line.split("  ")[-1] for line in ground.told] == ["a: disk full", "a: disk broken", "a: disk mended"]
    hardware.disk.close()
    ground.loop.close()


def test_the_disk_takes_about_its_time() -> None:
    """Half of it more or less; each machine draws for itself."""
    ground = Ground(1, 1_000)
    one, other = Hardware(ground, "one"), Hardware(ground, "other")
    one.disk_delay = other.disk_delay = 2.0
    delays = [one.draw_disk_delay() for _ in range(1_000)]
    assert 1.0 <= min(delays) < 1.01
    assert 2.99 < max(delays) <= 3.0
    assert delays[0] != other.draw_disk_delay()
    for hardware in (one, other):
        hardware.disk.close()
    ground.loop.close()


async def test_numbers_that_cannot_be_are_refused_with_their_unit(triack_world: World) -> None:
    """A slip of units, as milliseconds or nanoseconds for seconds, is no quiet hour of waiting."""
    a = triack_world.machine("a")
    for delay in (-1, "1", True, float("nan"), float("inf"), 5e15):
        with pytest.raises(triack.UsageError, match="disk_delay of machine a, in seconds, must be between 0 and"):
            a.disk_delay = delay  # type: ignore[assignment]
    with pytest.raises(triack.UsageError, match="jump_clock of machine a: seconds must be between -3"):
        a.jump_clock(float("inf"))
    for effects in (-1, 1.5, True):
        with pytest.raises(triack.UsageError, match="crash_after of machine a: effects must be a whole number"):
            a.crash_after(effects)  # type: ignore[arg-type]
    with pytest.raises(triack.UsageError, match="stop the services of machine a: timeout"):
        await a.stop(timeout=-1)
    with pytest.raises(triack.UsageError, match="until: timeout"):
        await triack_world.until(lambda: True, timeout=float("nan"))
    with pytest.raises(triack.UsageError, match="set_delay: seconds must be between 0 and"):
        triack_world.set_delay(float("inf"))
    with pytest.raises(triack.UsageError, match="advance: seconds must be between 0 and"):
        await triack_world.advance(float("inf"))
