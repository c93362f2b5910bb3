"""The machine that a node runs on: that it is real, and that another one can take its place."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.node.nodes import WAIT, bodies, make
from triack.base.units import SECOND
from triack.node.files.log_file import LogFile
from triack.node.shell.platform import PLATFORM, Platform
from triack.node.shell.worker import ThreadWorker
from triack.store.store import Store
from triack.tools.ports import free_port
from triack.tools.replay.run import replay


def test_the_real_machine_has_real_parts(tmp_path: Path) -> None:
    """Clocks that run, chance that differs, a store on the disk, and a log only where one is asked for."""
    platform = Platform()
    assert platform.monotonic_ns() <= platform.monotonic_ns()
    assert abs(platform.wall_ns() - time.time_ns()) < 10**10
    assert platform.entropy(16) != platform.entropy(16)
    assert platform.open_log(None, "a", 1, None) is None
    log = platform.open_log(tmp_path, "a", 1, None)
    assert isinstance(log, LogFile)
    log.close()
    store = platform.open_store(tmp_path / "data")
    assert isinstance(store, Store)
    assert not store.in_memory
    store.close()


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one clock for both")
def test_its_clock_goes_on_while_the_machine_is_suspended() -> None:
    """A namespace whose clocks say that this machine was, for a day."""
    read = (
        "import time; from triack.node.shell.platform import Platform; "
        "print(Platform().monotonic_ns() - time.monotonic_ns())"
    )
    command = ["unshare", "--user", "--map-root-user", "--time", "--boottime", "86400", sys.executable, "-c", read]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unshare" in found.stderr:
        pytest.skip(f"no namespaces of time here: {found.stderr.strip()}")
    assert int(found.stdout) >= 86_000 * SECOND, found.stderr


async def test_a_node_runs_on_the_machine_of_its_context() -> None:
    """Through the public API, unchanged; nodes made elsewhere do not."""
    used: list[str] = []

    class Other(Platform):
        def open_store(self, data: Path | None, log_bytes: int | None = None) -> Store:
            used.append("store")
            return super().open_store(data, log_bytes)

        def worker(self) -> ThreadWorker:
            used.append("worker")
            return ThreadWorker()

    before = PLATFORM.set(Other())
    try:
        node = make("other")
    finally:
        PLATFORM.reset(before)
    assert used == []
    async with node, make("usual") as usual:
        await node.send("q", b"x")
        await usual.send("q", b"y")
        assert await bodies(node, "q", 1) == [b"x"]
    assert sorted(used) == ["store", "worker"]
    assert isinstance(PLATFORM.get(), Platform)
    assert not isinstance(PLATFORM.get(), Other)


@contextmanager
def clock_set(by_s: int) -> Iterator[None]:
    """The machine's time of day is that much off; its uptime is what it is."""

    class Elsewhen(Platform):
        wall_ns = staticmethod(lambda: time.time_ns() + by_s * SECOND)

    before = PLATFORM.set(Elsewhen())
    try:
        yield
    finally:
        PLATFORM.reset(before)


YEAR_S = 366 * 86_400


@pytest.mark.slow
@pytest.mark.parametrize(("first_s", "then_s"), [(-50 * YEAR_S, 0), (0, YEAR_S), (YEAR_S, 0), (-90 * YEAR_S, 0)])
async def test_a_clock_that_is_set_between_two_starts_changes_no_life(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, first_s: int, then_s: int
) -> None:
    """Messages with an hour to live still live, a key is known, and the operator hears of it. The machine stayed up."""
    away = f"udp://127.0.0.1:{free_port()}/q"
    with clock_set(first_s):
        async with make(data=tmp_path) as node:
            await node.send(away, b"1", time_to_reach_queue=3_600)
            await node.send(away, b"2", time_to_be_received=3_600)
            await node.send("q", b"3", time_to_be_received=3_600)
            first = await node.send(away, b"4", key="k")
            await node.flush()
    told = []
    for _ in range(2):
        caplog.clear()
        with clock_set(then_s):
            async with make(data=tmp_path) as node:
                assert (await node.send(away, b"4", key="k")).id == first.id
                await node.send("q", b"more")
                await node.flush()
                assert [queue.messages for queue in node.stats().outgoing if queue.peer] == [3]
                assert node.queue_lengths()["dead-letter"] == 0
        told.append("the clock of this machine was set" in caplog.text)
    assert told == [True, False]
    async with make(data=tmp_path) as node:
        assert await bodies(node, "q", 1) == [b"3"]


@pytest.mark.parametrize(("by_s", "from_s"), [(-80 * YEAR_S, 0), (400 * YEAR_S, 4_102_444_800)])
async def test_a_node_may_begin_in_1946(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, by_s: int, from_s: int
) -> None:
    """It counts as 1970, in messages and in the log; what it does can be judged, and the operator hears of it.

    A year that no record has room for counts as 2100.
    """
    with clock_set(by_s):
        async with make(data=tmp_path / "data", log=tmp_path / "log") as node:
            await node.send("q", b"1", time_to_be_received=3_600, time_to_reach_queue=3_600)
            async with node.receive("q") as consumer:
                message = await consumer.get(WAIT)
    assert message.body == b"1"
    assert from_s <= message.sent_at < from_s + 3_600
    assert ("the clock of this machine is not set, it shows 1970-01-01" in caplog.text) == (not from_s)
    verdict = replay(tmp_path / "log", engine="local")
    assert (verdict.verdict, verdict.missing) == ("pass", [])


def test_the_boot_of_the_machine_has_a_name() -> None:
    """The same for all processes; none where the system does not tell."""
    there = Path("/proc/sys/kernel/random/boot_id").exists()
    assert Platform().boot() == Platform().boot()
    assert bool(Platform().boot()) == there
