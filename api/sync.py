"""Triack without ``async``: for scripts and threads.

with triack.sync.open("plant-a", data="plant-a", insecure=True) as node:
    node.send("udp://127.0.0.1:7802/orders", b"...").ordered(timeout=10)
"""

from triack.node.sync import (
    SyncClient,
    SyncConsumer,
    SyncInvitation,
    SyncNode,
    SyncReceipt,
    SyncReceipts,
    SyncTransaction,
    connect,
    open,
)

__all__ = [
    "SyncClient",
    "SyncConsumer",
    "SyncInvitation",
    "SyncNode",
    "SyncReceipt",
    "SyncReceipts",
    "SyncTransaction",
    "connect",
    "open",
]
