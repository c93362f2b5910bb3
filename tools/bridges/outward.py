"""From the node to the broker: a transaction takes messages of a queue, and commits when the broker has them.

    killed before the commit           the messages are in the queue, and are sent again; at QoS 2 by the same packet
                                       ids, which were remembered before the first sending, so the broker knows them
    killed between commit and PUBREL   the commit has remembered which ids are to be released: that is done first
    the session is lost at the broker  the ids mean nothing any more, and what was not committed is sent again

At QoS 0 and 1, two batches of a queue are under way: while the disk deletes one, the next is sent. At QoS 2 it is one
of all queues, as the disk notes before it what the packet ids stand for. Messages are sent in the order of their queue,
and each fault ends the connection: later ones never overtake one that is sent again.
"""

import asyncio
import json
from asyncio import Future
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count
from typing import Any
from zlib import crc32

from triack.base.errors import UsageError
from triack.bridges.messages import as_text, to_mqtt
from triack.bridges.packets import Answer, BrokerAway, Connection, in_words
from triack.bridges.remembered import Node_, Tx, no_counts, recall, refuse
from triack.node.config.bridge_table import BridgeTable, Give
from triack.node.control.tasks import first_of
from triack.node.handles.message import Message

__all__ = ["Outward"]

EXACTLY_ONCE = 2
"""The QoS."""
BATCHES, BATCH_MESSAGES = 2, 500
"""Of a queue under way at a time, so that the broker has work while the disk has; and what a commit costs little."""
RELEASED = ""
"""Stands for a message that the broker has, and this node no more: only its packet id is still to be released."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """Messages that were sent.

    Attributes:
        sent: each with its topic, its packet id, which is 0 at QoS 0, and what becomes the broker's answer.
        refused: those that were not, with the reason.
    """

    sent: list[tuple[Message, str, int, Future[Answer] | None]]
    refused: list[tuple[Message, str]]


class Outward:
    """What goes by one connection.

    Args:
        node: has the queues.
        table: says which of them.
        link: the connection.

    Attributes:
        counts: as in ``BridgeStats``.
        waits_for: why nothing is given; None.
        waiting: messages that the broker has not acknowledged.
    """

    waits_for: str | None = None

    def __init__(self, node: Node_, table: BridgeTable, link: Connection) -> None:
        self.counts = no_counts()
        self.waiting = 0
        self._node = node
        self._table = table
        self._link = link
        self._name = f"bridge:{table.name}:out"
        self._in_flight = min(table.in_flight, link.receive_maximum)
        # At QoS 2, ``in_flight`` messages are under way until their ids are released.
        self._turn = asyncio.Lock() if table.qos == EXACTLY_ONCE else None
        # The messages that packet ids stand for at the broker.
        self._ids: dict[int, str] = {}

    async def run(self) -> None:
        """Give until something fails. Raises BrokerAway, and errors of the node."""
        rules = self._table.giving
        if not rules:
            await self._link.wait_lost()
        known: dict[str, str] = json.loads(await recall(self._node, self._name) or b"{}")
        if self._link.session_present:
            self._ids = {int(packet_id): message for packet_id, message in known.items()}
            await self._finish([packet_id for packet_id, message in self._ids.items() if message == RELEASED])
        elif known:
            await self._note()
        await first_of(*(self._give(rule) for rule in rules))

    async def _give(self, rule: Give) -> None:
        """Give what is in a queue, or what comes to a subscription."""
        source, in_order = await self._source_of(rule), asyncio.Lock()
        await first_of(*(self._give_batches(rule, source, in_order) for _ in range(1 if self._turn else BATCHES)))

    async def _give_batches(self, rule: Give, source: str, in_order: asyncio.Lock) -> None:
        """Give one batch after the other. Whoever fails ends the connection, so nothing is released then."""
        wanted = most = self._in_flight if self._turn else BATCH_MESSAGES
        while True:
            tx = self._node.transaction()
            try:
                await in_order.acquire()
                messages = list(await tx.receive_many(source, wanted))
                first_large = next((at for at, it in enumerate(messages) if it.is_large), len(messages))
                wanted = most if first_large == len(messages) else max(1, first_large)
                if first_large == len(messages):
                    await self._pass_on(tx, rule, messages, in_order)
                    continue
                # No packet of MQTT has room for a large one, nor the queue of those that were refused.
                is_alone = len(messages) == 1
                await tx.rollback(failed=is_alone, dead=is_alone)
                self.counts["refused"] += is_alone
                in_order.release()
            finally:
                await tx.rollback(failed=False)  # which does nothing after a commit

    async def _source_of(self, rule: Give) -> str:
        """The queue to read; a subscription is made, and stays when the bridge has gone."""
        if rule.pattern is None:
            return rule.source
        title = f"bridge-{self._table.name}-{crc32(rule.pattern.encode()):08x}"
        async with self._node.subscribe(rule.pattern, durable=title):
            return f"$sub.{title}" if "/" in rule.pattern else f"topic:{rule.pattern}/{title}"

    async def _pass_on(self, tx: Tx, rule: Give, messages: list[Message], in_order: asyncio.Lock) -> None:
        """Give messages to the broker, and commit when it has them."""
        self.waiting += len(messages)
        async with self._turn or nullcontext():
            batch = await self._publish(rule, messages)
            in_order.release()
            taken = [packet_id async for packet_id in self._answered(batch)]
            for it, why in batch.refused:
                await refuse(tx, self._table.name, it.body, it.headers, why)
            if self._turn:
                self._ids |= dict.fromkeys(taken, RELEASED)
                tx.remember(self._name, self._packed())
            await tx.commit()
            self.waiting -= len(messages)
            self.counts["given"] += len(taken)
            self.counts["refused"] += len(batch.refused)
            if self._turn:
                await self._finish(taken)

    async def _publish(self, rule: Give, messages: list[Message]) -> _Batch:
        """Send messages, as many at a time as may be unacknowledged."""
        plan, batch = list[tuple[Message, str, dict[str, Any]]](), _Batch([], [])
        for it in messages:
            try:
                plan.append((it, as_text(rule.topic(it.headers, it.topic)), to_mqtt(it)))
            except UsageError as error:
                batch.refused.append((it, str(error)))
        known = {message: packet_id for packet_id, message in self._ids.items()}
        chosen: dict[str, int] = {}
        if self._turn and plan:
            free = (packet_id for packet_id in count(1) if packet_id not in self._ids)
            chosen = {it.id: known.get(it.id) or next(free) for it, _, _ in plan}
            self._ids |= {packet_id: message for message, packet_id in chosen.items()}
            await self._note()
        qos, retain = self._table.qos, self._table.retain
        for it, topic, properties in plan:
            await self._link.room(self._in_flight)
            packet_id = chosen.get(it.id) or (self._link.free_id() if qos else 0)
            again = it.id in known
            answer = self._link.publish(packet_id, topic, it.body, qos, retain=retain, again=again, **properties)
            batch.sent.append((it, topic, packet_id, answer))
        await self._link.drain()
        return batch

    async def _answered(self, batch: _Batch) -> AsyncIterator[int]:
        """The packet ids of the messages that the broker has; those that it will never take are refused."""
        for it, topic, packet_id, answering in batch.sent:
            answer = await self._link.answer_to(answering) if answering else None
            if answer is not None and answer.is_for_now:
                raise BrokerAway(f"the broker takes nothing more for {topic}: {in_words(answer.code)}")
            if answer is None or not answer.is_refusal:
                yield packet_id
            else:
                batch.refused.append((it, f"the broker refuses it for {topic}: {in_words(answer.code)}"))
                self._ids.pop(packet_id, None)

    async def _finish(self, packet_ids: list[int]) -> None:
        """Release packet ids of messages that this node has no more; the broker then passes them on."""
        for packet_id in packet_ids:
            self._link.release(packet_id)
        self._link.flush()
        for packet_id in packet_ids:
            await self._link.completed(packet_id)
            del self._ids[packet_id]

    async def _note(self) -> None:
        """Remember the packet ids."""
        async with self._node.transaction() as tx:
            tx.remember(self._name, self._packed())

    def _packed(self) -> bytes | None:
        return json.dumps(self._ids).encode() if self._ids else None
