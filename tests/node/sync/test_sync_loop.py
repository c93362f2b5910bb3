"""An event loop in a thread: it waits, raises what is raised there, and ends."""

import asyncio
import threading

import pytest

from tests.machine import PATIENCE_S
from tests.node.nodes import interrupted
from triack.base.errors import NodeClosed, UsageError
from triack.node.sync.sync_loop import LoopThread


async def double(number: int) -> int:
    await asyncio.sleep(0)
    if number < 0:
        raise LookupError(number)
    return 2 * number


def test_it_waits_for_results_and_errors() -> None:
    loop = LoopThread("test")
    assert loop.wait(double(21)) == 42
    with pytest.raises(LookupError, match="-1"):
        loop.wait(double(-1))
    told: list[int] = []
    loop.tell(lambda: told.append(1))
    assert told == [1]
    with pytest.raises(ValueError, match="not in list"):
        loop.tell(lambda: told.remove(2))
    loop.end()


def test_an_end_is_final() -> None:
    """A second one does nothing, and nothing waits for a loop that has gone."""
    loop = LoopThread("test")
    loop.end()
    loop.end()
    with pytest.raises(NodeClosed):
        loop.wait(double(1))


def test_its_end_ends_what_is_left() -> None:
    """A call that an interrupted caller has begun is cancelled and runs to its end; a waiting thread gets an error."""
    loop = LoopThread("test")
    begun, ended, told = threading.Semaphore(0), list[str](), list[str]()

    async def stay(name: str) -> None:
        begun.release()
        try:
            await asyncio.sleep(PATIENCE_S)
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    async def begin() -> "asyncio.Task[None]":
        return asyncio.create_task(stay("left"))

    def wait() -> None:
        with pytest.raises(NodeClosed):
            loop.wait(stay("waited for"))
        told.append("closed")

    left = loop.wait(begin())
    waiting = threading.Thread(target=wait)
    waiting.start()
    for _ in range(2):
        assert begun.acquire(timeout=PATIENCE_S)
    loop.end()
    waiting.join()
    assert (sorted(ended), told, left.cancelled()) == (["left", "waited for"], ["closed"], True)


def test_what_came_for_a_thread_that_was_interrupted_is_taken_back() -> None:
    """In the loop, before anything that is asked for later; what had not come is cancelled."""
    loop = LoopThread("test")
    unseen: list[int] = []

    async def look() -> list[int]:
        return list(unseen)

    assert loop.wait(double(1), unseen.append) == 2
    with interrupted():
        loop.wait(double(2), unseen.append)
    assert loop.wait(look()) == [4]
    with interrupted(early=True):
        loop.wait(asyncio.sleep(PATIENCE_S, 6), unseen.append)
    with pytest.raises(LookupError):
        loop.wait(double(-1), unseen.append)
    assert loop.wait(look()) == [4]
    loop.end()


def test_its_own_thread_does_not_wait_for_itself() -> None:
    """It is refused whatever it would wait for, its end as well, and does at once what nobody has to wait for."""
    loop = LoopThread("test")
    told: list[int] = []

    async def ask() -> None:
        with pytest.raises(UsageError, match="this thread runs the node"):
            loop.wait(double(1))
        with pytest.raises(UsageError, match="this thread runs the node"):
            loop.end()
        loop.tell(lambda: told.append(1))

    loop.wait(ask())
    assert told == [1]
    assert loop.wait(double(21)) == 42
    loop.end()
