"""Operators who pause queues for a while, as ``triack queue pause`` does, and resume them."""

from triack.base.units import MS
from triack.tools.chaos.host import Host
from triack.tools.chaos.plan import Fault, Plan
from triack.tools.sim.world import World

OUTGOING = 1
"""``Fault.other`` of a pause at the sender; at the receiver it is 0."""
AGAIN_NS = 50 * MS
CALM_LOOKS = 20
"""If a resume was found this often, it is durable: a second is more than a commit needs."""


class Pausing:
    """The pauses of a run."""

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
        for key in self._paused:
            self._paused[key] = 0

    def _resume(self, key: tuple[int, str], calm: int = 0) -> None:
        """Resume a queue when its time has ended and its node runs; again if the node died before that was durable."""
        host, name = self._hosts[key[0]], key[1]
        engine = host.engine
        if host.lost is not None or calm == CALM_LOOKS:
            return
        is_over = self._paused[key] <= self._world.now_ns
        if not is_over or not host.is_up or engine is None or engine.draining or engine.failure is not None:
            calm = 0
        elif host.stands_still:
            # The pause itself may be among what waits.
            calm = 0
        elif name in engine.queues.pauses.by_name:
            calm = 0
            host.act(lambda: self._end(host, name))
        else:
            calm += 1
        self._world.at(AGAIN_NS, lambda: self._resume(key, calm))

    def _end(self, host: Host, name: str) -> None:
        engine = host.engine
        if engine is not None and engine.failure is None and not engine.draining:
            engine.resume(name, self._world.now_ns)
