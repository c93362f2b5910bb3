"""A host drives an engine: it gives it inputs, and does its effects. All simulated hosts are built on these.

``EngineHost`` does effects one after the other, as the engine orders them. ``SimHost`` does them in virtual time: on
the simulated network, and with the real store on a simulated disk. Its processes can end before any effect, stand
still, or close.

Every effect on the outside - a call that changes the disk, a record, a datagram - is counted, and a planned crash ends
the process just before one of them, wherever that is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import ClassVar

from triack.base.clock import ClockReading, find_jump, sane_wall_ns
from triack.base.commit import Commit, StoreContent
from triack.base.datagram import Channels
from triack.base.errors import NodeClosed, RollbackDetected, StoreDamaged, TriackError
from triack.base.news import NodeEvent
from triack.base.peers import Directory, Peer
from triack.base.units import MS, in_ns
from triack.queues.manager.effects import Job, Send, StartJob, Tell, TellRollback, WriteRecords
from triack.queues.manager.engine import Engine
from triack.queues.manager.invariants import check_invariants
from triack.queues.node_settings import NodeSettings
from triack.queues.routes import Route
from triack.queues.streams.group_commit import GroupCommit
from triack.store.store import Store
from triack.tools.sim.disk import Disk, ProcessCrashed
from triack.tools.sim.effects import Effects
from triack.tools.sim.network import Network, Port
from triack.tools.sim.residents import Identity, draw_key, public_of
from triack.tools.sim.world import WALL_NS, World

FOLDER = Path("node")
"""Where a disk has the store; the same on all, so that a copy of a disk serves a clone."""
PAGE_BYTES = 1_024
CHECKPOINT_PAGES = 100
BACKLOG_DATAGRAMS = 512
"""The operating system's backlog for a process that does not read."""
CLOSE_POLL_NS = 20 * MS


class EngineHost(ABC):
    """Does the effects of an engine, in the engine's order. Subclasses define sending and storing."""

    __slots__ = ()
    asserts: ClassVar[bool] = False

    def follow(self, engine: Engine, now_ns: int) -> None:
        """Do all effects of the engine, in its order."""
        for effect in engine.poll(now_ns):
            match effect:
                case WriteRecords(data):
                    self.write_records(data)
                case StartJob(job):
                    self.start_job(job)
                case TellRollback(error):
                    self.tell_operator(error)
                case Tell(event):
                    self.tell_program(event)
                case Send(address, datagrams):
                    self.send_datagrams(address, datagrams)
        if self.asserts:
            check_invariants(engine)

    def finish(self, engine: Engine, error: TriackError, now_ns: int) -> None:
        """Stop an engine for good, and do its last effects."""
        engine.stop(error, now_ns)
        self.follow(engine, now_ns)
        self.write_records(engine.finish(now_ns))

    @abstractmethod
    def write_records(self, records: bytes) -> None:
        """Append whole records to the session log."""

    @abstractmethod
    def start_job(self, job: Job) -> None:
        """Let the store begin a job; there is never more than one."""

    @abstractmethod
    def send_datagrams(self, address: str, datagrams: list[bytes]) -> None:
        """Send to one address."""

    @abstractmethod
    def tell_operator(self, rollback: RollbackDetected) -> None:
        """Tell the operator."""

    def tell_program(self, event: NodeEvent) -> None:  # noqa: B027 - most hosts have none that listens
        """Tell the program, if it listens."""


@dataclass(slots=True)
class Crash:
    """How the next crash goes."""

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


