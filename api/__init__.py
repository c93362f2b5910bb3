"""Triack: messages from machine to machine, exactly once, in order and durably, with no broker.

async with triack.open("plant-a", data="plant-a", listen="udp://0.0.0.0:7801") as node:
    await node.trust("plant-b", "triack-public-...", "udp://plant-b.example:7801")
    receipt = await node.send("plant-b/orders", b"...")
    await receipt.ordered(timeout=10)
"""

import sys
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from triack.base import errors
from triack.base.delivery import Delivery
from triack.base.errors import *  # noqa: F403 - the error tree is public as a whole

if TYPE_CHECKING:
    from triack import policies, sync
    from triack.base.ack_trigger import AckTrigger
    from triack.base.news import (
        GapFound,
        LinkDown,
        LinkUp,
        NodeEvent,
        PeerHalted,
        PeerSilent,
        PeerUnknown,
        QueueOverQuota,
        StoreLow,
        StreamHeld,
        StreamsNearLimit,
    )
    from triack.node.acknowledgements import Acknowledgements
    from triack.node.consumer import AckMode, Consumer
    from triack.node.control.client import Client
    from triack.node.control.client import connect_to as connect
    from triack.node.enrolling import EnrolledPeer, OpenInvitation
    from triack.node.events import Events
    from triack.node.message import Message
    from triack.node.node import Node
    from triack.node.node import open_node as open
    from triack.node.outgoing_message import MessageProperties
    from triack.node.receipt import Receipt
    from triack.node.receipts import Receipts
    from triack.node.stats import (
        AckStats,
        HolderStats,
        HoldStats,
        LinkStats,
        NodeStats,
        OutgoingStats,
        QueueStats,
        SessionStats,
    )
    from triack.node.transaction import Transaction
    from triack.ordering.settings import OrderSettings
    from triack.queues.accepted_keys import KeySettings
    from triack.queues.ack_events import AckEvent, AckKind
    from triack.queues.blocking import Blocking
    from triack.queues.browse import BrowsedMessage
    from triack.queues.quotas import DeadLetters, Limits, Quota
    from triack.queues.reconnect import Reconnect
    from triack.queues.redelivery import Redelivery
    from triack.queues.settings import NodeSettings
    from triack.queues.stages import Stage
    from triack.session.settings import SessionSettings
    from triack.transport.endpoint import Tls

__version__ = "0.1.0"

EXPRESS = Delivery.EXPRESS
RECOVERABLE = Delivery.RECOVERABLE
TRANSACTIONAL = Delivery.TRANSACTIONAL

__all__ = [
    "EXPRESS",
    "RECOVERABLE",
    "TRANSACTIONAL",
    "AckEvent",
    "AckKind",
    "AckMode",
    "AckStats",
    "AckTrigger",
    "Acknowledgements",
    "Blocking",
    "BrowsedMessage",
    "Client",
    "Consumer",
    "DeadLetters",
    "Delivery",
    "EnrolledPeer",
    "Events",
    "GapFound",
    "HoldStats",
    "HolderStats",
    "KeySettings",
    "Limits",
    "LinkDown",
    "LinkStats",
    "LinkUp",
    "Message",
    "MessageProperties",
    "Node",
    "NodeEvent",
    "NodeSettings",
    "NodeStats",
    "OpenInvitation",
    "OrderSettings",
    "OutgoingStats",
    "PeerHalted",
    "PeerSilent",
    "PeerUnknown",
    "QueueOverQuota",
    "QueueStats",
    "Quota",
    "Receipt",
    "Receipts",
    "Reconnect",
    "Redelivery",
    "SessionSettings",
    "SessionStats",
    "Stage",
    "StoreLow",
    "StreamHeld",
    "StreamsNearLimit",
    "Tls",
    "Transaction",
    "connect",
    "open",
    "policies",
    "sync",
    *errors.__all__,
]

_HOMES = {
    "AckEvent": "triack.queues.ack_events:AckEvent",
    "AckKind": "triack.queues.ack_events:AckKind",
    "AckMode": "triack.node.consumer:AckMode",
    "AckStats": "triack.node.stats:AckStats",
    "AckTrigger": "triack.base.ack_trigger:AckTrigger",
    "Acknowledgements": "triack.node.acknowledgements:Acknowledgements",
    "Blocking": "triack.queues.blocking:Blocking",
    "BrowsedMessage": "triack.queues.browse:BrowsedMessage",
    "Client": "triack.node.control.client:Client",
    "Consumer": "triack.node.consumer:Consumer",
    "DeadLetters": "triack.queues.quotas:DeadLetters",
    "EnrolledPeer": "triack.node.enrolling:EnrolledPeer",
    "Events": "triack.node.events:Events",
    "GapFound": "triack.base.news:GapFound",
    "HoldStats": "triack.node.stats:HoldStats",
    "HolderStats": "triack.node.stats:HolderStats",
    "KeySettings": "triack.queues.accepted_keys:KeySettings",
    "Limits": "triack.queues.quotas:Limits",
    "LinkDown": "triack.base.news:LinkDown",
    "LinkStats": "triack.node.stats:LinkStats",
    "LinkUp": "triack.base.news:LinkUp",
    "Message": "triack.node.message:Message",
    "MessageProperties": "triack.node.outgoing_message:MessageProperties",
    "Node": "triack.node.node:Node",
    "NodeEvent": "triack.base.news:NodeEvent",
    "NodeSettings": "triack.queues.settings:NodeSettings",
    "NodeStats": "triack.node.stats:NodeStats",
    "OpenInvitation": "triack.node.enrolling:OpenInvitation",
    "OrderSettings": "triack.ordering.settings:OrderSettings",
    "OutgoingStats": "triack.node.stats:OutgoingStats",
    "PeerHalted": "triack.base.news:PeerHalted",
    "PeerSilent": "triack.base.news:PeerSilent",
    "PeerUnknown": "triack.base.news:PeerUnknown",
    "QueueOverQuota": "triack.base.news:QueueOverQuota",
    "QueueStats": "triack.node.stats:QueueStats",
    "Quota": "triack.queues.quotas:Quota",
    "Receipt": "triack.node.receipt:Receipt",
    "Receipts": "triack.node.receipts:Receipts",
    "Reconnect": "triack.queues.reconnect:Reconnect",
    "Redelivery": "triack.queues.redelivery:Redelivery",
    "SessionSettings": "triack.session.settings:SessionSettings",
    "SessionStats": "triack.node.stats:SessionStats",
    "Stage": "triack.queues.stages:Stage",
    "StoreLow": "triack.base.news:StoreLow",
    "StreamHeld": "triack.base.news:StreamHeld",
    "StreamsNearLimit": "triack.base.news:StreamsNearLimit",
    "Tls": "triack.transport.endpoint:Tls",
    "Transaction": "triack.node.transaction:Transaction",
    "connect": "triack.node.control.client:connect_to",
    "open": "triack.node.node:open_node",
    "policies": "triack.policies",
    "sync": "triack.sync",
}
"""Where the other names are from. Each is loaded when it is first used: `import triack` takes no longer than a script
or a command of one line can bear, and nobody waits for the parts that he does not use."""

if not TYPE_CHECKING:  # a type checker would take it that there is every name

    def __getattr__(name: str) -> object:
        """Load what has that name."""
        if name not in _HOMES:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[__name__])
        globals()[name] = resolve_name(_HOMES[name])
        return globals()[name]


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
