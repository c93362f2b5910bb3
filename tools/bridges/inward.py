"""From the broker to the node: what came since the last commit goes to the disk in one, and then the broker hears so.

    killed before the commit           the broker has no acknowledgement, and sends the messages again
    killed between commit and PUBACK   QoS 1: it sends them again, and only a key shows that they are here
    killed between commit and PUBREC   QoS 2: the commit has remembered the packet ids, so they are known
    killed after PUBREL was answered   the ids were forgotten, on the disk, before the answer: the broker may use them

A message for which there is no room stays in hand, and so do those behind it: without acknowledgements the broker sends
no more than ``in_flight`` of QoS 1 and 2; of one that does, nothing more is read. Of QoS 0 the newest are dropped then,
and counted.
"""

import asyncio
from array import array
from collections import deque
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from triack.base.errors import (
    AddressError,
    ConnectionLost,
    NodeClosed,
    NotLoopback,
    QueueNotFound,
    StoreFailed,
    TriackError,
    UsageError,
)
from triack.bridges.messages import from_mqtt
from triack.bridges.packets import Arrived, Connection
from triack.bridges.remembered import Node_, Tx, no_counts, recall, refuse
from triack.node.config.bridge_table import BridgeTable, KeyRule
from triack.node.files import operator_log
from triack.node.shell.outgoing_message import MessageProperties

__all__ = ["Inward"]

UNACKNOWLEDGED_MAX = 1_000
"""Messages of QoS 0 in hand, which the broker sends whether there is room or not."""
BATCH_MESSAGES = 1_000
BATCH_BYTES = 1024 * 1024
"""Of one commit: enough that its cost does not count, and small beside the memory of a node."""
TOPICS_MAX = 1_000
"""Whose destinations are kept: sensors speak again and again of the same."""
ROOM_S = 1.0
"""How long a commit waits for room before the operator hears of it."""
AGAIN_S = 0.5, 10.0
"""The first and the longest pause before a commit that failed is tried again."""
_OF_NODE = (NodeClosed, StoreFailed, ConnectionLost)
"""What no message is at fault for, and no room."""
_HOLDS = (AddressError, QueueNotFound, NotLoopback)
"""What may be over later; any other usage error is the fault of the message."""


class _Address(NamedTuple):
    """What messages that are sent as a run have in common: where they go, or why they go nowhere, and all but keys."""

    to: str
    why: str
    properties: MessageProperties
    has_keys: bool


