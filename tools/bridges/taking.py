"""From a broker to the node, whatever the protocol: what came since the last commit goes to the disk in one commit.

The broker hears of messages when their commit has returned. Messages for which there is no room stay here, and so do
those behind them; without acknowledgements the broker then sends no more than ``in_flight``. Of large ones that may be
too many: while BYTES_MAX wait here nothing more is read. As answers to what is given are not read then, either, the
connection ends when that lasts; what was not acknowledged comes again with the next.
"""

import asyncio
import ssl
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Generic, NamedTuple, Protocol, TypeVar

from triack.base.errors import (
    AddressError,
    NotLoopback,
    QueueNotFound,
    UsageError,
)
from triack.base.reasons import BridgeReason
from triack.bridges.part import BYTES_MAX, ROOM_S, Node_, Part, Refusal, TooLarge, Tx, refusal_of, refuse
from triack.node.config.bridge_table import BridgeTable
from triack.node.shell.outgoing_message import MessageProperties

BATCH_MESSAGES = 1_000
BATCH_BYTES = 1024 * 1024
"""Of one commit: enough that its cost does not count, and small beside the memory of a node."""
_HOLDS = (AddressError, QueueNotFound, NotLoopback)
"""What may be over later; any other usage error is the fault of the message."""


class Address(NamedTuple):
    """What messages that are sent as a run have in common: where they go, or why nowhere, and by which rule."""

    to: str
    rule: str
    refusal: Refusal | None = None


class Came(Protocol):
    """What came from a broker."""

    @property
    def payload(self) -> bytes:
        """Its content."""

    @property
    def too_large(self) -> int:
        """Its size in bytes, if that is too much; then it has no content."""


A = TypeVar("A", bound=Came)


class Taking(Part, Generic[A]):
    """What comes by one connection.

    Args:
        node: takes it.
        table: says where it goes.
    """

    def __init__(self, node: Node_, table: BridgeTable) -> None:
        super().__init__(node, table, "takes")
        self._pending: deque[A] = deque()
        self._in_hand = self._in_hand_bytes = 0
        # Those of the last commit that were here before, by their packet ids.
        self._known = 0
        self._wake = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Messages that came and are not on the disk yet."""
        return len(self._pending) + self._in_hand

    async def open(self, tls: ssl.SSLContext | None, password: str | None) -> None:
        """Connect, and remember what the node has of earlier connections. Raises BrokerAway, and errors of the node."""
        await self.link.open(self._table, f"triack-{self._node.name}-{self._table.name}", tls, password)

    @abstractmethod
    async def subscribe(self) -> None:
        """Have the broker send, while ``run`` takes what it sends. Raises BrokerAway."""

    def handle_arrived(self, came: list[A]) -> None:
        """Messages came."""
        self._pending += came
        self._in_hand_bytes += sum([len(it.payload) for it in came])
        if self._is_full:
            self.link.may_read.clear()
        self._wake.set()

    @property
    def _is_full(self) -> bool:
        return self._in_hand_bytes > BYTES_MAX

    async def run(self) -> None:
        """Take what comes, until something fails. Raises what keeps the node from taking anything."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while batch := self._next_batch():
                self._in_hand = len(batch)
                await self._until_done(lambda: self._commit(batch))
                self._in_hand = 0
                self._in_hand_bytes -= sum(len(it.payload) for it in batch)
                await self._tell_broker(batch)
                if not self._is_full:
                    self.link.may_read.set()

    async def _tell_broker(self, batch: Sequence[A]) -> None:
        """Acknowledge messages; the session log says so first."""
        if count := self._messages_in(batch):
            await self._say("acked", count=count, known=self._known)
        await self._acknowledge(batch)

    def _messages_in(self, batch: Sequence[A]) -> int:
        """How many messages the broker hears of."""
        return len(batch)

    def _next_batch(self) -> list[A]:
        batch: list[A] = []
        size_bytes = 0
        while self._pending and len(batch) < BATCH_MESSAGES and size_bytes < BATCH_BYTES:
            batch.append(self._pending.popleft())
            size_bytes += len(batch[-1].payload)
        return batch

    @abstractmethod
    async def _commit(self, batch: Sequence[A]) -> None:
        """Bring messages to the disk in one transaction, and count them."""

    @abstractmethod
    async def _acknowledge(self, batch: Sequence[A]) -> None:
        """Tell the broker that messages are on the disk."""

    @abstractmethod
    def _address_of(self, it: A) -> Address:
        """Where a message goes, and by which rule. Raises UsageError when that is nowhere."""

    @abstractmethod
    def _key_of(self, it: A) -> str | None:
        """The key of a message. Raises UsageError."""

    @abstractmethod
    def _properties_of(self, it: A) -> MessageProperties:
        """The properties of a message, but for its key."""

    @abstractmethod
    def _origin_of(self, it: A) -> dict[str, str]:
        """The headers that say where it came from: what is refused for its properties has these alone."""

    async def _send(self, tx: Tx, messages: Iterable[A]) -> Counter[BridgeReason]:
        """Send messages with a transaction, neighbours with one address as a list. Returns how many are refused."""
        refused, rule = Counter[BridgeReason](), None
        for (address, _), run in groupby(map(self._addressed, messages), itemgetter(0, 1)):
            if address.rule != rule:
                rule = address.rule
                await tx.note_bridge(self._table.name, rule)
            refused.update(await self._send_run(tx, address, list(run)))
        return refused

    def _addressed(self, it: A) -> "_Addressed[A]":
        try:
            if it.too_large:
                raise TooLarge(f"it has {it.too_large} bytes, and a bridge takes {BYTES_MAX}")
            key = self._key_of(it)
            return self._address_of(it), key is not None, key or "", it
        except UsageError as error:
            return Address("", "", refusal_of(error)), False, "", it

    async def _send_run(self, tx: Tx, address: Address, run: "list[_Addressed[A]]") -> list[BridgeReason]:
        """Send messages with one address, in order. Returns why messages were refused."""
        to, _, refusal = address
        bodies, each = [it.payload for *_, it in run], [self._properties_of(it) for *_, it in run]
        if refusal is not None:
            for body, properties in zip(bodies, each, strict=True):
                await refuse(tx, self._table, body, properties["headers"] or {}, refusal)
            return [refusal[0]] * len(run)
        try:
            keys = [key for _, has_key, key, _ in run if has_key] or None
            await tx.send_many(to, bodies, timeout=ROOM_S, keys=keys, each=each)
        except _HOLDS:
            raise
        except UsageError as error:
            if (half := len(run) // 2) > 0:  # which of them it is
                halves = [await self._send_run(tx, address, some) for some in (run[:half], run[half:])]
                return halves[0] + halves[1]
            await refuse(tx, self._table, bodies[0], self._origin_of(run[0][-1]), refusal_of(error))
            return [BridgeReason.UNFIT]
        return []


_Addressed = tuple[Address, bool, str, A]
"""A message behind its address, whether it has a key, and the key."""
