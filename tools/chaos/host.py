"""One machine of a chaos run: a simulated host that can be ended at any effect, and that stands still, or closes.

Every effect on the outside - a call that changes the disk, a record, a datagram - is counted, and a planned crash ends
the process just before one of them, wherever that is.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from triack.base.commit import StoreContent
from triack.base.errors import NodeClosed, StoreDamaged, TriackError
from triack.base.peers import Peer
from triack.base.units import MS, in_ns
from triack.queues.manager.effects import Job
from triack.queues.manager.engine import Engine
from triack.queues.streams.group_commit import GroupCommit
from triack.store.store import Store
from triack.tools.chaos.plan import HostPlan
from triack.tools.sim.disk import Disk, ProcessCrashed
from triack.tools.sim.effects import Effects
from triack.tools.sim.host import FOLDER, SimHost
from triack.tools.sim.network import Network
from triack.tools.sim.standstill import Standstill
from triack.tools.sim.storms import Storms
from triack.tools.sim.world import World

__all__ = ["Host"]

BACKLOG_DATAGRAMS = 512
"""The operating system's backlog for a process that does not read."""
CLOSE_POLL_NS = 20 * MS
"""How often a node that is being closed looks whether it is done."""
RETRY_NS = 500 * MS
"""An operator who finds a node ended starts it again after this time."""


@dataclass(slots=True)
class Crash:
    """How the next crash goes.

    Attributes:
        power: whether the machine loses power: unsynced changes may be gone.
        down_ns: how long until it starts again.
        again: effects after which that start dies, too; -1 for not.
    """

    power: bool = False
    down_ns: int = 0
    again: int = -1


@dataclass(slots=True)
class Pause:
    """A process that stands still until a time, and its waiting work, some of which are datagrams."""

    until_ns: int = 0
    backlog: int = 0
    waiting: list[Callable[[], object]] = field(default_factory=list)

    def takes(self, now_ns: int) -> bool:
        """Whether there is room for a datagram."""
        if self.until_ns <= now_ns:
            self.backlog = 0
            return True
        self.backlog += 1
        return self.backlog <= BACKLOG_DATAGRAMS


