"""The subscribers of a simulated world: they begin subscriptions, and read them, or do not.

The first one tells the history what it gets, as the reader of a queue does. The session logs judge what others get.
"""

from collections.abc import Callable
from random import Random

from triack.base.reasons import DeadReason
from triack.base.units import MS
from triack.queues.mailboxes.mailbox import Lease
from triack.queues.mailboxes.redelivery import Return
from triack.queues.manager.engine import Engine
from triack.queues.topics.subscription import Subscription
from triack.tools.chaos.history import History, identify
from triack.tools.chaos.host import Host
from triack.tools.chaos.plan import SubscriberPlan
from triack.tools.sim.world import World

TURN_NS = 60 * MS
TAKES = {"quick": 1_000, "slow": 1, "flapping": 10, "dead": 0, "failing": 10, "holding": 3, "pausing": 10}
"""Most messages that each kind of subscriber reads in a turn."""
LEAVE_CHANCE = 0.1
FAIL_CHANCE = 0.05
FAILING_CHANCE = 0.7
"""How often by a failing one: most of its messages become dead letters where few attempts are allowed."""
SETTLE_CHANCE = 0.3
"""How often one that holds a message is done with it in a turn: some are overdue by then."""


class Subscriber:
    """One subscriber."""

    def __init__(self, plan: SubscriberPlan, host: Host, world: World, name: str, history: History | None) -> None:
        self.kind = plan.kind
        self._plan = plan
        self._host = host
        self._world = world
        self._random: Random = world.chance(name)
        self._history = history
        self._engine: Engine | None = None
        self._subscription: Subscription | None = None
        # Leases, and those that were taken back as they were overdue.
        self._held: list[Lease] = []
        self._overdue: list[Lease] = []
        self._on_ready: list[Callable[[], None]] = []
        self._is_ready = False

    def begin(self) -> None:
        """Take turns, without end."""
        self._world.at(self._random.randrange(1, TURN_NS), self._turn)

    def heal(self) -> None:
        """Nothing is slow any more."""
        self.kind = "quick"
        if self._subscription is not None and self._engine is not None and self._engine is self._host.engine:
            engine, subscription = self._engine, self._subscription
            if self._host.is_up and not engine.draining:
                self._host.act(lambda: engine.topics.resume(subscription, self._world.now_ns))

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
        self._settle(engine, subscription, leaves=self.kind == "holding" and rare)
        if self.kind == "pausing" and rare and not subscription.durable:
            topics = engine.topics
            change = topics.suspend if subscription.suspended_at is None else topics.resume
            change(subscription, self._world.now_ns)
        if self.kind == "flapping" and rare and not subscription.durable:
            engine.topics.end(subscription, "closed", self._world.now_ns)
            self._subscription = None
        elif self.kind != "slow" or rare:
            self._read(engine, subscription, self._random.randint(0, TAKES[self.kind]))

    def _found(self, engine: Engine) -> Subscription:
        """The subscription, begun anew if it has ended or its process has."""
        known = self._subscription
        if known is None or engine is not self._engine or known.mailbox.has_ended:
            plan = self._plan
            known = engine.topics.subscribe(
                plan.pattern,
                engine.jobs.turn(self._world.now_ns),
                durable=plan.durable or None,
                shared=plan.shared,
                max_unacked=plan.max_unacked,
            )
            self._engine, self._subscription = engine, known
            self._held, self._overdue = [], []
            if not self._is_ready:
                engine.await_commit(self._note_ready)
        return known

    def _note_ready(self, error: Exception | None) -> None:
        if error is None and not self._is_ready:
            self._is_ready = True
            for call in self._on_ready:
                call()

    def _settle(self, engine: Engine, subscription: Subscription, *, leaves: bool) -> None:
        done = [lease for lease in self._held if self.kind != "holding" or self._random.random() < SETTLE_CHANCE]
        for lease in done:
            self._held.remove(lease)
            subscription.mailbox.acknowledge(lease)
        late, self._overdue = self._overdue, []
        for lease in late:
            subscription.note_late(lease)
        while leaves and self._held:
            engine.give_back(subscription.mailbox, self._held.pop(), Return(failed=False), self._world.now_ns)

    def _hold(self, engine: Engine, subscription: Subscription, lease: Lease) -> None:
        self._held.append(lease)
        if subscription.ack_wait_ns:
            self._world.at(subscription.ack_wait_ns, lambda: self._take_back(engine, subscription, lease))

    def _take_back(self, engine: Engine, subscription: Subscription, lease: Lease) -> None:
        """The node does so when a message is overdue."""
        is_held = any(one is lease for one in self._held)  # it may have had the same message twice
        if engine is self._host.engine and self._host.is_up and not engine.draining and is_held:
            self._held = [one for one in self._held if one is not lease]
            self._overdue.append(lease)
            way = Return(failed=True, delay_ms=0, reason=DeadReason.HAND_OVER_TIMEOUT)
            self._host.act(lambda: engine.give_back(subscription.mailbox, lease, way, self._world.now_ns))

    def _read(self, engine: Engine, subscription: Subscription, most: int) -> None:
        taken: list[tuple[Lease, int, int]] = []
        now_ns = self._world.now_ns
        for _ in range(most):
            run = engine.open_run(subscription.mailbox, now_ns)
            if run is None:
                break
            lease = run.lease(run.draw())
            stream, number = identify(lease.body)
            if self._history is not None:
                at_ms = engine.wall.ms(now_ns)
                self._history.handed(
                    stream, number, lease.body, redelivered=lease.redelivered, reader=None, at_ms=at_ms
                )
            elif self.kind == "holding":
                self._hold(engine, subscription, lease)
                continue
            elif self._random.random() < (FAILING_CHANCE if self.kind == "failing" else FAIL_CHANCE):
                engine.give_back(subscription.mailbox, lease, Return(failed=True, delay_ms=0), now_ns)
                continue
            taken.append((lease, stream, number))
        for lease, _, _ in taken:
            subscription.mailbox.acknowledge(lease)
        if taken and self._history is not None:
            done = [(stream, number) for _, stream, number in taken]
            engine.await_commit(lambda error: None if error else self._note_done(done))

    def _note_done(self, done: list[tuple[int, int]]) -> None:
        assert self._history is not None
        for stream, number in done:
            self._history.acknowledged(stream, [number])
