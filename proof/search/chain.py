"""Whole nodes in a line - origin, relay, destination - with every pair of faults in the course of three messages.

The nodes are the shipped engines on the shipped store, in the simulated world. Time there is the same in each run, so
only its faults name a run: the relay dies before its nth effect (a datagram, a step of a commit, a record), or lives;
and the nth datagram of all is lost, or is repeated seconds later, or none. All pairs of these are tried, with either
fault first: datagrams that are sent only because the relay has died are among them.

Deaths that leave the same state are one. The process loses its memory; what counts is the moment, the datagrams that
were sent, the records, and what SQLite finds on the disk: the files, and the log of the database up to its last whole
commit. Most steps of a commit leave the disk as it was before.

``relay`` searches every order of events of three machines, without sessions and disks; this has these, and one order.

Checked in each run: everything ends; both messages arrive once, and in order if they are transactional; and the replay
of the three session logs finds nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import product
from struct import Struct
from time import perf_counter
from typing import Final

from proof.search.search import SearchResult
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.routes import Route
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.disk import Disk
from triack.tools.sim.host import Crash, SimHost
from triack.tools.sim.network import Network
from triack.tools.sim.world import World

NAMES: Final = "arb"
MESSAGES: Final = (b"first", b"second", b"third")
DOWN_NS: Final = 10 * MS
LATE_NS: Final = 3 * SECOND
"""When a datagram is repeated: when all has ended, if nothing else has happened."""
LIMIT_NS: Final = 400 * SECOND
"""A run that has not ended by then does not end: the longest waits are resend tiers of 30 s, three in a row."""


@dataclass(frozen=True, slots=True)
class ChainScope:
    """What is sent, and how."""

    name: str
    delivery: Delivery
    sync: bool = False


CHAIN_SCOPES: Final = (
    ChainScope("chain, transactional", Delivery.TRANSACTIONAL),
    ChainScope("chain, recoverable", Delivery.RECOVERABLE),
    ChainScope("chain, synchronous", Delivery.RECOVERABLE, sync=True),
)


_WAL_HEADER: Final = Struct("!8xI20x")
_FRAME_HEADER: Final = Struct("!4xI16x")
"""Of SQLite's write-ahead log: the size of pages; the size of the database after a commit, 0 within one."""


class _Machine(SimHost):
    """A node that notes what a death before each of its effects would leave."""

    def __init__(self, world: World, network: Network, name: str) -> None:
        super().__init__(world, network, name, f"udp://{name}:1")
        self.identity.resides = False
        # Before each effect, in runs that note it: the number of datagrams until then, and all that a death leaves.
        self.states: list[tuple[int, object]] = []
        self.datagrams: Callable[[], int] | None = None

    def before_effect(self) -> None:
        if self.datagrams is not None:
            sent = self.datagrams()
            left = self.world.now_ns, self.world.events, sent, len(self.records[-1]), _found_on(self.disk)
            self.states.append((sent, left))
        super().before_effect()


def _found_on(disk: Disk) -> bytes:
    """A hash of what the next process finds on a disk, without what SQLite would ignore of its log."""
    digest = blake2b(digest_size=16)
    for path, content in disk.files().items():
        if path.endswith("-shm"):
            continue
        digest.update(path.encode() + b"\0")
        digest.update(_whole_commits(content) if path.endswith("-wal") else content)
    return digest.digest()


def _whole_commits(log: bytes) -> bytes:
    if len(log) < _WAL_HEADER.size:
        return b""
    frame = _FRAME_HEADER.size + _WAL_HEADER.unpack_from(log)[0]
    ends = range(_WAL_HEADER.size + frame, len(log) + 1, frame)
    last = max((end for end in ends if _FRAME_HEADER.unpack_from(log, end - frame)[0]), default=0)
    return log[:last]


@dataclass(frozen=True, slots=True)
class Course:
    """The faults of a run."""

    dies_at: int = 0
    datagram: int = 0
    again: bool = False

    def __str__(self) -> str:
        death = f"the relay dies before effect {self.dies_at}" if self.dies_at else "the relay lives"
        if not self.datagram:
            return death
        return f"{death}, datagram {self.datagram} {'comes again' if self.again else 'is lost'}"


