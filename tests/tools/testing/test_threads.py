"""Real threads in a simulated world: they work while time stands still, and their calls have an order."""

import asyncio
import random
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import anyio.from_thread
import anyio.to_thread
import pytest

from triack.testing import NothingHappens, World, threads


def slowly(number: int) -> int:
    """Work that takes another time on every run."""
    time.sleep(random.random() / 100)
    return number


async def test_anyio_works_while_time_stands_still(triack_world: World) -> None:
    """And calls back, as a function does that is no coroutine and sends a message."""

    def work() -> str:
        threads_seen.add(threading.get_ident())
        anyio.from_thread.run(asyncio.sleep, 5)
        return anyio.from_thread.run_sync(lambda: "done in the loop")

    threads_seen: set[int] = set()
    assert await anyio.to_thread.run_sync(slowly, 3) == 3
    assert triack_world.now == 0
    assert await anyio.to_thread.run_sync(work) == "done in the loop"
    assert triack_world.now == 5
    assert threading.get_ident() not in threads_seen


async def in_threads(done: list[int]) -> None:
    """Three kinds of them, all at once."""

    async def note(work: "asyncio.Future[int]") -> None:
        done.append(await work)

    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(3) as pool:
        async with asyncio.TaskGroup() as group:
            for number in range(0, 30, 3):
                group.create_task(note(asyncio.wrap_future(pool.submit(slowly, number))))
                group.create_task(note(asyncio.ensure_future(anyio.to_thread.run_sync(slowly, number + 1))))
                group.create_task(note(loop.run_in_executor(None, slowly, number + 2)))


def test_the_order_does_not_depend_on_how_fast_threads_are() -> None:
    runs: list[list[int]] = []
    for _ in range(3):
        runs.append([])
        with World(seed=3) as world:
            world.run(in_threads(runs[-1]))
    assert sorted(runs[0]) == list(range(30))
    assert runs[0] == runs[1] == runs[2]


async def test_jobs_that_are_done_before_their_callers_ask_keep_their_order(triack_world: World) -> None:
    """Threads go on whenever the loop's own waits for a lock, so a job may be done at any step."""
    del triack_world
    done: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        jobs = [pool.submit(slowly, number) for number in range(3)]
        jobs[-1].result()
        told = [asyncio.wrap_future(job) for job in reversed(jobs)]
        for it in told:
            it.add_done_callback(lambda it: done.append(it.result()))
        await asyncio.wait(told)
    assert done == [0, 1, 2]


async def test_a_pool_of_one_thread_does_its_jobs_in_that_thread(triack_world: World) -> None:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as pool:
        db = await loop.run_in_executor(pool, sqlite3.connect, ":memory:")
        (row,) = await loop.run_in_executor(pool, lambda: db.execute("SELECT 1 + 1").fetchall())
        await loop.run_in_executor(pool, db.close)
    assert row == (2,)
    with pytest.raises(RuntimeError, match="after shutdown"):
        await loop.run_in_executor(pool, int)


def test_a_pool_may_be_older_than_the_world() -> None:
    """Its threads are watched from their first job on, in one world after the other."""
    with ThreadPoolExecutor(2) as pool:
        pool.submit(int).result()

        async def test() -> int:
            return sum(await asyncio.gather(*(asyncio.wrap_future(pool.submit(slowly, number)) for number in range(9))))

        for _ in range(2):
            with World() as world:
                assert world.run(test()) == 36
        assert pool.submit(slowly, 5).result() == 5


async def test_a_wait_with_a_time_limit_ends(triack_world: World) -> None:
    """In real time; nothing else has to happen until then."""

    def wait() -> bool:
        return threading.Event().wait(0.05)

    assert await asyncio.to_thread(wait) is False
    assert triack_world.now < 0.01


def spin_on(over: threading.Event) -> None:
    while not over.is_set():
        time.sleep(0.001)


def compute(over: threading.Event) -> None:
    """Python takes the processor from it, though seldom."""
    while not over.is_set():
        pass


def wait_for_the_moon(over: threading.Event) -> None:
    over.wait()


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (spin_on, "neither ends nor waits for the event loop"),
        pytest.param(compute, "neither ends nor waits for the event loop", marks=pytest.mark.gate),
        (wait_for_the_moon, r"thread 'AnyIO worker thread' waits at .* in wait_for_the_moon"),
    ],
)
def test_a_thread_that_does_not_end_is_named_with_its_stack(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[threading.Event], None], why: str
) -> None:
    monkeypatch.setattr(threads, "PATIENCE_S", 0.3)
    over = threading.Event()

    async def test() -> None:
        await anyio.to_thread.run_sync(work, over)

    with World() as world:
        with pytest.raises(NothingHappens, match=why) as caught:
            world.run(test())
        over.set()
    lines = str(caught.value).splitlines()
    assert work is wait_for_the_moon or "  thread 'AnyIO worker thread' is" in lines
    assert any(line.endswith(f"in {work.__name__}") for line in lines)
    assert any("the test waits at " in line for line in lines)


def test_nothing_stays_after_a_run() -> None:
    """Threads start as ever, and Python changes from one to another as before."""
    before, connect = sys.getswitchinterval(), sqlite3.connect
    with World() as world:
        world.run(in_threads([]))
    assert threading.Thread.start.__module__ == "threading"
    assert ThreadPoolExecutor.submit.__module__ == "concurrent.futures.thread"
    assert sys.getswitchinterval() == before
    assert sqlite3.connect is sqlite3.dbapi2.connect is connect
