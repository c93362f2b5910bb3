"""The subscribers of a simulated world: they begin subscriptions, and read them, or do not.

The first one tells the history what it gets, as the reader of a queue does. What the others get is judged by the
session logs.
"""

from collections.abc import Callable
from random import Random

from triack.base.units import MS
from triack.queues.mailboxes.mailbox import Lease
from triack.queues.mailboxes.redelivery import Return
from triack.queues.manager.engine import Engine
from triack.queues.topics.subscription import Subscription
from triack.tools.chaos.history import History, identify
from triack.tools.chaos.host import Host
from triack.tools.chaos.plan import SubscriberPlan
from triack.tools.sim.world import World

__all__ = ["Subscriber"]

TURN_NS = 60 * MS
"""The longest wait between two turns of a subscriber."""
TAKES = {"quick": 1_000, "slow": 1, "flapping": 10, "dead": 0}
"""Messages that a subscriber of a kind takes in a turn, at most."""
LEAVE_CHANCE = 0.1
"""How often one that is flapping goes away, and one that is slow takes something."""
FAIL_CHANCE = 0.05
"""How often a message is given back, by all but the first."""


class Subscriber:
    """One subscriber.

    Args:
        plan: how it behaves.
        host: the machine with the topics.
        world: the clock.
        name: of its randomness.
        history: what the first one tells; None for all others.
    """

    def __init__(self, plan: SubscriberPlan, host: Host, world: World, name: str, history: History | None) -> None:
        self.kind = plan.kind
        self._plan = plan
        self._host = host
        self._world = world
        self._random: Random = world.chance(name)
        self._history = history
        self._engine: Engine | None = None
        self._subscription: Subscription | None = None
        self._on_ready: list[Callable[[], None]] = []
        self._is_ready = False

    def begin(self) -> None:
        """Take turns, without end."""
        self._world.at(self._random.randrange(1, TURN_NS), self._turn)

    def heal(self) -> None:
        """Nothing is slow any more."""
        self.kind = "quick"

    def await_ready(self, call: Callable[[], None]) -> None:
        """Call something once the subscription is on the disk for the first time."""
        self._on_ready.append(call)

    def _turn(self) -> None:
        engine = self._host.engine
        if self._host.is_up and engine is not None and not engine.draining:
            self._host.act(lambda: self._act(engine))
        self.begin()

    def _act(self, engine: Engine) -> None:
        subscription = self._found(engine)
        rare = self._random.random() < LEAVE_CHANCE
        if self.kind == "flapping" and rare and not subscription.durable:
            engine.topics.end(subscription, "closed", self._world.now_ns)
            self._subscription = None
        elif self.kind != "slow" or rare:
            self._read(engine, subscription, self._random.randint(0, TAKES[self.kind]))

    def _found(self, engine: Engine) -> Subscription:
        """The subscription, begun anew if its process or itself has ended."""
        known = self._subscription
        if known is None or engine is not self._engine or known.has_ended:
            plan = self._plan
            known = engine.topics.subscribe(
                plan.pattern,
                engine.jobs.turn(self._world.now_ns),
                durable=plan.durable or None,
                max_unacked=plan.max_unacked,
            )
            self._engine, self._subscription = engine, known
            if not self._is_ready:
                engine.await_commit(self._note_ready)
        return known

    def _note_ready(self, error: Exception | None) -> None:
        if error is None and not self._is_ready:
            self._is_ready = True
            for call in self._on_ready:
                call()

    def _read(self, engine: Engine, subscription: Subscription, most: int) -> None:
        taken: list[tuple[Lease, int, int]] = []
        now_ns = self._world.now_ns
        for _ in range(most):
            run = engine.open_run(subscription, now_ns)
            if run is None:
                break
            lease = run.lease(run.draw())
            stream, number = identify(lease.body)
            if self._history is not None:
                self._history.handed(stream, number, lease.body, redelivered=lease.redelivered, reader=None)
            elif self._random.random() < FAIL_CHANCE:
                engine.give_back(subscription, lease, Return(failed=True, delay_ms=0), now_ns)
                continue
            taken.append((lease, stream, number))
        for lease, _, _ in taken:
            subscription.acknowledge(lease)
        if taken and self._history is not None:
            done = [(stream, number) for _, stream, number in taken]
            engine.await_commit(lambda error: None if error else self._note_done(done))

    def _note_done(self, done: list[tuple[int, int]]) -> None:
        assert self._history is not None
        for stream, number in done:
            self._history.acknowledged(stream, [number])
