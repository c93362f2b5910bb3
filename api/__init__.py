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
        AckWaitOver,
        BridgeLost,
        BridgeRefused,
        BridgeUp,
        CallRefused,
        CanSend,
        DeadLettersWaiting,
        EventsMissed,
        GapFound,
        JournalFull,
        LinkDown,
        LinkDowngraded,
        LinkUp,
        LinkUpgraded,
        MessagesDiscarded,
        NodeEvent,
        NoRoute,
        PeerHalted,
        PeerSilent,
        PeerUnknown,
        QueueOverQuota,
        StoreLow,
        StreamHeld,
        StreamsNearLimit,
        SubscriptionLost,
        TransitOverQuota,
        WayChanged,
    )
    from triack.node.client.client import Client
    from triack.node.client.client import connect_to as connect
    from triack.node.handles.acknowledgements import Acknowledgements
    from triack.node.handles.consumer import AckMode, Consumer
    from triack.node.handles.consuming import HandlerOptions, OnError
    from triack.node.handles.message import Message, Messages
    from triack.node.handles.receipt import Receipt
    from triack.node.handles.receipts import Receipts
    from triack.node.handles.reloading import Reloaded
    from triack.node.handles.subscribing import Subscriber
    from triack.node.handles.transaction import Transaction
    from triack.node.node import Node
    from triack.node.node import open_node as open
    from triack.node.shell.enrolling import EnrolledPeer, OpenInvitation
    from triack.node.shell.link_events import Events
    from triack.node.shell.outgoing_message import MessageProperties
    from triack.node.shell.ping_answer import PingAnswer
    from triack.node.shell.running import run
    from triack.ordering.order_settings import OrderSettings
    from triack.queues.blocking import Blocking
    from triack.queues.format_names import msmq_name
    from triack.queues.manager.browse import BrowsedMessage
    from triack.queues.message_classes import Acks, MessageClass
    from triack.queues.node_settings import (
        DeadLetters,
        Forward,
        Journal,
        KeySettings,
        LargeBodies,
        Limits,
        NodeSettings,
        Quota,
        Reconnect,
        Redelivery,
        Strategy,
        Topic,
    )
    from triack.queues.routes import Route
    from triack.queues.stages import Stage, StageName
    from triack.queues.streams.ack_events import AckEvent, AckKind
    from triack.session.protocol.settings import SessionSettings
    from triack.stats.bridge_stats import BridgeStats
    from triack.stats.node_stats import (
        AckStats,
        HistogramStats,
        HolderStats,
        HoldStats,
        LinkStats,
        NodeStats,
        OutgoingStats,
        QueueStats,
        SessionStats,
        TransitStats,
        WayStats,
    )
    from triack.stats.stream_stats import (
        IncomingStreamStats,
        OutgoingStreamStats,
        StreamsStats,
        TransitStreamStats,
    )
    from triack.stats.topic_stats import RemoteSubscriptionStats, SubscriptionStats, TopicStats
    from triack.stats.troubles import TroubleStats
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
    "AckWaitOver",
    "Acknowledgements",
    "Acks",
    "Blocking",
    "BridgeLost",
    "BridgeRefused",
    "BridgeUp",
    "BrowsedMessage",
    "CallRefused",
    "CanSend",
    "Client",
    "Consumer",
    "DeadLetters",
    "DeadLettersWaiting",
    "Delivery",
    "EnrolledPeer",
    "Events",
    "EventsMissed",
    "Forward",
    "GapFound",
    "HistogramStats",
    "HandlerOptions",
    "HoldStats",
    "HolderStats",
    "IncomingStreamStats",
    "Journal",
    "JournalFull",
    "KeySettings",
    "LargeBodies",
    "Limits",
    "LinkDown",
    "LinkDowngraded",
    "LinkStats",
    "LinkUp",
    "LinkUpgraded",
    "NoRoute",
    "Message",
    "MessageClass",
    "MessageProperties",
    "Messages",
    "MessagesDiscarded",
    "Node",
    "NodeEvent",
    "NodeSettings",
    "NodeStats",
    "OnError",
    "OpenInvitation",
    "OrderSettings",
    "OutgoingStats",
    "OutgoingStreamStats",
    "PeerHalted",
    "PeerSilent",
    "PeerUnknown",
    "PingAnswer",
    "QueueOverQuota",
    "QueueStats",
    "Quota",
    "Receipt",
    "Receipts",
    "Reconnect",
    "Redelivery",
    "Reloaded",
    "RemoteSubscriptionStats",
    "Route",
    "SessionSettings",
    "SessionStats",
    "Stage",
    "StageName",
    "StoreLow",
    "StreamHeld",
    "Strategy",
    "StreamsNearLimit",
    "StreamsStats",
    "Subscriber",
    "SubscriptionLost",
    "SubscriptionStats",
    "TransitOverQuota",
    "Tls",
    "Topic",
    "TopicStats",
    "Transaction",
    "TransitStats",
    "TransitStreamStats",
    "BridgeStats",
    "TroubleStats",
    "WayChanged",
    "WayStats",
    "connect",
    "msmq_name",
    "open",
    "policies",
    "run",
    "sync",
    *errors.__all__,
]

