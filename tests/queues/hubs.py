"""Simulated nodes of which one has topics, and others subscribe to them."""

from dataclasses import replace

from tests.queues.world import SimNode, World
from triack.base.delivery import Delivery
from triack.base.units import MS, SECOND
from triack.queues.messages import Outgoing
from triack.queues.node_settings import NodeSettings
from triack.queues.remote.remote_subscriptions import RemoteState, RemoteSubscription
from triack.queues.topics.subscription import Subscription
from triack.tools.sim.faults import Faults

MADE: list["HubWorld"] = []
"""Those of the test that runs."""


class Away:
    """A program that reads a subscription to topics of the hub, on a node of its own.

    Attributes:
        node: its node.
        got: what it has read: topic and body.
    """

    def __init__(self, node: SimNode, hub: str, pattern: str = "Games.#", durable: str | None = "audit") -> None:
        self.node = node
        self.hub = hub
        self.pattern = pattern
        self.durable = durable
        self.got: list[tuple[str | None, bytes]] = []
        self.publishers: set[str] = set()
        self.found: RemoteSubscription | None = None

    def begin(self, *, delivery: Delivery = Delivery.TRANSACTIONAL, max_unacked: int = 1_000) -> RemoteSubscription:
        """Subscribe, or find the durable subscription of an earlier process."""
        engine, now_ns = self.node.live, self.node.world.now_ns
        found = self.found = engine.remote.own.subscribe(
            self.hub, self.pattern, engine.jobs.turn(now_ns), durable=self.durable, shared=False,
            delivery=delivery, max_unacked=max_unacked,
        )  # fmt: skip
        if found.mailbox is not None and self._wake not in found.mailbox.listeners:
            found.mailbox.listeners.append(self._wake)
        self.node.drain()
        return found

    def _wake(self) -> None:
        """Something may be there: it is read when the test says so."""

    def leave(self) -> None:
        assert self.found is not None
        assert self.found.mailbox is not None
        self.found.mailbox.leave(self._wake)
        self.node.drain()

    def unsubscribe(self) -> None:
        engine = self.node.live
        assert self.found is not None
        engine.remote.own.unsubscribe(self.found, engine.jobs.turn(self.node.world.now_ns))
        self.node.drain()

    @property
    def state(self) -> RemoteState:
        assert self.found is not None
        return self.found.state

    def read(self, most: int = 1_000_000) -> list[bytes]:
        """Read what is there. Returns all bodies so far."""
        engine, world = self.node.live, self.node.world
        assert self.found is not None
        mailbox = engine.queues.mailboxes[self.found.queue]
        for _ in range(most):
            lease = engine.take(mailbox, world.now_ns)
            if lease is None:
                break
            content = lease.packet.open()
            self.got.append((content.topic, lease.body))
            self.publishers.add(engine.name_of(content.publisher))
            engine.acknowledge(mailbox, [(lease.packet, 1 << lease.index)])
        self.node.drain()
        return [body for _, body in self.got]


class HubWorld:
    """A hub with topics, and nodes that may subscribe to them.

    Attributes:
        world: the clock.
        hub: the node with the topics.
    """

    def __init__(
        self, *names: str, settings: NodeSettings | None = None, seed: int = 1, faults: Faults | None = None
    ) -> None:
        MADE.append(self)
        self.world = World(seed, faults)
        self.hub = self.world.node("hub", settings)
        self.nodes = {name: self.world.node(name) for name in names}
        for name in names:
            self.allow(name, "#")

    def allow(self, name: str, *patterns: str) -> None:
        """Let a node subscribe to topics, and to no others."""
        self.hub.know(replace(self.nodes[name].peer, may_subscribe=patterns))

    def away(self, name: str, pattern: str = "Games.#", durable: str | None = "audit") -> Away:
        """A program on a node, which has not subscribed yet."""
        return Away(self.nodes[name], "hub", pattern, durable)

    def begun(
        self,
        name: str = "sub",
        pattern: str = "Games.#",
        durable: str | None = "audit",
        *,
        delivery: Delivery = Delivery.TRANSACTIONAL,
        max_unacked: int = 1_000,
    ) -> Away:
        """The same when it has subscribed, and the answer had time to come."""
        away = self.away(name, pattern, durable)
        away.begin(delivery=delivery, max_unacked=max_unacked)
        self.run()
        return away

    def publish(
        self, *bodies: bytes, below: str = "Cricket", delivery: Delivery = Delivery.TRANSACTIONAL, at: str = ""
    ) -> None:
        """Publish at the hub, or from another node."""
        node = self.nodes[at] if at else self.hub
        engine = node.live
        if not at:
            engine.make_queue("topic:Games")
        outgoing = engine.outgoing_stream("hub" if at else "", "topic:Games", delivery)
        for body in bodies:
            engine.submit(outgoing, Outgoing(body, topic=below), len(body))
        node.drain()

    def at_hub(self, title: str) -> Subscription | None:
        return self.hub.live.topics.subscriptions.get(title)

    def run(self, seconds: float = 1.0) -> None:
        """Let time pass."""
        self.world.run(round(seconds * SECOND))

    def settle(self, *aways: Away) -> None:
        """Let all that is on its way arrive, and be read."""
        for _ in range(400):
            self.world.run(10 * MS)
            for away in aways:
                if away.node.engine is not None:
                    away.read()
