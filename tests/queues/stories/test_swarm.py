"""The swarm: random networks, workloads and crashes, seed by seed; each ends with everything delivered, in order."""

from random import Random

import pytest

from tests.queues.world import SimNode, World
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.stages import Stage
from triack.tools.sim.faults import Faults

SEEDS = 12
"""Of each kind. Whole nodes with real stores meet more of it in the seeds of ``triack chaos``."""
BLOCKS = 4
TRANSACTIONAL = Delivery.TRANSACTIONAL


class Swarm:
    """Two nodes; ``a`` sends numbered messages to ``b``, which reads them now and then."""

    def __init__(self, seed: int, *, crashes: bool) -> None:
        self.random = random = Random(seed * 7 + 1)
        faults = Faults(
            loss=random.choice([0, 0.05, 0.1, 0.3, 0.4]),
            duplicate=random.choice([0, 0.02, 0.2]),
            reorder=random.choice([0, 0.05, 0.3]),
            delay_ns=random.choice([MS // 10, 5 * MS, 50 * MS]),
        )
        self.world = World(seed, faults)
        self.a, self.b = self.world.node("a"), self.world.node("b")
        for node in (self.a, self.b):
            node.commit_ns = random.choice([MS // 4, 3 * MS, 80 * MS])
        self.size_bytes = random.choice([20, 100, 3_000])
        self.total = random.choice([50, 200] if self.size_bytes == 3_000 else [50, 400, 1_000])
        self.next = 0
        self.accepted: set[int] = set()
        self.acknowledged: set[int] = set()
        self.faults = True
        self.submit()
        self.read()
        if crashes:
            self.world.at(random.randrange(SECOND), self.crash)
        if random.random() < 0.3:
            self.world.at(random.randrange(SECOND), self.cut)

    def submit(self) -> None:
        """Send some; a message counts as accepted when its commit has returned."""
        if self.next >= self.total:
            return
        if self.a.engine is not None:
            first = self.next
            self.next = min(first + self.random.choice([1, 5, 60]), self.total)
            numbers = range(first, self.next)
            bodies = [b"%08d" % number + b"." * self.size_bytes for number in numbers]
            self.a.live.await_commit(lambda error: self.accepted.update(() if error else numbers))
            sent = self.a.send(self.b, "q", *bodies)
            last = self.next - 1
            self.a.live.await_stage(*sent, Stage.ORDERED, lambda reason: self.acknowledged.add(last))
        self.world.at(self.random.randrange(1, 20 * MS), self.submit)

    def read(self) -> None:
        """Read some, if the node is up."""
        if self.b.engine is not None:
            self.b.read("q", self.random.choice([1, 10, 1_000]))
        self.world.at(self.random.randrange(1, 30 * MS), self.read)

    def crash(self) -> None:
        """Crash one of them and start it again soon."""
        if not self.faults:
            return
        node: SimNode = self.random.choice([self.a, self.b])
        if node.engine is not None:
            node.crash()
            self.world.at(self.random.randrange(1, 2 * SECOND), node.start)
        self.world.at(self.random.randrange(100 * MS, 3 * SECOND), self.crash)

    def cut(self) -> None:
        """Part the network for a while, one way or both."""
        if self.faults:
            one, other = self.random.sample([self.a, self.b], 2)
            self.world.cut(one, other, both=self.random.random() < 0.5)
            self.world.at(self.random.randrange(5 * SECOND), self.world.network.heal)
            self.world.at(self.random.randrange(8 * SECOND), self.cut)

    def finished(self) -> bool:
        """Whether everything is sent, acknowledged and read."""
        up = self.a.engine is not None and self.b.engine is not None
        return up and self.next >= self.total and not self.a.busy and not self.b.length("q")

    def run(self) -> list[int]:
        """Faults for a while, then none. Returns the numbers that were read."""
        self.world.run(15 * SECOND)
        self.faults = False
        self.world.run(3 * SECOND)
        self.world.heal()
        assert self.world.run(60 * SECOND, self.finished), "not everything was delivered after healing"
        return [int(body[:8]) for body in self.b.received["q"]]


@pytest.mark.slow
@pytest.mark.parametrize("crashes", [False, True], ids=["calm", "crashes"])
@pytest.mark.parametrize("block", range(BLOCKS))
def test_exactly_once_in_order_whatever_happens(block: int, crashes: bool) -> None:
    """Nothing twice, nothing out of order, and nothing lost that was accepted or acknowledged in order."""
    for seed in range(block, SEEDS, BLOCKS):
        swarm = Swarm(seed, crashes=crashes)
        try:
            numbers = swarm.run()
        except AssertionError as error:
            pytest.fail(f"seed {seed}, crashes {crashes}: {error}")
        assert numbers == sorted(set(numbers)), f"seed {seed}, crashes {crashes}: repeated or out of order"
        lost = (swarm.accepted | swarm.acknowledged) - set(numbers)
        assert not lost, f"seed {seed}, crashes {crashes}: lost {sorted(lost)[:5]}"
        if not crashes:
            assert len(numbers) == swarm.total, f"seed {seed}: {swarm.total - len(numbers)} never accepted"


@pytest.mark.gate
def test_the_same_seed_gives_the_same_bytes() -> None:
    """A failing seed can be run again: the whole session log is the same."""
    logs = []
    for _ in range(2):
        swarm = Swarm(1, crashes=True)
        swarm.run()
        logs.append(b"".join(swarm.a.records + swarm.b.records))
    assert logs[0] == logs[1]
    assert len(logs[0]) > 10_000


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(4))
def test_a_ring_of_nodes_in_every_class(seed: int) -> None:
    """Three nodes, each sending to the next in all classes over a bad network."""
    world = World(seed, Faults(loss=0.1, duplicate=0.1, reorder=0.2))
    nodes = [world.node(name) for name in ("a", "b", "c")]
    for at in range(30):
        for index, node in enumerate(nodes):
            for delivery in Delivery:
                to = nodes[(index + 1) % 3]
                node.send(to, delivery.label, b"%d" % at, delivery=delivery)
        world.run(world.random.randrange(100 * MS))
    world.heal()
    assert world.run(60 * SECOND, lambda: not any(node.busy for node in nodes))
    for node in nodes:
        for delivery in Delivery:
            got = [int(body) for body in node.read_all(delivery.label)]
            assert (got if delivery is TRANSACTIONAL else sorted(got)) == list(range(30))
