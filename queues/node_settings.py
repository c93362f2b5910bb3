"""What a node can be told beyond its sessions and sequences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from triack.base.ack_trigger import AckTrigger
from triack.base.checks import check_between, check_datagram, check_kind, check_settings
from triack.base.errors import UsageError
from triack.base.names import check_name
from triack.base.survival import SURVIVES, Survives
from triack.ordering.order_settings import OrderSettings
from triack.queues.blocking import Blocking
from triack.session.protocol.settings import SessionSettings

__all__ = [
    "STREAM_BYTES",
    "DeadLetters",
    "Gap",
    "KeySettings",
    "Limits",
    "NodeSettings",
    "Quota",
    "Reconnect",
    "Redelivery",
    "WhenFull",
    "WhenLettersFull",
    "streams_limit",
]


@dataclass(frozen=True, slots=True)
class KeySettings:
    """Keys with which messages are sent once. A node that has as many as it may refuses new ones (``TooManyKeys``).

    Attributes:
        lifetime_s: how many seconds what was sent with a key is not accepted again.
        most: keys of one node; each takes about half a kilobyte of memory.
    """

    lifetime_s: float = 86_400.0
    most: int = 100_000

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, slots=True)
class Redelivery:
    """When failed messages of a queue, or of one consumer, come again. Durations are given in seconds.

    Attributes:
        first_wait_s: the wait after the first failure of a message; it doubles with each further one. 0: no wait.
        max_wait_s: the longest wait.
        keep_order: everything younger in the queue waits with the message; False lets younger messages pass.
    """

    first_wait_s: float = 1.0
    max_wait_s: float = 60.0
    keep_order: bool = True

    def __post_init__(self) -> None:
        check_settings(self, may_be_zero=("first_wait_s", "max_wait_s"))
        if not isinstance(self.keep_order, bool):
            raise UsageError(f"Redelivery: keep_order must be True or False, not {self.keep_order!r}")


Gap = Literal["warn", "error"]
"""Whether to go on when the node that a peer's name leads to is not the one that acknowledged what was sent before."""
_AfterSessionLost = Literal["resend", "hand back"]


@dataclass(frozen=True, slots=True)
class Reconnect:
    """The waits between attempts to connect, and what a lost session leaves behind. Durations are given in seconds.

    MSMQ's waits for a destination that cannot be found (``WaitTime``) are ``Reconnect(first_s=60, step_s=30,
    most_s=300, unanswered_most_s=300, jitter=0)``; its plain reconnects (``TryConnectInterval``) ``Reconnect(first_s=5,
    most_s=5, unanswered_most_s=5, jitter=0)``.

    Attributes:
        first_s: the wait after a session that was open.
        step_s: each further wait in a row is that much longer; None: twice as long. A session that lasts for
            ``most_s``, or ends as idle, ends the row.
        most_s: the longest wait.
        unanswered_most_s: the longest after an attempt that nobody answered: it was a wait itself, of
            ``connect_timeout_s``, and a peer that comes back must not wait for ours.
        eager_s: how long a peer that does not answer is called once a second or more often.
        away_most_s: the longest wait between two calls to a peer that has not answered for longer than that, whatever
            the other waits are. Each call over UDP is 1,228 bytes with its headers, so that 120 s make 0.9 MB a day. A
            peer that calls by itself is heard at once.
        jitter: that share of each wait is drawn, so that nodes that lost the same peer do not come back in step.
        after_session_lost: what becomes of what was sent and not acknowledged when its session is lost, its peer being
            silent, gone, begun anew or ending it: ``resend`` it on the next session, or ``hand back``: its receipt
            fails as ``session-lost``, it is a dead letter that may have been delivered, and is sent no more.
        gap: what happens when another node answers for a peer, one that has nothing of what was acknowledged: ``warn``
            tells of it, counts it and goes on; ``error`` sends nothing there, and whoever waits gets ``GapDetected``.
    """

    first_s: float = 0.1
    step_s: float | None = None
    most_s: float = 1.0
    unanswered_most_s: float = 0.1
    eager_s: float = 3_600.0
    away_most_s: float = 120.0
    jitter: float = 0.5
    after_session_lost: _AfterSessionLost = "resend"
    gap: Gap = "warn"

    def __post_init__(self) -> None:
        check_settings(self, may_be_zero=("eager_s",))
        check_between("Reconnect: jitter", self.jitter, 0, 1)
        if self.gap not in get_args(Gap):
            raise UsageError(f"Reconnect: gap must be warn or error, not {self.gap!r}")
        if self.after_session_lost not in get_args(_AfterSessionLost):
            raise UsageError(
                f"Reconnect: after_session_lost must be resend or hand back, not {self.after_session_lost!r}"
            )
        if self.first_s > self.most_s:
            raise UsageError(f"Reconnect: first_s is {self.first_s}, more than most_s, {self.most_s}")


