"""From the node to a broker of MQTT: what ``Giving`` does, with packet ids.

killed before the commit           the messages are in the queue, and are sent again; at QoS 2 by the same packet
                                   ids, which were remembered before the first sending, so the broker knows them
killed between commit and PUBREL   the commit has remembered which ids are to be released: that is done first
the session is lost at the broker  the ids mean nothing any more, and what was not committed is sent again
"""

import asyncio
import json
from collections.abc import Sequence
from itertools import count
from typing import Any

from triack.base.reasons import BridgeReason
from triack.bridges.giving import Giving, Refusal
from triack.bridges.messages import as_text, to_mqtt
from triack.bridges.packets import Answer, Connection, in_words
from triack.bridges.remembered import BrokerAway, Node_, Tx, recall
from triack.node.config.bridge_table import BridgeTable, Give
from triack.node.handles.message import Message

EXACTLY_ONCE = 2
"""The QoS."""
RELEASED = ""
"""Stands for a message that the broker has, and this node no more: only its packet id is still to be released."""


Plan = tuple[str, dict[str, Any]]
"""A topic, and properties as gmqtt names them."""
Sent = tuple[str, int, asyncio.Future[Answer] | None]
"""A topic, the packet id, which is 0 at QoS 0, and what becomes the broker's answer."""


class Outward(Giving[Give, Plan, Sent]):
    """What goes by one connection; see ``Giving``.

    At QoS 2 one batch of all queues is under way, as the disk notes before it what the packet ids stand for. Then
    ``in_flight`` messages are under way until their ids are released.
    """

    def __init__(self, node: Node_, table: BridgeTable, link: Connection) -> None:
        super().__init__(node, table, link, table.giving, two_batches=table.qos < EXACTLY_ONCE)
        self._link = link
        self._name = f"bridge:{table.name}:out"
        # The messages that packet ids stand for at the broker.
        self._ids: dict[int, str] = {}

    async def _begin(self) -> None:
        self._most = min(self._table.in_flight, self._link.receive_maximum)
        known: dict[str, str] = json.loads(await recall(self._node, self._name) or b"{}")
        if self._link.session_present:
            self._ids = {int(packet_id): message for packet_id, message in known.items()}
            await self._finish([packet_id for packet_id, message in self._ids.items() if message == RELEASED])
        elif known:
            await self._note()

    def _plan(self, rule: Give, message: Message) -> Plan:
        return as_text(rule.topic(message.headers, message.topic)), to_mqtt(message)

    async def _publish(self, plan: Sequence[tuple[Message, Plan]]) -> list[Sent]:
        known = {message: packet_id for packet_id, message in self._ids.items()}
        chosen: dict[str, int] = {}
        qos, retain, sent = self._table.qos, self._table.retain, list[Sent]()
        if qos == EXACTLY_ONCE and plan:
            free = (packet_id for packet_id in count(1) if packet_id not in self._ids)
            chosen = {it.id: known.get(it.id) or next(free) for it, _ in plan}
            self._ids |= {packet_id: message for message, packet_id in chosen.items()}
            await self._note()
        for it, (topic, properties) in plan:
            await self._link.room(self._most)
            packet_id = chosen.get(it.id) or (self._link.free_id() if qos else 0)
            again = it.id in known
            answer = self._link.publish(packet_id, topic, it.body, qos, retain=retain, again=again, **properties)
            sent.append((topic, packet_id, answer))
        await self._link.drain()
        return sent

    async def _answer_to(self, sent: Sent) -> Refusal | None:
        topic, packet_id, answering = sent
        answer = await self._link.answer_to(answering) if answering else None
        if answer is not None and answer.is_for_now:
            raise BrokerAway(f"the broker takes nothing more for {topic}: {in_words(answer.code)}")
        if answer is None or not answer.is_refusal:
            return None
        self._ids.pop(packet_id, None)
        return BridgeReason.REJECTED, f"the broker refuses it for {topic}: {in_words(answer.code)}"

    async def _commit(self, tx: Tx, given: set[str]) -> None:
        if self._table.qos < EXACTLY_ONCE:
            await tx.commit()
            return
        taken = [packet_id for packet_id, message in self._ids.items() if message in given]
        self._ids |= dict.fromkeys(taken, RELEASED)
        tx.remember(self._name, self._packed())
        await tx.commit()
        await self._finish(taken)

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
