"""From the node to a broker, whatever the protocol: messages leave a queue when the broker has them.

A transaction takes them, and commits then. While the disk deletes one batch of a queue, the next is sent, in the order
of the queue. Each fault ends the connection: later messages never overtake one that is sent again.
"""

import asyncio
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Generic, TypeVar
from zlib import crc32

from triack.base.errors import UsageError
from triack.base.reasons import BridgeReason
from triack.bridges.part import Link, Part
from triack.bridges.remembered import Node_, Tx, refuse
from triack.node.config.bridge_rules import GiveRule
from triack.node.config.bridge_table import BridgeTable
from triack.node.control.tasks import first_of
from triack.node.handles.message import Message

BATCHES, BATCH_MESSAGES = 2, 500
"""Of a queue under way at a time, so that the broker has work while the disk has; and what a commit costs little."""

P = TypeVar("P")
"""What the broker gets for a message."""
S = TypeVar("S")
"""What becomes its answer."""
R = TypeVar("R", bound=GiveRule)
Refusal = tuple[BridgeReason, str]
"""Why the broker does not take a message."""


class Giving(Part, Generic[R, P, S]):
    """What goes by one connection.

    Args:
        node: has the queues.
        table: says how many messages may be unacknowledged.
        link: the connection.
        rules: say which queues.
        two_batches: whether two batches of each queue are under way, or one of all queues.
    """

    def __init__(self, node: Node_, table: BridgeTable, link: Link, rules: Sequence[R], *, two_batches: bool) -> None:
        super().__init__(node, table, "gives")
        self._waiting = 0
        self._rules = rules
        self._lost = link.wait_lost
        self._most = table.in_flight
        self._turn = None if two_batches else asyncio.Lock()

    @property
    def waiting(self) -> int:
        """Messages that the broker has not acknowledged."""
        return self._waiting

    async def run(self) -> None:
        """Give until something fails. Raises BrokerAway, and errors of the node."""
        if not self._rules:
            await self._lost()
        await self._begin()
        await first_of(*(self._give(rule) for rule in self._rules))

    async def _begin(self) -> None:
        """Go on from what the node remembers."""

    async def _give(self, rule: R) -> None:
        """Give what is in a queue, or what comes to a subscription."""
        source, in_order = await self._source_of(rule), asyncio.Lock()
        await first_of(*(self._give_batches(rule, source, in_order) for _ in range(1 if self._turn else BATCHES)))

    async def _give_batches(self, rule: R, source: str, in_order: asyncio.Lock) -> None:
        """Give one batch after the other. Whoever fails ends the connection, so nothing is released then."""
        wanted = most = self._most if self._turn else BATCH_MESSAGES
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
        plan: list[tuple[Message, P]] = []
        refused: list[tuple[Message, Refusal]] = []
        for it in messages:
            try:
                plan.append((it, self._plan(rule, it)))
            except UsageError as error:
                refused.append((it, (BridgeReason.UNFIT, str(error))))
        async with self._turn or nullcontext():
            sent = await self._publish(plan)
            in_order.release()
            for (it, _), one in zip(plan, sent, strict=True):
                if (answer := await self._answer_to(one)) is not None:
                    refused.append((it, answer))
            for it, (reason, why) in refused:
                await refuse(tx, self._table, it.body, it.headers, reason, why)
            for reason in {reason for _, (reason, _) in refused}:
                await tx.note_given(reason, [it.id for it, (why, _) in refused if why is reason])
            await tx.note_given("", None)
            given = {it.id for it in messages} - {it.id for it, _ in refused}
            await self._commit(tx, given)
            self._waiting -= len(messages)
            await self._count({"given": len(given)}, Counter(reason for _, (reason, _) in refused))

    @abstractmethod
    def _plan(self, rule: R, message: Message) -> P:
        """What the broker gets for a message. Raises UsageError if it can never have it."""

    @abstractmethod
    async def _publish(self, plan: Sequence[tuple[Message, P]]) -> Sequence[S]:
        """Send messages to the broker, as many at a time as may be unacknowledged. Raises BrokerAway."""

    @abstractmethod
    async def _answer_to(self, sent: S) -> Refusal | None:
        """Wait for the broker's answer to a message: why it does not take it, or None. Raises BrokerAway."""

    async def _commit(self, tx: Tx, _given: set[str]) -> None:
        """The broker has the messages with these ids."""
        await tx.commit()
