"""POLICIES and STRATEGIES: the acknowledgements of five systems side by side, over real sockets and disks.

Each policy has two nodes, secured, with a store each, and a link between them: a relay on real sockets that keeps each
datagram for as long as the link would, unless it loses it. Runs that are paced, or wait for a timeout, run for all
policies at a time; fast ones run alone. ``policies`` has the same on simulated links, exactly.

WSO2 Message Broker acknowledges between a topic and its subscribers, so its strategies have a topic on such a node.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import TypeAlias, TypeVar

from triack.base.errors import WaitTimeout
from triack.base.units import MS, SECOND
from triack.node.handles.policies import BETWEEN_NODES, wso2
from triack.node.handles.subscribing import Subscriber
from triack.node.node import Node, open_node
from triack.queues.blocking import Blocking
from triack.queues.node_settings import NodeSettings, Strategy
from triack.tools.bench.figures import Result
from triack.tools.bench.options import Meter, Options
from triack.tools.bench.policies import (
    LINKS,
    PACED_EVERY_NS,
    PACED_MESSAGES,
    QUEUE,
    QUICK_SHARE,
    SEED,
    SIZE_BYTES,
    STREAM_MESSAGES,
    Seen,
    came_again,
    measure_simulated,
    note_blocking,
    take,
)
from triack.tools.bench.rows import STRATEGY_METRICS, STRATEGY_NAMES, Row, strategy_figure
from triack.tools.demo.relay import Relay
from triack.tools.replay.log.files import find_logs, read_records
from triack.tools.sim.faults import Faults

LOST_MESSAGES = 100
"""A second of them, half of which leave when the link is cut already: more than MSMQ's window."""
END_S = 60.0
LOOK_S = 0.005
CLOSE_S = 0.2
FINEST_NS = MS
"""Timers are not finer: the relay's own delay is the round trip of a local network."""
DESTINATION = f"b/{QUEUE}"
TOPIC = "ticks"
PUBLISHED, PUBLISHED_EVERY_NS = 2_000, 5 * MS
SLOW_NS = 50 * MS
"""A slow subscriber reads a tenth of them."""
MAX_UNACKED, DELIVERY_TIMEOUT_S = 100, 2.0
"""WSO2's 1,000 and 60 s, for a run that is as much shorter."""

_Cell: TypeAlias = tuple[str, str]
_CELLS: tuple[_Cell, ...] = tuple((link, policy) for link in LINKS for policy in BETWEEN_NODES)
"""A link and a policy, in the order of the table."""
_Found = TypeVar("_Found")
Look: TypeAlias = Callable[[NodeSettings, Faults, Path, int], Awaitable[_Found]]


@dataclass(frozen=True, slots=True)
class _Pair:
    """A sender, a receiver, and the link between them."""

    sender: Node
    receiver: Node
    link: Relay

    async def read(self, bodies: list[bytes]) -> None:
        """Read as many messages, and check that they are these, each once and in order."""
        async with self.receiver.receive(QUEUE) as consumer:
            for body in bodies:
                assert (await consumer.get(END_S)).body == body, "the promise of every policy is the same"

    async def settle(self) -> None:
        """Until everything is acknowledged."""
        await _until(lambda: not self.sender.stats().outgoing[0].messages, "all is acknowledged")