class Inward:
    """What comes by one connection.

    Args:
        node: takes it.
        table: says where it goes.

    Attributes:
        link: the connection.
        counts: as in ``BridgeStats``.
        waits_for: why nothing is taken; None while it is.
    """

    def __init__(self, node: Node_, table: BridgeTable) -> None:
        self.link = Connection(self.handle_arrived)
        self.counts = no_counts()
        self.waits_for: str | None = None
        self._node = node
        self._table = table
        self._rules = table.taking
        self._destination = lru_cache(TOPICS_MAX)(self._find_destination)
        self._key = KeyRule(table.key)
        self._pending: deque[Arrived] = deque()
        self._in_hand = 0
        self._unacknowledged = 0
        self._wake = asyncio.Event()
        # With each message its release may come. mosquitto 2.0 counts one of QoS 2 only until its PUBREC.
        self._most = 2 * table.in_flight + UNACKNOWLEDGED_MAX
        self._holds_back = False
        self._name = f"bridge:{table.name}:in"
        # Packet ids of messages of QoS 2 that are on the disk, until the broker releases them.
        self._held: set[int] = set()

    @property
    def waiting(self) -> int:
        """Messages that came and are not on the disk yet."""
        return len(self._pending) + self._in_hand

    def handle_arrived(self, it: Arrived) -> None:
        """A message, or the release of one."""
        if it.qos == 0:
            if self._unacknowledged >= UNACKNOWLEDGED_MAX:
                self.counts["dropped"] += 1
                return
            self._unacknowledged += 1
        self._pending.append(it)
        self._wake.set()
        if len(self._pending) > self._most and not self._holds_back:
            self._holds_back = True
            self.link.hold_back(hold=True)

    async def begin(self) -> None:
        """Remember what is here. Raises BrokerAway, and errors of the node."""
        self._held = set(array("H", await recall(self._node, self._name) or b""))
        if self._held and not self.link.session_present:
            # Before the subscription: a new session has other messages by the same ids.
            await self._take([], forget=True)

    async def subscribe(self) -> None:
        """Subscribe, while ``run`` takes what the session has: all of it may come before the answer."""
        if self._rules:
            await self.link.subscribe([rule.filter for rule in self._rules], self._table.qos)

    async def run(self) -> None:
        """Take what comes, until something fails. Raises what keeps the node from taking anything."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while batch := self._next_batch():
                await self._take(batch)

    def _next_batch(self) -> list[Arrived]:
        batch: list[Arrived] = []
        size_bytes = 0
        while self._pending and len(batch) < BATCH_MESSAGES and size_bytes < BATCH_BYTES:
            batch.append(self._pending.popleft())
            size_bytes += len(batch[-1].payload)
        if self._holds_back and not self._pending:
            self._holds_back = False
            self.link.hold_back(hold=False)
        return batch

    async def _take(self, batch: list[Arrived], *, forget: bool = False) -> None:
        """Bring messages to the disk, however long there is no room for them, and acknowledge them."""
        self._in_hand, pause_s = len(batch), AGAIN_S[0]
        while True:
            try:
                await self._commit(batch, set() if forget else set(self._held))
                break
            except _OF_NODE:
                raise
            except TriackError as error:
                self._hold(str(error))
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, AGAIN_S[1])
        self._release()
        self._in_hand = 0
        self._unacknowledged -= sum(it.qos == 0 for it in batch)
        for it in batch:
            self.link.acknowledge(it)
        self.link.flush()

    async def _commit(self, batch: list[Arrived], held: set[int]) -> None:
        new = [it for it in batch if _is_new(it, held)]
        taken = 0
        async with self._node.transaction() as tx:
            for address, run in groupby(map(self._addressed, new), itemgetter(0)):
                taken += await self._send(tx, address, [content for _, *content in run])
            if held != self._held:
                tx.remember(self._name, array("H", sorted(held)).tobytes() or None)
            await tx.commit()
        self._held = held
        self.counts["taken"] += taken
        self.counts["refused"] += len(new) - taken
        self.counts["repeated"] += sum(it.again for it in new)

    def _addressed(self, it: Arrived) -> tuple[_Address, bytes, str | None]:
        """A message as this node has it: its address, its body, and its key."""
        properties, key = from_mqtt(it), None
        try:
            to, why = self._destination(it.topic), ""
            key = self._key.key(it.topic, it.payload, it.properties.get("user_property", ()))
        except UsageError as error:
            to, why = "", str(error)
        return _Address(to, why, properties, key is not None), it.payload, key

    async def _send(self, tx: Tx, address: "_Address", run: list[Any]) -> int:
        """Send messages with one address with a transaction, in order. Returns how many were not refused."""
        to, why, properties, has_keys = address
        bodies, keys = [body for body, _ in run], [key for _, key in run]
        if why:
            for body in bodies:
                await refuse(tx, self._table.name, body, properties["headers"] or {}, why)
            return 0
        try:
            if len(run) == 1:
                await tx.send(to, bodies[0], timeout=ROOM_S, **{**properties, "key": keys[0]})
            else:
                await tx.send_many(to, bodies, timeout=ROOM_S, keys=keys if has_keys else None, **properties)
        except _HOLDS:
            raise
        except UsageError as error:
            if len(run) > 1:  # which of them it is
                return sum([await self._send(tx, address, [one]) for one in run])
            topic = (properties["headers"] or {})["mqtt-topic"]
            await refuse(tx, self._table.name, bodies[0], {"mqtt-topic": topic}, str(error))
            return 0
        return len(run)

    def _find_destination(self, topic: str) -> str:
        """Where a message of a topic goes. Raises UsageError when that is nowhere."""
        for rule in self._rules:
            if (to := rule.destination(topic)) is not None:
                return to
        raise UsageError(f"no rule is for topic {topic!r}, to which the session at the broker still subscribes")

    def _hold(self, why: str) -> None:
        if self.waits_for != why:
            self.waits_for = why
            operator_log.warning(f"bridge {self._table.name}: takes nothing: {why}", bridge=self._table.name)

    def _release(self) -> None:
        if self.waits_for is not None:
            self.waits_for = None
            operator_log.info(f"bridge {self._table.name}: takes messages again", bridge=self._table.name)


def _is_new(it: Arrived, held: set[int]) -> bool:
    """Whether it is a message to be sent; notes the packet ids of QoS 2 that are here, or are free again."""
    if it.released:
        held.discard(it.packet_id)
        return False
    if it.qos > 1:
        if it.packet_id in held and it.again:
            return False  # it is here, and the broker has not heard so
        held.add(it.packet_id)
    return True
