"""One node of a search: the shipped engine, its disk, its witness, and everything that can happen to it.

A node is the whole state of one machine in the search. It does what the engine says, as every host does; but the search
decides when the disk finishes, and carries what is sent.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from proof.search.datagrams import BareChannels, Datagram
from proof.search.disk import Disk
from proof.search.inside import RETIRE, TimerKey, conversations, expire, forget_echoes, settle, timers
from proof.search.scope import Part, Scope, settings_of
from proof.search.stillness import forget_history, session_of
from proof.search.witness import Witness
from triack.base.commit import split_key
from triack.base.delivery import Delivery
from triack.base.errors import NodeClosed, RollbackDetected
from triack.base.peers import Directory
from triack.base.units import SECOND
from triack.queues.manager.effects import Job
from triack.queues.manager.engine import Engine
from triack.queues.streams.group_commit import GroupCommit
from triack.session.protocol.timers import Timer
from triack.tools.sim.host import EngineHost

if TYPE_CHECKING:
    from random import Random

NOW_NS = 1_000 * SECOND

QUEUE = "q"

Action = tuple[str, object]

SESSION_ID_BITS = 64
SAME_AGAIN = (Timer.PROBE.name, Timer.QUIET.name, "tier")
"""Timers that send the same again; a scope limits how often they may end."""


def address_of(side: int) -> str:
    """The address of a node. In memory: congestion control would never hold back so few packets."""
    return f"memory://{'ab'[side]}"


class Ids:
    """Replaces a node's random source: ids in order, never the same twice, even after a crash; no jitter."""

    __slots__ = ("connections", "sessions", "side")

    def __init__(self, side: int) -> None:
        self.side = side
        self.sessions = 0
        self.connections = 0

    def getrandbits(self, bits: int) -> int:
        """Return an id: session ids ask for 64 bits, connection ids and starts for 63."""
        if bits == SESSION_ID_BITS:
            self.sessions += 1
            return (self.side + 10) << 8 | self.sessions
        self.connections += 1
        return (self.side + 10) << 16 | self.connections

    def randrange(self, _end: int) -> int:
        """Return the least value."""
        return 0


