"""Failures name the await that waits."""

import asyncio
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import anyio
import pytest

from triack.base.errors import WaitTimeout
from triack.testing import NothingHappens, World


def line_of(error: BaseException, what: str) -> str:
    (line,) = [line for line in str(error).splitlines() if what in line]
    return line


def stuck(test: object) -> str:
    with World() as world, pytest.raises(NothingHappens) as caught:
        world.run(test)  # type: ignore[arg-type]
    return line_of(caught.value, "the test waits")


def test_in_a_library_both_lines_are_named() -> None:
    """The user's own, and the one inside."""

    async def wait_in_anyio() -> None:
        await anyio.Event().wait()

    line = stuck(wait_in_anyio())
    assert Path(__file__).name in line
    assert " in wait_in_anyio, in anyio/" in line


def test_through_an_asynchronous_generator() -> None:
    async def numbers() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()
        yield 2

    async def read() -> None:
        async for _ in numbers():
            pass

    assert stuck(read()).endswith(" in numbers")


def test_through_an_awaitable_of_ones_own() -> None:
    class Later:
        def __await__(self) -> Generator[object, None, None]:
            yield from asyncio.Event().wait().__await__()

    async def wait() -> None:
        await Later()

    assert stuck(wait()).endswith(" in __await__")


def test_a_wait_of_the_world_names_what_the_services_wait_for() -> None:
    async def wait_for_the_moon() -> None:
        await asyncio.Event().wait()

    async def test() -> None:
        world.machine("b").start(wait_for_the_moon)
        await world.until(lambda: False, timeout=5)

    with World() as world, pytest.raises(WaitTimeout) as caught:
        world.run(test())
    assert line_of(caught.value, "wait_for_the_moon on b waits at").endswith("in wait_for_the_moon")
