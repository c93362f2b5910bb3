"""What a bridge remembers in the node, and how both directions refuse a message."""

from collections.abc import Awaitable, Mapping
from inspect import isawaitable
from typing import TypeVar

from triack.node.client.client import Client
from triack.node.client.client_transaction import ClientTransaction
from triack.node.handles.transaction import Transaction
from triack.node.node import Node

__all__ = ["Node_", "Tx", "no_counts", "recall", "refuse"]

T = TypeVar("T")
Node_ = Node | Client
Tx = Transaction | ClientTransaction


def no_counts() -> dict[str, int]:
    """The counts of ``BridgeStats``."""
    return {"taken": 0, "given": 0, "repeated": 0, "refused": 0, "dropped": 0}


async def recall(node: Node_, name: str) -> bytes | None:
    """What a transaction has remembered, once it is on the disk: its commit may just be on its way there."""
    found: Awaitable[bytes | None] | bytes | None = node.recall(name)
    value = await found if isawaitable(found) else found
    await node.flush()
    return value


async def refuse(tx: Tx, bridge: str, body: bytes, headers: Mapping[str, str], why: str) -> None:
    """Keep a message that can never be passed on, with the reason, in the queue of the bridge for them."""
    await tx.send(f"{bridge}.refused", body, headers={**headers, "mqtt-refused": why})
