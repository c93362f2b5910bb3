"""What may happen in a search, and how often: a small world with two nodes."""

from dataclasses import dataclass, field
from functools import lru_cache

from triack.base.ack_trigger import AckTrigger
from triack.base.checks import DATAGRAM_BASE_BYTES
from triack.base.delivery import Delivery
from triack.ordering.order_settings import OrderSettings
from triack.queues.node_settings import NodeSettings
from triack.session.protocol.settings import SessionSettings


@dataclass(frozen=True, slots=True)
class Part:
    """What one node does and suffers.

    Attributes:
        ready: messages for the other node that are on its disk when the search begins, each in another packet.
        sends: further messages that its application sends to the other node, each in another packet unless something
            delays them.
        reads: whether its application reads what arrives. Express messages are always read as they come.
        crashes: how often it is killed; it restarts immediately.
        stops: how often it is closed in the orderly way, and started again.
        breaks: how often the transport says that the path is lost.
        sessions: how many sessions it makes or accepts, over all its lives.
        patience: how often a timer ends that sends the same once more (probes and resend tiers).
    """

    ready: int = 0
    sends: int = 0
    delivery: Delivery = Delivery.TRANSACTIONAL
    reads: bool = False
    crashes: int = 0
    stops: int = 0
    breaks: int = 0
    sessions: int = 1
    patience: int = 0


@dataclass(frozen=True, slots=True)
class Scope:
    """A small world. The network may do anything in it, and timers may end at any time and in any order.

    Attributes:
        story: what it is about, in a sentence.
        parts: the two nodes; the first connects, and the second too if it sends.
        window: packets that a session may have unacknowledged.
        packets: how many packets a session may number, each way.
        ack_count: packets after which a session ack leaves immediately.
        echoes: whether acks say which datagram they answer. Without, no ack shows a loss: probes repair it.
        history: whether nodes tell each other which start and which commit of their store it is. Without, all are the
            same.
        keeps: whether datagrams stay in the network when no node can accept them any more.
        ends: whether idle streams may end, at any time.
    """

    name: str
    story: str
    parts: tuple[Part, Part]
    window: int = 3
    packets: int = 8
    ack_count: int = 1
    still: frozenset[str] = field(default_factory=frozenset)
    echoes: bool = True
    history: bool = True
    keeps: bool = False
    ends: bool = False


@lru_cache
def settings_of(scope: Scope) -> NodeSettings:
    """The settings of both nodes. Waits are short, so that fair runs are."""
    return NodeSettings(
        session=SessionSettings(
            max_datagram_bytes=DATAGRAM_BASE_BYTES,  # nothing to probe for: a search has enough to do
            max_unacked_packet=scope.window,
            ack_trigger=AckTrigger(count=scope.ack_count),
            cleanup_interval_s=20.0,
        ),
        order=OrderSettings(order_ack_every=2, seq_resend_13_s=1.0, seq_resend_46_s=2.0),
    )
