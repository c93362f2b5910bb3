"""Both directions between a node and a broker of MQTT: what ``Taking`` and ``Giving`` do, with packet ids.

What came since the last commit goes to the disk in one, and then the broker hears so:

    killed before the commit           the broker has no acknowledgement, and sends the messages again
    killed between commit and PUBACK   QoS 1: it sends them again, and only a key shows that they are here
    killed between commit and PUBREC   QoS 2: the commit has remembered the packet ids, so they are known
    killed after PUBREL was answered   the ids were forgotten, on the disk, before the answer: the broker may use them

A message for which there is no room keeps its place, and those behind it wait, too: without acknowledgements the broker
sends no more than ``in_flight`` of QoS 1 and 2; of one that does, nothing more is read. Of QoS 0 the newest are dropped
then, and counted.

What goes to the broker leaves its queue when the broker has it:

    killed before the commit           the messages are in the queue, and are sent again; at QoS 2 by the same packet
                                       ids, which were remembered before the first sending, so the broker knows them
    killed between commit and PUBREL   the commit has remembered which ids are to be released: that is done first
    the session is lost at the broker  the ids mean nothing any more, and what was not committed is sent again
"""

import json
import ssl
from array import array
from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import count

from triack.base.errors import UsageError
from triack.bridges.giving import Giving, Run
from triack.bridges.mqtt_link import LAST_ID, NO_PROPERTIES, Arrived, Connection
from triack.bridges.mqtt_messages import as_text, from_mqtt, to_mqtt
from triack.bridges.part import Node_, TooLarge, Tx, recall
from triack.bridges.taking import Address, Taking
from triack.node.config.bridge_table import BridgeTable, Give, KeyRule
from triack.node.handles.message import Message
from triack.node.shell.outgoing_message import MessageProperties

UNACKNOWLEDGED_MAX = 1_000
"""Messages of QoS 0 that wait for the disk: the broker sends them whether there is room or not."""
TOPICS_MAX = 1_000
"""Whose destinations are kept: sensors speak again and again of the same."""


