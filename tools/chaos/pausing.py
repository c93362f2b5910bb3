"""Operators who pause queues for a while, as ``triack queue pause`` does, and resume them."""

from triack.base.units import MS
from triack.tools.chaos.host import Host
from triack.tools.chaos.plan import Fault, Plan
from triack.tools.sim.world import World

__all__ = ["OUTGOING", "Pausing"]

OUTGOING = 1
"""``Fault.other`` of a pause at the sender; at the receiver it is 0."""
AGAIN_NS = 50 * MS
"""How soon an operator tries again to resume a queue of a node that is down."""


class Pausing:
    """The pauses of a run.

    Args:
        plan: the plan.
        hosts: the machines.
        world: the clock.
    """

    def __init__(self, plan: Plan, hosts: list[Host], world: World) -> None:
        self._plan = plan
        self._hosts = hosts
        self._world = world
        self._paused: dict[tuple[int, str], int] = {}

    def pause(self, fault: Fault) -> None:
        """Pause a queue for a while, if its node runs."""
        host, name = self._hosts[fault.host], self._name_of(fault)
        key, until_ns = (fault.host, name), self._world.now_ns + fault.for_ns
        if not host.is_up or host.engine is None:
            return
        self._paused[key] = max(until_ns, self._paused.get(key, 0))
        host.act(lambda: self._pause(host, name, arrivals=fault.forever))
        self._world.at(fault.for_ns, lambda: self._resume(key))

    def _name_of(self, fault: Fault) -> str:
        stream = self._plan.streams[fault.after]
        if fault.other != OUTGOING:
            return stream.queue
        to = self._hosts[stream.receiver]
        return f"{to.name if to.identity.keys else to.address}/{stream.queue}"

    def _pause(self, host: Host, name: str, *, arrivals: bool) -> None:
        engine = host.engine
        if engine is not None and engine.failure is None and not engine.draining:
            if "/" not in name:
                engine.make_queue(name)
            engine.pause(name, arrivals=arrivals, now_ns=self._world.now_ns)

    def heal(self) -> None:
        """Resume all queues now."""
        for key in list(self._paused):
            self._paused[key] = 0
            self._resume(key)

    def _resume(self, key: tuple[int, str]) -> None:
        """Resume a queue whose time is over, as soon as its node runs."""
        host, name = self._hosts[key[0]], key[1]
        if host.lost is not None or self._paused.get(key, 0) > self._world.now_ns:
            return
        if not host.is_up or host.engine is None or host.engine.draining or host.engine.failure is not None:
            self._world.at(AGAIN_NS, lambda: self._resume(key))
            return
        host.act(lambda: host.engine.resume(name, self._world.now_ns) if host.engine is not None else None)
        # A node that dies before its next commit has the pause again.
        if self._paused.pop(key, None) is not None:
            self._world.at(AGAIN_NS, lambda: self._resume(key))
