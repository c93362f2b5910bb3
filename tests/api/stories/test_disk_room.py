"""A disk without room: nothing new is accepted, what is there goes out and is read, and a full disk can be emptied."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import triack
from triack.testing import World

LOW, ENOUGH = 10_000_000, 10**9


async def test_nothing_is_accepted_below_the_reserve_and_all_is_above_it(triack_world: World) -> None:
    """At both ends: a send is refused by name, arrivals wait at their sender; express messages take no disk."""
    left, right = triack_world.machine("left"), triack_world.machine("right")
    with right:
        there = triack.open("right", data="right", listen="udp://127.0.0.1:7802", insecure=True)
    with left:
        here = triack.open("left", data="left", insecure=True)
    to = "udp://127.0.0.1:7802/q"
    async with there, here:
        events = there.events()
        await (await here.send(to, b"before")).ordered(timeout=30)
        right.disk.free_bytes = LOW
        await asyncio.sleep(1)
        await (await here.send(to, b"with it the room is looked at")).ordered(timeout=30)
        event = await asyncio.wait_for(anext(events), 60)
        while not isinstance(event, triack.StoreLow):
            event = await asyncio.wait_for(anext(events), 60)
        assert event.is_low
        assert there.stats().store_low
        with pytest.raises(triack.NoRoom, match="less room than its reserve"):
            await there.send("q", b"refused")
        await there.send("q", b"fleeting", delivery=triack.EXPRESS)
        waits = await here.send(to, b"waits")
        with pytest.raises(triack.WaitTimeout):
            await waits.ordered(timeout=20)
        assert there.queue_lengths()["q"] == 3
        right.disk.free_bytes = ENOUGH
        await waits.ordered(timeout=20)
        assert not there.stats().store_low
        assert await asyncio.wait_for(anext(events), 60) == triack.StoreLow(False, there.stats().room_bytes or 0)


FULL_DISK = """
import asyncio, sys
from pathlib import Path
import triack

folder = Path(sys.argv[1])

async def fill():
    async with triack.open("a", data=folder / "a", insecure=True) as node:
        for _ in range(50):
            await node.send("q", bytes(100_000))
        await node.flush()
    assert (folder / "a" / "ballast").stat().st_size > 40_000_000
    with open(folder / "other", "wb", buffering=0) as other:
        try:
            while other.write(bytes(65_536)):
                pass
        except OSError as error:
            print("other:", error.strerror)

async def empty():
    async with triack.open("a", data=folder / "a", insecure=True) as node:
        assert node.stats().store_low
        try:
            await node.send("q", b"more")
        except triack.NoRoom:
            print("refused")
        taken = 0
        async for message in node.receive("q"):
            taken += 1
            if taken == 50:
                break
        (folder / "other").unlink()
        while node.stats().store_low:
            await asyncio.sleep(0.1)
        await (await node.send("q", b"more")).queued()
    print("taken", taken)

asyncio.run(fill())
asyncio.run(empty())
"""
TMPFS = 'mount -t tmpfs -o size=400m tmpfs "$1" && exec "$2" -c "$3" "$1"'


@pytest.mark.slow
def test_a_node_on_a_full_disk_can_be_started_and_emptied(tmp_path: Path) -> None:
    """Another program fills a real file system to the last byte; the ballast makes the room that draining takes."""
    shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    probe = subprocess.run([*shell, 'mount -t tmpfs tmpfs "$1"', "sh", tmp_path], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip(f"this system lets nobody mount a file system of their own: {probe.stderr!r}")
    done = subprocess.run(
        [*shell, TMPFS, "sh", tmp_path, sys.executable, FULL_DISK], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["other: No space left on device", "refused", "taken 50"], done.stderr
