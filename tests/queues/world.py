"""A simulated world for whole nodes: real engines and real stores under one virtual clock and a seeded network.

A crash drops the engine with all that it had in memory; a job that the store had in hand is then done or not, as the
seed decides. The store itself is real SQLite, in memory, and outlives the crash.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random

from triack.queues.commit import Pending
from triack.queues.engine import Engine, Job
from triack.queues.mailbox import Handed
from triack.queues.outbox import Outbox
from triack.queues.settings import NodeSettings
from triack.queues.store import Store
from triack.session.delivery import Delivery
from triack.session.settings import MS, SECOND
from triack.transport.datagram import InsecureChannel

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
    """Nodes by address, and the events to come."""

    def __init__(self, seed: int, network: Network | None = None) -> None:
        self.random = Random(seed)
        self.network = network or Network()
        self.now_ns = SECOND
        self.nodes: dict[str, SimNode] = {}
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = count()
        self.datagrams = 0

    def node(self, name: str, settings: NodeSettings | None = None, queues: list[str] | None = None) -> "SimNode":
        """A new node, started, at ``udp://name:1``."""
        node = SimNode(self, name, settings or NodeSettings(), queues)
        self.nodes[node.address] = node
        node.start()
        return node

    def at(self, delay_ns: int, action: Callable[[], None]) -> None:
        """Do something later."""
        heappush(self._heap, (self.now_ns + delay_ns, next(self._serial), action))

    def send(self, datagram: bytes, sender: str, to: str) -> None:
        """Put a datagram on the network, with its seeded fate."""
        network, random = self.network, self.random
        self.datagrams += 1
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

    def heal(self) -> None:
        """Stop every fault of the network."""
        self.network.loss = self.network.duplicate = self.network.reorder = 0.0
        self.network.cut.clear()


class SimNode:
    """One node of the world; it survives its crashes."""

    def __init__(self, world: World, name: str, settings: NodeSettings, queues: list[str] | None) -> None:
        self.world = world
        self.name = name
        self.address = f"udp://{name}:1"
        self.store = Store(None)
        self.engine: Engine | None = None
        self.records: list[bytes] = []
        self.received: dict[str, list[bytes]] = {}
        self.redelivered = 0
        self.failures: list[str] = []
        self._settings = settings
        self._queues = queues
        self._timer_ns: int | None = None
        self._commit_ns = MS // 4

    def start(self) -> None:
        """Start, or start again after a crash."""
        world = self.world
        content = self.store.load(world.random.randbytes(16))
        self.engine = Engine(
            content,
            name=self.name,
            address=self.address,
            settings=self._settings,
            queues=self._queues,
            channel=InsecureChannel(),
            random=Random(world.random.random()),
            now_ns=world.now_ns,
            wall_offset_ns=WALL_NS,
            recording=True,
        )
        self.drain()

    def crash(self) -> None:
        """Lose everything in memory. A job that is out may still happen."""
        assert self.engine is not None
        self.records.append(self.engine.take_records(self.world.now_ns))
        self.engine = None
        self._timer_ns = None

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
        job = engine.poll_job(world.now_ns)
        if job is not None:
            world.at(self._commit_ns, lambda: self._do(engine, job))
        batches = engine.poll_datagrams(world.now_ns)
        self.records.append(engine.take_records(world.now_ns))
        for address, datagrams in batches.items():
            for datagram in datagrams:
                world.send(datagram, self.address, address)
        self._arm(engine)

    def _do(self, engine: Engine, job: Job) -> None:
        if self.engine is not engine and self.world.random.random() < 0.5:
            return
        if isinstance(job, Pending):
            self.store.apply(job.commit)
        else:
            self.store.read(job)
        if self.engine is engine:
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
            engine.handle_timer(self.world.now_ns)
            self.drain()

    # ---- the application

    def send(
        self, to: "SimNode", queue: str, body: bytes, delivery: Delivery = Delivery.TRANSACTIONAL
    ) -> tuple[object, int]:
        """Submit a message. Returns lane and ticket."""
        engine = self.live
        lane = engine.lane_for(to.address, queue, delivery)
        ticket = engine.submit(lane, body, len(body))
        self.drain()
        return lane, ticket

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

    def _note(self, handed: Handed, got: list[bytes]) -> None:
        body = handed.parcel.open().bodies[handed.index]
        if handed.redelivered and body in got[-5_000:]:
            self.redelivered += 1
        else:
            got.append(body)

    @property
    def outbox(self) -> Outbox:
        """The outgoing side of the engine."""
        return self.live.outbox
