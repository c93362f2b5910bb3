"""Whose a cancellation is: that of a task, or of something that it has awaited."""

import asyncio

import pytest

from triack.node.shell.cancellation import is_cancelled, is_failure, may_wait


async def cancelled_by_others() -> None:
    inner = asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0)
    inner.cancel()
    await inner


async def test_what_a_task_awaits_may_be_cancelled_and_it_is_not() -> None:
    with pytest.raises(asyncio.CancelledError):
        await cancelled_by_others()
    assert not is_cancelled()
    assert is_failure(asyncio.CancelledError)
    assert is_failure(OSError)
    assert not is_failure(KeyboardInterrupt)
    assert [may_wait(kind) for kind in (None, OSError, asyncio.CancelledError)] == [True] * 3
    assert not may_wait(KeyboardInterrupt)


async def test_its_own_cancellation_is_no_failure() -> None:
    """Nor is that of a limit of time, until the limit has caught it."""
    seen: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.extend((is_cancelled(), is_failure(asyncio.CancelledError), may_wait(OSError)))
            raise

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await work()
    assert seen == [True, False, False] * 2
    assert not is_cancelled()
