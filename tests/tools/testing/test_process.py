"""Processes of the simulated world, and their machines."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import triack
import triack.sync
from tests.tools.testing.services import B, collect, feed, numbers
from triack.base.peers import Peer
from triack.node.files.private_files import MemoryFiles
from triack.node.files.trust import TrustFile
from triack.node.shell.platform import PLATFORM
from triack.testing import Machine, MachineCrashed, NotSimulated, World
from triack.testing.keyring import Keyring


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


@pytest.mark.parametrize("delivery", [triack.RECOVERABLE, triack.TRANSACTIONAL])
async def test_a_crash_before_a_record_breaks_no_promise(triack_world: World, delivery: triack.Delivery) -> None:
    """It is on the disk and handed out after the next start, with its class; its records are gone."""
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
    (handed,) = [line for line in bytes(triack_world.logs[1].records).splitlines() if b'"handed"' in line]
    assert b'"class":"%s"' % delivery.label.encode() in handed
    triack_world.check()


async def test_what_runs_nowhere_is_named(triack_world: World) -> None:
    """Code on no machine, what is no service, and a service whose nodes would live in another loop."""

    async def serve() -> None:
        with triack.sync.open("a", data="data"):
            pass

    a: Any = triack_world.machine("a")
    with pytest.raises(triack.UsageError, match="runs on no machine of the simulated world"):
        await triack.open("a", data=None, insecure=True).start()
    for nothing in (5, time.time):
        with pytest.raises(triack.UsageError, match=r"on (machine )?a: .* is no async function"):
            a.start(nothing)
    with pytest.raises(
        triack.UsageError, match=r"^start feed on machine a: a coroutine cannot .* start\(feed, \.\.\.\)"
    ):
        a.start(feed(1))
    for uncalled in (5, serve):
        with pytest.raises(triack.UsageError, match="is no coroutine, as what a call of an async function gives"):
            await a.run(uncalled)
    with pytest.raises(NotSimulated, match=r"^open a node on machine a: .* real event loop, as that of triack\.sync"):
        await a.run(serve())
    for name in ("", "a b", 5):
        with pytest.raises(triack.AddressError, match="name"):
            triack_world.machine(name)  # type: ignore[arg-type]


@pytest.mark.gate
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


async def test_who_does_not_stop_is_named(triack_world: World) -> None:
    async def hang() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1_000)
        await asyncio.sleep(1_000)

    b = triack_world.machine("b")
    b.start(asyncio.sleep, 1_000)
    service = b.start(hang)
    await triack_world.advance(1)
    with pytest.raises(triack.WaitTimeout, match=r"^test_.*hang on b: still running 5 s of virtual time after stop"):
        await b.stop(timeout=5)
    assert service.is_running


@pytest.mark.gate
@pytest.mark.parametrize(("end", "why"), [(Machine.fill_disk, "the disk is full"), (Machine.break_disk, "EIO|store")])
async def test_a_bad_disk_ends_the_service(triack_world: World, end: Callable[[Machine], None], why: str) -> None:
    a = triack_world.machine("a")
    service = a.start(feed, 60, B, 0.1)
    await triack_world.advance(1)
    end(a)
    with pytest.raises(triack.StoreFailed, match=why):
        await service
    a.mend_disk()
    got: list[bytes] = []
    triack_world.machine("b").start(collect, got)
    a.restart()
    await triack_world.until(lambda: len(got) == 60)
    assert got == numbers(60)


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


DATA = Path("data")
AT = "udp://127.0.0.1:7802"


async def collect_keys(got: list[bytes]) -> None:
    async with triack.open("node", data=DATA, listen=AT) as node:
        async for message in node.receive("q"):
            got.append(message.body)  # noqa: PERF401 - it never ends


async def feed_keys(*bodies: bytes) -> None:
    async with triack.open("node", data=DATA) as node:
        for body in bodies:
            await (await node.send("b/q", body)).ordered()


async def test_machines_are_peers_by_their_names(triack_world: World) -> None:
    """From their start on, in whatever order; crashes change no key."""
    got: list[bytes] = []
    a, b = triack_world.machine("a"), triack_world.machine("b")
    sending = a.start(feed_keys, b"0", b"1")
    await triack_world.advance(5)
    b.start(collect_keys, got)
    await sending
    a.restart()
    b.lose_power()
    b.restart()
    await triack_world.until(lambda: got == [b"0", b"1", b"0", b"1"])


@pytest.mark.triack(trust=False)
async def test_or_they_are_strangers(triack_world: World) -> None:
    """Then a service says itself whom it trusts, and that survives crashes as keys do."""
    a, b = triack_world.machine("a"), triack_world.machine("b")
    with b:
        node_b = await triack.open("b", data=DATA, listen=AT).start()
    with a:
        node_a = await triack.open("a", data=DATA).start()
    with pytest.raises(triack.AddressError, match="unknown peer b"):
        await node_a.send("b/q", b"x")
    await node_a.trust("b", node_b.key, AT)
    receipt = await node_a.send("b/q", b"x")
    await triack_world.advance(1)
    assert node_b.stats().drops["untrusted"]
    await node_b.trust("a", node_a.key)
    await receipt.ordered()
    key = node_a.key
    a.restart()
    with a:
        node_a = await triack.open("a", data=DATA).start()
    assert node_a.key == key
    await (await node_a.send("b/q", b"y")).ordered()


async def test_a_revoked_machine_stays_revoked(triack_world: World) -> None:
    a, b = triack_world.machine("a"), triack_world.machine("b")
    with b:
        node = await triack.open("b", data=DATA, listen=AT).start()
    sending = a.start(feed_keys, b"0")
    await sending
    await node.revoke("a")
    for _ in range(3):
        a.restart()
        await triack_world.advance(1)
    assert node.queue_lengths()["q"] == 1


def peers(keyring: Keyring, files: MemoryFiles) -> dict[str, Peer]:
    return {peer.name: peer for peer in TrustFile(files).load()}


def test_what_nodes_know_of_each_other() -> None:
    """The first of a machine has the machine's name, more have their own; an address is the last one."""
    keyring = Keyring(Random)
    keyring.add_machine("a")
    keyring.add_machine("b")
    first = keyring.files("a", DATA, "x")
    more = [keyring.files("a", Path(f"more{number}"), "x") for number in range(3)]
    in_b = keyring.files("b", None, "b")
    assert keyring.files("a", DATA, "whatever") is first
    for files, address in ((first, ""), (in_b, "udp://127.0.0.1:1"), (more[0], "")):
        keyring.introduce(files, address)
    keyring.introduce(in_b, "udp://127.0.0.1:2")
    assert set(peers(keyring, first)) == {"b", "x", "a.x", "a.x-2"}
    assert set(peers(keyring, in_b)) == {"a", "x", "a.x", "a.x-2"}
    assert peers(keyring, first)["b"].addresses == ("udp://127.0.0.1:2",)
    assert more[2].read("trust.json") is None
