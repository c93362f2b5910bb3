"""Subscribers on other machines than the topics, in a simulated world: drawn, and at work.

The session logs judge what they get: each message that was passed on to them arrives, once, in order.
"""

from random import Random
from typing import Final

from triack.base.delivery import Delivery
from triack.base.errors import TriackError
from triack.base.units import MS
from triack.queues.mailboxes.redelivery import Return
from triack.queues.mailboxes.resolver import RemoteQueue
from triack.queues.manager.engine import Engine
from triack.queues.remote.remote_subscriptions import RemoteState, RemoteSubscription
from triack.tools.chaos.host import Host
from triack.tools.chaos.plan import AwayPlan
from triack.tools.sim.world import World

TURN_NS: Final = 60 * MS
KINDS: Final = ("quick", "slow", "dead", "flapping")
"""A subscriber reads all messages, now and then one, none, or leaves and returns."""
TAKES: Final = {"quick": 1_000, "slow": 1, "flapping": 10, "dead": 0}
LEAVE_CHANCE: Final = 0.1
END_CHANCE: Final = 0.2
FAIL_CHANCE: Final = 0.05


def draw_away(random: Random, hosts: int, hub: int, patterns: tuple[str, ...]) -> tuple[AwayPlan, ...]:
    """Draw subscribers on the other machines, if there are any."""
    others = [host for host in range(hosts) if host != hub]
    count = random.choice((0, 1, 1, 2, 3)) if others else 0
    return tuple(_draw_one(random, random.choice(others), hub, patterns, number) for number in range(count))


def _draw_one(random: Random, host: int, hub: int, patterns: tuple[str, ...], number: int) -> AwayPlan:
    durable = f"away{number}" if random.random() < 1 / 2 else ""
    weakest = Delivery.RECOVERABLE if durable else Delivery.EXPRESS
    delivery = random.choice((Delivery.TRANSACTIONAL, Delivery.TRANSACTIONAL, weakest))
    pattern, limit = random.choice(patterns), random.choice((1, 3, 20, 1_000))
    return AwayPlan(host, hub, pattern, durable, random.choice(KINDS), limit, delivery)


class AwaySubscriber:
    """One subscriber."""

    def __init__(self, plan: AwayPlan, hosts: list[Host], world: World, name: str) -> None:
        self.kind = plan.kind
        self._plan = plan
        self._host, self._hub = hosts[plan.host], hosts[plan.hub]
        self._world = world
        self._random: Random = world.chance(name)
        self._engine: Engine | None = None
        self._found: RemoteSubscription | None = None

    def begin(self) -> None:
        """Take turns, without end."""
        self._world.at(self._random.randrange(1, TURN_NS), self._turn)

    def heal(self) -> None:
        """Nothing is slow any more."""
        self.kind = "quick"

    def _turn(self) -> None:
        engine = self._host.engine
        if self._host.is_up and engine is not None and not engine.draining:
            self._host.act(lambda: self._act(engine))
        self.begin()

    def _act(self, engine: Engine) -> None:
        found = self._subscribed(engine)
        if found is None or found.mailbox is None:
            return
        rare = self._random.random() < LEAVE_CHANCE
        if self.kind == "flapping" and rare:
            self._leave(engine, found)
        elif self.kind != "slow" or rare:
            self._read(engine, found, self._random.randint(0, TAKES[self.kind]))

    def _subscribed(self, engine: Engine) -> RemoteSubscription | None:
        """The subscription, begun anew if it has ended or its process has."""
        found = self._found
        if found is not None and engine is self._engine and found.state in (RemoteState.ASKED, RemoteState.LIVE):
            return found
        plan, target = self._plan, engine.resolver.resolve(self._hub.address, "topic:Games")
        assert isinstance(target, RemoteQueue)
        try:
            found = engine.remote.own.subscribe(
                target.peer,
                plan.pattern,
                engine.jobs.turn(self._world.now_ns),
                durable=plan.durable or None,
                shared=False,
                delivery=plan.delivery,
                max_unacked=plan.max_unacked,
            )
        except TriackError:  # its end is in progress
            return None
        self._engine, self._found = engine, found
        if found.mailbox is not None and self._hear not in found.mailbox.listeners:
            found.mailbox.listeners.append(self._hear)
        return found

    def _hear(self) -> None:
        """A message may be there; it is read at the next turn."""

    def _leave(self, engine: Engine, found: RemoteSubscription) -> None:
        if found.ask.durable and self._random.random() < END_CHANCE:
            engine.remote.own.unsubscribe(found, engine.jobs.turn(self._world.now_ns))
        if found.mailbox is not None and self._hear in found.mailbox.listeners:
            found.mailbox.leave(self._hear)
        self._found = None

    def _read(self, engine: Engine, found: RemoteSubscription, most: int) -> None:
        mailbox = found.mailbox
        assert mailbox is not None
        for _ in range(most):
            run = engine.open_run(mailbox, self._world.now_ns)
            if run is None:
                return
            lease = run.lease(run.draw())
            if self._random.random() < FAIL_CHANCE:
                engine.give_back(mailbox, lease, Return(failed=True, delay_ms=0), self._world.now_ns)
            else:
                mailbox.acknowledge(lease)
