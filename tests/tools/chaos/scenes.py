"""Two or three machines of a chaos run, with keys, and traffic between them."""

from dataclasses import replace

from triack.base.units import MS
from triack.queues.node_settings import NodeSettings
from triack.tools.chaos.host import Host
from triack.tools.chaos.plan import Fault, HostPlan, Plan, StreamPlan
from triack.tools.chaos.trust import Trust
from triack.tools.chaos.workload import Workload
from triack.tools.sim.faults import Faults
from triack.tools.sim.network import Network
from triack.tools.sim.world import World

HOST = HostPlan("", "", NodeSettings(), MS, 1_024, 100, False, 0, 0.0, 10 * MS)
STREAM = StreamPlan(0, 1, "q", "transactional", 200, 100, gap_ns=50 * MS)


def plan_of(*faults: Fault, hosts: int = 2, streams: tuple[StreamPlan, ...] = (STREAM,)) -> Plan:
    """A plan of calm machines."""
    plans = tuple(
        replace(HOST, name=name, address=f"udp://{name}:1", others=(f"udp://{name}:2",)) for name in "abc"[:hosts]
    )
    return Plan(1, plans, streams, Faults(), faults, 10**10)


class Scene:
    """The machines of a plan, at work."""

    def __init__(self, plan: Plan) -> None:
        self.world = World(plan.seed)
        self.network = Network(self.world, plan.network)
        self.hosts = [Host(self.world, self.network, host) for host in plan.hosts]
        self.work = Workload(plan.streams, self.hosts, self.world)
        for host in self.hosts:
            host.start()

    @property
    def handed(self) -> int:
        """How many messages of the first stream were read."""
        return len(self.work.history.streams[0].handed)

    def close(self) -> None:
        for host in self.hosts:
            host.disk.close()


class Trusting(Scene):
    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.trust = Trust(plan, self.hosts, self.world)
        self.trust.begin()
        self.work.begin()
