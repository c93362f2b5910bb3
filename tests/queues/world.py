"""A simulated world for whole nodes: real engines and real stores under one virtual clock and a seeded network.

A crash drops the engine with all that it had in memory; a job that the store had in hand is then done or not, as the
seed decides. The store itself is real SQLite, in memory, and outlives the crash.
"""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, NamedTuple

from triack.base.delivery import Delivery
from triack.base.errors import RollbackDetected, StoreFailed
from triack.base.units import MS, SECOND
from triack.queues.effects import Job, Send, StartJob, TellRollback, WriteRecords
from triack.queues.engine import Engine
from triack.queues.group_commit import GroupCommit
from triack.queues.mailbox import Lease
from triack.queues.outbox import Outbox
from triack.queues.outgoing_queue import OutgoingQueue
from triack.queues.packing import Outgoing
from triack.queues.settings import NodeSettings
from triack.queues.stages import Stage
from triack.store.store import Store
from triack.transport.insecure import InsecureChannels

WALL_NS = 1_700_000_000 * SECOND


@dataclass
class Network:
    """How bad the links are; ``cut`` holds directed pairs of addresses that lose everything."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    delay_ns: int = 5 * MS
    cut: set[tuple[str, str]] = field(default_factory=set)


class World:
    """Nodes by address, and the events to come.

    Attributes:
        tap: called with every datagram that leaves a node, its sender and its receiver.
        alter: makes another datagram of each that leaves a node.
    """

    def __init__(self, seed: int, network: Network | None = None) -> None:
        self.random = Random(seed)
        self.network = network or Network()
        self.now_ns = SECOND
        self.nodes: dict[str, SimNode] = {}
        self.tap: Callable[[bytes, str, str], None] | None = None
        self.alter: Callable[[bytes], bytes] | None = None
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = count()
        self.datagrams = 0

    def node(self, name: str, settings: NodeSettings | None = None, queues: list[str] | None = None) -> "SimNode":
        """A new node, started, at ``udp://name:1``."""
        node = SimNode(self, name, settings or NodeSettings(), queues)
        self.nodes[node.address] = node
        node.start()
        return node

    def clone(self, node: "SimNode", name: str) -> "SimNode":
        """Another node on a copy of a node's store, started, at an address of its own."""
        clone = SimNode(self, name, node.settings, node.queues)
        clone.restore(node.copy_store())
        self.nodes[clone.address] = clone
        clone.start()
        return clone

    @property
    def now_ms(self) -> int:
        """The wall clock."""
        return (self.now_ns + WALL_NS) // MS

    def at(self, delay_ns: int, action: Callable[[], None]) -> None:
        """Do something later."""
        heappush(self._heap, (self.now_ns + delay_ns, next(self._serial), action))

    def send(self, datagram: bytes, sender: str, to: str) -> None:
        """Put a datagram on the network, with its seeded fate."""
        network, random = self.network, self.random
        self.datagrams += 1
        if self.tap is not None:
            self.tap(datagram, sender, to)
        if self.alter is not None:
            datagram = self.alter(datagram)
        if (sender, to) in network.cut:
            return
        for _ in range(2 if random.random() < network.duplicate else 1):
            if random.random() < network.loss:
                continue
            delay_ns = network.delay_ns
            if random.random() < network.reorder:
                delay_ns += random.randrange(1, 4 * network.delay_ns + 2)
            self.at(delay_ns, lambda: self._arrive(datagram, sender, to))

    def _arrive(self, datagram: bytes, sender: str, to: str) -> None:
        node = self.nodes.get(to)
        if node is not None and node.engine is not None:
            node.engine.handle_datagram(datagram, sender, self.now_ns)
            node.drain()

    def run(self, for_ns: int, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass. Returns whether ``until`` came true."""
        end_ns = self.now_ns + for_ns
        while self._heap and self._heap[0][0] <= end_ns:
            self.now_ns, _, action = heappop(self._heap)
            action()
            if until is not None and until():
                return True
        self.now_ns = end_ns
        return until is not None and until()

    def cut(self, one: "SimNode", other: "SimNode", *, both: bool = True) -> None:
        """Lose everything from one to the other, and back if ``both``."""
        self.network.cut.add((one.address, other.address))
        if both:
            self.network.cut.add((other.address, one.address))

    def heal(self) -> None:
        """Stop every fault of the network."""
        self.network.loss = self.network.duplicate = self.network.reorder = 0.0
        self.network.cut.clear()


class StoreCopy(NamedTuple):
    """A copy of a store in memory: its file, and what it would read from it when it is opened."""

    data: bytes
    meta: Any
    tallies: Any


class SimNode:
    """One node of the world; it survives its crashes.

    Attributes:
        commit_ns: how long the disk takes for a job.
        broken: from now on every job of the disk fails.
    """

    def __init__(self, world: World, name: str, settings: NodeSettings, queues: list[str] | None) -> None:
        self.world = world
        self.name = name
        self.address = f"udp://{name}:1"
        self.store = Store(None)
        self.engine: Engine | None = None
        self.records: list[bytes] = []
        self.told: list[RollbackDetected] = []
        self.received: dict[str, list[bytes]] = {}
        self.redelivered = 0
        self.reads = 0
        self.settings = settings
        self.queues = queues
        self.commit_ns = MS // 4
        self.broken = False
        self._timer_ns: int | None = None
        self._job: Job | None = None

    def start(self) -> None:
        """Start, or start again after a crash."""
        world = self.world
        content = self.store.load(world.random.randbytes(16), world.random.getrandbits(63))
        self.engine = Engine(
            content,
            name=self.name,
            address=self.address,
            settings=self.settings,
            queues=self.queues,
            channels=InsecureChannels(),
            random=Random(world.random.random()),
            now_ns=world.now_ns,
            wall_offset_ns=WALL_NS,
            recording=True,
        )
        self.drain()

    def crash(self) -> None:
        """Lose everything in memory. A commit that the disk had in hand is done or not, as the seed decides."""
        assert self.engine is not None
        job, self._job = self._job, None
        if isinstance(job, GroupCommit) and not self.broken and self.world.random.random() < 0.5:
            self.store.apply(job.commit)
        self.engine = None
        self._timer_ns = None

    def revive(self) -> None:
        """Start again, unless that was done."""
        if self.engine is None:
            self.start()

    def restart(self) -> None:
        """Crash and start at once."""
        self.crash()
        self.start()

    def copy_store(self) -> "StoreCopy":
        """What is on the disk now."""
        store: Any = self.store
        return StoreCopy(store._db.serialize("main"), deepcopy(store._meta), deepcopy(store._tallies))  # noqa: SLF001

    def restore(self, copy: "StoreCopy") -> None:
        """Put an older copy in the place of the store of a node that is down."""
        assert self.engine is None
        store: Any = Store(None)
        store._db.deserialize("main", copy.data)  # noqa: SLF001
        store._meta, store._tallies = deepcopy(copy.meta), deepcopy(copy.tallies)  # noqa: SLF001
        self.store = store

    @property
    def rollbacks(self) -> list[str]:
        """Whose store was rolled back, of all that this node has detected since its start."""
        return list(self.live.rollbacks.values())

    @property
    def live(self) -> Engine:
        """The engine of a node that runs."""
        assert self.engine is not None
        return self.engine

    def drain(self) -> None:
        """What the driver does after every input."""
        engine, world = self.engine, self.world
        if engine is None:
            return
        for effect in engine.poll(world.now_ns):
            if isinstance(effect, WriteRecords):
                self.records.append(effect.data)
            elif isinstance(effect, StartJob):
                self._job = effect.job
                world.at(self.commit_ns, lambda job=effect.job: self._do(engine, job))  # type: ignore[misc]
            elif isinstance(effect, TellRollback):
                self.told.append(effect.error)
            elif isinstance(effect, Send):
                for datagram in effect.datagrams:
                    world.send(datagram, self.address, effect.address)
        self._arm(engine)

    def _do(self, engine: Engine, job: Job) -> None:
        if self.engine is not engine:
            return
        self._job = None
        if self.broken:
            error = StoreFailed(f"commit store {self.name}: the disk is full")
            engine.handle_store_failed(job, error, self.world.now_ns)
            self.drain()
            return
        if isinstance(job, GroupCommit):
            self.store.apply(job.commit)
        else:
            self.reads += 1
            self.store.read(job)
        engine.handle_done(job, self.world.now_ns)
        self.drain()

    def _arm(self, engine: Engine) -> None:
        deadline_ns = engine.next_deadline()
        if deadline_ns is None or (self._timer_ns is not None and self.world.now_ns < self._timer_ns <= deadline_ns):
            return
        self._timer_ns = max(deadline_ns, self.world.now_ns + 1)
        self.world.at(self._timer_ns - self.world.now_ns, lambda: self._tick(engine))

    def _tick(self, engine: Engine) -> None:
        if self.engine is engine:
            self._timer_ns = None
            self.drain()

    # ---- the application

    def send(
        self,
        to: "SimNode",
        queue: str,
        *bodies: bytes,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        live_ms: int = 0,
    ) -> tuple[OutgoingQueue, int]:
        """Submit messages; each lives for ``live_ms`` on its way, 0 for ever. Returns lane and the last ticket."""
        engine = self.live
        lane = engine.lane_for(to.address, queue, delivery)
        ticket = -1
        for body in bodies:
            message = Outgoing(body, None, self.world.now_ms + live_ms) if live_ms else body
            ticket = engine.submit(lane, message, len(body))
        self.drain()
        return lane, ticket

    def watch(self, sent: tuple[OutgoingQueue, int], stage: Stage) -> list[str | None]:
        """A list that gets what a receipt would say: None for reached, or why not."""
        said: list[str | None] = []
        self.live.await_stage(*sent, stage, said.append)
        self.drain()
        return said

    def read(self, queue: str, most: int = 1_000_000, *, fail: float = 0.0) -> int:
        """Take, note and acknowledge what waits; with a chance of ``fail`` give a message back instead."""
        engine = self.live
        mailbox = engine.make_queue(queue)
        got = self.received.setdefault(queue, [])
        for taken in range(most):
            handed = engine.take(mailbox, self.world.now_ns)
            if handed is None:
                self.drain()
                return taken
            if fail and self.world.random.random() < fail:
                engine.give_back(mailbox, handed, failed=True, now_ns=self.world.now_ns)
                continue
            self._note(handed, got)
            mailbox.acknowledge(handed)
        self.drain()
        return most

    def read_all(self, queue: str) -> list[bytes]:
        """Read until the queue is empty; bodies that only the disk has need some time. Returns all that ever came."""
        self.world.run(MS)
        self.read(queue)
        for _ in range(1_000):
            if not self.length(queue):
                break
            self.world.run(MS)
            self.read(queue)
        return self.received[queue]

    def _note(self, handed: Lease, got: list[bytes]) -> None:
        body = handed.body
        if handed.redelivered and body in got[-5_000:]:
            self.redelivered += 1
        else:
            got.append(body)

    def length(self, queue: str) -> int:
        """How many messages wait in a queue."""
        mailbox = self.live.inbox.mailboxes.get(queue)
        return mailbox.length if mailbox is not None else 0

    @property
    def busy(self) -> bool:
        """Whether anything outgoing is not acknowledged for good."""
        return self.live.busy_storing or any(lane.busy for lane in self.outbox.lanes)

    @property
    def outbox(self) -> Outbox:
        """The outgoing side of the engine."""
        return self.live.outbox

    def log(self, *events: str) -> list[dict[str, Any]]:
        """The session log so far, or the named events of it."""
        records = [json.loads(line) for line in b"".join(self.records).splitlines()]
        return [record for record in records if not events or record["event"] in events]


def numbered(first: int, end: int, size_bytes: int = 40) -> list[bytes]:
    """Messages that say which they are."""
    return [b"%08d" % number + b"." * size_bytes for number in range(first, end)]
