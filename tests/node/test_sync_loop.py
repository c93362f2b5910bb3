"""An event loop in a thread: it waits, raises what is raised there, and ends."""

import asyncio

import pytest

from triack.base.errors import NodeClosed
from triack.node.sync_loop import LoopThread


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


def test_an_end_is_for_ever() -> None:
    """A second one does nothing, and nothing waits for a loop that has gone."""
    loop = LoopThread("test")
    loop.end()
    loop.end()
    with pytest.raises(NodeClosed):
        loop.wait(double(1))
