"""A simulated world for whole nodes, with what tests want to say about it in a word: send, read, crash, clone, log.

All of it is the kit of ``triack.tools.sim``. A crash drops the engine with all that it had in memory; a commit that the
disk had in hand is then done or not, as the seed decides.
"""

from contextlib import suppress
from random import Random
from typing import Any

from tests.logs import single_records
from triack.base.commit import Commit
from triack.base.delivery import Delivery
from triack.base.errors import StoreFailed
from triack.base.news import NodeEvent
from triack.base.session_log import record_nothing
from triack.base.units import MS, SECOND
from triack.queues.mailboxes.mailbox import Lease
from triack.queues.mailboxes.redelivery import Return
from triack.queues.manager.effects import Job
from triack.queues.messages import Outgoing
from triack.queues.node_settings import NodeSettings
from triack.queues.stages import Stage
from triack.queues.streams.group_commit import GroupCommit
from triack.queues.streams.outbox import Outbox
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.owed_acks import Positions
from triack.queues.streams.stream_records import StreamRecords
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records
from triack.tools.sim import world as sim
from triack.tools.sim.disk import DiskFaults, Snapshot
from triack.tools.sim.faults import Faults
from triack.tools.sim.host import SimHost
from triack.tools.sim.network import Network

WORLDS: list["World"] = []
"""Those of the test that runs; their disks are closed after it."""


class World(sim.World):
    """Nodes by address, and the network between them. They have keys and know each other, unless it is a PlainWorld."""

    is_plain = False

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        super().__init__(seed)
        self.random: Random = self.chance("test")
        self.network = Network(self, faults)
        self.nodes: dict[str, SimNode] = {}
        self.made: list[SimNode] = []
        WORLDS.append(self)

    def node(
        self, name: str, settings: NodeSettings | None = None, queues: list[str] | None = None, scheme: str = "udp"
    ) -> "SimNode":
        """A new node, started, at ``udp://name:1``, or port 1 of another transport."""
        return self._start(SimNode(self, name, settings, queues, scheme))

    def clone(self, node: "SimNode", name: str) -> "SimNode":
        """Another node on a copy of a node's store, started, at an address of its own."""
        clone = SimNode(self, name, node.settings, node.queues)
        clone.disk.restore(node.disk.snapshot())
        return self._start(clone)

    def _start(self, node: "SimNode") -> "SimNode":
        self.nodes[node.address] = node
        node.start()
        return node

    @property
    def now_ms(self) -> int:
        return (self.now_ns + sim.WALL_NS) // MS

    @property
    def faults(self) -> Faults:
        """How bad the network is."""
        return self.network.faults

    def cut(self, one: "SimNode", other: "SimNode", *, both: bool = True) -> None:
        """Lose everything from one to the other, and back if ``both``."""
        self.network.cut(one.address, other.address)
        if both:
            self.network.cut(other.address, one.address)

    def heal(self) -> None:
        """Stop every fault of the network."""
        self.network.faults = Faults(delay_ns=self.faults.delay_ns)
        self.network.heal()

    def close(self) -> None:
        """Give back what the disks hold."""
        for node in self.made:
            node.disk.close()


class PlainWorld(World):
    """Nobody has keys: for tests that speak as a peer themselves, or have two processes with one identity."""

    is_plain = True


def drain(items: list[Any]) -> list[Any]:
    """What is in a list, which is empty then."""
    taken = items[:]
    items.clear()
    return taken


