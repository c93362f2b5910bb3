"""POLICIES, exactly: the acknowledgements of five systems on the same simulated links, side by side.

They differ in the times at which datagrams leave, and these do not depend on the processor: so the nodes are whole,
with their stores, and link, disks and clock are simulated. The figures are those of the protocols, the same on every
machine, and do not show the speed of this one. ``policy_nodes`` has the same over real sockets and disks.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import ceil
from random import Random
from statistics import median
from typing import Any, NamedTuple

from triack.base.ack_trigger import terms_of
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.node.handles.policies import BETWEEN_NODES, hornetq
from triack.queues.node_settings import NodeSettings
from triack.queues.peers.session_settings import largest_window
from triack.queues.stages import Stage
from triack.queues.streams.ack_events import AckEvents
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.tools.bench.figures import Result
from triack.tools.bench.link import T8_LINK
from triack.tools.bench.options import Meter, Options
from triack.tools.bench.rows import POLICY_LINKS, POLICY_METRICS, Row, policy_figure
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.faults import Fates, Faults
from triack.tools.sim.host import SimHost
from triack.tools.sim.network import Network
from triack.tools.sim.world import World

LINKS = dict(
    zip(
        POLICY_LINKS,
        (
            replace(T8_LINK, rate_bps=1_000_000_000, delay_ns=MS // 4),
            replace(T8_LINK, delay_ns=25 * MS, queue_bytes=625_000),
            replace(T8_LINK, loss=0.05),
        ),
        strict=True,
    )
)
"""A local network, one far away with a queue of its bandwidth and delay, and T8's, lossy."""
SIZE_BYTES = 100
STREAM_MESSAGES = 2_000
PACED_MESSAGES, PACED_EVERY_NS = 1_000, 10 * MS
"""A hundred a second, for several of the longest intervals."""
QUICK_SHARE = 10
BLOCKED_MESSAGES = 200
END_NS = 600 * SECOND
"""Every run ends long before: MSMQ gives a session up after 40 s."""
DISK_NS = MS // 4
"""The time of a commit: that of the simulated disk, and of good SSDs."""
SEED = 1
QUEUE = "q"


class Seen(NamedTuple):
    """The results of runs, as far as they were measured; ``again`` is None when no session was lost."""

    rate: float = 0.0
    acks: float = 0.0
    delays_ns: tuple[int, ...] = ()
    held_bytes: int = 0
    again: int | None = 0


class _Link(Network):
    """A network that is one link; the datagrams of each address are counted."""

    def __init__(self, world: World, faults: Faults) -> None:
        super().__init__(world, faults)
        self.sent: Counter[str] = Counter()
        self._ways: dict[str, Fates] = {}

    def _carry(self, datagram: bytes, sender: str, to: str) -> None:
        self.sent[sender] += 1
        # Each way has another random stream, so that more datagrams one way change nothing of the other.
        if sender not in self._ways:
            self._ways[sender] = Fates(lambda _: Random(f"{self.world.seed} {sender}"))
        self._fates = self._ways[sender]
        super()._carry(datagram, sender, to)


