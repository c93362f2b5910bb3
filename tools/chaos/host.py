"""One machine of a chaos run: a simulated host as planned, that restarts, and that judges inspect."""

from collections.abc import Callable
from dataclasses import replace

from triack.base.commit import StoreContent
from triack.base.errors import StoreDamaged, TriackError
from triack.base.peers import Peer
from triack.base.units import MS
from triack.queues.manager.effects import Job
from triack.queues.manager.engine import Engine
from triack.queues.streams.group_commit import GroupCommit
from triack.tools.chaos.plan import HostPlan
from triack.tools.sim.disk import Disk, ProcessCrashed
from triack.tools.sim.host import SimHost
from triack.tools.sim.network import Network
from triack.tools.sim.standstill import Standstill
from triack.tools.sim.storms import Storms
from triack.tools.sim.world import World

RETRY_NS = 500 * MS
"""After this time an operator restarts a node that has ended."""


class Host(SimHost):
    """One machine."""

    asserts = True

    def __init__(
        self,
        world: World,
        network: Network,
        plan: HostPlan,
        disk: Disk | None = None,
        keys: tuple[bytes, ...] | None = None,
    ) -> None:
        super().__init__(world, network, plan.name, plan.address, settings=plan.settings, disk=disk, keys=keys)
        self.plan = plan
        self.page_bytes, self.checkpoint_pages = plan.page_bytes, plan.checkpoint_pages
        self.commit_ns = plan.commit_ns
        self.timer_slack_ns = plan.timer_slack_ns
        self.burst_ns = plan.burst_ns
        self.lost: TriackError | None = None
        self.state: dict[str, bytes] = {}
        self.on_power_loss: Callable[[], None] = lambda: None
        self.storms = Storms()
        self.standstill = Standstill()
        self._sleepers: dict[str, Callable[[], None]] = {}
        # The effects before the timer that has just ended; -1: none has.
        self._woken_at = -1

    @property
    def peer(self) -> Peer:
        """It as a peer of others."""
        return replace(super().peer, addresses=self.plan.addresses)

    # ---- the life of the process

    def start(self) -> None:
        """Start a process, unless one runs or the store is lost."""
        if self.engine is not None or self.lost is not None:
            return
        self.standstill.forget(self.name)
        try:
            super().start()
        except StoreDamaged as error:
            self.lost = error
            self.end_process("store-damaged")
        except TriackError as error:
            self.end_process(f"start-failed {type(error).__name__}")
            self.world.at(RETRY_NS, self.start)

    def make_engine(self, content: StoreContent) -> Engine:
        """The node; the application reads the values that it had kept."""
        engine = super().make_engine(content)
        self.state = content.state
        return engine

    def lose_power(self) -> None:
        """The machine loses its power, and the end of its log that was not on the disk."""
        super().lose_power()
        if self.plan.cuts_log:
            self._cut_log()
        self.on_power_loss()

    def _cut_log(self) -> None:
        self.boots += 1
        if self.records:
            log, random = self.records[-1], self.world.chance(f"log {self.name} {self.boots}")
            most = random.choice([1_000, 20_000, len(log)])
            del log[len(log) - random.randrange(min(len(log), most) + 1) :]

    def drain(self) -> None:
        """Called after every input; then readers that wait for messages wake."""
        woken_at, self._woken_at = self._woken_at, -1
        super().drain()
        if woken_at == self.effects.count:
            self.storms.handle_woken(self.name, self.world.now_ns)
        if self.engine is not None:
            self.standstill.look_at(self.name, self.engine, self.world.now_ns)
        for queue in [queue for queue in self._sleepers if self.has_messages(queue)]:
            self._sleepers.pop(queue)()

    def has_messages(self, queue: str) -> bool:
        """Whether a working process can read something in a queue."""
        engine = self.engine
        if engine is None or engine.failure is not None or engine.draining:
            return False
        mailbox = engine.queues.mailboxes.get(queue)
        return mailbox is not None and mailbox.length > 0

    def await_messages(self, queue: str, wake: Callable[[], None]) -> None:
        """Call ``wake`` once, when there is something to read in a queue."""
        self._sleepers[queue] = wake

    def start_job(self, job: Job) -> None:
        """Do it after the time of the disk."""
        if isinstance(job, GroupCommit):
            self.storms.handle_commit(self.name, job.commit, self.world.now_ns)
        super().start_job(job)

    def send_datagrams(self, address: str, datagrams: list[bytes]) -> None:
        """Put them on the network."""
        self.storms.handle_sent(self.name, address, len(datagrams), self.world.now_ns)
        super().send_datagrams(address, datagrams)

    def _tick(self, timer_ns: int) -> None:
        self._woken_at = self.effects.count
        super()._tick(timer_ns)

    def store_failed(self, error: TriackError) -> None:
        """An operator notices and ends the process; the disk's cache outlives it."""
        self.ends.append(f"failed {type(error).__name__}")
        self.next_crash.down_ns = RETRY_NS
        self.later(RETRY_NS, self._give_up)

    def _give_up(self) -> None:
        raise ProcessCrashed