class Host(SimHost):
    """One machine.

    Args:
        world: the clock.
        network: where it sends.
        plan: its identity and behaviour.
        disk: its disk; a clone brings a copy.
        keys: its private keys; as ``SimHost`` has it.

    Attributes:
        lost: why it will never start again, when its store was found damaged.
        state: the application's values in the store (``Node.recall``).
        effects: of all its processes.
        on_power_loss: called when the power is gone, before anything starts again.
        storms: counts what it does while little comes of it; all hosts of a world share one.
        standstill: looks for streams that stand still; shared as well.
        ends: how processes ended, for the coverage of a campaign.
    """

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
        self.commit_ns = plan.commit_ns
        self.timer_slack_ns = plan.timer_slack_ns
        self.burst_ns = plan.burst_ns
        self.lost: TriackError | None = None
        self.state: dict[str, bytes] = {}
        self.effects = Effects()
        self.on_power_loss: Callable[[], None] = lambda: None
        self.storms = Storms()
        self.standstill = Standstill()
        self.ends: list[str] = []
        self._crash = Crash()
        self._pause = Pause()
        self._sleepers: dict[str, Callable[[], None]] = {}
        # The effects before the timer that has just run out; -1: none has.
        self._woken_at = -1
        self.disk.on_effect = lambda _what: self.before_effect()

    @property
    def peer(self) -> Peer:
        """It as a peer of others."""
        return replace(super().peer, addresses=self.plan.addresses)

    # ---- the life of the process

    @property
    def is_up(self) -> bool:
        """Whether a node runs that has not failed."""
        return self.engine is not None and self.engine.failure is None

    def start(self) -> None:
        """Start a process, unless one runs or the store is lost."""
        if self.engine is not None or self.lost is not None:
            return
        self.standstill.forget(self.name)
        self.effects.left, self._crash.again = self._crash.again, -1
        try:
            super().start()
        except ProcessCrashed:
            self._end("crashed-in-recovery")
            self.world.at(self._crash.down_ns or MS, self.start)
        except StoreDamaged as error:
            self.lost = error
            self._end("store-damaged")
        except TriackError as error:
            self._end(f"start-failed {type(error).__name__}")
            self.world.at(RETRY_NS, self.start)

    def open_store(self) -> Store:
        """The store on its disk, as planned."""
        plan, disk = self.plan, self.disk
        return Store(
            FOLDER,
            vfs=disk.vfs,
            page_bytes=plan.page_bytes,
            checkpoint_pages=plan.checkpoint_pages,
            hands=disk.hands_of(FOLDER),
        )

    def make_engine(self, content: StoreContent) -> Engine:
        """The node; the application reads the values that it had kept."""
        engine = super().make_engine(content)
        self.state = content.state
        return engine

    def crash(self, after: int, *, power: bool, down_ns: int, again: int) -> None:
        """Let the process die before the effect that follows the next ``after`` ones; the rest is as in ``Crash``."""
        self._crash = Crash(power, down_ns, again)
        if after == 0 or self.engine is None:
            self.die()
        else:
            self.effects.left = after

    def move(self, address: str, down_ns: int) -> None:
        """The process ends, and the next one listens elsewhere."""
        self.crash(0, power=False, down_ns=down_ns, again=-1)
        self.address = address

    def die(self) -> None:
        """The process is gone, now; it comes back later."""
        if self.engine is not None:
            self._end("power-loss" if self._crash.power else "killed")
        elif self._crash.power:
            self._lose_power()
        self._crash.power = False
        self.world.at(self._crash.down_ns, self.start)

    def _end(self, how: str) -> None:
        self.ends.append(how)
        self.world.note(self.name, how.encode())
        self.end(self._lose_power if self._crash.power else self.disk.kill)
        self.effects.left = -1
        self._pause.backlog = 0
        self._pause.waiting.clear()

    def _lose_power(self) -> None:
        self.disk.lose_power()
        if self.plan.cuts_log:
            self._cut_log()
        self.on_power_loss()

    def _cut_log(self) -> None:
        """The end of the session log had not been written by the system: a few lines of it, many, or any part."""
        self.boots += 1
        if self.records:
            log, random = self.records[-1], self.world.chance(f"log {self.name} {self.boots}")
            most = random.choice([1_000, 20_000, len(log)])
            del log[len(log) - random.randrange(min(len(log), most) + 1) :]

    def heal(self) -> None:
        """Nothing is planned any more, the disk works, timers are in time, and a process that stood still goes on."""
        self.effects.left = self._crash.again = -1
        self.disk.calm()
        self.timer_slack_ns = 0
        self._pause.until_ns = 0
        self._go_on()
        self.start()

    @property
    def stands_still(self) -> bool:
        """Whether what is asked of the process now has to wait."""
        return self._pause.until_ns > self.world.now_ns or bool(self._pause.waiting)

    def pause(self, for_ns: int) -> None:
        """The process stands still; datagrams for it wait."""
        self._pause.until_ns = max(self._pause.until_ns, self.world.now_ns + for_ns)

    def stop(self, for_ns: int) -> None:
        """Close the node as ``Node.close`` does, and start it again later. 0: it stays closed."""
        engine = self.engine
        if engine is not None:
            deadline_ns = self.world.now_ns + in_ns(self.settings.close_timeout_s)
            self.act(lambda: self._close_step(engine, deadline_ns, for_ns))

    def _close_step(self, engine: Engine, deadline_ns: int, for_ns: int) -> None:
        now_ns = self.world.now_ns
        late = now_ns >= deadline_ns or engine.failure is not None
        if not late and not engine.draining and (engine.busy_storing or engine.outbox.volatile(all_classes=False)):
            self.later(CLOSE_POLL_NS, lambda: self._close_step(engine, deadline_ns, for_ns))
            return
        if not engine.draining:
            engine.drain(now_ns)
        if not late and not engine.idle:
            self.later(CLOSE_POLL_NS, lambda: self._close_step(engine, deadline_ns, for_ns))
            return
        self.finish(engine, NodeClosed(f"node {self.name} was closed"), now_ns)
        self.store.close()
        self._end("closed")
        if for_ns:
            self.world.at(for_ns, self.start)

    # ---- inputs of the process

    def act(self, action: Callable[[], object]) -> None:
        """Let the process do something when it does not stand still; it may die in the middle."""
        wait_ns = self._pause.until_ns - self.world.now_ns
        if wait_ns > 0 and self.engine is not None:
            self._pause.waiting.append(action)
            if len(self._pause.waiting) == 1:
                self.world.at(wait_ns, self._go_on)
            return
        try:
            super().act(action)
        except ProcessCrashed:
            self.die()

    def _go_on(self) -> None:
        """The pause may be over: do the waiting work, in the order in which it came."""
        waiting, self._pause.waiting = self._pause.waiting, []
        for action in waiting:
            self.act(action)

    def receive(self, data: bytes, sender: str) -> None:
        """A datagram arrives, or is lost because too many wait."""
        if self._pause.takes(self.world.now_ns):
            super().receive(data, sender)

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
        """Whether there is something to read in a queue, by a process that works."""
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

    def before_effect(self) -> None:
        """The process may have to end here."""
        if self.effects.end_process():
            raise ProcessCrashed

    def store_failed(self, error: TriackError) -> None:
        """Someone notices and ends the process; the disk's cache outlives it."""
        self.ends.append(f"failed {type(error).__name__}")
        self._crash.down_ns = RETRY_NS
        self.later(RETRY_NS, self._give_up)

    def _give_up(self) -> None:
        raise ProcessCrashed