class Inward(Taking[Arrived]):
    """What comes by one connection; see ``Taking``."""

    link: Connection

    def __init__(self, node: Node_, table: BridgeTable) -> None:
        super().__init__(node, table)
        self.link = Connection(self.handle_arrived)
        self._rules = table.taking
        self._address = lru_cache(TOPICS_MAX)(self._find_address)
        self._plain = lru_cache(TOPICS_MAX)(lambda topic: from_mqtt(Arrived(0, topic=topic)))
        self._key = KeyRule(table.key)
        self._unacknowledged = 0
        # With each message its release may come. mosquitto 2.0 counts one of QoS 2 only until its PUBREC.
        self._most = 2 * table.in_flight + UNACKNOWLEDGED_MAX
        self._name = f"bridge:{table.name}:in"
        # Packet ids of messages of QoS 2 that are on the disk, until the broker releases them.
        self._held: set[int] = set()

    def handle_arrived(self, came: list[Arrived]) -> None:
        """Messages, and releases of such."""
        new, room = _unacknowledged_in(came), max(0, UNACKNOWLEDGED_MAX - self._unacknowledged)
        if new > room:
            self.counts["dropped"] += new - room
            left = iter(range(room))
            came = [it for it in came if it.qos or next(left, None) is not None]
        self._unacknowledged += min(new, room)
        super().handle_arrived(came)

    @property
    def _is_full(self) -> bool:
        return super()._is_full or len(self._pending) > self._most

    async def run(self) -> None:
        """See ``Taking``."""
        try:
            await super().run()
        finally:  # the broker does not send those of QoS 0 again
            self.counts["dropped"] += self._unacknowledged

    async def open(self, tls: ssl.SSLContext | None, password: str | None) -> None:
        """Connect, and remember what is here. Raises BrokerAway, and errors of the node."""
        await super().open(tls, password)
        self._held = set(array("H", await recall(self._node, self._name) or b""))
        if self._held and not self.link.session_present:
            # Before the subscription: a new session has other messages by the same ids.
            await self._until_done(lambda: self._commit([], set()))

    async def subscribe(self) -> None:
        """Subscribe, while ``run`` takes what the session has: all of it may come before the answer."""
        if self._rules:
            await self.link.subscribe([rule.filter for rule in self._rules], self._table.qos)

    async def _acknowledge(self, batch: Sequence[Arrived]) -> None:
        self._unacknowledged -= _unacknowledged_in(batch)
        await self.link.acknowledge(batch)

    async def _commit(self, batch: Sequence[Arrived], held: set[int] | None = None) -> None:
        held = set(self._held) if held is None else held
        new = [it for it in batch if it.qos < 2 or _is_new(it, held)]  # noqa: PLR2004 - QoS
        async with self._node.transaction() as tx:
            refused = await self._send(tx, new)
            if held != self._held:
                tx.remember(self._name, array("H", sorted(held)).tobytes() or None)
            await tx.commit()
        self._held = held
        self._known = self._messages_in(batch) - len(new)
        taken = len(new) - refused.total()
        await self._count({"taken": taken, "repeated": sum(it.again for it in new)}, refused)

    def _messages_in(self, batch: Sequence[Arrived]) -> int:
        return sum(not it.released for it in batch)

    def _address_of(self, it: Arrived) -> Address:
        return self._address(it.topic)

    def _key_of(self, it: Arrived) -> str | None:
        return self._key.key(it.topic, it.payload, it.properties.get("user_property", ())) if self._table.key else None

    def _properties_of(self, it: Arrived) -> MessageProperties:
        is_plain = it.properties is NO_PROPERTIES and not it.retain and not it.again
        return self._plain(it.topic) if is_plain else from_mqtt(it)

    def _origin_of(self, it: Arrived) -> dict[str, str]:
        return {"mqtt-topic": it.topic}

    def _find_address(self, topic: str) -> Address:
        """Where a message of a topic goes, and by which filter. Raises UsageError when that is nowhere."""
        for rule in self._rules:
            if (to := rule.destination(topic)) is not None:
                return Address(to, rule.filter)
        raise UsageError(f"no rule is for topic {topic!r}, to which the session at the broker still subscribes")


def _is_new(it: Arrived, held: set[int]) -> bool:
    """Whether it is a message to be sent; notes the packet ids of QoS 2 that are here, or are free again."""
    if it.released:
        held.discard(it.packet_id)
        return False
    if it.packet_id in held and it.again:
        return False  # it is here, and the broker has not heard so
    held.add(it.packet_id)
    return True


def _unacknowledged_in(messages: Sequence[Arrived]) -> int:
    return sum([not it.qos for it in messages])


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

    link: Connection

    def __init__(self, node: Node_, table: BridgeTable, link: Connection) -> None:
        super().__init__(node, table, table.giving, two_runs=table.qos < EXACTLY_ONCE)
        self.link = link
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
        self._most = min(self._table.in_flight, self.link.receive_maximum)
        known: dict[str, str] = json.loads(await recall(self._node, self._name) or b"{}")
        if self.link.session_present:
            self._ids = {int(packet_id): message for packet_id, message in known.items()}
            await self._finish([packet_id for packet_id, message in self._ids.items() if message == RELEASED])
        elif known:
            await self._note()

    def _plan(self, rule: Give, message: Message) -> Plan:
        topic, properties = self._topic(rule.topic(message.headers, message.topic)), to_mqtt(message)
        size, most = len(topic) + len(properties) + len(message.body) + REST_BYTES, self.link.packet_bytes_max
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
        self.link.publish(packet_id, topic, properties, message.body, table.qos, retain=table.retain, again=again)

    async def _flush(self) -> None:
        await self.link.drain()

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
            self.link.release(packet_id)
        self.link.flush()
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
