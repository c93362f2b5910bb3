"""Triack: messages from machine to machine, exactly once, in order and durably, with no broker.

async with triack.open("plant-a", data="plant-a", listen="udp://0.0.0.0:7801") as node:
    await node.trust("plant-b", "triack-public-...", "udp://plant-b.example:7801")
    receipt = await node.send("plant-b/orders", b"...")
    await receipt.ordered(timeout=10)
"""

from triack import policies, sync
from triack.base import errors
from triack.base.ack_trigger import AckTrigger
from triack.base.delivery import Delivery
from triack.base.errors import *  # noqa: F403 - the error tree is public as a whole
from triack.base.news import LinkDown, LinkUp, NodeEvent, PeerHalted, PeerSilent, PeerUnknown, QueueOverQuota, StoreLow
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
from triack.node.stats import AckStats, LinkStats, NodeStats, OutgoingStats, QueueStats, SessionStats
from triack.node.transaction import Transaction
from triack.ordering.settings import OrderSettings
from triack.queues.accepted_keys import KeySettings
from triack.queues.ack_events import AckEvent, AckKind
from triack.queues.browse import BrowsedMessage
from triack.queues.quotas import Limits, Quota
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
    "BrowsedMessage",
    "Client",
    "Consumer",
    "Delivery",
    "EnrolledPeer",
    "Events",
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
    "Tls",
    "Transaction",
    "connect",
    "open",
    "policies",
    "sync",
    *errors.__all__,
]
