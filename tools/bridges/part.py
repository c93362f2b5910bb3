"""One direction of a bridge, whatever the protocol: its counts, what it remembers, and what it says when it waits."""

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Protocol

from triack.base.errors import ConnectionLost, NodeClosed, StoreFailed, TriackError, UsageError, WaitTimeout
from triack.base.reasons import BridgeReason
from triack.base.units import SECOND
from triack.node.client.client import Client
from triack.node.client.client_transaction import ClientTransaction
from triack.node.config.bridge_table import BridgeTable
from triack.node.files import operator_log
from triack.node.handles.message import Message
from triack.node.handles.transaction import Transaction
from triack.node.node import Node
from triack.node.shell.platform import PLATFORM
from triack.queues.messages import MAX_BODY_BYTES

Node_ = Node | Client
Tx = Transaction | ClientTransaction
Refusal = tuple[BridgeReason, str]
"""Why a message can never be passed on."""
BYTES_MAX = 16 * 1024 * 1024
"""Of messages that came from a broker and are not on the disk: with more, it is not read. One that is larger is refused
without its payload."""


ROOM_S = 1.0
"""How long a message waits for room before the operator hears of it."""
LARGE_ROOM_S = 10.0
"""The same for one that leaves in parts: also a slow disk has taken 16 MiB by then."""


class BrokerAway(TriackError):
    """There is no connection to the broker; the text says why."""


class TooLarge(UsageError):
    """A message is larger than can pass."""


def refusal_of(error: UsageError) -> Refusal:
    """Why a message can never be passed on."""
    return BridgeReason.TOO_LARGE if isinstance(error, TooLarge) else BridgeReason.UNFIT, str(error)


def seconds_left(message: Message) -> float | None:
    """How long a message may still be received, by the clock of the machine; None: as long as it exists."""
    return None if message.receive_by is None else message.receive_by - PLATFORM.get().wall_ns() / SECOND


def no_counts() -> dict[str, int]:
    """The counts of ``BridgeStats``."""
    return {"taken": 0, "given": 0, "repeated": 0, "refused": 0, "dropped": 0}


async def epoch_of(node: Node_) -> int | None:
    """The connection to a node, of a client. Raises errors of the node."""
    return await node.connected() if isinstance(node, Client) else None


async def tell(node: Node_, epoch: int | None, bridge: str, said: str, why: str, count: int, known: int) -> None:
    """Have the node say something of a bridge in its session log, or as an event (``EngineHandle.note_bridge_said``).

    Args:
        node: the node.
        epoch: the connection to it, as ``epoch_of`` gave it: another process has no part in what was done before.
        bridge: the name of the bridge.
        said: as there, and so are the others.
        why: the same.
        count: the same.
        known: the same.
    """
    if isinstance(node, Client):
        await node.call("bridge_said", epoch=epoch, bridge=bridge, said=said, why=why, count=count, known=known)
    else:
        node._port.note_bridge_said(bridge, said, why, count, known)  # noqa: SLF001 - no verb of applications


async def recall(node: Node_, name: str) -> bytes | None:
    """What a transaction has remembered, once it is on the disk: its commit may just be on its way there."""
    found: Awaitable[bytes | None] | bytes | None = node.recall(name)
    value = await found if isawaitable(found) else found
    await node.flush()
    return value


async def refuse(tx: Tx, table: BridgeTable, body: bytes, headers: Mapping[str, str], refusal: Refusal) -> None:
    """Keep a message that can never be passed on, with the reason, in the queue of the bridge for them.

    Raises WaitTimeout: there is no room; the transaction continues.
    """
    reason, why = refusal
    to, said = f"{table.name}.refused", {f"{table.kind}-reason": str(reason), f"{table.kind}-refused": why}
    if len(body) > MAX_BODY_BYTES:
        try:
            async with asyncio.timeout(LARGE_ROOM_S):
                await tx.send_stream(to, body, headers={**headers, **said})
        except TimeoutError:
            raise WaitTimeout(f"send to {to}: no room for {len(body)} bytes in {LARGE_ROOM_S:g} s") from None
    else:
        await tx.send(to, body, timeout=ROOM_S, headers={**headers, **said})


HELD_BACK_S = 7.0
"""How long a broker is not read: RabbitMQ ends a connection that takes nothing for 15 s, with no cause."""
AGAIN_S = 0.5, 10.0
"""The first and the longest pause before a commit that failed is tried again."""
_OF_NODE = (NodeClosed, StoreFailed, ConnectionLost)
"""What no message is at fault for, and no room."""


class Link(Protocol):
    """A connection to a broker.

    Attributes:
        may_read: set while what the broker sends is read.
    """

    may_read: asyncio.Event

    async def open(self, table: BridgeTable, name: str, tls: ssl.SSLContext | None, password: str | None) -> None:
        """Connect to the broker of a bridge, by that name. Raises BrokerAway."""

    async def run(self) -> None:
        """Work until the connection ends. Raises BrokerAway, or OSError, then."""

    async def leave(self) -> None:
        """End the connection."""


class Part(ABC):
    """What passes in one direction by one connection.

    Args:
        node: takes it, or has it.
        table: says what passes.
        does: what this direction does, for the log: "takes" or "gives".

    Attributes:
        link: the connection.
        counts: as in ``BridgeStats``.
        refusals: the messages that can never be passed on, by reason.
        waits_for: why nothing passes; None while something does.
        epoch: the connection to the node, of a client.
    """

    link: Link

    def __init__(self, node: Node_, table: BridgeTable, does: str) -> None:
        self.counts = no_counts()
        self.refusals: Counter[BridgeReason] = Counter()
        self.waits_for: str | None = None
        self.epoch: int | None = None
        self._node = node
        self._table = table
        self._does = does

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Messages on their way: what has left its one side, and is not known to be at the other."""

    def _hold(self, why: str) -> None:
        if self.waits_for != why:
            self.waits_for = why
            name = self._table.name
            operator_log.warning(f"bridge {name}: {self._does} nothing: {why}", bridge=name)

    async def _until_done(self, work: Callable[[], Awaitable[None]]) -> None:
        """Bring messages to the disk, however long there is no room for them.

        Raises BrokerAway: what the broker sends has no room, either, so that its answers are not read.
        """
        pause_s, waited_s = AGAIN_S[0], 0.0
        while True:
            try:
                await work()
                break
            except _OF_NODE:
                raise
            except TriackError as error:
                self._hold(str(error))
                if waited_s >= HELD_BACK_S and not self.link.may_read.is_set():
                    raise BrokerAway(f"the messages here find no room: {error}") from None
            await asyncio.sleep(pause_s)
            waited_s += pause_s
            pause_s = min(2 * pause_s, AGAIN_S[1])
        self._release()

    def _release(self) -> None:
        if self.waits_for is not None:
            self.waits_for = None
            name = self._table.name
            operator_log.info(f"bridge {name}: {self._does} messages again", bridge=name)

    async def _say(self, said: str, why: str = "", count: int = 0, known: int = 0) -> None:
        """Have the node say something of the bridge; see ``tell``."""
        await tell(self._node, self.epoch, self._table.name, said, why, count, known)

    async def _count(self, counts: Mapping[str, int], refused: Mapping[BridgeReason, int]) -> None:
        """Count what a commit has brought to the disk."""
        for name, count in counts.items():
            self.counts[name] += count
        for reason, count in refused.items():
            self.counts["refused"] += count
            self.refusals[reason] += count
            if count:
                await self._say("refused", str(reason), count)