class SimNode(SimHost):
    """One node of the world; it survives its crashes.

    Attributes:
        received: the bodies that were read, by queue.
        reads: how often the store was asked for bodies.
        stored: number of the last commit on the disk.
        news: what its program was told.
    """

    world: World

    def __init__(
        self,
        world: World,
        name: str,
        settings: NodeSettings | None = None,
        queues: list[str] | None = None,
        scheme: str = "udp",
    ) -> None:
        keys = () if world.is_plain else None
        address = f"{scheme}://{name}:1"
        super().__init__(world, world.network, name, address, settings=settings, queues=queues, keys=keys)
        world.made.append(self)
        # Two of one name are two nodes.
        self.random = world.chance(f"node {len(world.made)}")
        self.received: dict[str, list[bytes]] = {}
        self.redelivered = 0
        self.reads = 0
        self.stored = 0
        self.news: list[NodeEvent] = []

    def tell_program(self, event: NodeEvent) -> None:
        """Keep it."""
        self.news.append(event)

    def crash(self) -> None:
        """Lose everything in memory. A commit that the disk had in hand is done or not, as the seed decides."""
        job = self.job
        if isinstance(job, GroupCommit) and self.random.random() < 0.5:
            with suppress(StoreFailed):
                self.apply(job.commit)
        self.end()

    def restart(self, set_by_ns: int = 0) -> None:
        """Crash and start at once, with its clock set meanwhile."""
        self.wall_offset_ns += set_by_ns
        self.crash()
        self.start()

    def copy_store(self) -> Snapshot:
        return self.disk.snapshot()

    def restore(self, copy: Snapshot) -> None:
        """Put an older copy in the place of the store of a node that is down."""
        assert self.engine is None
        self.disk.restore(copy)

    def break_disk(self) -> None:
        """From now on every write fails, until ``disk.calm``."""
        self.disk.faults = DiskFaults(write=1.0, sync=1.0)

    def do_job(self, job: Job) -> None:
        """Count the reads."""
        self.reads += not isinstance(job, GroupCommit)
        super().do_job(job)

    def apply(self, commit: Commit) -> None:
        """Remember which it was."""
        super().apply(commit)
        self.stored = commit.serial or self.stored

    @property
    def rollbacks(self) -> list[str]:
        """The rollbacks that this node has detected since its start: for each, whose store was rolled back."""
        return list(self.live.rollbacks.values())

    def tell_no_positions(self) -> None:
        """Until its next start its accepts say nothing of streams, as if there were no room for them."""
        self.live.inbox.positions = Positions(StreamRecords(record_nothing))

    def withhold(self) -> None:
        """Until its next start no order ack leaves, whatever asks for it, and no accept says the same."""
        self.tell_no_positions()
        self.live.inbox.order_acks.send = lambda route, now_ns: None  # type: ignore[method-assign]

    # ---- the application

    def send(
        self,
        to: "SimNode",
        queue: str,
        *bodies: bytes,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        live_ms: int = 0,
        priority: int | None = None,
    ) -> tuple[OutgoingStream, int]:
        """Submit messages; each lives for ``live_ms`` on its way, 0 for no limit. Returns queue and last ticket."""
        engine = self.live
        outgoing = engine.outgoing_stream(to.address, queue, delivery, priority)
        ticket = -1
        for body in bodies:
            message = Outgoing(body, None, self.world.now_ms + live_ms) if live_ms else body
            ticket = engine.submit(outgoing, message, len(body))
        self.drain()
        return outgoing, ticket

    def watch(self, sent: tuple[OutgoingStream, int], stage: Stage) -> list[str | None]:
        """A list that gets what a receipt would say: None for reached, or why not."""
        said: list[str | None] = []
        self.live.await_stage(*sent, stage, said.append)
        self.drain()
        return said

    def take(self, queue: str = "q") -> Lease:
        """The next message, whose body may have to come from the disk."""
        mailbox = self.live.make_queue(queue)
        for _ in range(10):
            lease = self.live.take(mailbox, self.world.now_ns)
            if lease is not None:
                return lease
            self.drain()
            assert self.world.run(SECOND, lambda: not mailbox.awaits_disk)
        raise AssertionError(f"nothing comes from {queue}")

    def acknowledge(self, lease: Lease, queue: str = "q") -> None:
        """Say that it is done; nothing else happens."""
        self.live.acknowledge(self.live.make_queue(queue), [(lease.packet, 1 << lease.index)])

    def give_back(self, lease: Lease, back: Return, queue: str = "q") -> None:
        """Return it to its queue; nothing else happens."""
        self.live.give_back(self.live.make_queue(queue), lease, back, self.world.now_ns)

    def read(self, queue: str, limit: int = 1_000_000) -> int:
        """Take, note and acknowledge what waits."""
        engine = self.live
        mailbox = engine.make_queue(queue)
        got = self.received.setdefault(queue, [])
        for taken in range(limit):
            lease = engine.take(mailbox, self.world.now_ns)
            if lease is None:
                self.drain()
                return taken
            self._note(lease, got)
            if lease.packet.cares:  # as a reader does, whose acknowledgement may have an answer
                self.acknowledge(lease, queue)
            else:
                mailbox.acknowledge(lease)
        self.drain()
        return limit

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

    def _note(self, lease: Lease, got: list[bytes]) -> None:
        body = lease.body
        if lease.redelivered and body in got[-5_000:]:
            self.redelivered += 1
        else:
            got.append(body)

    def length(self, queue: str) -> int:
        """How many messages wait in a queue."""
        mailbox = self.live.queues.mailboxes.get(queue)
        return mailbox.length if mailbox is not None else 0

    @property
    def busy(self) -> bool:
        """Whether anything outgoing is not acknowledged for good."""
        return self.live.busy_storing or any(outgoing.busy for outgoing in self.outbox.streams)

    @property
    def outbox(self) -> Outbox:
        """The outgoing side of the engine."""
        return self.live.outbox

    def log(self, *events: str) -> list[dict[str, Any]]:
        """The session log so far, or the named events of it."""
        records = single_records(b"".join(self.records))
        return [record for record in records if not events or record["event"] in events]


def two(
    seed: int = 1,
    faults: Faults | None = None,
    *,
    a: NodeSettings | None = None,
    b: NodeSettings | None = None,
    both: NodeSettings | None = None,
    scheme: str = "udp",
    make: type[World] = World,
) -> tuple[World, SimNode, SimNode]:
    world = make(seed, faults)
    return world, world.node("a", a or both, scheme=scheme), world.node("b", b or both, scheme=scheme)


def single(settings: NodeSettings | None = None, *, seed: int = 1, name: str = "a") -> tuple[World, SimNode]:
    world = World(seed)
    return world, world.node(name, settings)


def judged(*nodes: SimNode) -> set[str]:
    """The checks that replay finds broken in the logs of all of these."""
    return {it.check for it in judge_records(parse_records(b"".join(log for node in nodes for log in node.records)))}


def reasons(node: SimNode) -> list[str]:
    """Why its sessions were closed."""
    return [record["reason"] for record in node.log("session_closed")]


def numbered(first: int, end: int, size_bytes: int = 40) -> list[bytes]:
    return [b"%08d" % number + b"." * size_bytes for number in range(first, end)]