STREAM_BYTES = 2_048
"""What a stream takes in memory beside what is out of order, measured: machines, names, entries in tables."""
WhenFull = Literal["hold", "reject"]
"""What becomes of messages for a full queue: they wait at their sender, or are refused for ever as ``queue-full``."""


@dataclass(frozen=True, slots=True)
class Quota:
    """How much a queue takes. One packet may go beyond it, a large message with all of its packets.

    Attributes:
        messages: that are not acknowledged.
        size_bytes: of the packets that hold them.
        when_full: ``hold`` lets senders wait; ``reject`` refuses what comes, which goes to its sender's dead-letter
            queue. Express messages that are on their way when their sender is told to wait are still taken.
    """

    messages: int = 10_000_000
    size_bytes: int = 1024**3
    when_full: WhenFull = "hold"

    def __post_init__(self) -> None:
        check_settings(self)
        if self.when_full not in get_args(WhenFull):
            raise UsageError(f"Quota: when_full must be hold or reject, not {self.when_full!r}")


WhenLettersFull = Literal["drop oldest", "keep", "discard expired"]
"""What becomes of dead letters when their quota is full."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """How many dead letters a node keeps. They count for no other quota, so that no other queue waits for them.

    Attributes:
        messages: at most.
        size_bytes: of the packets that hold them, at most.
        when_full: ``drop oldest`` lets the oldest letters go that nobody has in hand; ``keep`` keeps those that are
            there, and new ones are lost; ``discard expired`` keeps no letter of a message whose time ran out, and is
            ``drop oldest`` for the others. Each message that is lost is counted in ``NodeStats.drops``.
    """

    messages: int = 10_000_000
    size_bytes: int = 1024**3
    when_full: WhenLettersFull = "drop oldest"

    def __post_init__(self) -> None:
        check_settings(self)
        if self.when_full not in get_args(WhenLettersFull):
            known = ", ".join(get_args(WhenLettersFull))
            raise UsageError(f"DeadLetters: when_full must be one of {known}, not {self.when_full!r}")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may lie in a node, and what its peers may fill of it.

    Attributes:
        quota: how much each queue takes, but for the dead-letter queue.
        queue_quota: the same for some queues, by name.
        dead_letters: how many letters are kept in the dead-letter queue, and what becomes of more.
        node_quota_bytes: of all other queues together.
        peer_quota_bytes: of what one peer has in them.
        peer_memory_bytes: memory that one peer can fill: half with express messages that nobody reads, the rest with
            packets that came too early, and with those that wait for the disk.
        memory_bytes: memory that all peers can fill.
        disk_reserve_bytes: with less room than that on the disk nothing new is accepted for it; 0 never looks.
        max_peer_queues: queues that one peer may have created since the start, and that are still there.
    """

    quota: Quota = field(default_factory=Quota)
    queue_quota: Mapping[str, Quota] = field(default_factory=dict)
    dead_letters: DeadLetters = field(default_factory=DeadLetters)
    node_quota_bytes: int = 8 * 1024**3
    peer_quota_bytes: int = 2 * 1024**3
    peer_memory_bytes: int = 16 * 1024 * 1024
    memory_bytes: int = 256 * 1024 * 1024
    disk_reserve_bytes: int = 64 * 1024 * 1024
    max_peer_queues: int = 4_096

    def __post_init__(self) -> None:
        check_settings(self, may_be_zero=("disk_reserve_bytes",))
        check_kind("Limits: dead_letters", self.dead_letters, DeadLetters)
        for queue, quota in self.queue_quota.items():
            check_kind(f"Limits: queue_quota of {check_name(queue)}", quota, Quota)

    def quota_of(self, queue: str) -> Quota:
        """How much that queue takes."""
        return self.queue_quota.get(queue, self.quota)


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
