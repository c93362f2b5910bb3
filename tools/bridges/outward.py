"""From the node to a broker of MQTT: what ``Giving`` does, with packet ids.

killed before the commit           the messages are in the queue, and are sent again; at QoS 2 by the same packet
                                   ids, which were remembered before the first sending, so the broker knows them
killed between commit and PUBREL   the commit has remembered which ids are to be released: that is done first
the session is lost at the broker  the ids mean nothing any more, and what was not committed is sent again
"""

import json
from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import count

from triack.bridges.giving import Giving, Run
from triack.bridges.messages import as_text, to_mqtt
from triack.bridges.packets import LAST_ID, Connection
from triack.bridges.remembered import Node_, TooLarge, Tx, recall
from triack.node.config.bridge_table import BridgeTable, Give
from triack.node.handles.message import Message

AT_LEAST_ONCE, EXACTLY_ONCE = 1, 2
"""QoS."""
RELEASED = ""
"""Stands for a message that the broker has, and this node no more: only its packet id is still to be released."""
REST_BYTES = 7
"""Of the packet of a message: its first byte, its length, and its packet id."""
TOPICS_MAX = 1_000
"""That are kept in bytes."""

Plan = tuple[bytes, bytes]
"""A topic, and properties, as the broker gets them."""


class Outward(Giving[Give, Plan]):
    """What goes by one connection; see ``Giving``.

    At QoS 2 one run of all queues is under way, as the disk notes before it what the packet ids stand for. Then
    ``in_flight`` messages are under way until their ids are released.
    """

    def __init__(self, node: Node_, table: BridgeTable, link: Connection) -> None:
        super().__init__(node, table, link, table.giving, two_runs=table.qos < EXACTLY_ONCE)
        self._link = link
        link.answered, link.completed = self.handle_answer, self._handle_completed
        self._topic = lru_cache(TOPICS_MAX)(_packed_topic)
        self._name = f"bridge:{table.name}:out"
        self._last_id = 0
        # At QoS 2 the messages that packet ids stand for at the broker; the packet ids of the run under way, those that
        # the broker may have had before, and those that it has yet to release.
        self._ids: dict[int, str] = {}
        self._chosen: dict[str, int] = {}
        self._again: set[int] = set()
        self._releasing: set[int] = set()

    async def _begin(self) -> None:
        self._most = min(self._table.in_flight, self._link.receive_maximum)
        known: dict[str, str] = json.loads(await recall(self._node, self._name) or b"{}")
        if self._link.session_present:
            self._ids = {int(packet_id): message for packet_id, message in known.items()}
            await self._finish([packet_id for packet_id, message in self._ids.items() if message == RELEASED])
        elif known:
            await self._note()

    def _plan(self, rule: Give, message: Message) -> Plan:
        topic, properties = self._topic(rule.topic(message.headers, message.topic)), to_mqtt(message)
        size, most = len(topic) + len(properties) + len(message.body) + REST_BYTES, self._link.packet_bytes_max
        if most is not None and size > most:
            raise TooLarge(f"a packet of {size} bytes, and the broker takes {most}")
        return topic, properties

    async def _publish(self, run: Run, plan: Sequence[tuple[Message, Plan]]) -> None:
        if self._table.qos == EXACTLY_ONCE and plan:
            known = {message: packet_id for packet_id, message in self._ids.items()}
            free = (packet_id for packet_id in count(1) if packet_id not in self._ids)
            self._again = set(self._ids)
            self._chosen = {it.id: known.get(it.id) or next(free) for it, _ in plan}
            self._ids |= {packet_id: message for message, packet_id in self._chosen.items()}
            await self._note()
        await super()._publish(run, plan)

    def _name_of(self, message: Message, _it: Plan) -> int | None:
        if self._table.qos != AT_LEAST_ONCE:
            return self._chosen[message.id] if self._table.qos else None
        self._last_id = self._last_id % LAST_ID + 1
        while self._last_id in self._unanswered:
            self._last_id = self._last_id % LAST_ID + 1
        return self._last_id

    def _send(self, name: Hashable, message: Message, it: Plan) -> None:
        packet_id = name if isinstance(name, int) else 0
        table, (topic, properties) = self._table, it
        again = packet_id in self._again
        self._link.publish(packet_id, topic, properties, message.body, table.qos, retain=table.retain, again=again)

    async def _flush(self) -> None:
        await self._link.drain()

    async def _commit(self, tx: Tx, run: Run) -> None:
        if self._table.qos < EXACTLY_ONCE:
            await tx.commit()
            return
        refused = {it.id for it, _ in run.refused}
        self._ids = {packet_id: message for packet_id, message in self._ids.items() if message not in refused}
        given = [packet_id for packet_id in self._chosen.values() if packet_id in self._ids]
        self._ids |= dict.fromkeys(given, RELEASED)
        tx.remember(self._name, self._packed())
        await tx.commit()
        await self._finish(given)

    async def _finish(self, packet_ids: Sequence[int]) -> None:
        """Release packet ids of messages that this node has no more; the broker then passes them on."""
        self._releasing = set(packet_ids)
        for packet_id in packet_ids:
            self._link.release(packet_id)
        self._link.flush()
        while self._releasing:
            await self._next_answer()
        for packet_id in packet_ids:
            del self._ids[packet_id]

    def _handle_completed(self, packet_id: int) -> None:
        self._releasing.discard(packet_id)
        self._answered.set()

    async def _note(self) -> None:
        """Remember the packet ids."""
        async with self._node.transaction() as tx:
            tx.remember(self._name, self._packed())

    def _packed(self) -> bytes | None:
        return json.dumps(self._ids).encode() if self._ids else None


def _packed_topic(topic: str) -> bytes:
    text = as_text(topic).encode()
    return len(text).to_bytes(2) + text
