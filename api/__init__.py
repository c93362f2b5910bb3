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
from triack.base.delivery import Delivery as Delivery
from triack.base.errors import *  # noqa: F403 - the error tree is public as a whole

if TYPE_CHECKING:
    from triack import policies as policies
    from triack import sync as sync
    from triack.base.ack_trigger import AckTrigger as AckTrigger
    from triack.base.news import *  # noqa: F403 - and so are the events
    from triack.node.client.client import Client as Client
    from triack.node.client.client import connect as connect
    from triack.node.handles.acknowledgements import Acknowledgements as Acknowledgements
    from triack.node.handles.consumer import AckMode as AckMode
    from triack.node.handles.consumer import Consumer as Consumer
    from triack.node.handles.consuming import HandlerOptions as HandlerOptions
    from triack.node.handles.consuming import OnError as OnError
    from triack.node.handles.message import Message as Message
    from triack.node.handles.message import Messages as Messages
    from triack.node.handles.receipt import Receipt as Receipt
    from triack.node.handles.receipt import Receipts as Receipts
    from triack.node.handles.subscribing import Subscriber as Subscriber
    from triack.node.handles.transaction import Transaction as Transaction
    from triack.node.handles.verbs import Reloaded as Reloaded
    from triack.node.node import Node as Node
    from triack.node.node import open as open
    from triack.node.shell.enrolling import EnrolledPeer as EnrolledPeer
    from triack.node.shell.enrolling import OpenInvitation as OpenInvitation
    from triack.node.shell.link_events import Events as Events
    from triack.node.shell.outgoing_message import MessageProperties as MessageProperties
    from triack.node.shell.ping_answer import PingAnswer as PingAnswer
    from triack.node.shell.running import run as run
    from triack.ordering.order_settings import OrderSettings as OrderSettings
    from triack.queues.blocking import Blocking as Blocking
    from triack.queues.format_names import msmq_name as msmq_name
    from triack.queues.manager.browse import BrowsedMessage as BrowsedMessage
    from triack.queues.message_classes import Acks as Acks
    from triack.queues.message_classes import MessageClass as MessageClass
    from triack.queues.node_settings import DeadLetters as DeadLetters
    from triack.queues.node_settings import Forward as Forward
    from triack.queues.node_settings import Journal as Journal
    from triack.queues.node_settings import KeySettings as KeySettings
    from triack.queues.node_settings import LargeBodies as LargeBodies
    from triack.queues.node_settings import Limits as Limits
    from triack.queues.node_settings import NodeSettings as NodeSettings
    from triack.queues.node_settings import Quota as Quota
    from triack.queues.node_settings import Reconnect as Reconnect
    from triack.queues.node_settings import Redelivery as Redelivery
    from triack.queues.node_settings import Strategy as Strategy
    from triack.queues.node_settings import Topic as Topic
    from triack.queues.routes import Route as Route
    from triack.queues.stages import Stage as Stage
    from triack.queues.stages import StageName as StageName
    from triack.queues.streams.ack_events import AckEvent as AckEvent
    from triack.queues.streams.ack_events import AckKind as AckKind
    from triack.session.protocol.settings import SessionSettings as SessionSettings
    from triack.stats.node_stats import AckStats as AckStats
    from triack.stats.node_stats import HistogramStats as HistogramStats
    from triack.stats.node_stats import HolderStats as HolderStats
    from triack.stats.node_stats import HoldStats as HoldStats
    from triack.stats.node_stats import LinkStats as LinkStats
    from triack.stats.node_stats import NodeStats as NodeStats
    from triack.stats.node_stats import OutgoingStats as OutgoingStats
    from triack.stats.node_stats import QueueStats as QueueStats
    from triack.stats.node_stats import SessionStats as SessionStats
    from triack.stats.node_stats import TransitStats as TransitStats
    from triack.stats.node_stats import WayStats as WayStats
    from triack.stats.stream_stats import IncomingStreamStats as IncomingStreamStats
    from triack.stats.stream_stats import OutgoingStreamStats as OutgoingStreamStats
    from triack.stats.stream_stats import StreamsStats as StreamsStats
    from triack.stats.stream_stats import TransitStreamStats as TransitStreamStats
    from triack.stats.topic_stats import RemoteSubscriptionStats as RemoteSubscriptionStats
    from triack.stats.topic_stats import SubscriptionStats as SubscriptionStats
    from triack.stats.topic_stats import TopicStats as TopicStats
    from triack.stats.troubles import BridgeStats as BridgeStats
    from triack.stats.troubles import TroubleStats as TroubleStats
    from triack.transport.tcp import Tls as Tls

__version__ = "0.1.0"

EXPRESS = Delivery.EXPRESS
RECOVERABLE = Delivery.RECOVERABLE
TRANSACTIONAL = Delivery.TRANSACTIONAL

_MODULES = {
    "triack.base.ack_trigger": "AckTrigger",
    "triack.base.news": (
        "AckWaitOver BridgeLost BridgeRefused BridgeUp CallRefused CanSend DeadLettersWaiting EventsMissed GapFound "
        "JournalFull LinkDown LinkDowngraded LinkUp LinkUpgraded MessagesDiscarded NodeEvent NoRoute PeerHalted "
        "PeerSilent PeerUnknown QueueOverQuota StoreLow StreamHeld StreamsNearLimit SubscriptionLost TransitOverQuota "
        "WayChanged"
    ),
    "triack.node.client.client": "Client connect",
    "triack.node.handles.acknowledgements": "Acknowledgements",
    "triack.node.handles.consumer": "AckMode Consumer",
    "triack.node.handles.consuming": "HandlerOptions OnError",
    "triack.node.handles.message": "Message Messages",
    "triack.node.handles.receipt": "Receipt Receipts",
    "triack.node.handles.verbs": "Reloaded",
    "triack.node.handles.subscribing": "Subscriber",
    "triack.node.handles.transaction": "Transaction",
    "triack.node.node": "Node open",
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
    "triack.stats.troubles": "BridgeStats TroubleStats",
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
    "triack.transport.tcp": "Tls",
}
"""The modules of other names."""

_HOMES = {
    "policies": "triack.policies",
    "sync": "triack.sync",
    **{name: f"{module}:{name}" for module, names in _MODULES.items() for name in names.split()},
}
"""The places of the other names. Each is loaded at its first use, so that `import triack` is quick enough for a script
or a command of one line, and loads no part that is not used."""

__all__ = ["EXPRESS", "RECOVERABLE", "TRANSACTIONAL", "Delivery", *_HOMES, *errors.__all__]

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
