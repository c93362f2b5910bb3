"""Jobs of a store: one by one and in order, in a thread or, when they are brief and the disk is quick, in the loop."""

import asyncio
import threading
import time

import pytest

from tests.machine import PATIENCE_S
from triack.base.units import MS
from triack.node.shell.worker import LONG_NS, PAUSE_NS, QUICK_NS, Pace, ThreadWorker

ENOUGH = 64
"""Quick jobs after which a pace is quick."""


def quick(now_ns: int = 0) -> Pace:
    """What has seen quick jobs alone."""
    pace = Pace()
    for _ in range(ENOUGH):
        pace.add(MS // 2, now_ns)
    return pace


def worker_on(pace: Pace) -> ThreadWorker:
    """A worker whose jobs have been of that pace."""
    worker = ThreadWorker()
    worker.pace = pace
    return worker


def test_brief_jobs_are_quick_once_a_dozen_were() -> None:
    """The first ones say nothing of a disk."""
    pace = Pace()
    took = 0
    while not pace.is_quick(0):
        pace.add(MS // 2, 0)
        took += 1
    assert 12 <= took <= ENOUGH
    for _ in range(ENOUGH):
        pace.add(2 * QUICK_NS, 0)
    assert not pace.is_quick(0)


def test_after_a_long_one_nothing_is_quick_for_a_while() -> None:
    """However quick those are that follow."""
    pace = quick()
    pace.add(LONG_NS, MS)
    for _ in range(ENOUGH):
        pace.add(MS // 2, 2 * MS)
    assert not pace.is_quick(PAUSE_NS)
    assert pace.is_quick(PAUSE_NS + MS)


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


async def test_the_outcome_of_a_job_is_reported_in_the_loop() -> None:
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


async def test_brief_jobs_are_done_in_the_loop_as_long_as_they_are_quick() -> None:
    """Not in the turn that gives them; those that are not brief, and those of a slow disk, are done in the thread."""
    here, places, over = threading.current_thread(), list[bool](), asyncio.Event()
    worker = worker_on(quick(time.monotonic_ns()))

    def job() -> None:
        places.append(threading.current_thread() is here)

    async def place_of(*, is_brief: bool) -> bool:
        over.clear()
        worker.run(job, lambda _, error: over.set(), is_brief=is_brief)
        async with asyncio.timeout(PATIENCE_S):
            await over.wait()
        await worker.start(lambda: None)
        return places[-1]

    worker.run(job, lambda _, error: over.set(), is_brief=True)
    assert places == []
    await over.wait()
    assert places == [True]
    assert not worker.work_here()
    assert not await place_of(is_brief=False)
    worker.pace.add(LONG_NS, time.monotonic_ns())
    assert not await place_of(is_brief=True)
    worker.close()


async def test_its_giver_has_a_job_done_at_once_when_it_is_ready() -> None:
    """Once; one that is for the thread is left to it."""
    worker, done, told = worker_on(quick(time.monotonic_ns())), list[int](), list[int | None]()
    worker.run(lambda: done.append(1), lambda _, error: told.append(1), is_brief=True)
    assert worker.work_here()
    assert (done, told) == ([1], [1])
    assert not worker.work_here()
    worker.run(lambda: done.append(2), lambda _, error: told.append(2))
    assert not worker.work_here()
    await worker.start(lambda: None)
    await asyncio.sleep(0)
    assert (done, told) == ([1, 2], [1, 2])
    worker.close()


async def test_what_waits_for_its_turn_in_the_loop_comes_before_what_follows() -> None:
    """It goes to the thread when something else is begun, or the worker ends: the order stays, and nothing is lost."""
    worker, done, told = worker_on(quick(time.monotonic_ns())), list[int](), list[int]()
    worker.run(lambda: done.append(1), lambda _, error: told.append(1), is_brief=True)
    await worker.start(lambda: done.append(2))
    assert done == [1, 2]
    worker.run(lambda: done.append(3), lambda _, error: told.append(3), is_brief=True)
    worker.close()
    assert done == [1, 2, 3]
    await asyncio.sleep(0)
    assert told == [1, 3]


async def test_the_error_of_a_job_in_the_loop_goes_to_its_caller() -> None:
    """As of one that the thread did."""
    worker, failed = worker_on(quick(time.monotonic_ns())), asyncio.get_running_loop().create_future()

    def fail() -> None:
        raise OSError("full")

    worker.run(fail, lambda _, error: failed.set_result(str(error)), is_brief=True)
    assert await failed == "full"
    worker.close()
