"""Triack without ``async``: for scripts and threads.

with triack.sync.open("plant-a", data="plant-a", insecure=True) as node:
    node.send("udp://127.0.0.1:7802/orders", b"...").ordered(timeout=10)
"""

from triack.node.sync.sync import SyncClient, SyncInvitation, SyncNode, connect, open
from triack.node.sync.sync_handles import SyncConsumer, SyncReceipt, SyncReceipts, SyncSubscriber, SyncTransaction

__all__ = [
    "SyncClient",
    "SyncConsumer",
    "SyncInvitation",
    "SyncNode",
    "SyncReceipt",
    "SyncReceipts",
    "SyncSubscriber",
    "SyncTransaction",
    "connect",
    "open",
]
