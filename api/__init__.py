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
    from triack.node.shell.bridge_stats import BridgeStats
    from triack.node.shell.enrolling import EnrolledPeer, OpenInvitation
    from triack.node.shell.link_events import Events
    from triack.node.shell.outgoing_message import MessageProperties
    from triack.node.shell.ping_answer import PingAnswer
    from triack.node.shell.running import run
    from triack.node.shell.stats import (
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
    from triack.node.shell.stream_stats import (
        IncomingStreamStats,
        OutgoingStreamStats,
        StreamsStats,
        TransitStreamStats,
    )
    from triack.node.shell.topic_stats import RemoteSubscriptionStats, SubscriptionStats, TopicStats
    from triack.node.shell.troubles import TroubleStats
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

_HOMES = {
    "AckEvent": "triack.queues.streams.ack_events:AckEvent",
    "AckKind": "triack.queues.streams.ack_events:AckKind",
    "AckMode": "triack.node.handles.consumer:AckMode",
    "AckStats": "triack.node.shell.stats:AckStats",
    "AckTrigger": "triack.base.ack_trigger:AckTrigger",
    "AckWaitOver": "triack.base.news:AckWaitOver",
    "Acknowledgements": "triack.node.handles.acknowledgements:Acknowledgements",
    "Acks": "triack.queues.message_classes:Acks",
    "Blocking": "triack.queues.blocking:Blocking",
    "BrowsedMessage": "triack.queues.manager.browse:BrowsedMessage",
    "CallRefused": "triack.base.news:CallRefused",
    "CanSend": "triack.base.news:CanSend",
    "Client": "triack.node.client.client:Client",
    "Consumer": "triack.node.handles.consumer:Consumer",
    "DeadLetters": "triack.queues.node_settings:DeadLetters",
    "DeadLettersWaiting": "triack.base.news:DeadLettersWaiting",
    "Forward": "triack.queues.node_settings:Forward",
    "EnrolledPeer": "triack.node.shell.enrolling:EnrolledPeer",
    "Events": "triack.node.shell.link_events:Events",
    "EventsMissed": "triack.base.news:EventsMissed",
    "GapFound": "triack.base.news:GapFound",
    "HistogramStats": "triack.node.shell.stats:HistogramStats",
    "HandlerOptions": "triack.node.handles.consuming:HandlerOptions",
    "OnError": "triack.node.handles.consuming:OnError",
    "run": "triack.node.shell.running:run",
    "HoldStats": "triack.node.shell.stats:HoldStats",
    "HolderStats": "triack.node.shell.stats:HolderStats",
    "IncomingStreamStats": "triack.node.shell.stream_stats:IncomingStreamStats",
    "Journal": "triack.queues.node_settings:Journal",
    "JournalFull": "triack.base.news:JournalFull",
    "KeySettings": "triack.queues.node_settings:KeySettings",
    "LargeBodies": "triack.queues.node_settings:LargeBodies",
    "Limits": "triack.queues.node_settings:Limits",
    "LinkDown": "triack.base.news:LinkDown",
    "LinkDowngraded": "triack.base.news:LinkDowngraded",
    "LinkStats": "triack.node.shell.stats:LinkStats",
    "LinkUp": "triack.base.news:LinkUp",
    "LinkUpgraded": "triack.base.news:LinkUpgraded",
    "NoRoute": "triack.base.news:NoRoute",
    "Message": "triack.node.handles.message:Message",
    "MessageClass": "triack.queues.message_classes:MessageClass",
    "MessageProperties": "triack.node.shell.outgoing_message:MessageProperties",
    "Messages": "triack.node.handles.message:Messages",
    "MessagesDiscarded": "triack.base.news:MessagesDiscarded",
    "Node": "triack.node.node:Node",
    "NodeEvent": "triack.base.news:NodeEvent",
    "NodeSettings": "triack.queues.node_settings:NodeSettings",
    "NodeStats": "triack.node.shell.stats:NodeStats",
    "OpenInvitation": "triack.node.shell.enrolling:OpenInvitation",
    "OrderSettings": "triack.ordering.order_settings:OrderSettings",
    "OutgoingStats": "triack.node.shell.stats:OutgoingStats",
    "OutgoingStreamStats": "triack.node.shell.stream_stats:OutgoingStreamStats",
    "PeerHalted": "triack.base.news:PeerHalted",
    "PeerSilent": "triack.base.news:PeerSilent",
    "PeerUnknown": "triack.base.news:PeerUnknown",
    "PingAnswer": "triack.node.shell.ping_answer:PingAnswer",
    "QueueOverQuota": "triack.base.news:QueueOverQuota",
    "QueueStats": "triack.node.shell.stats:QueueStats",
    "Quota": "triack.queues.node_settings:Quota",
    "Receipt": "triack.node.handles.receipt:Receipt",
    "Receipts": "triack.node.handles.receipts:Receipts",
    "Reconnect": "triack.queues.node_settings:Reconnect",
    "Redelivery": "triack.queues.node_settings:Redelivery",
    "Reloaded": "triack.node.handles.reloading:Reloaded",
    "RemoteSubscriptionStats": "triack.node.shell.topic_stats:RemoteSubscriptionStats",
    "Route": "triack.queues.routes:Route",
    "SessionSettings": "triack.session.protocol.settings:SessionSettings",
    "SessionStats": "triack.node.shell.stats:SessionStats",
    "Stage": "triack.queues.stages:Stage",
    "StageName": "triack.queues.stages:StageName",
    "StoreLow": "triack.base.news:StoreLow",
    "StreamHeld": "triack.base.news:StreamHeld",
    "StreamsNearLimit": "triack.base.news:StreamsNearLimit",
    "StreamsStats": "triack.node.shell.stream_stats:StreamsStats",
    "Strategy": "triack.queues.node_settings:Strategy",
    "Subscriber": "triack.node.handles.subscribing:Subscriber",
    "SubscriptionLost": "triack.base.news:SubscriptionLost",
    "SubscriptionStats": "triack.node.shell.topic_stats:SubscriptionStats",
    "TransitOverQuota": "triack.base.news:TransitOverQuota",
    "WayChanged": "triack.base.news:WayChanged",
    "WayStats": "triack.node.shell.stats:WayStats",
    "Tls": "triack.transport.endpoint:Tls",
    "Topic": "triack.queues.node_settings:Topic",
    "TopicStats": "triack.node.shell.topic_stats:TopicStats",
    "Transaction": "triack.node.handles.transaction:Transaction",
    "TransitStats": "triack.node.shell.stats:TransitStats",
    "TransitStreamStats": "triack.node.shell.stream_stats:TransitStreamStats",
    "BridgeStats": "triack.node.shell.bridge_stats:BridgeStats",
    "TroubleStats": "triack.node.shell.troubles:TroubleStats",
    "connect": "triack.node.client.client:connect_to",
    "msmq_name": "triack.queues.format_names:msmq_name",
    "open": "triack.node.node:open_node",
    "policies": "triack.policies",
    "sync": "triack.sync",
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