async def _until(is_so: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(END_S):
            while not is_so():  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise WaitTimeout(f"bench policies: not so after {END_S:g} s: {what}") from None


@contextlib.asynccontextmanager
async def _pair(settings: NodeSettings, faults: Faults, folder: Path, *, log: bool = False) -> AsyncIterator[_Pair]:
    # HornetQ's sends wait, which ``note_blocking`` measures: these figures are of what the links carry.
    settings = replace(settings, close_timeout_s=CLOSE_S, blocking=Blocking())
    # It announces no address: the link is the only way to it.
    logs, nowhere = folder / "logs" if log else None, ""
    async with open_node(
        "b", data=folder / "b", listen="udp://127.0.0.1:0", announce=nowhere, log=logs, settings=settings
    ) as receiver:
        relay = Relay(target=receiver.address, faults=faults, seed=SEED, finest_ns=FINEST_NS)
        await relay.start()
        try:
            async with open_node("a", data=folder / "a", settings=settings) as sender:
                await sender.trust("b", receiver.key, relay.address)
                await receiver.trust("a", sender.key)
                pair = _Pair(sender, receiver, relay)
                # The session is open before the measurement.
                await sender.send(DESTINATION, b"opens")
                await pair.read([b"opens"])
                await pair.settle()
                yield pair
        finally:
            await relay.close()


def _bodies(count: int) -> list[bytes]:
    return [b"%0*d" % (SIZE_BYTES, number) for number in range(count)]


async def stream(
    settings: NodeSettings,
    faults: Faults,
    folder: Path,
    messages: int = STREAM_MESSAGES,
    *,
    turn: asyncio.Lock | None = None,
) -> tuple[float, float]:
    """As fast as window and link allow: messages a second, and datagrams of the receiver for each.

    ``turn`` is held while it sends, so that others can wait for acknowledgements meanwhile.
    """
    bodies = _bodies(messages)
    async with _pair(settings, faults, folder) as pair:
        async with turn or asyncio.Lock():
            before, began_ns = pair.link.to_client.sent, time.monotonic_ns()
            reading = asyncio.create_task(pair.read(bodies))
            await pair.sender.send_many(DESTINATION, bodies)
            await reading
            rate = messages * SECOND / (time.monotonic_ns() - began_ns)
        await pair.settle()
        return rate, (pair.link.to_client.sent - before) / messages


async def pace(
    settings: NodeSettings, faults: Faults, folder: Path, messages: int = PACED_MESSAGES
) -> tuple[tuple[int, ...], int]:
    """A hundred a second: when their sender learns of each, in ns, and how many bytes it holds until then."""
    bodies, sent_ns, delays_ns, held_bytes = _bodies(messages), list[int](), list[int](), 0
    async with _pair(settings, faults, folder) as pair:

        async def listen() -> None:
            async for event in pair.sender.acknowledgements(DESTINATION):
                now_ns = time.monotonic_ns()
                # The first message is that which opened the session.
                delays_ns.extend(now_ns - sent_ns[number] for number in range(event.first - 2, event.last - 1))
                if len(delays_ns) >= messages:
                    return

        tasks = [asyncio.create_task(listen()), asyncio.create_task(pair.read(bodies))]
        began_ns = time.monotonic_ns()
        for number, body in enumerate(bodies):
            await _sleep_until(began_ns + number * PACED_EVERY_NS)
            sent_ns.append(time.monotonic_ns())
            await pair.sender.send(DESTINATION, body)
            held_bytes = max(held_bytes, pair.sender.stats().outgoing[0].bytes)
        async with asyncio.timeout(END_S):
            await asyncio.gather(*tasks)
    return tuple(sorted(delays_ns)), held_bytes


async def _sleep_until(at_ns: int) -> None:
    await asyncio.sleep(max(0, at_ns - time.monotonic_ns()) / SECOND)


async def lose_session(settings: NodeSettings, faults: Faults, folder: Path, messages: int = LOST_MESSAGES) -> int:
    """The link is cut under a paced stream until the session is given up: messages that are redelivered afterwards."""
    bodies = _bodies(messages)
    async with _pair(settings, faults, folder, log=True) as pair:
        began_ns = time.monotonic_ns()
        for number, body in enumerate(bodies):
            await _sleep_until(began_ns + number * PACED_EVERY_NS)
            if number == messages // 2:
                pair.link.cut()
            await pair.sender.send(DESTINATION, body)
        await _until(lambda: not pair.sender.stats().links["b"].is_up, "the session is given up")
        pair.link.heal()
        await pair.read(bodies)
        await pair.settle()
    # Only the receiver has a log.
    return came_again(record for log in find_logs([folder / "logs"]) for record in read_records(log))


async def measure_policies(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """Each policy on each link, once."""
    if options.simulated:
        await measure_simulated(row, options, meter, result)
        return
    share = QUICK_SHARE if options.quick else 1
    result.note(
        "both nodes of each policy, and the link, in one process: LAN is what this process takes; --simulated is exact"
    )

    async def everywhere(look: Look[_Found], what: str, messages: int, *, together: bool) -> dict[_Cell, _Found]:
        meter.begin(f"{row.name} {what}", replace(row.work, messages=messages))
        groups = [list(_CELLS)] if together else [[cell for cell in _CELLS if cell[0] == link] for link in LINKS]
        found = dict[_Cell, _Found]()
        for group in groups:
            looks = (
                look(BETWEEN_NODES[policy], LINKS[link], options.folder / what / link / policy, messages)
                for link, policy in group
            )
            found.update(zip(group, await asyncio.gather(*looks), strict=True))
        meter.say(f"{row.name}: {what}")
        return found

    again = dict[_Cell, int]()
    if options.quick:
        result.note("no session was lost: their timeouts take longer than a quick look")
    else:
        again = await everywhere(lose_session, "lost sessions", LOST_MESSAGES, together=True)
    paced = await everywhere(pace, "a hundred a second", PACED_MESSAGES // share, together=options.quick)
    in_turns = partial(stream, turn=asyncio.Lock())
    streamed = await everywhere(in_turns, "as fast as it goes", STREAM_MESSAGES // share, together=True)
    for cell in _CELLS:
        take(result, *cell, Seen(*streamed[cell], *paced[cell], again.get(cell)))
    note_blocking(result)
    result.verified = True
    result.guarantee = ["exactly once", "in order"]


async def compete(strategy: Strategy, folder: Path, messages: int = PUBLISHED) -> tuple[float, ...]:
    """A fast and a slow subscriber of a topic to which another node publishes: the values of ``STRATEGY_METRICS``."""
    settings = wso2(strategy=strategy, max_unacked_messages=MAX_UNACKED, delivery_timeout_s=DELIVERY_TIMEOUT_S)
    sent_ns = list[int]()

    async def read(reader: Subscriber, takes_ns: int, done: dict[int, float]) -> None:
        async for message in reader:
            await asyncio.sleep(takes_ns / SECOND)
            message.ack()
            number = int(message.body)
            done[number] = (time.monotonic_ns() - sent_ns[number]) / MS

    async with _pair(settings, LINKS["LAN"], folder) as pair:
        hub = pair.receiver
        async with hub.subscribe(TOPIC, ack="manual") as fast, hub.subscribe(TOPIC, ack="manual") as slow:
            read_fast, read_slow = dict[int, float](), dict[int, float]()
            reading = [asyncio.create_task(read(*one)) for one in ((fast, 0, read_fast), (slow, SLOW_NS, read_slow))]
            began_ns = time.monotonic_ns()
            for number, body in enumerate(_bodies(messages)):
                await _sleep_until(began_ns + number * PUBLISHED_EVERY_NS)
                sent_ns.append(time.monotonic_ns())
                await pair.sender.send(f"b/topic:{TOPIC}", body)
            await _until(lambda: hub.stats().topics[TOPIC].arrived == messages, "all that is published has arrived")
            took_s = (time.monotonic_ns() - began_ns) / SECOND
            topic = hub.stats().topics[TOPIC]
            for task in reading:
                task.cancel()
            await asyncio.wait(reading)
    behind = max(topic.subscriptions, key=lambda one: one.pending + one.discarded)
    lost = behind.discarded
    assert list(read_fast) == list(range(len(read_fast))), "a fast subscriber loses nothing"
    assert lost or list(read_slow) == list(range(len(read_slow))), "a slow one loses what is counted"
    delays_ms = (sorted(read.values()) for read in (read_fast, read_slow))
    fast_p99, slow_p99 = (delays[ceil(0.99 * len(delays)) - 1] if delays else 0.0 for delays in delays_ms)
    rates = len(read_fast) / took_s, len(read_slow) / took_s
    return (rates[0], fast_p99, rates[1], slow_p99, topic.waiting, behind.pending, lost)


async def measure_strategies(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """Each strategy, once, all at a time."""
    messages = PUBLISHED // (QUICK_SHARE if options.quick else 1)
    meter.begin(row.name, replace(row.work, messages=messages))
    found = await asyncio.gather(*(compete(name, options.folder / name, messages) for name in STRATEGY_NAMES))
    for strategy, values in zip(STRATEGY_NAMES, found, strict=True):
        for metric, value in zip(STRATEGY_METRICS, values, strict=True):
            result.figures[strategy_figure(strategy, metric)].values.append(value)
        meter.say(f"{row.name} {strategy}: fast {values[0]:,.0f} msg/s, slow {values[2]:,.0f}, {values[-1]:,.0f} lost")
    result.note(f"a subscriber has room for {MAX_UNACKED} messages; the delivery timeout is {DELIVERY_TIMEOUT_S:g} s")
    result.verified = True
    result.guarantee = ["in order", "losses counted"]