_MODULES = {
    "triack.base.ack_trigger": "AckTrigger",
    "triack.base.news": (
        "AckWaitOver BridgeLost BridgeRefused BridgeUp CallRefused CanSend DeadLettersWaiting EventsMissed GapFound "
        "JournalFull LinkDown LinkDowngraded LinkUp LinkUpgraded MessagesDiscarded NodeEvent NoRoute PeerHalted "
        "PeerSilent PeerUnknown QueueOverQuota StoreLow StreamHeld StreamsNearLimit SubscriptionLost TransitOverQuota "
        "WayChanged"
    ),
    "triack.node.client.client": "Client",
    "triack.node.handles.acknowledgements": "Acknowledgements",
    "triack.node.handles.consumer": "AckMode Consumer",
    "triack.node.handles.consuming": "HandlerOptions OnError",
    "triack.node.handles.message": "Message Messages",
    "triack.node.handles.receipt": "Receipt",
    "triack.node.handles.receipts": "Receipts",
    "triack.node.handles.reloading": "Reloaded",
    "triack.node.handles.subscribing": "Subscriber",
    "triack.node.handles.transaction": "Transaction",
    "triack.node.node": "Node",
    "triack.stats.bridge_stats": "BridgeStats",
    "triack.node.shell.enrolling": "EnrolledPeer OpenInvitation",
    "triack.node.shell.link_events": "Events",
    "triack.node.shell.outgoing_message": "MessageProperties",
    "triack.node.shell.ping_answer": "PingAnswer",
    "triack.node.shell.running": "run",
    "triack.stats.node_stats": (
        "AckStats HistogramStats HolderStats HoldStats LinkStats NodeStats OutgoingStats QueueStats SessionStats "
        "TransitStats WayStats"
    ),
    "triack.stats.stream_stats": "IncomingStreamStats OutgoingStreamStats StreamsStats TransitStreamStats",
    "triack.stats.topic_stats": "RemoteSubscriptionStats SubscriptionStats TopicStats",
    "triack.stats.troubles": "TroubleStats",
    "triack.ordering.order_settings": "OrderSettings",
    "triack.queues.blocking": "Blocking",
    "triack.queues.format_names": "msmq_name",
    "triack.queues.manager.browse": "BrowsedMessage",
    "triack.queues.message_classes": "Acks MessageClass",
    "triack.queues.node_settings": (
        "DeadLetters Forward Journal KeySettings LargeBodies Limits NodeSettings Quota Reconnect Redelivery "
        "Strategy Topic"
    ),
    "triack.queues.routes": "Route",
    "triack.queues.stages": "Stage StageName",
    "triack.queues.streams.ack_events": "AckEvent AckKind",
    "triack.session.protocol.settings": "SessionSettings",
    "triack.transport.endpoint": "Tls",
}
"""The modules of other names."""

_HOMES = {
    "connect": "triack.node.client.client:connect_to",
    "open": "triack.node.node:open_node",
    "policies": "triack.policies",
    "sync": "triack.sync",
    **{name: f"{module}:{name}" for module, names in _MODULES.items() for name in names.split()},
}
"""The places of the other names. Each is loaded at its first use, so that `import triack` is quick enough for a script
or a command of one line, and loads no part that is not used."""

if not TYPE_CHECKING:  # a type checker would assume that every name exists

    def __getattr__(name: str) -> object:
        """Load the object with that name."""
        if name not in _HOMES:
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[__name__])
        globals()[name] = resolve_name(_HOMES[name])
        return globals()[name]


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
