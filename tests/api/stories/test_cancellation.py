"""Every call of the public API may be cancelled at every await: nothing is lost, doubled or left behind."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager
from itertools import count, cycle
from pathlib import Path
from typing import Any

import apsw
import pytest

import triack
from tests.node.nodes import WAIT, bodies, make, quick, until
from triack.node.handles.receipt import NodeReceipt
from triack.node.node import port_of

NOWHERE = "udp://127.0.0.1:9/q"
FDS = Path("/dev/fd")

Act = Callable[[triack.Node], Awaitable[object]]
After = Callable[[triack.Node, object], Awaitable[None]]
"""Looks at the node after an act; its second argument is what the act returned, None if it was cancelled."""


class Cancelling:
    """Awaits something, and cancels its task at the n-th suspension.

    ``late`` cancels when what was waited for has come, but the task has not run again: the result is there and nobody
    takes it. Otherwise the wait itself is cancelled.
    """

    def __init__(self, act: Awaitable[object], nth: int, *, late: bool) -> None:
        self._act = act
        self._nth = nth
        self._late = late
        self.suspensions = 0

    def __await__(self) -> Generator[Any, Any, object]:
        steps = self._act.__await__()
        error: BaseException | None = None
        while True:
            try:
                waited_for = next(steps) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value
            self.suspensions += 1
            if self.suspensions == self._nth:
                self._cancel(waited_for)
            error = None
            try:
                yield waited_for
            except BaseException as caught:  # noqa: BLE001 - it is for the coroutine to handle
                error = caught

    def _cancel(self, waited_for: object) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._late and isinstance(waited_for, asyncio.Future):
            # The task adds its own callback after this one, and so wakes up after it.
            waited_for.add_done_callback(lambda _: task.cancel())
        else:
            task.cancel()


@pytest.fixture(autouse=True)
async def nothing_is_left() -> AsyncIterator[None]:
    """In debug mode asyncio complains of nothing; afterwards there are no more tasks, threads and files than before."""
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 10
    complaints: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    before = left()
    yield
    gc.collect()
    await until(lambda: left() == before)  # a look-up of a name ends by itself
    assert complaints == []


def left() -> tuple[set[str], int, int]:
    """The tasks, threads of stores, and open files of this process."""
    tasks = {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    threads = sum(thread.name.startswith("triack") for thread in threading.enumerate())
    return tasks, threads, len(list(FDS.iterdir())) if FDS.exists() else 0


async def at_every_await(make_node: Callable[[], Any], act: Act, after: After) -> None:
    """Do it again and again, cancelled at the first await, at the second, ... until it has no more."""
    for late in (False, True):
        for nth in count(1):
            async with make_node() as node:
                cancelling = Cancelling(act(node), nth, late=late)
                result = await uncancelled(cancelling)
                async with asyncio.timeout(WAIT):
                    await after(node, result)
            if cancelling.suspensions < nth:
                break
        assert nth > 1, "there was no await"


async def uncancelled(awaitable: Awaitable[object]) -> object:

    async def run() -> object:
        return await awaitable

    try:
        return await asyncio.create_task(run(), name="cancelled")
    except asyncio.CancelledError:
        return None


def node_with(**more: Any) -> Callable[[], Any]:
    """A node without data, and with settings that close it at once."""
    more.setdefault("settings", quick(close_timeout_s=0.05))
    return lambda: make(**more)


@asynccontextmanager
async def pair() -> AsyncIterator[triack.Node]:
    """A node, with another one that it can send to as ``far``."""
    async with make("far", scheme="memory"), make(peers={"far": "memory://far"}) as node:
        yield node


@pytest.mark.gate
async def test_a_send_that_takes_its_turn() -> None:
    """Cancelled it has sent nothing, else once."""

    async def act(node: triack.Node) -> object:
        port_of(node).turn = 1_000  # the next send lets others run
        port_of(node).sender = asyncio.current_task
        return await node.send("q", b"1")

    async def after(node: triack.Node, receipt: object) -> None:
        await node.send("q", b"2")
        await node.flush()
        assert await bodies(node, "q", node.queue_lengths()["q"]) == ([b"1", b"2"] if receipt else [b"2"])

    await at_every_await(node_with(), act, after)


@pytest.mark.gate
@pytest.mark.parametrize(("stage", "timeout"), list(zip(triack.Stage, cycle([None, WAIT]), strict=False)))
async def test_a_wait_for_a_receipt(stage: triack.Stage, timeout: float | None) -> None:
    """The message goes on, and it can be waited for again."""
    receipts: list[triack.Receipt] = []

    async def act(node: triack.Node) -> object:
        receipts[:] = [await node.send("far/q", b"1")]
        await receipts[0].reached(stage, timeout)
        return True

    async def after(node: triack.Node, _: object) -> None:
        assert isinstance(receipts[0], NodeReceipt)
        assert not receipts[0]._outgoing.stages.awaited  # noqa: SLF001 - who was cancelled is not remembered
        await receipts[0].ordered(WAIT)
        await (await node.send("far/q", b"2")).ordered(WAIT)

    await at_every_await(pair, act, after)


@asynccontextmanager
async def filling() -> AsyncIterator[triack.Node]:
    """A node whose queue gets two messages, in a while."""
    async with make(settings=quick(close_timeout_s=0.05)) as node:
        loop = asyncio.get_running_loop()
        for number in (1, 2):
            loop.call_later(0.002 * number, node.send_nowait, "q", b"%d" % number)
        yield node


async def take(node: triack.Node, ack: Any, timeout: float | None) -> list[bytes]:
    async with node.receive("q", ack=ack) as consumer:
        found = [await consumer.get(timeout), await anext(consumer)]
        for message in found if ack == "manual" else []:
            message.ack()
        return [message.body for message in found]


@pytest.mark.parametrize(("ack", "timeout"), [("auto", None), ("manual", WAIT)])
async def test_a_consumer(ack: str, timeout: float | None) -> None:
    """Messages that it had acknowledged are gone, all others come to the next one; being cancelled is no failure."""

    async def act(node: triack.Node) -> object:
        return await take(node, ack, timeout)

    async def after(node: triack.Node, result: object) -> None:
        if result:
            assert result == [b"1", b"2"]
        else:
            async with node.receive("q") as consumer:
                found = [await consumer.get(WAIT)]
                found += [await consumer.get(WAIT)] if found[0].body == b"1" else []
            assert [message.body for message in found] == [b"1", b"2"][-len(found) :]
            assert {message.failures for message in found} == {0}
            assert len(found) == 2 or ack == "auto"
        await node.flush()
        assert node.queue_lengths()["q"] == 0

    await at_every_await(filling, act, after)


async def work(node: triack.Node) -> object:
    async with node.transaction() as tx:
        body = (await tx.receive("q", WAIT)).body
        await tx.send("out", body)
        tx.remember("last", body)
    return True


@pytest.mark.gate
async def test_a_transaction() -> None:
    async def after(node: triack.Node, result: object) -> None:
        await node.flush()
        lengths, done = node.queue_lengths(), node.recall("last") == b"1"
        assert done or not result
        assert lengths.get("out", 0) == done
        while node.recall("last") != b"2":
            await work(node)
        assert await bodies(node, "out", 2) == [b"1", b"2"]
        assert node.queue_lengths()["q"] == 0

    await at_every_await(filling, work, after)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["udp", "tcp"])
async def test_starting(tmp_path: Path, scheme: str) -> None:
    """A node whose start was cancelled holds nothing, and can be started."""
    for late in (False, True):
        for nth in count(1):
            node = make("n", tmp_path, scheme, log=tmp_path / "logs")
            before = left()
            cancelling = Cancelling(node.start(), nth, late=late)
            if await uncancelled(cancelling) is None:
                await until(lambda: left() == before)  # noqa: B023
                await node.start()
            await node.close()
            if cancelling.suspensions < nth:
                break


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["tcp", "memory"])
async def test_closing(tmp_path: Path, scheme: str) -> None:
    """A close that was cancelled goes on by itself; another call waits for its end. Nothing accepted is lost."""
    accepted = 0
    for late in (False, True):
        for nth in count(1):
            node = await make("n", tmp_path, scheme, log=tmp_path / "logs").start()
            await node.send("q", b"%d" % accepted)
            await node.send(NOWHERE, b"never")
            accepted += 1
            cancelling = Cancelling(node.close(), nth, late=late)
            await uncancelled(cancelling)
            async with asyncio.timeout(WAIT):
                await node.close()
            with pytest.raises(triack.NodeClosed):
                await node.send("q", b"too late")
            if cancelling.suspensions < nth:
                break
    async with make("n", tmp_path) as node:
        assert await bodies(node, "q", accepted) == [b"%d" % number for number in range(accepted)]


@pytest.mark.gate
async def test_leaving_the_block_of_a_node(tmp_path: Path) -> None:
    """If the block is cancelled while it closes its node, it does not close it again: the node ends all the same."""

    async def block() -> None:
        async with make("n", tmp_path) as node:
            await node.send("q", b"1")

    for nth in count(1):
        cancelling = Cancelling(block(), nth, late=False)
        await uncancelled(cancelling)
        await until(lambda: not any(task.get_name().startswith("triack") for task in asyncio.all_tasks()))
        if cancelling.suspensions < nth:
            break
    async with make("n", tmp_path) as node:
        assert node.queue_lengths()["q"] >= 1


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Every store finds its disk full after a while."""
    apsw.connection_hooks.append(limit := lambda database: database.pragma("max_page_count", 40))
    yield
    apsw.connection_hooks.remove(limit)


@pytest.mark.gate
@pytest.mark.usefixtures("small_disk")
async def test_waiting_for_a_failure(tmp_path: Path) -> None:

    async def act(node: triack.Node) -> object:
        asyncio.get_running_loop().call_later(0.002, node.send_nowait, "q", bytes(1_000_000))
        return str(await node.failed())

    async def after(node: triack.Node, result: object) -> None:
        error = await node.failed()
        assert isinstance(error, triack.StoreFailed)
        assert result in (None, str(error))
        with pytest.raises(triack.StoreFailed):
            await node.send("q", b"1")

    await at_every_await(lambda: make(data=tmp_path), act, after)
