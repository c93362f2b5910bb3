"""The machine that a node runs on: that it is real, and that another one can take its place."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.node.nodes import bodies, make
from triack.base.units import SECOND
from triack.node.log_file import LogFile
from triack.node.platform import PLATFORM, Platform
from triack.node.worker import ThreadWorker
from triack.store.store import Store


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


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one clock for both")
def test_its_clock_goes_on_while_the_machine_is_suspended() -> None:
    """A namespace whose clocks say that this machine was, for a day."""
    read = (
        "import time; from triack.node.platform import Platform; print(Platform().monotonic_ns() - time.monotonic_ns())"
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
        def open_store(self, data: Path | None) -> Store:
            used.append("store")
            return super().open_store(data)

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


def test_the_boot_of_the_machine_has_a_name() -> None:
    """The same for all processes; none where the system does not tell."""
    there = Path("/proc/sys/kernel/random/boot_id").exists()
    assert Platform().boot() == Platform().boot()
    assert bool(Platform().boot()) == there
