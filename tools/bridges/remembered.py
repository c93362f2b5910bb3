"""What a bridge remembers in the node, and how both directions refuse a message; of every protocol."""

from collections.abc import Awaitable, Mapping
from inspect import isawaitable
from typing import TypeVar

from triack.base.errors import TriackError, UsageError
from triack.base.reasons import BridgeReason
from triack.node.client.client import Client
from triack.node.client.client_transaction import ClientTransaction
from triack.node.config.bridge_table import BridgeTable
from triack.node.handles.transaction import Transaction
from triack.node.node import Node
from triack.queues.messages import MAX_BODY_BYTES

T = TypeVar("T")
Node_ = Node | Client
Tx = Transaction | ClientTransaction
Refusal = tuple[BridgeReason, str]
"""Why a message can never be passed on."""
BYTES_MAX = 16 * 1024 * 1024
"""Of messages that came from a broker and are not on the disk: with more, it is not read. One that is larger is refused
without its payload."""


class BrokerAway(TriackError):
    """There is no connection to the broker; the text says why."""


class TooLarge(UsageError):
    """A message is larger than can pass."""


def refusal_of(error: UsageError) -> Refusal:
    """Why a message can never be passed on."""
    return BridgeReason.TOO_LARGE if isinstance(error, TooLarge) else BridgeReason.UNFIT, str(error)


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
    """Keep a message that can never be passed on, with the reason, in the queue of the bridge for them."""
    reason, why = refusal
    said = {f"{table.kind}-reason": str(reason), f"{table.kind}-refused": why}
    send = tx.send if len(body) <= MAX_BODY_BYTES else tx.send_stream
    await send(f"{table.name}.refused", body, headers={**headers, **said})