class _Run:
    """A sender and a receiver with the same settings, on a link."""

    def __init__(self, settings: NodeSettings, faults: Faults, disk_ns: int = DISK_NS) -> None:
        self.world = World(SEED)
        self.link = _Link(self.world, faults)
        self.sender, self.receiver = (
            SimHost(self.world, self.link, name, f"udp://{name}:1", settings=settings, keys=()) for name in "ab"
        )
        self.bodies: list[bytes] = []
        for host in (self.sender, self.receiver):
            host.commit_ns = disk_ns
            host.start()

    @property
    def outgoing(self) -> OutgoingStream:
        """The sender's outgoing stream."""
        return self.sender.live.outgoing_stream(self.receiver.address, QUEUE, Delivery.TRANSACTIONAL)

    def send(self, messages: int) -> int:
        """Send this many. Returns the ticket of the last."""
        ticket = -1
        for _ in range(messages):
            self.bodies.append(b"%0*d" % (SIZE_BYTES, len(self.bodies)))
            ticket = self.sender.live.submit(self.outgoing, self.bodies[-1], SIZE_BYTES)
        self.sender.drain()
        return ticket

    def arrived(self) -> bool:
        """Whether all sent messages are in their queue."""
        mailbox = self.receiver.live.queues.mailboxes.get(QUEUE)
        return mailbox is not None and mailbox.length == len(self.bodies)

    def settle(self) -> None:
        """Until everything has arrived and is acknowledged."""
        self.world.run(END_NS, lambda: self.arrived() and not self.outgoing.busy)

    def read(self) -> list[bytes]:
        """All arrived messages, in their order."""
        host, read = self.receiver, list[bytes]()
        mailbox = host.live.make_queue(QUEUE)
        for _ in range(END_NS // MS):
            while (lease := host.live.take(mailbox, self.world.now_ns)) is not None:
                read.append(lease.body)
                mailbox.acknowledge(lease)
            if len(read) >= len(self.bodies):
                break
            host.drain()
            self.world.run(MS)
        return read

    def check(self) -> None:
        """Everything came once and in order, or the figures are of something else."""
        assert self.read() == self.bodies, "the promise of every policy is the same"


@contextmanager
def _run(settings: NodeSettings, faults: Faults, disk_ns: int = DISK_NS) -> Iterator[_Run]:
    run = _Run(settings, faults, disk_ns)
    # The session is open before the measurement.
    run.send(1)
    run.settle()
    try:
        yield run
        run.check()
    finally:
        for host in (run.sender, run.receiver):
            host.end()
            host.disk.close()


def stream(settings: NodeSettings, faults: Faults, messages: int = STREAM_MESSAGES) -> Seen:
    """As fast as window and link allow: messages a second, and datagrams of acks for each."""
    with _run(settings, faults) as run:
        began_ns, before = run.world.now_ns, run.link.sent[run.receiver.address]
        run.send(messages)
        run.world.run(END_NS, run.arrived)
        rate = messages * SECOND / (run.world.now_ns - began_ns)
        run.settle()
        return Seen(rate=rate, acks=(run.link.sent[run.receiver.address] - before) / messages)


def pace(settings: NodeSettings, faults: Faults, messages: int = PACED_MESSAGES) -> Seen:
    """A hundred a second: when their sender learns of each, and how many bytes it holds until then."""
    with _run(settings, faults) as run:
        trigger, outgoing = settings.ack_events, run.outgoing
        terms = None if trigger is None else terms_of(trigger, largest_window(settings))
        events = AckEvents(terms, outgoing.first_unsettled, lambda: None)
        run.sender.live.watching.begin(outgoing, events)
        sent_ns, delays_ns, held_bytes = list[int](), list[int](), 0

        def look() -> bool:
            nonlocal held_bytes
            held_bytes = max(held_bytes, outgoing.unacked_bytes)
            while (event := events.poll()) is not None:
                # The first message is that which opened the session.
                told = range(event.first - 2, event.last - 1)
                delays_ns.extend(run.world.now_ns - sent_ns[number] for number in told)
            return len(delays_ns) == messages

        for _ in range(messages):
            sent_ns.append(run.world.now_ns)
            run.send(1)
            run.world.run(PACED_EVERY_NS, look)
            run.world.run(sent_ns[-1] + PACED_EVERY_NS - run.world.now_ns, look)
        run.world.run(END_NS, look)
        return Seen(delays_ns=tuple(sorted(delays_ns)), held_bytes=held_bytes)


def lose_session(settings: NodeSettings, faults: Faults, messages: int = PACED_MESSAGES) -> Seen:
    """The link is cut under a paced stream until the session is given up: messages that are redelivered afterwards."""
    with _run(settings, faults) as run:
        one, other = run.sender.address, run.receiver.address
        for number in range(messages):
            if number == messages // 2:
                run.link.cut(one, other)
                run.link.cut(other, one)
            run.send(1)
            run.world.run(PACED_EVERY_NS)
        run.world.run(END_NS, lambda: not any(link.conversation for link in run.sender.live.outbox.links.values()))
        run.link.heal()
        run.settle()
        return Seen(again=came_again(parse_records(bytes(run.receiver.records[-1]))))


def came_again(records: Iterable[dict[str, Any]]) -> int:
    """How many messages came in another session than at first, by the session log of their receiver."""
    first_in, again = dict[int, str](), 0
    for record in records:
        if record["event"] == "packet_received" and "number" in record:
            counts = [messages for packets, messages in record["counts"] for _ in range(packets)]
            for number, messages in enumerate(counts, record["number"]):
                again += messages * (first_in.setdefault(number, record["session"]) != record["session"])
    return again


def blocking_rate(round_trip_ns: int, disk_ns: int) -> float:
    """Messages a second of a sender that waits for each to be stored: HornetQ's arithmetic."""
    faults = Faults(rate_bps=10 * SECOND, delay_ns=round_trip_ns // 2)
    settings = hornetq(block_on_durable_send=True)
    with _run(settings, faults, disk_ns) as run:
        stage = settings.blocking.stage_of(Delivery.TRANSACTIONAL)
        assert stage == Stage.STORED.name.lower()
        began_ns = run.world.now_ns
        for _ in range(BLOCKED_MESSAGES):
            ticket, stored = run.send(1), list[str | None]()
            run.sender.live.await_stage(run.outgoing, ticket, Stage.STORED, stored.append)
            run.sender.drain()
            run.world.run(END_NS, lambda stored=stored: bool(stored))  # type: ignore[misc]
        rate = BLOCKED_MESSAGES * SECOND / (run.world.now_ns - began_ns)
        run.settle()
        return rate


async def measure_simulated(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """Each policy on each link; once, as time is virtual."""
    share = QUICK_SHARE if options.quick else 1
    result.note("whole nodes on a simulated link, disk and clock: what the protocols do, the same at every run")
    for link, faults in LINKS.items():
        for policy, settings in BETWEEN_NODES.items():
            name = f"{row.name} {link} {policy}"
            meter.begin(name, replace(row.work, messages=STREAM_MESSAGES // share))
            await asyncio.sleep(0)  # the meter is drawn
            streamed = stream(settings, faults, STREAM_MESSAGES // share)
            paced = pace(settings, faults, PACED_MESSAGES // share)
            lost = lose_session(settings, faults, PACED_MESSAGES // share)
            take(result, link, policy, Seen(*streamed[:2], *paced[2:4], lost.again))
            meter.say(f"{name}: {streamed.rate:,.0f} msg/s, {streamed.acks:.3f} acks a message")
    note_blocking(result)
    result.verified = True
    result.guarantee = ["exactly once", "in order"]


def take(result: Result, link: str, policy: str, seen: Seen) -> None:
    """Add the results of a policy's runs on a link to the figures."""
    last = ceil(0.99 * len(seen.delays_ns)) - 1
    values = (
        seen.rate,
        seen.acks,
        median(seen.delays_ns) / MS,
        seen.delays_ns[last] / MS,
        seen.held_bytes / 1024,
        seen.again,
    )
    for metric, value in zip(POLICY_METRICS, values, strict=True):
        if value is not None:
            result.figures[policy_figure(link, policy, metric)].values.append(value)


def note_blocking(result: Result) -> None:
    """HornetQ's arithmetic, on a simulated link."""
    round_trip_ns = MS // 4
    arithmetic, stored = (blocking_rate(round_trip_ns, disk_ns) for disk_ns in (0, DISK_NS))
    result.note(
        f"a sender that waits for each message, round trip 0.25 ms: {arithmetic:,.0f} msg/s, at most 4,000; with two "
        f"disks that take 0.25 ms for a commit {stored:,.0f} (simulated)"
    )
