"""The loop of the simulated world: its time, its threads, where tasks wait."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import anyio
import pytest

from triack.testing import NothingHappens, NotSimulated, TooMuchHappens, World


async def test_timers_fire_in_the_order_of_their_times_then_of_their_planning(triack_world: World) -> None:
    order: list[str] = []
    loop = asyncio.get_running_loop()
    loop.call_later(2, order.append, "late")
    loop.call_later(1, order.append, "first of one instant")
    loop.call_at(loop.time() + 1, order.append, "second of it")
    gone = loop.call_later(1.5, order.append, "cancelled")
    gone.cancel()
    loop.call_soon(order.append, "at once")
    await asyncio.sleep(3)
    assert order == ["at once", "first of one instant", "second of it", "late"]


@pytest.mark.parametrize("delay", [0.1, 1e-10, 1 / 3, 123_456.789, 1e-9])
async def test_no_timer_is_early(triack_world: World, delay: float) -> None:
    """A loop that waits for the rest of its time ends; rounding must not let it spin."""
    loop = asyncio.get_running_loop()
    for _ in range(100):
        end = loop.time() + delay
        while loop.time() < end:  # noqa: ASYNC110 - what a user may write
            await asyncio.sleep(end - loop.time())
        fired = asyncio.Event()
        when = loop.time() + delay
        loop.call_at(when, fired.set)
        await fired.wait()
        assert loop.time() >= when
        await asyncio.sleep(86_400 / 7)


async def wait_for_the_moon() -> None:
    await asyncio.Event().wait()


def test_the_error_of_a_test_that_hangs_says_what_it_waits_for() -> None:
    async def test() -> None:
        world.machine("b").start(wait_for_the_moon)
        world.machine("c").crash()
        await asyncio.get_running_loop().create_future()

    with World() as world, pytest.raises(NothingHappens) as caught:
        world.run(test())
    lines = str(caught.value).splitlines()
    assert lines[0] == "nothing will ever happen:"
    assert "the test waits at" in lines[1]
    assert lines[1].endswith("in test")
    assert lines[2].startswith("  wait_for_the_moon on b waits at ")
    assert lines[2].endswith("in wait_for_the_moon")
    assert lines[3] == "  machine c is down"


@pytest.mark.parametrize("times", [1, 1_000_000])
def test_a_verdict_cannot_be_swallowed(times: int) -> None:
    """A test that catches its own cancellation, once or always, hears that nothing would ever have happened."""

    async def stubborn() -> None:
        for _ in range(times):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()

    with World() as world, pytest.raises(NothingHappens):
        world.run(stubborn())


@pytest.mark.parametrize(
    ("delay", "options", "why"),
    [
        pytest.param(0, {}, r"time stands still: .* turns .*\n.*in spin", marks=pytest.mark.gate),
        (1, {"max_events": 1_000}, r"1,000 events, and no end; .*\(1000"),
    ],
)
def test_spinning_and_going_round_in_circles_are_noticed(delay: float, options: dict[str, Any], why: str) -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110 - that is the mistake
            await asyncio.sleep(delay)

    with World(**options) as world, pytest.raises(TooMuchHappens, match=why):
        world.run(spin())


async def test_blocking_work_is_an_event_of_its_own(triack_world: World) -> None:
    """It takes some time, and no event loop runs where it is done."""

    def work() -> str:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return "done"

    def fail() -> None:
        raise LookupError("no")

    assert await asyncio.to_thread(work) == "done"
    assert 0 < triack_world.now < 0.001
    with pytest.raises(LookupError):
        await asyncio.get_running_loop().run_in_executor(None, fail)
    with pytest.raises(pytest.fail.Exception, match="no exception as others are"):
        await asyncio.to_thread(pytest.fail, "no exception as others are")


async def test_the_real_world_is_refused(triack_world: World) -> None:
    with pytest.raises(NotSimulated, match=r"loop\.create_connection: the simulated world has no real sockets"):
        await asyncio.open_connection("127.0.0.1", 80)
    with pytest.raises(NotSimulated):
        await asyncio.create_subprocess_exec("true")
    with pytest.raises(NotImplementedError):
        await asyncio.get_running_loop().getaddrinfo("localhost", 80)


async def test_sets_of_tasks_have_an_order(triack_world: World) -> None:
    """A task group cancels its tasks by a set; the order must not depend on where they are in memory."""
    ended: list[int] = []

    async def member(number: int) -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            ended.append(number)

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(member(number))
            await asyncio.sleep(1)
            group.create_task(asyncio.to_thread(int, "no number"))

    with pytest.raises(ExceptionGroup):
        await all_of_them()
    assert ended == sorted(ended)
    assert len(ended) == 50


async def test_a_signal_handler_belongs_to_its_machine(triack_world: World) -> None:
    """``stop`` sends SIGTERM where the service handles it."""
    heard: list[str] = []

    async def service(name: str) -> None:
        over = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
        await over.wait()
        heard.append(name)

    one = triack_world.machine("a").start(service, "a")
    other = triack_world.machine("b").start(service, "b")
    await triack_world.advance(1)
    await triack_world.machine("b").stop()
    assert heard == ["b"]
    assert (one.is_running, other.is_running) == (True, False)


def test_a_loop_is_closed_once_and_not_from_within() -> None:
    async def close() -> None:
        world.loop.close()

    with World() as world, pytest.raises(RuntimeError, match="Cannot close a running event loop"):
        world.run(close())
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        world.loop.run_forever()


async def in_a_library() -> None:
    await anyio.Event().wait()


async def in_a_generator() -> None:
    async def numbers() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    async for _ in numbers():
        pass


async def in_an_awaitable() -> None:
    class Later:
        def __await__(self) -> Generator[object, None, None]:
            yield from asyncio.Event().wait().__await__()

    await Later()


@pytest.mark.parametrize(
    ("wait", "there"),
    [
        (in_a_library, " in in_a_library, in anyio/"),  # the user's own line, and the one inside
        (in_a_generator, " in numbers"),
        (in_an_awaitable, " in __await__"),
    ],
)
def test_the_line_that_waits_is_named(wait: Callable[[], Coroutine[None, None, None]], there: str) -> None:
    with World() as world, pytest.raises(NothingHappens) as caught:
        world.run(wait())
    (line,) = [line for line in str(caught.value).splitlines() if "the test waits" in line]
    assert there in line
    assert Path(__file__).name in line
