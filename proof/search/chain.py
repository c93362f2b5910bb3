"""Whole nodes in a line - origin, relay, destination - with every pair of faults in the course of two messages.

The nodes are the shipped engines on the shipped store, in the simulated world. Time there is the same in each run, so a
run is named by its faults alone: the relay dies before its nth effect (a datagram, a step of a commit, a record), or
lives; and the nth datagram of all is lost, or comes again seconds later, or none. All pairs of these are tried.

``relay`` searches every order of events of three machines, without sessions and disks; this has these, and one order.

Checked in each run: everything ends; both messages arrive once, and in order if they are transactional; and the replay
of the three session logs finds nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from time import perf_counter
from typing import Final

from proof.search.search import SearchResult
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.routes import Route
from triack.tools.replay.engines.local_engine import judge_records
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.host import SimHost
from triack.tools.sim.network import Network
from triack.tools.sim.world import World

__all__ = ["CHAIN_SCOPES", "ChainScope", "Course", "search_chain"]

NAMES: Final = "arb"
MESSAGES: Final = (b"first", b"second")
DOWN_NS: Final = 10 * MS
"""How long the relay is away."""
LATE_NS: Final = 3 * SECOND
"""When a datagram comes again: when all is over, if nothing else has happened."""
LIMIT_NS: Final = 400 * SECOND
"""A run that has not ended by then does not end: the longest waits are resend tiers of 30 s, three in a row."""


@dataclass(frozen=True, slots=True)
class ChainScope:
    """What is sent, and how.

    Attributes:
        name: what it is called.
        delivery: the class of the messages.
        sync: whether the origin's link is synchronous.
    """

    name: str
    delivery: Delivery
    sync: bool = False


CHAIN_SCOPES: Final = (
    ChainScope("chain, transactional", Delivery.TRANSACTIONAL),
    ChainScope("chain, recoverable", Delivery.RECOVERABLE),
    ChainScope("chain, synchronous", Delivery.RECOVERABLE, sync=True),
)


class _DiesError(Exception):
    """The process of the relay is gone."""


class _Machine(SimHost):
    """A node that may die before one of its effects."""

    def __init__(self, world: World, network: Network, name: str) -> None:
        super().__init__(world, network, name, f"udp://{name}:1")
        self.identity.resides = False
        self.effects = 0
        self.dies_at = 0
        self.disk.on_effect = lambda _what: self.before_effect()

    def before_effect(self) -> None:
        self.effects += 1
        if self.effects == self.dies_at:
            raise _DiesError

    def start(self) -> None:
        self._survive(super().start)

    def act(self, action: object) -> None:
        self._survive(lambda: super(_Machine, self).act(action))  # type: ignore[arg-type]

    def _survive(self, action: object) -> None:
        try:
            action()  # type: ignore[operator]
        except _DiesError:
            self.end()
            self.world.at(DOWN_NS, self.start)


@dataclass(frozen=True, slots=True)
class Course:
    """The faults of a run.

    Attributes:
        dies_at: the effect of the relay before which it dies; 0 for none.
        datagram: the one that something happens to; 0 for none.
        again: whether it comes again, and not: is lost.
    """

    dies_at: int = 0
    datagram: int = 0
    again: bool = False

    def __str__(self) -> str:
        death = f"the relay dies before effect {self.dies_at}" if self.dies_at else "the relay lives"
        if not self.datagram:
            return death
        return f"{death}, datagram {self.datagram} {'comes again' if self.again else 'is lost'}"


class _Run:
    """One run.

    Attributes:
        datagrams: how many were sent.
    """

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
        self.nodes["r"].dies_at = course.dies_at
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
            a.act(lambda body=body: self._submit(body))
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
        waits = any(stream.sequence.entries for stream in r.transits.streams)
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
        """Give back what the disks hold."""
        for node in self.nodes.values():
            node.disk.close()


def _courses(effects: int, datagrams: int) -> Iterator[Course]:
    """Every fault by itself, then every pair."""
    ways = [(datagram, again) for datagram in range(1, datagrams + 1) for again in (False, True)]
    yield from (Course(0, *way) for way in ways)
    yield from (Course(dies_at) for dies_at in range(1, effects + 1))
    yield from (Course(dies_at, *way) for dies_at in range(1, effects + 1) for way in ways)


def search_chain(scope: ChainScope, limit: int, *, every: int = 1) -> SearchResult:
    """Try the courses of a scope, at most ``limit`` of them; of all of them one in ``every``."""
    began = perf_counter()
    calm = _Run(scope, Course())
    violation, broken = calm.end(), Course()
    effects, datagrams = calm.nodes["r"].effects, calm.datagrams
    calm.close()
    courses = list(_courses(effects, datagrams))[::every]
    runs = 1
    for course in islice(courses, limit) if not violation else ():
        run = _Run(scope, course)
        runs, violation, broken = runs + 1, run.end(), course
        run.close()
        if violation:
            break
    complete = not violation and every == 1 and len(courses) <= limit
    trace = (str(broken),) if violation else ()
    return SearchResult(
        scope.name, runs, runs, 2, complete, (effects, datagrams), 0, violation or None, trace, perf_counter() - began
    )