class ChainRun:
    """One run."""

    def __init__(self, scope: ChainScope, course: Course) -> None:
        self.world = World(1)
        self.network = Network(self.world)
        self.datagrams = 0
        self._course = course
        self._scope = scope
        self.network.alter = self._alter
        self.nodes = {name: _Machine(self.world, self.network, name) for name in NAMES}
        for name, other in ("ar", "ra", "rb", "br"):
            peer = replace(self.nodes[other].peer, may_relay=("*",), relays_for=("*",))
            self.nodes[name].directory.replace([*self.nodes[name].directory, peer])
        route = Route("b", "r")
        sync = replace(route, link="sync", downgrade_after_s=3_600.0)
        self.nodes["a"].routes = (sync if scope.sync else route,)
        self.nodes["b"].routes = (Route("a", "r"),)
        if course.dies_at:
            self.nodes["r"].next_crash = Crash(down_ns=DOWN_NS, again=course.dies_at - 1)
        if not course.dies_at:
            self.nodes["r"].datagrams = lambda: self.datagrams
        for node in self.nodes.values():
            node.start()

    def _alter(self, datagram: bytes, sender: str, to: str) -> bytes | None:
        self.datagrams += 1
        if self.datagrams != self._course.datagram:
            return datagram
        if not self._course.again:
            return None
        self.world.at(LATE_NS, lambda: self.network.send(datagram, sender, to))
        return datagram

    def end(self) -> str:
        """Let it come to its end; return what is wrong, or nothing."""
        a, b = self.nodes["a"], self.nodes["b"]
        for body in MESSAGES:
            a.act(lambda body=body: self._submit(body))  # type: ignore[misc]
            self.world.run(MS)
        if not self.world.run(LIMIT_NS, lambda: self._is_over):
            return "it does not end"
        self.world.run(2 * LATE_NS)
        got = self._read(b)
        if (got if self._scope.delivery is Delivery.TRANSACTIONAL else sorted(got)) != list(MESSAGES):
            return f"{got} arrived"
        found = judge_records(
            [record for node in self.nodes.values() for record in parse_records(b"".join(node.records))]
        )
        return "; ".join(str(it) for it in found[:3])

    def _submit(self, body: bytes) -> None:
        engine = self.nodes["a"].live
        engine.submit(engine.outgoing_stream("b", "q", self._scope.delivery), body, len(body))

    @property
    def _is_over(self) -> bool:
        a, r, b = (node.engine for node in self.nodes.values())
        if a is None or r is None or b is None or "q" not in b.queues.mailboxes:
            return False
        waits = any(not stream.sequence.is_empty for stream in r.transits.streams)
        sends = a.busy_storing or any(outgoing.busy for outgoing in a.outbox.streams)
        return not waits and not sends and b.queues.mailboxes["q"].length >= len(MESSAGES)

    def _read(self, node: _Machine) -> list[bytes]:
        got: list[bytes] = []
        mailbox = node.live.make_queue("q")
        while mailbox.length and len(got) < 2 * len(MESSAGES):
            lease = node.live.take(mailbox, self.world.now_ns)
            if lease is not None:
                got.append(lease.body)
                mailbox.acknowledge(lease)
            node.drain()
            self.world.run(MS)
        return got

    def close(self) -> None:
        """Free the disks."""
        for node in self.nodes.values():
            node.disk.close()


def _deaths(states: list[tuple[int, object]], since: int) -> list[tuple[int, int]]:
    """The effects before which a death leaves another state than any death before, and the datagrams until then.

    ``since``: only those after this many datagrams.
    """
    first: dict[object, tuple[int, int]] = {}
    for effect, (sent, left) in enumerate(states, 1):
        if sent >= since:
            first.setdefault(left, (effect, sent))
    return list(first.values())


class _Search:
    """One search of a scope, at most ``limit`` runs; of all pairs one in ``every``."""

    def __init__(self, scope: ChainScope, limit: int, every: int) -> None:
        self.runs = 0
        self.violation = ""
        self.broken = Course()
        self._scope, self._limit, self._every = scope, limit, every
        self._pairs = 0

    @property
    def is_over(self) -> bool:
        """Whether a promise was broken, or there were enough runs."""
        return bool(self.violation) or self.runs > self._limit

    def run(self, course: Course) -> ChainRun | None:
        """Try a course, and return what was seen in it; None if the search has ended."""
        if self.is_over:
            return None
        run = ChainRun(self._scope, course)
        self.runs += 1
        self.violation, self.broken = run.end(), course
        run.close()
        return run

    def pair(self, course: Course) -> None:
        """Try a pair of faults, if it is its turn."""
        self._pairs += 1
        if self._pairs % self._every == 0:
            self.run(course)

    def try_all(self, calm: ChainRun) -> None:
        """Every fault by itself, and every pair."""
        for datagram, again in product(range(1, calm.datagrams + 1), (False, True)):
            run = self.run(Course(0, datagram, again))
            # The death comes after what happened to the datagram.
            for effect, _ in _deaths(run.nodes["r"].states, datagram) if run is not None else ():
                self.pair(Course(effect, datagram, again))
        for effect, sent in _deaths(calm.nodes["r"].states, 0):
            run = self.run(Course(effect))
            # The death comes before.
            for datagram in range(sent + 1, run.datagrams + 1) if run is not None else ():
                self.pair(Course(effect, datagram, again=False))
                self.pair(Course(effect, datagram, again=True))


def search_chain(scope: ChainScope, limit: int, *, every: int = 1) -> SearchResult:
    """Try the courses of a scope, at most ``limit`` of them; of the pairs of faults one in ``every``."""
    began = perf_counter()
    search = _Search(scope, limit, every)
    calm = search.run(Course())
    assert calm is not None
    search.try_all(calm)
    complete = not search.is_over and every == 1
    trace = (str(search.broken),) if search.violation else ()
    seen = calm.nodes["r"].effects.count, calm.datagrams
    return SearchResult(
        scope.name, search.runs, search.runs, 2, complete, seen, 0, search.violation or None, trace,
        perf_counter() - began,
    )  # fmt: skip
