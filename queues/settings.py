"""What a node can be told beyond its sessions and sequences."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from triack.base.ack_trigger import AckTrigger
from triack.base.checks import check_datagram, check_kind, check_settings
from triack.base.errors import UsageError
from triack.base.names import check_name
from triack.base.survival import SURVIVES, Survives
from triack.ordering.settings import OrderSettings
from triack.queues.accepted_keys import KeySettings
from triack.queues.blocking import Blocking
from triack.queues.quotas import STREAM_BYTES, Limits
from triack.queues.reconnect import Reconnect
from triack.queues.redelivery import Redelivery
from triack.session.settings import SessionSettings

__all__ = ["NodeSettings", "streams_limit"]


def streams_limit(settings: "NodeSettings") -> int:
    """How many streams of one peer may be live, by their number and by the memory that they take."""
    return min(settings.max_streams, max(1, settings.limits.peer_memory_bytes // 4 // STREAM_BYTES))


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Settings of one node. Durations are given in seconds.

    Attributes:
        session: limits and timeouts of its sessions.
        order: those of its sequences.
        stream_datagram_bytes: largest datagram on ``tcp://`` and ``memory://``; ``session.max_datagram_bytes`` is for
            UDP.
        reconnect: how long to wait before another attempt to connect.
        pending_limit_bytes: messages accepted but not yet in a packet; at that many ``send`` waits.
        express_limit_bytes: unacknowledged express bodies in memory; at that many ``send`` waits.
        body_cache_bytes: bodies of waiting outgoing packets in memory; beyond it only the disk has them. Packets that
            wait in a queue of this node may take as much, and those in all queues four times as much.
        max_redeliveries: how often a message that failed is tried again; failing once more, it goes to the dead-letter
            queue.
        redelivery: how long a message that failed waits before it comes again.
        queue_redelivery: the same for some queues, by name.
        limits: how much may lie in the node, and what its peers may fill of it.
        max_sessions: sessions at a time; beyond it the oldest unfinished connection is dropped.
        max_queues: queues that arrivals may create; beyond it empty ones that nobody reads are removed.
        max_streams: incoming streams of one peer that are live. At half of them, a node lets its own idle streams to a
            peer end at once, as the peer may have the same limit.
        retire_after_s: how long a stream has had nothing outstanding when it ends; 0 or None: only to make room for
            others. Its next message begins a new one.
        close_timeout_s: how long ``close`` waits for the disk, and for the last acks.
        keep_alive_s: for nodes that listen nowhere, so that nobody can call them: how long a session over UDP that they
            have begun may send nothing before it sends a ping. Middle boxes that forget flows do so after 30 s at the
            earliest; over UDP a day of this costs half a megabyte for each peer. 0 for no such pings. A peer may have
            an interval of its own (``Node.trust``).
        keys: how long the keys of messages count, and how many there may be.
        messages_per_packet: the most that share a packet; None for as many as fit. With 1 a window of packets, and all
            else that counts them, is one of messages.
        ack_events: when acknowledgements are told (``Node.acknowledgements``); None: of each message by itself.
        blocking: how far messages have come when ``send`` returns.
        survives: what the node's store survives: ``power loss``, ``process crash`` (then a loss of power may take the
            last commits, or leave the store damaged) or ``nothing`` (it is in memory). What peers are told is stored
            here is as safe as that, and they are told so (``SessionStats.survives``).
    """

    session: SessionSettings = field(default_factory=SessionSettings)
    order: OrderSettings = field(default_factory=OrderSettings)
    stream_datagram_bytes: int = 65_000
    reconnect: Reconnect = field(default_factory=Reconnect)
    pending_limit_bytes: int = 4 * 1024 * 1024
    express_limit_bytes: int = 16 * 1024 * 1024
    body_cache_bytes: int = 16 * 1024 * 1024
    max_redeliveries: int = 10
    redelivery: Redelivery = field(default_factory=Redelivery)
    queue_redelivery: Mapping[str, Redelivery] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    max_sessions: int = 16_384
    max_queues: int = 10_000
    max_streams: int = 4_096
    retire_after_s: float | None = 3_600.0
    close_timeout_s: float = 5.0
    keep_alive_s: float = 25.0
    keys: KeySettings = field(default_factory=KeySettings)
    messages_per_packet: int | None = None
    ack_events: AckTrigger | None = None
    blocking: Blocking = field(default_factory=Blocking)
    survives: Survives = "power loss"

    def __post_init__(self) -> None:
        may_be_zero = ("body_cache_bytes", "max_redeliveries", "close_timeout_s", "keep_alive_s", "retire_after_s")
        check_settings(self, may_be_zero=may_be_zero)
        check_datagram("NodeSettings: stream_datagram_bytes", self.stream_datagram_bytes)
        check_kind("NodeSettings: ack_events", self.ack_events, AckTrigger | None)
        if self.survives not in SURVIVES:
            raise UsageError(f"NodeSettings: survives must be {', '.join(SURVIVES)}, not {self.survives!r}")
        for queue, redelivery in self.queue_redelivery.items():
            check_kind(f"NodeSettings: queue_redelivery of {check_name(queue)}", redelivery, Redelivery)

    def redelivery_of(self, queue: str) -> Redelivery:
        """When failed messages of that queue come again."""
        return self.queue_redelivery.get(queue, self.redelivery)
