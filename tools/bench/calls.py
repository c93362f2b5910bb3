"""CALLS: what one message costs, in counts: Python calls, polls, turns of the loop, commits and datagrams.

Two whole nodes in this process, with keys, sockets and stores; a profile function counts every call of Python and of C
in the thread of the loop, and those of their stores when these work in it. Counts differ less between machines than
times do, but they do: a slow disk makes timers run that a fast one does not. So the least of several runs counts.
"""

import asyncio
import sys
from asyncio import base_events
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import CodeType, FrameType
from typing import Any

import triack
from triack.node.shell.driver import Driver
from triack.queues.manager.engine import Engine
from triack.queues.manager.jobs import Jobs
from triack.tools.bench.figures import Result
from triack.tools.bench.options import Meter, Options
from triack.tools.bench.rows import COUNTS, Row
from triack.tools.bench.work import Work

SENDER, RECEIVER, QUEUE = "sender", "receiver", "q"
WARM_MESSAGES, LONE_MESSAGES, LONE_BYTES = 50, 300, 100
"""One after the other, each waits for its order ack: before the count, and in it."""
BULK_MESSAGES, BULK_BYTES = 20_000, 1_024
"""Each is a packet, as the row's datagrams hold no two of them."""
IDLE_S, MINUTE_S = 5.0, 60.0
"""How long two nodes with a session are left alone, and what the figure is for."""
REST_S = 1.5
QUICK_SHARE = 10


class Counted:
    """What was counted."""

    __slots__ = ("calls", "named")

    def __init__(self) -> None:
        self.calls = 0
        self.named: Counter[str] = Counter()


_NAMED: dict[CodeType, str] = {
    Engine.poll.__code__: "polls",
    base_events.BaseEventLoop._run_once.__code__: "turns",  # type: ignore[attr-defined]  # noqa: SLF001
    Jobs.handle_done.__code__: "commits",
}
_SEND: CodeType = Driver.send.__code__


@contextmanager
def counted(within: Callable[[CodeType], bool] | None = None) -> Iterator[Counted]:
    """Count the calls of this thread; with ``within``, those of these functions, and of C from them."""
    found, known = Counted(), dict[CodeType, bool]()

    def count(frame: FrameType, event: str, _arg: Any) -> None:
        code = frame.f_code
        if event not in {"call", "c_call"}:
            return
        if within is not None:
            if code not in known:
                known[code] = within(code)
            if not known[code]:
                return
        found.calls += 1
        if event == "call" and code in _NAMED:
            found.named[_NAMED[code]] += 1
        elif event == "call" and code is _SEND:
            found.named["datagrams"] += len(frame.f_locals["datagrams"])

    sys.setprofile(count)
    try:
        yield found
    finally:
        sys.setprofile(None)


async def measure_calls(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """Count; the row reports the least of the runs for each figure."""
    share = QUICK_SHARE if options.quick else 1
    for number in range(options.runs):
        name = f"{row.name} {number + 1}/{options.runs}"
        figures = await asyncio.to_thread(_run, options, number, row.work, share)
        for figure, value in zip(result.figures.values(), figures, strict=True):
            figure.values[:] = [min(value, *figure.values)] if figure.values else [value]
        lone, bulk, idle = figures[0], figures[-2], figures[-1]
        meter.say(f"{name}: {lone:,.0f} calls for a lone message, {bulk:,.0f} for one of many, {idle:,.0f} when idle")
    result.verified = True
    result.guarantee = ["every message read, and acknowledged in order"]


def _run(options: Options, number: int, work: Work, share: int) -> list[float]:
    """One run, in a thread with the loop of the standard library: the calls of another loop cannot be counted."""

    async def count() -> list[float]:
        async with _pair(options, number, work) as (sender, receiver):
            return await _count(sender, receiver, share)

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        return runner.run(count())


@asynccontextmanager
async def _pair(options: Options, number: int, work: Work) -> AsyncIterator[tuple[triack.Node, triack.Node]]:
    session = triack.SessionSettings(max_unacked_packet=work.window, max_datagram_bytes=work.datagram_bytes)
    settings, folder = triack.NodeSettings(session=session), options.folder / f"calls-{number}"
    async with (
        triack.open(SENDER, data=folder / "a", settings=settings, listen="udp://127.0.0.1:0") as sender,
        triack.open(RECEIVER, data=folder / "b", settings=settings, listen="udp://127.0.0.1:0") as receiver,
    ):
        await sender.trust(RECEIVER, receiver.key, receiver.address)
        await receiver.trust(SENDER, sender.key, sender.address, send=[QUEUE])
        yield sender, receiver


async def _count(sender: triack.Node, receiver: triack.Node, share: int) -> list[float]:
    read = asyncio.create_task(_read(receiver))
    messages = LONE_MESSAGES // share
    await _send_lone(sender, WARM_MESSAGES)
    with counted() as lone:
        await _send_lone(sender, messages)
    packets = BULK_MESSAGES // share
    bodies = [bytes(BULK_BYTES)] * packets
    await (await sender.send_many(f"{RECEIVER}/{QUEUE}", bodies)).ordered()
    with counted() as bulk:
        await (await sender.send_many(f"{RECEIVER}/{QUEUE}", bodies)).ordered()
    await asyncio.sleep(REST_S)
    with counted() as idle:
        await asyncio.sleep(IDLE_S / share)
    read.cancel()
    named = [lone.named[name] / messages for name in COUNTS]
    return [lone.calls / messages, *named, bulk.calls / packets, idle.calls * share * MINUTE_S / IDLE_S]


async def _send_lone(sender: triack.Node, messages: int) -> None:
    for _ in range(messages):
        await (await sender.send(f"{RECEIVER}/{QUEUE}", bytes(LONE_BYTES))).ordered()


async def _read(receiver: triack.Node) -> None:
    async with receiver.receive(QUEUE) as messages:
        while True:
            await messages.get_many()
