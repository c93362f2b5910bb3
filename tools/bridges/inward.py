"""From the broker to the node: what came since the last commit goes to the disk in one, and then the broker hears so.

    killed before the commit           the broker has no acknowledgement, and sends the messages again
    killed between commit and PUBACK   QoS 1: it sends them again, and only a key shows that they are here
    killed between commit and PUBREC   QoS 2: the commit has remembered the packet ids, so they are known
    killed after PUBREL was answered   the ids were forgotten, on the disk, before the answer: the broker may use them

A message for which there is no room stays in hand, and so do those behind it: without acknowledgements the broker sends
no more than ``in_flight`` of QoS 1 and 2; of one that does, nothing more is read. Of QoS 0 the newest are dropped then,
and counted.
"""

import ssl
from array import array
from collections.abc import Sequence
from functools import lru_cache

from triack.base.errors import UsageError
from triack.bridges.messages import from_mqtt
from triack.bridges.packets import NO_PROPERTIES, Arrived, Connection
from triack.bridges.remembered import Node_, recall
from triack.bridges.taking import Address, Taking
from triack.node.config.bridge_table import BridgeTable, KeyRule
from triack.node.shell.outgoing_message import MessageProperties

UNACKNOWLEDGED_MAX = 1_000
"""Messages of QoS 0 in hand, which the broker sends whether there is room or not."""
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
        table = self._table
        host, port, _ = table.address
        await self.link.open(
            host,
            port,
            tls,
            client_id=table.client_id or f"triack-{self._node.name}-{table.name}",
            user=table.user,
            password=password,
            session_s=int(table.session_s),
            in_flight=table.in_flight,
        )
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
        self.link.acknowledge(batch)

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