class SimHost(EngineHost):
    """One machine with one node, in virtual time: through any number of processes, one after the other.

    Args:
        keys: its private keys; by default a new one, with which it joins the hosts that know each other on its network.
            An empty tuple: it speaks insecurely, and knows the others by address alone.

    Attributes:
        identity: its keys, and its known peers; with keys, all of its network.
        engine: the node, or None while no process runs.
        listens: whether others may call it at its address; if not, it only sends from there, from the next start on.
        commit_ns: how long the disk needs for a job.
        timer_slack_ns: a timer is late by up to this.
        burst_ns: how long datagrams are gathered, and then handled together; 0: each by itself.
        wall_offset_ns: its wall clock at virtual zero, from the next start on.
        boots: how often its machine was started anew, and may have lost records of its session log.
    """

    timer_slack_ns = 0
    burst_ns = 0

    def __init__(
        self,
        world: World,
        network: Network,
        name: str,
        address: str,
        *,
        settings: NodeSettings | None = None,
        queues: list[str] | None = None,
        disk: Disk | None = None,
        keys: tuple[bytes, ...] | None = None,
    ) -> None:
        self.world = world
        self.network = network
        self.name = name
        self.address = address
        self.settings = settings or NodeSettings()
        self.queues = queues
        self.identity = Identity((draw_key(world, name),) if keys is None else keys, resides=keys is None)
        self.disk = disk or Disk(world.chance(f"disk {name}"))
        self.engine: Engine | None = None
        self.job: Job | None = None
        self.records: list[bytearray] = []
        self.told: list[RollbackDetected] = []
        self.listens = True
        self.lives = 0
        self.effects = Effects()
        self.next_crash = Crash()
        self.ends: list[str] = []
        self.page_bytes, self.checkpoint_pages = PAGE_BYTES, CHECKPOINT_PAGES
        self.commit_ns = MS // 4
        self.wall_offset_ns = WALL_NS
        self.boots = 0
        self.routes: tuple[Route, ...] = ()
        self.random: Random = world.chance(f"host {name}")
        self._store: Store | None = None
        self._timer_ns: int | None = None
        self._arrived: list[tuple[bytes, str]] = []
        self._pause = Pause()
        self.disk.on_effect = lambda _what: self.before_effect()

    # ---- its identity and its peers

    @property
    def peer(self) -> Peer:
        """Itself, as a peer of others."""
        return Peer(self.name, keys=tuple(map(public_of, self.identity.keys)), addresses=(self.address,))

    @property
    def directory(self) -> Directory:
        """The peers that it knows by name; with keys, all of its network."""
        return self.identity.directory

    def know(self, peer: Peer) -> None:
        """Trust a peer, as it is now."""
        self._learn(lambda: self.identity.know(peer))

    def forget(self, name: str) -> None:
        """Stop trusting a peer."""
        self._learn(lambda: self.identity.forget(name))

    def _learn(self, change: Callable[[], object]) -> None:
        self.identity.unread.append(change)
        if self.engine is None:
            self._read()
        else:
            self.act(self._look_who_is_known)

    def _read(self) -> None:
        for change in self.identity.unread:
            change()
        self.identity.unread.clear()

    def _look_who_is_known(self) -> None:
        self._read()
        self.live.handle_directory_changed(self.world.now_ns)

    # ---- the life of the process

    @property
    def is_up(self) -> bool:
        """Whether a node runs that has not failed."""
        return self.engine is not None and self.engine.failure is None

    def start(self) -> None:
        """Start a process on the content of the disk, unless one runs. It may die in the middle."""
        if self.engine is not None:
            return
        self.effects.left, self.next_crash.again = self.next_crash.again, -1
        try:
            self._begin()
        except ProcessCrashed:
            self.end_process("crashed-in-recovery")
            self.world.at(self.next_crash.down_ns or MS, self.start)

    def _begin(self) -> None:
        self.lives += 1
        self._read()
        if self.lives == 1 and self.identity.resides:
            self.network.residents.join(self)
        self.records.append(bytearray())
        store = self._store = self.open_store()
        content = store.load(self.random.randbytes(16), self.random.getrandbits(63))
        try:
            self.engine = self.make_engine(content)
        except (KeyError, ValueError) as cause:
            raise StoreDamaged(f"open store {store.path}: {type(cause).__name__}: {cause}") from cause
        self.network.attach(self.address, self.port)
        self.drain()

    @property
    def port(self) -> Port:
        """The handler of datagrams for it, at any address."""
        return Port(self.receive, self.lose_path)

    def open_store(self) -> Store:
        """The store on its disk."""
        return Store(
            FOLDER,
            vfs=self.disk.vfs,
            page_bytes=self.page_bytes,
            checkpoint_pages=self.checkpoint_pages,
            lease_words=self.disk.leases_of(FOLDER),
        )

    def make_engine(self, content: StoreContent) -> Engine:
        """The node, as it begins on the content of its store."""
        reading = self.read_clock()
        content.jump = find_jump(ClockReading.unpack(content.clock), reading)
        return Engine(
            content,
            name=self.name,
            address=self.address if self.listens else "",
            settings=self.settings,
            queues=self.queues,
            channels=self.make_channels(),
            directory=self.directory,
            random=Random(self.random.getrandbits(64)),
            now_ns=self.world.now_ns,
            wall_offset_ns=reading.system_ns - self.world.now_ns,
            recording=True,
            boot=f"{self.name} {self.boots}",
            routes=self.routes,
        )

    def read_clock(self, engine: Engine | None = None) -> ClockReading:
        """The clocks of its machine; the node's is the system's when it begins."""
        now_ns = self.world.now_ns
        system_ns = sane_wall_ns(now_ns + self.wall_offset_ns)
        node_ns = system_ns if engine is None else now_ns + engine.wall.offset_ns
        return ClockReading(*self.disk.uptime(now_ns), system_ns, node_ns)

    def make_channels(self) -> Channels:
        """The channels that protect its datagrams."""
        return self.identity.make_channels(Random(self.random.getrandbits(64)).randbytes)

    def end(self, end_disk: Callable[[], None] | None = None) -> None:
        """The process is gone.

        Nothing in memory survives; ``end_disk``, or a kill, decides what is left on the disk.
        """
        self.network.detach(self.address)
        # The disk first: a store that is released while its process lives would close in good order.
        (end_disk or self.disk.kill)()
        self.engine, self._store, self.job = None, None, None
        self._timer_ns = None
        self._arrived.clear()

    def crash_after(self, effects: int = 0, *, power: bool = False, down_ns: int = 0, again: int = -1) -> None:
        """Let the process die before the effect that follows this many others; the rest is as in ``Crash``."""
        self.next_crash = Crash(power, down_ns, again)
        if effects == 0 or self.engine is None:
            self.die()
        else:
            self.effects.left = effects

    def move(self, address: str, down_ns: int) -> None:
        """The process ends, and the next one listens elsewhere."""
        self.crash_after(down_ns=down_ns)
        self.address = address

    def die(self) -> None:
        """The process is gone, now; it restarts later."""
        if self.engine is not None:
            self.end_process("power-loss" if self.next_crash.power else "killed")
        elif self.next_crash.power:
            self.lose_power()
        self.next_crash.power = False
        self.world.at(self.next_crash.down_ns, self.start)

    def end_process(self, how: str) -> None:
        """The process is gone; note how."""
        self.ends.append(how)
        self.world.note(self.name, how.encode())
        self.end(self.lose_power if self.next_crash.power else self.disk.kill)
        self.effects.left = -1
        self._pause.backlog = 0
        self._pause.waiting.clear()

    def lose_power(self) -> None:
        """The power of its machine is gone."""
        self.disk.lose_power()

    def heal(self) -> None:
        """End all plans and faults: the disk works, timers are punctual, and the process continues."""
        self.effects.left = self.next_crash.again = -1
        self.disk.calm()
        self.timer_slack_ns = 0
        self._pause.until_ns = 0
        self._go_on()
        self.start()

    @property
    def stands_still(self) -> bool:
        """Whether work for the process now has to wait."""
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
        self.end_process("closed")
        if for_ns:
            self.world.at(for_ns, self.start)

    # ---- inputs

    def act(self, action: Callable[[], object]) -> None:
        """Let the process do something, with all its consequences; it may die in the middle.

        Nothing if there is no process; later if it stands still.
        """
        if self.engine is None:
            return
        wait_ns = self._pause.until_ns - self.world.now_ns
        if wait_ns > 0:
            self._pause.waiting.append(action)
            if len(self._pause.waiting) == 1:
                self.world.at(wait_ns, self._go_on)
            return
        try:
            action()
            self.drain()
        except ProcessCrashed:
            self.die()

    def _go_on(self) -> None:
        waiting, self._pause.waiting = self._pause.waiting, []
        for action in waiting:
            self.act(action)

    def later(self, delay_ns: int, action: Callable[[], object]) -> None:
        """Let this process, and no later one, do something later."""
        life = self.lives

        def act() -> None:
            if self.lives == life:
                self.act(action)

        self.world.at(delay_ns, act)

    def receive(self, data: bytes, sender: str) -> None:
        """A datagram arrives, or is lost because too many wait."""
        if not self._pause.takes(self.world.now_ns) or self.engine is None:
            return
        self._arrived.append((data, sender))
        if not self.burst_ns:
            self.act(self._take_arrived)
        elif len(self._arrived) == 1:
            self.later(self.burst_ns, self._take_arrived)

    def _take_arrived(self) -> None:
        arrived, self._arrived = self._arrived, []
        for sender, burst in groupby(arrived, key=itemgetter(1)):
            self.live.handle_datagrams([data for data, _ in burst], sender, self.world.now_ns)

    def lose_path(self, address: str) -> None:
        """The peer of a TCP connection is gone, after all its datagrams."""

        def lose() -> None:
            self._take_arrived()
            self.live.handle_path_lost(address, self.world.now_ns)

        self.act(lose)

    @property
    def live(self) -> Engine:
        """The engine of a process that runs."""
        assert self.engine is not None
        return self.engine

    @property
    def store(self) -> Store:
        """The store of a process that runs."""
        assert self._store is not None
        return self._store

    # ---- effects

    def drain(self) -> None:
        """Called after every input."""
        engine = self.engine
        if engine is not None:
            self.follow(engine, self.world.now_ns)
            self._arm(engine)

    def before_effect(self) -> None:
        """An effect of the process is about to happen; the process may have to end here."""
        if self.effects.end_process():
            raise ProcessCrashed

    def write_records(self, records: bytes) -> None:
        """Append whole records to the log of the process."""
        self.before_effect()
        self.records[-1] += records
        self.world.note(self.name, records)

    def send_datagrams(self, address: str, datagrams: list[bytes]) -> None:
        """Put them on the network."""
        for datagram in datagrams:
            self.before_effect()
            self.world.note(self.name, datagram)
            self.network.send(datagram, self.address, address)

    def tell_operator(self, rollback: RollbackDetected) -> None:
        """Keep it."""
        self.told.append(rollback)

    def start_job(self, job: Job) -> None:
        """Do it after the time of the disk."""
        if isinstance(job, GroupCommit):
            job.commit.clock = self.read_clock(self.live).pack()
        self.job = job
        self.later(self.commit_ns, self._finish_job)

    def _finish_job(self) -> None:
        engine, job, self.job = self.live, self.job, None
        assert job is not None
        try:
            self.do_job(job)
        except TriackError as error:
            engine.handle_store_failed(job, error, self.world.now_ns)
            self.store_failed(error)
        else:
            engine.handle_done(job, self.world.now_ns)

    def do_job(self, job: Job) -> None:
        """Do a job of the store. Raises TriackError when it cannot."""
        if not isinstance(job, GroupCommit):
            self.store.read(job)
        elif job.commit:
            self.apply(job.commit)

    def apply(self, commit: Commit) -> None:
        """Make a commit durable."""
        self.store.apply(commit)

    def store_failed(self, error: TriackError) -> None:
        """The engine knows that its store has failed."""

    def _arm(self, engine: Engine) -> None:
        """One timer at a time, as the driver has; an earlier deadline replaces it."""
        deadline_ns, now_ns = engine.next_deadline(), self.world.now_ns
        if deadline_ns is None or (self._timer_ns is not None and self._timer_ns <= deadline_ns):
            return
        timer_ns = self._timer_ns = max(deadline_ns, now_ns + 1)
        late_ns = self.random.randrange(self.timer_slack_ns) if self.timer_slack_ns else 0
        self.later(timer_ns - now_ns + late_ns, lambda: self._tick(timer_ns))

    def _tick(self, timer_ns: int) -> None:
        if self._timer_ns == timer_ns:
            self._timer_ns = None
