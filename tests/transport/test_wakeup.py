"""One task waits, others set the event."""

import asyncio
from contextlib import suppress

from tests.machine import PATIENCE_S
from triack.transport.wakeup import Wakeup


async def test_who_waits_goes_on_when_it_is_set() -> None:
    """However often, and the next one does not wait until it is clear again."""
    wakeup = Wakeup()
    waiting = asyncio.create_task(wakeup.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    wakeup.set()
    wakeup.set()
    async with asyncio.timeout(PATIENCE_S):
        await waiting
        await wakeup.wait()
    wakeup.clear()
    waiting = asyncio.create_task(wakeup.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    wakeup.set()
    async with asyncio.timeout(PATIENCE_S):
        await waiting


async def test_a_wait_that_is_cancelled_takes_nothing_away() -> None:
    """Not before it is set, nor in the turn in which it is."""
    wakeup = Wakeup()
    for is_set in (False, True):
        waiting = asyncio.create_task(wakeup.wait())
        await asyncio.sleep(0)
        if is_set:
            wakeup.set()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        assert wakeup.is_set is is_set
        wakeup.set()
        async with asyncio.timeout(PATIENCE_S):
            await wakeup.wait()
        wakeup.clear()
