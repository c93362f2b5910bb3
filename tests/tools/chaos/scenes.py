"""Two or three machines of a chaos run, with keys, and traffic between them."""

from dataclasses import replace
from typing import Any

from triack.base.units import MS
from triack.queues.node_settings import NodeSettings
from triack.tools.chaos.history import History
from triack.tools.chaos.host import Host
from triack.tools.chaos.plan import HostPlan, Plan, StreamPlan
from triack.tools.chaos.trust import Trust
from triack.tools.chaos.workload import Workload
from triack.tools.sim.faults import Faults
from triack.tools.sim.network import Network
from triack.tools.sim.world import World

HOST = HostPlan("", "", NodeSettings(), MS, 1_024, 100, False, 0, 0.0, 10 * MS)
STREAM = StreamPlan(0, 1, "q", "transactional", 200, 100, gap_ns=50 * MS)


def plan_of(*streams: StreamPlan, hosts: int = 2, **changes: Any) -> Plan:
    count = max(hosts, 1 + max((max(it.sender, it.receiver) for it in streams), default=0))
    plans = tuple(replace(HOST, name=name, address=f"udp://{name}:1", **changes) for name in "abc"[:count])
    return Plan(1, plans, streams or (STREAM,), Faults(), (), 10**10)


class Scenario:
    def __init__(self, plan: Plan) -> None:
        self.world = World(plan.seed)
        self.network = Network(self.world, plan.network)
        self.hosts = [Host(self.world, self.network, host) for host in plan.hosts]
        self.work = Workload(plan.streams, self.hosts, self.world)
        for host in self.hosts:
            host.start()
        self.trust = Trust(plan, self.hosts, self.world)
        self.trust.begin()
        self.work.begin()

    @property
    def history(self) -> History:
        return self.work.history

    def handed(self, stream: int = 0) -> list[int]:
        return sorted(self.history.streams[stream].handed)

    def judged(self) -> list[tuple[str, str]]:
        self.trust.judge(self.history)
        return self.trust.violations

    def close(self) -> None:
        for host in self.hosts:
            host.disk.close()