@dataclass(slots=True)
class Host(EngineHost):
    """One node."""

    asserts = True

    scope: Scope
    side: int
    disk: Disk = field(init=False)
    ids: Ids = field(init=False)
    witness: Witness = field(init=False)
    engine: Engine = field(init=False)
    job: Job | None = None
    now_ns: int = NOW_NS
    submitted: int = 0
    crashes: int = 0
    stops: int = 0
    breaks: int = 0
    patience: int = 0
    _sent: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.disk = Disk(bytes([self.side + 1]) * 16)
        self.ids = Ids(self.side)
        self.witness = Witness(self.scope.window)
        self._start()

    def begin(self) -> list[Datagram]:
        """Set up the state before the search begins. Returns what the node sends."""
        sent = self.drain() + self._finish_jobs()
        for _ in range(self.part.ready):
            sent += self.act(("submit", None)) + self._finish_jobs()
        return sent

    def _finish_jobs(self) -> list[Datagram]:
        sent: list[Datagram] = []
        while self.job is not None:
            sent += self.act(("disk", None))
        return sent

    @property
    def part(self) -> Part:
        """This node's part in the scope."""
        return self.scope.parts[self.side]

    # ---- what can happen

    def choices(self) -> list[Action]:
        """Everything that can happen to the node, except arrivals."""
        part, engine = self.part, self.engine
        found: list[Action] = []
        if self.submitted < part.ready + part.sends and not engine.draining:
            found.append(("submit", None))
        if self.job is not None:
            found.append(("disk", None))
        if self.can_read:
            found.append(("read", None))
        found += [
            ("timer", key)
            for key in timers(engine)
            if key[2] not in self.scope.still
            and (key[2] != RETIRE or self.scope.ends)
            and (key[2] not in SAME_AGAIN or self.patience < part.patience)
        ]
        if self.breaks < part.breaks and conversations(engine):
            found.append(("break", None))
        if self.stops < part.stops and not engine.draining:
            found.append(("drain", None))
        if engine.draining:
            found.append(("stop", None))
        if self.crashes < part.crashes:
            found.append(("crash", False))
            if isinstance(self.job, GroupCommit) and self.job.commit:
                found.append(("crash", True))
        return found

    @property
    def can_read(self) -> bool:
        """Whether there is something to read."""
        mailbox = self.engine.queues.mailboxes[QUEUE]
        return self.part.reads and mailbox.length > 0 and not mailbox.fetching

    @property
    def is_beyond(self) -> bool:
        """Whether the node has left the scope."""
        most = self.scope.packets
        return self.ids.connections > self.part.sessions or any(
            session_of(conversation).window.next_number > most + 1
            for conversation in conversations(self.engine).values()
        )

    # ---- what happens

    def act(self, action: Action, heard: Datagram | None = None) -> list[Datagram]:
        """Let an event happen. Returns what the node then sends."""
        name, what = action
        if name == "stop":
            return self._stop()
        getattr(self, f"_do_{name}")(heard if name == "deliver" else what)
        self.witness.meet(self.engine, heard)
        if heard is not None:
            self.witness.note_arrival(self.engine, heard)
        self._hand_out_express()
        return self.drain(heard)

    def _do_deliver(self, heard: Datagram) -> None:
        self.engine.handle_datagram(heard.data, address_of(1 - self.side), self.now_ns)

    def _do_submit(self, _: object) -> None:
        self.submitted += 1
        body = f"{'ab'[self.side]}{self.submitted}".encode()
        outgoing = self.engine.outgoing_stream(address_of(1 - self.side), QUEUE, self.part.delivery)
        self.engine.submit(outgoing, body, len(body))

    def _do_disk(self, _: object) -> None:
        job, self.job = self.job, None
        assert job is not None
        if isinstance(job, GroupCommit):
            self._apply(job)
        else:
            self.disk.read(job)
        self.engine.handle_done(job, self.now_ns)

    def _apply(self, job: GroupCommit) -> None:
        self.disk.apply(job.commit)
        self.witness.note_commit(job.commit)

    def _do_tick(self, _: object) -> None:
        """Time passes: the poll brings the consequences."""

    def _do_timer(self, key: TimerKey) -> None:
        self.patience += key[2] in SAME_AGAIN
        expire(self.engine, key, self.now_ns)

    def _do_read(self, _: object) -> None:
        mailbox = self.engine.queues.mailboxes[QUEUE]
        handed = self.engine.take(mailbox, self.now_ns)
        if handed is not None:
            body = handed.body
            express = handed.packet.delivery == Delivery.EXPRESS
            self.witness.note_read(body, redelivered=handed.redelivered, express=express)
            mailbox.acknowledge(handed)

    def _hand_out_express(self) -> None:
        mailbox = self.engine.queues.mailboxes[QUEUE]
        while self.scope.parts[1 - self.side].delivery is Delivery.EXPRESS and mailbox.length:
            self._do_read(None)

    def _do_break(self, _: object) -> None:
        self.breaks += 1
        self.engine.handle_path_lost(address_of(1 - self.side), self.now_ns)

    def _do_drain(self, _: object) -> None:
        self.stops += 1
        self.engine.drain(self.now_ns)

    def _stop(self) -> list[Datagram]:
        self.engine.stop(NodeClosed("stop"), self.now_ns)
        sent = self.drain()
        self._end(applied=True)
        return sent + self.drain()

    def _do_crash(self, applied: bool) -> None:
        """Die. The commit that the disk was doing is there as a whole or not at all."""
        self.crashes += 1
        self._end(applied=applied)

    def _end(self, *, applied: bool) -> None:
        job, self.job = self.job, None
        if applied and isinstance(job, GroupCommit):
            self._apply(job)
        self.witness.note_crash()
        self._start()

    def _start(self) -> None:
        start = self.disk.incarnation + 1 if self.scope.history else 1
        content = self.disk.load((self.side + 10) << 12 | start)
        self.engine = Engine(
            content,
            name="ab"[self.side],
            address=address_of(self.side),
            settings=settings_of(self.scope),
            queues=[QUEUE],
            channels=BareChannels(),
            directory=Directory(),
            random=cast("Random", self.ids),
            now_ns=self.now_ns,
            wall_offset_ns=0,
            recording=False,
        )

    # ---- what it does

    def drain(self, heard: Datagram | None = None) -> list[Datagram]:
        """Handle the consequences of an input. Returns what the node sends."""
        engine = self.engine
        self.follow(engine, self.now_ns)
        self.witness.meet(engine, heard)
        sent, self._sent = [Datagram.read(1 - self.side, data) for data in self._sent], []
        for datagram in sent:
            self.witness.note_sending(datagram)
            if not (datagram.has_packet and self.scope.echoes):
                datagram.forget_counter()
        self.witness.forget_gone(engine)
        return sent

    def write_records(self, records: bytes) -> None:
        """A search keeps no log."""

    def start_job(self, job: Job) -> None:
        """The search decides when the job is done."""
        assert self.job is None
        if isinstance(job, GroupCommit) and not self.scope.history:
            job.commit.serial = 0
        self.job = job

    def send_datagrams(self, address: str, datagrams: list[bytes]) -> None:  # noqa: ARG002 - there is one other
        """Keep them until the search collects them."""
        self._sent += datagrams

    def tell_operator(self, rollback: RollbackDetected) -> None:
        """The witness sees for itself."""

    # ---- as a state

    def settle(self) -> None:
        """Bring it into the canonical form for comparisons with others; see ``inside.settle``."""
        counters = {connection: talk.counter for connection, talk in self.witness.talks.items()}
        settle(self.engine, counters, self.now_ns)
        if not self.scope.echoes:
            forget_echoes(self.engine)
        if not self.scope.history:
            forget_history(self.engine)

    @property
    def forgotten(self) -> tuple[bytes, ...]:
        """Queued messages that the node would not send again."""
        return self.witness.forgotten(self.engine, {split_key(key) for key in self.disk.outgoing})
