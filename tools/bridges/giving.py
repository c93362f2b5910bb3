"""From the node to a broker, whatever the protocol: messages leave a queue when the broker has them.

A transaction takes a run of them, and commits when the broker has answered all. While the disk deletes one run of a
queue, the next is sent, in the order of the queue. Each fault ends the connection: later messages never overtake one
that is sent again.
"""

import asyncio
from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Generic, TypeVar
from zlib import crc32

from triack.base.errors import UsageError
from triack.base.reasons import BridgeReason
from triack.bridges.part import Node_, Part, Refusal, Tx, refusal_of, refuse
from triack.node.config.bridge_rules import GiveRule
from triack.node.config.bridge_table import BridgeTable
from triack.node.control.tasks import first_of
from triack.node.handles.message import Message

RUNS, RUN_MESSAGES = 2, 500
"""Of a queue under way at a time, so that the broker has work while the disk has; and what a commit costs little."""
ANSWER_S = 10.0
"""A broker answers within a second. One that is low on memory or disk reads nothing more, and says so to nobody."""

P = TypeVar("P")
"""What the broker gets for a message."""
R = TypeVar("R", bound=GiveRule)
Refused = list[tuple[Message, Refusal]]
"""Messages that the broker does not take, and why."""


class Run:
    """Messages that one transaction gives to the broker.

    Attributes:
        left: how many the broker has not answered.
        refused: those that it never takes.
    """

    __slots__ = ("left", "refused")

    def __init__(self) -> None:
        self.left = 0
        self.refused: Refused = []


class Giving(Part, Generic[R, P]):
    """What goes by one connection.

    Args:
        node: has the queues.
        table: says how many messages may be unanswered.
        rules: say which queues.
        two_runs: whether two runs of each queue are under way, or one of all queues.
    """

    def __init__(self, node: Node_, table: BridgeTable, rules: Sequence[R], *, two_runs: bool) -> None:
        super().__init__(node, table, "gives")
        self._waiting = 0
        self._rules = rules
        self._most = table.in_flight
        self._turn = None if two_runs else asyncio.Lock()
        # Messages that the broker has not answered, of all queues, by the name that its answer has for them.
        self._unanswered: dict[Hashable, tuple[Run, Message]] = {}
        self._answered = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Messages that the broker has not acknowledged."""
        return self._waiting

    async def run(self) -> None:
        """Give until something fails. Raises BrokerAway, and errors of the node."""
        await self._begin()
        await first_of(asyncio.Event().wait(), *(self._give(rule) for rule in self._rules))

    def handle_answer(self, name: Hashable, refusal: Refusal | None = None) -> None:
        """The broker has a message, or never takes it."""
        found = self._unanswered.pop(name, None)
        if found is not None:
            run, message = found
            run.left -= 1
            if refusal is not None:
                run.refused.append((message, refusal))
        self._answered.set()

    async def _begin(self) -> None:
        """Go on from what the node remembers."""

    async def _give(self, rule: R) -> None:
        """Give what is in a queue, or what comes to a subscription."""
        source, in_order = await self._source_of(rule), asyncio.Lock()
        await first_of(*(self._give_runs(rule, source, in_order) for _ in range(1 if self._turn else RUNS)))

    async def _give_runs(self, rule: R, source: str, in_order: asyncio.Lock) -> None:
        """Give one run after the other. A failure ends the connection, so nothing is released then."""
        wanted = most = self._most if self._turn else RUN_MESSAGES
        while True:
            tx = self._node.transaction()
            try:
                await in_order.acquire()
                await tx.note_bridge(self._table.name, rule.place)
                messages = list(await tx.receive_many(source, wanted))
                first_large = next((at for at, it in enumerate(messages) if it.is_large), len(messages))
                wanted = most if first_large == len(messages) else max(1, first_large)
                if first_large == len(messages):
                    await self._pass_on(tx, rule, messages, in_order)
                    continue
                # No message of a broker has room for a large one, nor the queue of those that were refused.
                is_alone = len(messages) == 1
                await tx.rollback(failed=is_alone, dead=is_alone)
                await self._count({}, {BridgeReason.UNFIT: int(is_alone)})
                in_order.release()
            finally:
                await tx.rollback(failed=False)  # which does nothing after a commit

    async def _source_of(self, rule: R) -> str:
        """The queue to read; a subscription is made, and stays when the bridge has gone."""
        if rule.pattern is None:
            return rule.source
        title = f"bridge-{self._table.name}-{crc32(rule.pattern.encode()):08x}"
        async with self._node.subscribe(rule.pattern, durable=title):
            return f"$sub.{title}" if "/" in rule.pattern else f"topic:{rule.pattern}/{title}"

    async def _pass_on(self, tx: Tx, rule: R, messages: list[Message], in_order: asyncio.Lock) -> None:
        """Give messages to the broker, and commit when it has them."""
        self._waiting += len(messages)
        run = Run()
        plan: list[tuple[Message, P]] = []
        for it in messages:
            try:
                plan.append((it, self._plan(rule, it)))
            except UsageError as error:
                run.refused.append((it, refusal_of(error)))
        async with self._turn or nullcontext():
            await self._publish(run, plan)
            in_order.release()
            while run.left:
                await self._next_answer()
            for it, refusal in run.refused:
                await self._until_done(partial(refuse, tx, self._table, it.body, it.headers, refusal))
            for reason in {reason for _, (reason, _) in run.refused}:
                await tx.note_given(reason, [it.id for it, (why, _) in run.refused if why is reason])
            await tx.note_given("", None)
            await self._commit(tx, run)
            self._waiting -= len(messages)
            refusals = Counter(reason for _, (reason, _) in run.refused)
            await self._count({"given": len(messages) - len(run.refused)}, refusals)

    @abstractmethod
    def _plan(self, rule: R, message: Message) -> P:
        """What the broker gets for a message. Raises UsageError if it can never have it."""

    async def _publish(self, run: Run, plan: Sequence[tuple[Message, P]]) -> None:
        """Send messages to the broker, as many at a time as may be unanswered. Raises BrokerAway."""
        for message, it in plan:
            name = self._name_of(message, it)
            while name in self._unanswered or len(self._unanswered) >= self._most:
                await self._flush()
                await self._next_answer()
            if name is not None:
                self._unanswered[name] = run, message
                run.left += 1
            self._send(name, message, it)
        await self._flush()

    @abstractmethod
    def _name_of(self, message: Message, it: P) -> Hashable:
        """How the answer of the broker will name a message; None if it answers nothing."""

    @abstractmethod
    def _send(self, name: Hashable, message: Message, it: P) -> None:
        """Send a message, now or with the next flush."""

    async def _flush(self) -> None:
        """Send everything, and wait until it has left this process, but for some of it."""

    async def _next_answer(self) -> None:
        """Wait until the broker has answered something."""
        self._answered.clear()
        while True:
            try:
                async with asyncio.timeout(ANSWER_S):
                    await self._answered.wait()
                    break
            except TimeoutError:
                self._hold(f"the broker has confirmed nothing for {ANSWER_S:g} s: it may be low on memory or disk")
        self._release()

    async def _commit(self, tx: Tx, _run: Run) -> None:
        """The broker has answered all messages of a run."""
        await tx.commit()
