"""The machine that a node runs on: its thread for the disk, and that another one can take its place."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from tests.machine import PATIENCE_S
from tests.node.nodes import bodies, make
from triack.node.log_file import LogFile
from triack.node.platform import PLATFORM, Platform, ThreadWorker
from triack.store.store import Store


async def test_jobs_are_done_one_by_one_in_order_and_off_the_loop() -> None:
    """The next one waits, however slow the first is; the loop goes on meanwhile."""
    worker, done, gate = ThreadWorker(), list[str](), threading.Event()

    def first() -> str:
        assert gate.wait(PATIENCE_S)
        done.append("first")
        return threading.current_thread().name

    slow, quick = worker.start(first), worker.start(lambda: done.append("second"))
    await asyncio.sleep(0.01)
    assert done == []
    gate.set()
    await quick
    assert done == ["first", "second"]
    assert (await slow).startswith("triack-store")
    worker.close()


async def test_a_job_that_fails_gives_its_error_and_the_next_is_done() -> None:
    worker = ThreadWorker()

    def fail() -> None:
        raise OSError("full")

    broken, fine = worker.start(fail), worker.start(lambda: 7)
    with pytest.raises(OSError, match="full"):
        await broken
    assert await fine == 7
    worker.close()


async def test_what_became_of_a_job_is_told_in_the_loop() -> None:
    """In the order of the jobs, with the errors of those that fail, and in the thread of the loop."""
    worker, loop = ThreadWorker(), asyncio.get_running_loop()
    told: list[tuple[int | None, str]] = []
    over = loop.create_future()

    def then(result: int | None, error: BaseException | None) -> None:
        assert asyncio.get_running_loop() is loop
        told.append((result, str(error)))
        if len(told) == 2:
            over.set_result(None)

    worker.run(lambda: int("no number"), then)
    worker.run(lambda: 7, then)
    async with asyncio.timeout(60):
        await over
    assert told == [(None, "invalid literal for int() with base 10: 'no number'"), (7, "None")]
    worker.close()


async def test_a_worker_ends_after_what_was_begun() -> None:
    """A commit is never cut off."""
    worker, done = ThreadWorker(), list[int]()

    def slow() -> None:
        time.sleep(0.05)
        done.append(1)

    future = worker.start(slow)
    worker.close()
    assert done == [1]
    await future
    with pytest.raises(RuntimeError):
        worker.start(lambda: None)


def test_the_real_machine_has_real_parts(tmp_path: Path) -> None:
    """Clocks that run, chance that differs, a store on the disk, and a log only where one is asked for."""
    platform = Platform()
    assert platform.monotonic_ns() <= platform.monotonic_ns()
    assert abs(platform.wall_ns() - time.time_ns()) < 10**10
    assert platform.entropy(16) != platform.entropy(16)
    assert platform.open_log(None, "a", 1) is None
    log = platform.open_log(tmp_path, "a", 1)
    assert isinstance(log, LogFile)
    log.close()
    store = platform.open_store(tmp_path / "data")
    assert isinstance(store, Store)
    assert not store.in_memory
    store.close()


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
