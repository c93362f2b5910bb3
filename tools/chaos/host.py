"""One simulated machine and the node on it: the real engine and the real store, through every death of the process.

The host does what the asyncio driver does, in virtual time. Every effect on the outside - a call that changes the disk,
a record, a datagram - is counted, and a planned crash ends the process just before one of them, wherever that is.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

from triack.base.errors import NodeClosed, RollbackDetected, StoreDamaged, TriackError
from triack.base.units import MS
from triack.queues.effects import Job, Send, StartJob, TellRollback, WriteRecords
from triack.queues.engine import Engine
from triack.queues.group_commit import GroupCommit
from triack.store.store import Store
from triack.tools.chaos.plan import HostPlan
from triack.tools.sim.disk import Disk, DiskFaults, ProcessCrashed
from triack.tools.sim.network import Network, Port
from triack.tools.sim.world import WALL_NS, World
from triack.transport.insecure import InsecureChannels

__all__ = ["Host"]

BACKLOG_DATAGRAMS = 512
"""What the operating system keeps for a process that does not read."""
CLOSE_POLL_NS = 20 * MS
RETRY_NS = 500 * MS
"""An operator who finds a node ended starts it again after so long."""


class Host:
    """One machine.

    Args:
        world: the clock.
        network: where it sends.
        plan: who it is and how it behaves.
        disk: its disk; a clone brings a copy.

    Attributes:
        engine: the node, or None while no process runs.
        lost: why it will never start again, when its store was found damaged.
        state: what the application keeps in the store (``Node.recall``).
        records: the session log of each process, in order.
        rollbacks: rollbacks that its processes have detected.
        effects: effects of all processes so far.
        lives: how many processes were started.
        on_power_loss: called when the power is gone, before anything starts again.
        ends: how processes ended, for the coverage of a campaign.
    """

    def __init__(self, world: World, network: Network, plan: HostPlan, disk: Disk | None = None) -> None:
        self.world = world
        self.network = network
        self.plan = plan
        self.name = plan.name
        self.address = plan.address
        self.disk = disk or Disk(world.chance(f"disk {plan.name}"))
        self.disk.on_effect = self._count_disk_effect
        self.engine: Engine | None = None
        self.lost: TriackError | None = None
        self.state: dict[str, bytes] = {}
        self.records: list[list[bytes]] = []
        self.rollbacks: list[RollbackDetected] = []
        self.effects = 0
        self.lives = 0
        self.ends: list[str] = []
        self.on_power_loss: Callable[[], None] = lambda: None
        self.wall_offset_ns = WALL_NS
        self.commit_ns = plan.commit_ns
        self.timer_slack_ns = plan.timer_slack_ns
        self.power_fails = False
        self._random: Random = world.chance(f"host {plan.name}")
        self._store: Store | None = None
        self._crash_in = -1
        self._again = -1
        self._down_ns = 0
        self._paused_until_ns = 0
        self._backlog = 0
        self._timer_ns: int | None = None

    # ---- the life of the process

    @property
    def is_up(self) -> bool:
        """Whether a node runs that has not failed."""
        return self.engine is not None and self.engine.failure is None

    def start(self) -> None:
        """Start a process, unless one runs or the store is lost."""
        if self.engine is not None or self.lost is not None:
            return
        self.lives += 1
        self.records.append([])
        self._crash_in, self._again = self._again, -1
        try:
            self._open()
        except ProcessCrashed:
            self._end("crashed-in-recovery")
        except StoreDamaged as error:
            self.lost = error
            self._end("store-damaged")
        except TriackError as error:
            self._end(f"start-failed {type(error).__name__}")
            self.world.at(RETRY_NS, self.start)

    def _open(self) -> None:
        plan, world = self.plan, self.world
        store = self._store = Store(
            Path(plan.name), vfs=self.disk.vfs, page_bytes=plan.page_bytes, checkpoint_pages=plan.checkpoint_pages
        )
        content = store.load(self._random.randbytes(16), self._random.getrandbits(63))
        try:
            self.engine = Engine(
                content,
                name=plan.name,
                address=plan.address,
                settings=plan.settings,
                queues=None,
                channels=InsecureChannels(),
                random=Random(self._random.getrandbits(64)),
                now_ns=world.now_ns,
                wall_offset_ns=self.wall_offset_ns,
                recording=True,
            )
        except (KeyError, ValueError) as cause:
            raise StoreDamaged(f"open store {store.path}: {type(cause).__name__}: {cause}") from cause
        self.state = content.state
        self.network.attach(self.address, Port(self._receive, self._lose_path))
        self._drain()

    def crash(self, after: int, *, power: bool, down_ns: int, again: int) -> None:
        """Let the process die before the effect that follows the next ``after`` ones.

        Args:
            after: effects that still happen.
            power: whether the machine loses power: what was not synced may be gone.
            down_ns: how long until it starts again.
            again: effects after which that start dies, too; -1 for not.
        """
        self.power_fails, self._down_ns, self._again = power, down_ns, again
        if after == 0 or self.engine is None:
            self.die()
        else:
            self._crash_in = after

    def die(self) -> None:
        """The process is gone, now; it comes back later."""
        if self.engine is not None:
            self._end("power-loss" if self.power_fails else "killed")
        elif self.power_fails:
            self._lose_power()
        self.power_fails = False
        self.world.at(self._down_ns, self.start)

    def _end(self, how: str) -> None:
        """Nothing in memory survives; on the disk, what the end of the process or of the power leaves."""
        self.ends.append(how)
        self.world.note(self.name, how.encode())
        self.network.detach(self.address)
        # The disk first: a store that is let go while its process lives would close in good order.
        if self.power_fails:
            self._lose_power()
        else:
            self.disk.kill()
        self.engine, self._store = None, None
        self._crash_in = -1
        self._timer_ns = None
        self._backlog = 0
        self.lives += 1
        if how == "crashed-in-recovery":
            self.world.at(self._down_ns or MS, self.start)

    def _lose_power(self) -> None:
        self.disk.lose_power()
        self.on_power_loss()

    def crash_never(self) -> None:
        """Forget planned crashes."""
        self._crash_in = self._again = -1

    def calm_disk(self) -> None:
        """The disk works again; what it lost stays lost."""
        self.disk.fail_at = None
        self.disk.faults = DiskFaults()

    def pause(self, for_ns: int) -> None:
        """The process stands still; what comes for it waits."""
        self._paused_until_ns = max(self._paused_until_ns, self.world.now_ns + for_ns)

    def resume(self) -> None:
        """A paused process goes on."""
        self._paused_until_ns = 0

    def stop(self, for_ns: int) -> None:
        """Close the node as ``Node.close`` does, and start it again later. 0: it stays closed."""
        engine = self.engine
        if engine is None:
            return
        deadline_ns = self.world.now_ns + self.plan.settings.close_timeout_ns
        self.act(lambda: self._close_step(engine, deadline_ns, for_ns))

    def _close_step(self, engine: Engine, deadline_ns: int, for_ns: int) -> None:
        now_ns = self.world.now_ns
        late = now_ns >= deadline_ns or engine.failure is not None
        if not late and not engine.draining and (engine.busy_storing or engine.outbox.volatile(all_classes=False)):
            self._plan(CLOSE_POLL_NS, lambda: self._close_step(engine, deadline_ns, for_ns))
            return
        if not engine.draining:
            engine.drain(now_ns)
        if not late and not engine.idle:
            self._plan(CLOSE_POLL_NS, lambda: self._close_step(engine, deadline_ns, for_ns))
            return
        engine.stop(NodeClosed(f"node {self.name} was closed"), now_ns)
        self._drain()
        assert self._store is not None
        self._store.close()
        self._end("closed")
        if for_ns:
            self.world.at(for_ns, self.start)

    # ---- what happens to the process

    def act(self, action: Callable[[], None]) -> None:
        """Let the process do something, and everything that follows from it; it may die in the middle."""
        if self.engine is None:
            return
        wait_ns = self._paused_until_ns - self.world.now_ns
        if wait_ns > 0:
            self._plan(wait_ns, action)
            return
        try:
            action()
            self._drain()
        except ProcessCrashed:
            self.die()

    def _plan(self, delay_ns: int, action: Callable[[], None]) -> None:
        """Let this process, and no later one, do something later."""
        life = self.lives

        def later() -> None:
            if self.lives == life:
                self.act(action)

        self.world.at(delay_ns, later)

    def _receive(self, data: bytes, sender: str) -> None:
        engine = self.engine
        assert engine is not None
        if self._paused_until_ns > self.world.now_ns:
            if self._backlog >= BACKLOG_DATAGRAMS:
                return
            self._backlog += 1
        else:
            self._backlog = 0
        self.act(lambda: engine.handle_datagram(data, sender, self.world.now_ns))

    def _lose_path(self, address: str) -> None:
        engine = self.engine
        assert engine is not None
        self.act(lambda: engine.handle_path_lost(address, self.world.now_ns))

    # ---- what the driver does

    def _drain(self) -> None:
        engine, world = self.engine, self.world
        if engine is None:
            return
        for effect in engine.poll(world.now_ns):
            if isinstance(effect, WriteRecords):
                self._write(effect.data)
            elif isinstance(effect, StartJob):
                self._plan(self.commit_ns, lambda job=effect.job: self._do(engine, job))  # type: ignore[misc]
            elif isinstance(effect, TellRollback):
                self.rollbacks.append(effect.error)
            elif isinstance(effect, Send):
                for datagram in effect.datagrams:
                    self._count_effect()
                    world.note(self.name, datagram)
                    self.network.send(datagram, self.address, effect.address)
        self._arm(engine)

    def _write(self, records: bytes) -> None:
        if records:
            self._count_effect()
            self.records[-1].append(records)
            self.world.note(self.name, records)

    def _do(self, engine: Engine, job: Job) -> None:
        assert self._store is not None
        try:
            if not isinstance(job, GroupCommit):
                self._store.read(job)
            elif job.commit:
                self._store.apply(job.commit)
        except TriackError as error:
            engine.handle_store_failed(job, error, self.world.now_ns)
            self.ends.append(f"failed {type(error).__name__}")
            # Someone notices and ends the process; the disk's cache outlives it.
            self._down_ns = RETRY_NS
            self._plan(RETRY_NS, self._give_up)
            return
        engine.handle_done(job, self.world.now_ns)

    def _give_up(self) -> None:
        raise ProcessCrashed

    def _arm(self, engine: Engine) -> None:
        """One timer at a time, as the driver has; an earlier deadline replaces it."""
        deadline_ns, now_ns = engine.next_deadline(), self.world.now_ns
        if deadline_ns is None or (self._timer_ns is not None and self._timer_ns <= deadline_ns):
            return
        timer_ns = self._timer_ns = max(deadline_ns, now_ns + 1)
        late_ns = self._random.randrange(self.timer_slack_ns) if self.timer_slack_ns else 0
        self._plan(timer_ns - now_ns + late_ns, lambda: self._tick(timer_ns))

    def _tick(self, timer_ns: int) -> None:
        if self._timer_ns == timer_ns:
            self._timer_ns = None

    # ---- effects

    def _count_effect(self) -> None:
        self.effects += 1
        if self._crash_in >= 0:
            self._crash_in -= 1
            if self._crash_in < 0:
                raise ProcessCrashed

    def _count_disk_effect(self, _what: str) -> None:
        self._count_effect()
