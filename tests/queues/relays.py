"""Lines of nodes, of which those in the middle pass messages on."""

from collections.abc import Iterable
from dataclasses import replace

from tests.queues.world import SimNode, World
from triack.base.delivery import Delivery
from triack.queues.node_settings import NodeSettings
from triack.queues.routes import Route
from triack.tools.sim.faults import Faults

ALL = ("*",)


class Chain:
    """Nodes in a line: each knows its neighbours alone, and reaches all others by them.

    Args:
        names: of the nodes, in the order of the line.
        seed: of the world.
        faults: of its network.
        settings: of all nodes, or of some by name.
    """

    def __init__(
        self,
        names: str,
        seed: int = 1,
        faults: Faults | None = None,
        settings: NodeSettings | dict[str, NodeSettings] | None = None,
    ) -> None:
        self.world = World(seed, faults)
        of = settings if isinstance(settings, dict) else dict.fromkeys(names, settings)
        self.nodes = {name: SimNode(self.world, name, of.get(name)) for name in names}
        for node in self.nodes.values():
            node.identity.resides = False
        for at, name in enumerate(names):
            neighbours = [names[other] for other in (at - 1, at + 1) if 0 <= other < len(names)]
            routes = [Route(names[far], names[at + 1]) for far in range(at + 2, len(names))]
            routes += [Route(names[far], names[at - 1]) for far in range(at - 1)]
            self.know(name, neighbours, routes)
        for node in self.nodes.values():
            self.world.nodes[node.address] = node
            node.start()

    def know(self, name: str, neighbours: Iterable[str], routes: Iterable[Route]) -> None:
        """Let a node have these neighbours, who may do everything, and these routes; from its next start on."""
        node = self.nodes[name]
        peers = [replace(self.nodes[other].peer, name=other, may_relay=ALL, relays_for=ALL) for other in neighbours]
        node.directory.replace(peers)
        node.routes = tuple(routes)

    def reroute(self, name: str, *routes: Route) -> None:
        """Change the routes of a running node."""
        node = self.nodes[name]
        node.routes = routes
        node.act(lambda: node.live.set_routes(routes, self.world.now_ns))

    def waiting(self, *names: str) -> int:
        """How many packets wait at nodes, all of them by default, for others."""
        engines = [self.nodes[name].engine for name in names or self.nodes]
        streams = [stream for engine in engines if engine is not None for stream in engine.transits.streams]
        return sum(len(stream.sequence.entries) for stream in streams)

    def __getitem__(self, name: str) -> SimNode:
        return self.nodes[name]


def post(
    node: SimNode, name: str, *bodies: bytes, queue: str = "q", delivery: Delivery = Delivery.TRANSACTIONAL
) -> None:
    """Send to a node by name."""
    outgoing = node.live.outgoing_stream(name, queue, delivery)
    for body in bodies:
        node.live.submit(outgoing, body, len(body))
    node.drain()
