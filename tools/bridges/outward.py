"""From the node to the broker: a transaction takes messages of a queue, and commits when the broker has them.

    killed before the commit           the messages are in the queue, and are sent again; at QoS 2 by the same packet
                                       ids, which were remembered before the first sending, so the broker knows them
    killed between commit and PUBREL   the commit has remembered which ids are to be released: that is done first
    the session is lost at the broker  the ids mean nothing any more, and what was not committed is sent again

One batch is under way at a time, in the order of the queue: later messages never overtake one that is sent again.
"""

import asyncio
import json
from itertools import count
from typing import Any
from zlib import crc32

from triack.base.errors import UsageError
from triack.bridges.messages import as_text, to_mqtt
from triack.bridges.packets import BrokerAway, Connection, in_words
from triack.bridges.remembered import Node_, Tx, no_counts, recall, refuse
from triack.node.config.bridge_table import BridgeTable, Give
from triack.node.control.tasks import first_of
from triack.node.handles.message import Message

__all__ = ["Outward"]

EXACTLY_ONCE = 2
"""The QoS."""
RELEASED = ""
"""Stands for a message that the broker has, and this node no more: only its packet id is still to be released."""


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
        self._turn = asyncio.Lock()
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
        source, most = await self._source_of(rule), min(self._table.in_flight, self._link.receive_maximum)
        wanted = most
        while True:
            tx = self._node.transaction()
            try:
                messages = list(await tx.receive_many(source, wanted))
                first_large = next((at for at, it in enumerate(messages) if it.is_large), len(messages))
                wanted = most if first_large == len(messages) else max(1, first_large)
                if first_large == len(messages):
                    async with self._turn:
                        await self._pass_on(tx, rule, messages)
                elif len(messages) == 1:
                    # No packet of MQTT has room for it, nor the queue of those that were refused.
                    await tx.rollback(dead=True)
                    self.counts["refused"] += 1
            finally:
                self.waiting = 0
                await tx.rollback(failed=False)  # which does nothing after a commit

    async def _source_of(self, rule: Give) -> str:
        """The queue to read; a subscription is made, and stays when the bridge has gone."""
        if rule.pattern is None:
            return rule.source
        title = f"bridge-{self._table.name}-{crc32(rule.pattern.encode()):08x}"
        async with self._node.subscribe(rule.pattern, durable=title):
            return f"$sub.{title}" if "/" in rule.pattern else f"topic:{rule.pattern}/{title}"

    async def _pass_on(self, tx: Tx, rule: Give, messages: list[Message]) -> None:
        """Give messages to the broker, and commit when it has them."""
        self.waiting = len(messages)
        refused: list[tuple[Message, str]] = []
        plan: list[tuple[Message, str, dict[str, Any]]] = []
        for it in messages:
            try:
                plan.append((it, as_text(rule.topic(it.headers, it.topic)), to_mqtt(it)))
            except UsageError as error:
                refused.append((it, str(error)))
        packet_ids = await self._publish(plan)
        taken: list[int] = []
        for (it, topic, _), packet_id in zip(plan, packet_ids, strict=True):
            answer = await self._link.answer_to(packet_id) if packet_id else None
            if answer is not None and answer.is_for_now:
                raise BrokerAway(f"the broker takes nothing more for {topic}: {in_words(answer.code)}")
            if answer is None or not answer.is_refusal:
                taken.append(packet_id)
            else:
                refused.append((it, f"the broker refuses it for {topic}: {in_words(answer.code)}"))
                self._ids.pop(packet_id, None)
        for it, why in refused:
            await refuse(tx, self._table.name, it.body, it.headers, why)
        if self._table.qos == EXACTLY_ONCE:
            self._ids |= dict.fromkeys(taken, RELEASED)
            tx.remember(self._name, self._packed())
        await tx.commit()
        self.counts["given"] += len(taken)
        self.counts["refused"] += len(refused)
        if self._table.qos == EXACTLY_ONCE:
            await self._finish(taken)

    async def _publish(self, plan: list[tuple[Message, str, dict[str, Any]]]) -> list[int]:
        """Send messages. Returns the packet id of each; 0 at QoS 0, which has none."""
        qos, known = self._table.qos, {message: packet_id for packet_id, message in self._ids.items()}
        free = (packet_id for packet_id in count(1) if packet_id not in self._ids)
        packet_ids = [known.get(it.id) or next(free) if qos else 0 for it, _, _ in plan]
        if qos == EXACTLY_ONCE and plan:
            self._ids |= {packet_id: it.id for packet_id, (it, _, _) in zip(packet_ids, plan, strict=True)}
            await self._note()
        for packet_id, (it, topic, properties) in zip(packet_ids, plan, strict=True):
            again = it.id in known
            self._link.publish(packet_id, topic, it.body, qos, retain=self._table.retain, again=again, **properties)
        await self._link.drain()
        return packet_ids

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
