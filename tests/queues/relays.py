"""Networks of nodes of which some pass messages on: each node knows its neighbours alone."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from tests.queues.world import SimNode, World
from triack.base.commit import Commit
from triack.base.delivery import Delivery
from triack.base.errors import StoreFailed
from triack.base.peers import Peer
from triack.base.units import MS
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE
from triack.queues.messages import Outgoing
from triack.queues.node_settings import NodeSettings
from triack.queues.routes import Route
from triack.queues.transit.transit_purge import TransitPurge
from triack.tools.sim.faults import Faults

ALL = ("*",)


class Relays:
    """Nodes, each named by a letter.

    Args:
        edges: the neighbours, as pairs of letters: ``ar rb`` is a line of three.
        routes: by the letter of a node: pairs of a destination and the neighbour that leads to it.
        seed: of the world.
        faults: of its network.
        settings: of some nodes, by name.
    """

    def __init__(
        self,
        edges: str,
        routes: dict[str, list[tuple[str, str]]],
        seed: int = 1,
        faults: Faults | None = None,
        settings: dict[str, NodeSettings] | None = None,
    ) -> None:
        self.world = World(seed, faults)
        names = dict.fromkeys(edges.replace(" ", ""))
        self.nodes = {name: SimNode(self.world, name, (settings or {}).get(name)) for name in names}
        self.pairs = edges.split()
        for name, node in self.nodes.items():
            node.identity.resides = False
            node.routes = tuple(Route(to, via) for to, via in routes.get(name, []))
            node.directory.replace(self.peer(other) for other in self.neighbours(name))
        for node in self.nodes.values():
            self.world.nodes[node.address] = node
            node.start()

    def neighbours(self, name: str) -> list[str]:
        return [pair.replace(name, "") for pair in self.pairs if name in pair]

    def peer(self, name: str) -> Peer:
        """A node as a neighbour knows it: it may do everything."""
        return replace(self.nodes[name].peer, may_relay=ALL, relays_for=ALL)

    def allow(
        self, name: str, other: str, *, may_relay: tuple[str, ...] = ALL, relays_for: tuple[str, ...] = ALL
    ) -> None:
        """Change what a neighbour may do at a node."""
        self.nodes[name].know(replace(self.nodes[other].peer, may_relay=may_relay, relays_for=relays_for))

    def reroute(self, name: str, *routes: tuple[str, str]) -> None:
        """Change the routes of a node, now and from its next start on."""
        node = self.nodes[name]
        node.routes = tuple(Route(to, via) for to, via in routes)
        node.act(lambda: node.live.set_routes(node.routes, self.world.now_ns))

    def waiting(self, *names: str) -> int:
        """How many packets wait at nodes, all of them by default, for others."""
        engines = [self.nodes[name].engine for name in names or self.nodes]
        streams = [stream for engine in engines if engine is not None for stream in engine.transits.streams]
        return sum(len(stream.sequence) for stream in streams)

    def is_done(self, *origins: str) -> bool:
        """Whether nothing of these origins is on its way."""
        return not self.waiting() and not any(self.nodes[name].busy for name in origins)

    def __getitem__(self, name: str) -> SimNode:
        return self.nodes[name]


def line(
    names: str, seed: int = 1, faults: Faults | None = None, settings: dict[str, NodeSettings] | None = None
) -> Relays:
    """Nodes in a line, each of which has a route to all others."""
    edges = " ".join(one + other for one, other in pairwise(names))
    routes = {
        name: [(far, names[at + 1]) for far in names[at + 2 :]]
        + [(far, names[at - 1]) for far in names[: max(0, at - 1)]]
        for at, name in enumerate(names)
    }
    return Relays(edges, routes, seed, faults, settings)


def by_relay(
    *, seed: int = 1, faults: Faults | None = None, settings: dict[str, NodeSettings] | None = None
) -> tuple[Relays, SimNode, SimNode, SimNode]:
    """A line of three, and its nodes: ``a``, the relay ``r``, and ``b``."""
    net = line("arb", seed, faults, settings)
    return net, net["a"], net["r"], net["b"]


def die_at(net: Relays, name: str, is_fatal: Callable[[Commit], bool], *, is_done: bool = False) -> None:
    """Let a node's process end with the first such commit, after or before that is on the disk; another one follows."""
    node = net[name]
    applied = node.apply

    def apply(commit: Commit) -> None:
        if not is_fatal(commit):
            applied(commit)
            return
        node.apply = applied  # type: ignore[method-assign]
        if is_done:
            applied(commit)
        node.end()
        net.world.at(50 * MS, node.start)
        if not is_done:
            raise StoreFailed("the process has ended")

    node.apply = apply  # type: ignore[method-assign]


def post(
    node: SimNode,
    name: str,
    *bodies: bytes,
    queue: str = "q",
    delivery: Delivery = Delivery.TRANSACTIONAL,
    life_ms: int = 0,
    read_ms: int = 0,
    priority: int | None = None,
    seal: bool = False,
    **properties: object,
) -> None:
    """Send to a node by name, "" for itself; each message need not arrive after its life, nor be received after that.

    Both are by the clock of the sender.
    """
    outgoing = node.live.outgoing_stream(name, queue, delivery, priority, seal=seal)
    reach_by_ms, receive_by_ms = (node.live.wall.ms(node.world.now_ns) + ms if ms else 0 for ms in (life_ms, read_ms))
    for body in bodies:
        message = Outgoing(body, dict(properties) or None, reach_by_ms, receive_by_ms=receive_by_ms)
        node.live.submit(outgoing, message, len(body))
    node.drain()


def purge(node: SimNode, final: str, queue: str | None = None, *, look: Callable[[], None] = lambda: None) -> int:
    """Remove what waits at a relay for a node, portion by portion; ``look`` is called after each."""
    whole, removed = TransitPurge(node.live.transits, final, queue), list[int]()
    while whole.has_more:
        node.act(lambda: removed.append(node.live.purge_transit(whole, node.world.now_ns)))
        look()
        node.world.run(MS)
    return sum(removed)


def dead(node: SimNode) -> tuple[list[bytes], dict[str, int]]:
    """The dead letters of a node: their bodies, and how many there are for each reason."""
    return node.read_all(DEAD_LETTER_QUEUE), dict(node.live.queues.dead_letters)
