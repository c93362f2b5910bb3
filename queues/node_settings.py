"""Settings of a node, beyond those of its sessions and sequences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, get_args

from triack.base.ack_trigger import AckTrigger
from triack.base.checks import check_between, check_choice, check_datagram, check_kind, check_settings
from triack.base.errors import UsageError
from triack.base.names import LEVEL_END, TOPIC_PREFIX, check_name, check_queue, check_topic, composed
from triack.base.paths import UDP_SOCKETS, UdpSockets
from triack.base.survival import SURVIVES, Survives
from triack.ordering.order_settings import OrderSettings
from triack.queues.blocking import Blocking
from triack.session.protocol.settings import SessionSettings


@dataclass(frozen=True, slots=True)
class KeySettings:
    """Keys with which messages are sent once. A node that is at its limit refuses new ones (``TooManyKeys``).

    Attributes:
        lifetime_s: for how many seconds a message with the key of an accepted one is not accepted again. Too small: a
            late repetition counts as a new message; too large: more keys are kept.
        most: keys of one node; each takes about half a kilobyte of memory. Too small: new keys are refused until old
            ones end; too large: they fill the memory.
    """

    lifetime_s: float = 86_400.0
    most: int = 100_000

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, slots=True)
class Redelivery:
    """When failed messages of a queue, or of one consumer, come again. Durations are given in seconds.

    Attributes:
        first_wait_s: the wait after the first failure of a message; it doubles with each further one. 0: no wait. Too
            small: a fault of a second uses up the attempts; too large: a message that would succeed now waits.
        max_wait_s: the longest wait. Too small: a long fault uses up the attempts; too large: a queue stands still
            after the fault has ended.
        keep_order: everything younger in the queue waits with the message; False lets younger messages pass.
    """

    first_wait_s: float = 1.0
    max_wait_s: float = 60.0
    keep_order: bool = True

    def __post_init__(self) -> None:
        check_settings(self, may_be_zero=("first_wait_s", "max_wait_s"))
        if not isinstance(self.keep_order, bool):
            raise UsageError(f"Redelivery: keep_order must be True or False, not {self.keep_order!r}")


@dataclass(frozen=True, slots=True)
class Forward:
    """Where the node itself passes on what arrives in a queue.

    Attributes:
        to: the destination, such as ``cloud/intake``, or another queue of this node.
        label: only messages whose label fits this pattern, as of ``fnmatch``, such as ``reading-*``; a message without
            one has an empty one. None: all messages.
        others_to: with a pattern: the destination of all other messages, such as a queue of this node.
    """

    to: str
    label: str | None = None
    others_to: str | None = None

    def __post_init__(self) -> None:
        check_kind("Forward: to", self.to, str)
        check_kind("Forward: label", self.label, str | None)
        check_kind("Forward: others_to", self.others_to, str | None)
        if not self.to:
            raise UsageError("Forward: to is missing: name a destination, such as cloud/intake")
        if self.label is not None and not self.others_to:
            raise UsageError("Forward: others_to is missing: with a label, say where all other messages go")
        if self.others_to is not None and self.label is None:
            raise UsageError("Forward: others_to is for messages whose label does not fit, and label is missing")

    def destination_of(self, label: str | None) -> str:
        """Where a message with that label goes."""
        fits = self.label is None or self.others_to is None or fnmatchcase(label or "", self.label)
        return self.to if fits else self.others_to or self.to


LARGE_MOST_BYTES = 1 << 47
"""The largest size that an announcement of a body has room for."""


PART_MIN_BYTES = 256
"""The smallest part of a large body, except the last. Each may be a row of the store, as each piece of a message may.
"""


@dataclass(frozen=True, slots=True)
class LargeBodies:
    """Bodies that are sent in parts (``Node.send_stream``).

    Attributes:
        from_bytes: longer bodies are sent in parts; shorter ones, up to that, are messages like any other. Too small:
            small bodies wait for their destination, too; too large: long ones are in memory as a whole.
        part_bytes: size of a part, at most: a reader has one of them in memory at a time, or small ones together up to
            256 KiB.
        ahead_bytes: of one body, how much may be on the disk of this node before it is on that of its destination.
        most_bytes: size of the largest body that this node sends. The quota of its queue may allow less. Too small:
            larger ones are refused; too large: one body fills the disk of its destination.
    """

    from_bytes: int = 4 * 1024 * 1024
    part_bytes: int = 256 * 1024
    ahead_bytes: int = 4 * 1024 * 1024
    most_bytes: int = 64 * 1024**3

    def __post_init__(self) -> None:
        check_settings(self)
        check_between("LargeBodies: from_bytes", self.from_bytes, 1, 4 * 1024 * 1024)
        check_between("LargeBodies: part_bytes", self.part_bytes, PART_MIN_BYTES, 4 * 1024 * 1024)
        check_between("LargeBodies: most_bytes", self.most_bytes, 1, LARGE_MOST_BYTES)


Gap = Literal["warn", "error"]
"""Whether to continue when a peer's name leads to another node than the one that acknowledged what was sent before."""
_AfterSessionLost = Literal["resend", "hand back"]


@dataclass(frozen=True, slots=True)
class Reconnect:
    """The waits between attempts to connect, and what a lost session leaves behind. Durations are given in seconds.

    MSMQ's waits for a destination that cannot be found (``WaitTime``) are ``Reconnect(first_s=60, step_s=30,
    most_s=300, unanswered_most_s=300, jitter=0)``; its plain reconnects (``TryConnectInterval``) ``Reconnect(first_s=5,
    most_s=5, unanswered_most_s=5, jitter=0)``.

    Attributes:
        first_s: the wait after a session that was open. Too small: a peer in trouble is called more often; too large:
            messages wait after each lost session.
        step_s: each further wait in a row is that much longer; None: twice as long. A session that lasts for
            ``most_s``, or ends as idle, ends the row.
        most_s: the longest wait. Too small: a peer that refuses is called often; too large: messages wait after the
            peer is back.
        unanswered_most_s: the longest wait after an attempt without an answer. Such an attempt was a wait itself, of
            ``connect_timeout_s``, and a peer that comes back must not wait for ours.
        eager_s: how long to call a peer that does not answer once a second or more often. Too small: a peer that is
            back after a short absence waits for ``away_most_s``; too large: calls to a peer that is away cost traffic.
        away_most_s: the longest wait between two calls to a peer that has not answered for longer than ``eager_s``. A
            peer that calls by itself is heard without delay. Too small: calls cost traffic: 120 s make 0.9 MB a day
            over UDP, 10 s make 11 MB; too large: messages wait that long after the peer is back.
        jitter: the random share of each wait, so that nodes that lost the same peer do not come back in step.
        after_session_lost: what to do with sent but unacknowledged messages when their session is lost because the peer
            is silent, gone, restarted or ends it. ``resend`` sends them on the next session. ``hand back`` fails their
            receipts as ``session-lost``; they become dead letters that may have been delivered, and are not resent.
        gap: what to do when another node answers for a peer, one that has none of the acknowledged messages: ``warn``
            reports and counts it and keeps sending; ``error`` sends nothing there, and waiters get ``GapDetected``.
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
        check_choice("Reconnect: gap", self.gap, get_args(Gap))
        check_choice("Reconnect: after_session_lost", self.after_session_lost, get_args(_AfterSessionLost))
        if self.first_s > self.most_s:
            raise UsageError(f"Reconnect: first_s is {self.first_s}, more than most_s, {self.most_s}")


STREAM_BYTES = 2_048
"""Memory of a stream without its out-of-order packets, measured: state machines, names, entries in tables."""
STORE_LOG_MIN_BYTES = 256 * 1024
"""Sixteen pages of a store: with fewer, every few commits would be written twice."""
STORE_LOG_MAX_BYTES = 1024**3
"""A log is read and written again as a whole after an unclean end: that takes seconds for a GiB."""
WhenFull = Literal["hold", "reject"]
"""What happens to messages for a full queue: they wait at their sender, or are rejected as ``queue-full``."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of a queue. One packet may exceed them, or one large message with all of its packets.

    Attributes:
        messages: unacknowledged messages. Too small: senders wait, or are refused, in each burst; too large: readers
            that stand still are noticed late.
        size_bytes: of the packets that hold them. Too small: senders wait, or are refused, in each burst; too large:
            one queue fills the disk.
        when_full: ``hold`` lets senders wait; ``reject`` rejects new messages, which go to their senders' dead-letter
            queues. Express messages that are in flight when their sender is asked to wait are still taken.
    """

    messages: int = 10_000_000
    size_bytes: int = 1024**3
    when_full: WhenFull = "hold"

    def __post_init__(self) -> None:
        check_settings(self)
        check_choice("Quota: when_full", self.when_full, get_args(WhenFull))


WhenJournalFull = Literal["drop oldest", "stop", "hold"]
"""What happens when the quota of a journal is full."""


@dataclass(frozen=True, slots=True)
class Journal:
    """Limits of a journal: copies of messages that readers took from a queue, or that this node has sent.

    They count for no quota of queues or peers. All journals together have no more than ``Limits.node_quota_bytes``.

    Attributes:
        messages: at most. Too small: copies are lost, or hold up senders, before they are looked at; too large: the
            journal fills the disk.
        size_bytes: of the packets that hold them, at most. Too small: copies are lost, or hold up senders, before they
            are looked at; too large: the journal fills the disk.
        when_full: ``drop oldest`` drops the oldest copies that no reader has; ``stop`` makes no copies until
            there is room, as MSMQ does; ``hold`` lets the senders of the queue wait until there is room. For the
            journal of what was sent, they are this node's own, to queues to which messages with ``journal`` go.
        keep_s: how many seconds a copy is kept; None for any time. Too small: copies are gone before they are looked
            at; too large: the journal is full, and ``when_full`` decides.
    """

    messages: int = 100_000
    size_bytes: int = 256 * 1024 * 1024
    when_full: WhenJournalFull = "drop oldest"
    keep_s: float | None = 604_800.0

    def __post_init__(self) -> None:
        check_settings(self)
        check_choice("Journal: when_full", self.when_full, get_args(WhenJournalFull))


WhenLettersFull = Literal["drop oldest", "keep", "discard expired"]
"""What happens to dead letters when their quota is full."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Limits of the dead-letter queue. Dead letters count for no other quota, so no other queue waits for them.

    Attributes:
        messages: at most. Too small: letters are lost before they are looked at; too large: nothing reminds of letters
            that no program reads but ``warn_at``.
        size_bytes: of the packets that hold them, at most. Too small: letters are lost before they are looked at; too
            large: they fill the disk.
        when_full: ``drop oldest`` drops the oldest letters that no reader has; ``keep`` keeps the present ones
            and drops new ones; ``discard expired`` keeps no letters of expired messages, and is ``drop oldest`` for the
            others. Each message that is lost is counted in ``NodeStats.drops``.
        warn_at: with this many letters the node tells its operator (``DeadLettersWaiting``); it refuses nothing. Too
            small: it warns of what is usual; too large: letters are lost before it warns.
    """

    messages: int = 10_000_000
    size_bytes: int = 1024**3
    when_full: WhenLettersFull = "drop oldest"
    warn_at: int = 100_000

    def __post_init__(self) -> None:
        check_settings(self)
        check_choice("DeadLetters: when_full", self.when_full, get_args(WhenLettersFull))


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of what a node stores, and of what its peers may fill.

    Attributes:
        quota: limits of each queue except the dead-letter queue.
        queue_quota: the same for some queues, by name.
        dead_letters: limits of the dead-letter queue, and what happens when it is full.
        journal: limits of journals, where ``queue_journal`` says nothing else, and of the journal of what was sent.
        queue_journal: the queues that have a journal, by name, with its limits.
        node_quota_bytes: limit of all other queues together, and once more of all journals together. Too small: all
            senders wait although the disk has room; too large: the disk is full, and all stops at
            ``disk_reserve_bytes``.
        peer_quota_bytes: limit of what one peer has in them. Too small: a busy peer waits; too large: one peer takes
            the room of all.
        peer_memory_bytes: memory that one peer can fill: half with unread express messages, the rest with out-of-order
            packets and with packets that wait for the disk. Too small: windows and streams of the peer are small, so it
            is slow; too large: one peer can fill more of ``memory_bytes``.
        memory_bytes: memory that all peers can fill. Too small: each of many peers has little room, so they are slow;
            too large: the process can outgrow its machine.
        disk_reserve_bytes: with less free room on the disk nothing new is accepted for it; 0 never checks. Too small:
            other programs, and the node's own logs, run into a full disk; too large: senders wait although there is
            room.
        store_log_bytes: of a new data directory: the size at which the log of its store is brought into the database.
            The file of the log has room for a quarter more, and the file ``ballast`` is as large as that. Too small:
            the disk is written to more often; too large: it takes room on a small disk, and a start after a crash takes
            longer.
        max_peer_queues: existing queues that one peer has created since the start.
        transit_quota: limits of all messages that wait here for other nodes; a neighbour that has less than its equal
            share of the bytes continues.
        peer_transit_bytes: limit of what one neighbour has brought of what waits here for other nodes. Too small: a
            busy neighbour waits; too large: one neighbour takes the room of all.
    """

    quota: Quota = field(default_factory=Quota)
    queue_quota: Mapping[str, Quota] = field(default_factory=dict)
    dead_letters: DeadLetters = field(default_factory=DeadLetters)
    journal: Journal = field(default_factory=Journal)
    queue_journal: Mapping[str, Journal] = field(default_factory=dict)
    node_quota_bytes: int = 8 * 1024**3
    peer_quota_bytes: int = 2 * 1024**3
    peer_memory_bytes: int = 16 * 1024 * 1024
    memory_bytes: int = 256 * 1024 * 1024
    disk_reserve_bytes: int = 64 * 1024 * 1024
    store_log_bytes: int = 32 * 1024 * 1024
    max_peer_queues: int = 4_096
    transit_quota: Quota = Quota(size_bytes=4 * 1024**3)
    peer_transit_bytes: int = 1024**3

    def __post_init__(self) -> None:
        check_settings(self, may_be_zero=("disk_reserve_bytes",))
        check_between("Limits: store_log_bytes", self.store_log_bytes, STORE_LOG_MIN_BYTES, STORE_LOG_MAX_BYTES)
        if self.transit_quota.when_full != "hold":
            raise UsageError(
                "Limits: transit_quota: when_full must be hold, as a relay rejects nothing for want of room"
            )
        object.__setattr__(self, "queue_quota", {check_queue(queue): it for queue, it in self.queue_quota.items()})
        for queue, quota in self.queue_quota.items():
            check_kind(f"Limits: queue_quota of {queue}", quota, Quota)
        object.__setattr__(self, "queue_journal", {composed(queue): it for queue, it in self.queue_journal.items()})
        for queue, journal in self.queue_journal.items():
            check_kind(f"Limits: queue_journal of {check_name(f'$journal.{queue}')}", journal, Journal)

    def quota_of(self, queue: str) -> Quota:
        """Limits of that queue."""
        return self.queue_quota.get(queue, self.quota)


Strategy = Literal["discard_none", "slowest_sub_rate", "discard_allowed"]
"""When messages of a topic go to its subscriptions that are not durable, as in WSO2 Message Broker."""


@dataclass(frozen=True, slots=True)
class Topic:
    """Settings of the topics below one root; a subscription that is not durable has room for some messages.

    Attributes:
        strategy: the next message goes to all subscriptions that are not durable, with ``discard_none`` as soon as one
            of them has room, and with ``slowest_sub_rate`` when each has. With ``discard_allowed`` it goes as with
            ``discard_none``, and is acknowledged in place of a subscription that has not done so within
            ``delivery_timeout_s``.
        max_unacked: messages that may be unacknowledged before a subscription has no room; it may have its own number.
            Too small: a subscriber waits for each round trip; too large: one that is slow holds more messages back.
        delivery_timeout_s: seconds after which ``discard_allowed`` discards a message. Too small: a subscriber that is
            busy for a moment misses messages; too large: one that hangs holds all others up.
        ack_wait_s: how many seconds a reader of any subscription may keep a message without acknowledging it, if the
            subscription has no own limit; None: no limit. Too small: a message is delivered again while it is worked
            on; too large: those of a reader that hangs wait.
        quota: limits of the messages that some subscription wants; publishers wait at it, or are refused. None: as for
            queues (``Limits.quota``).
    """

    strategy: Strategy = "discard_none"
    max_unacked: int = 1_000
    delivery_timeout_s: float = 60.0
    ack_wait_s: float | None = None
    quota: Quota | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        check_kind("Topic: quota", self.quota, Quota | None)
        check_choice("Topic: strategy", self.strategy, get_args(Strategy))


ALL_ROOTS = "*"
"""The root whose settings are for all that have no other: no name can be that."""


def check_root(root: str) -> str:
    """Return the name of a root of topics, composed. Raises AddressError, or UsageError if it has more levels."""
    if root == ALL_ROOTS:
        return root
    checked = check_topic(root)
    if LEVEL_END in checked:
        raise UsageError(f"topics of {root}: only a root, the first level of names, has settings")
    return checked


def streams_limit(settings: "NodeSettings") -> int:
    """The limit of live streams of one peer, by their number and by their memory."""
    return min(settings.max_streams, max(1, settings.limits.peer_memory_bytes // 4 // STREAM_BYTES))


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Settings of one node. Durations are given in seconds.

    Attributes:
        session: limits and timeouts of its sessions.
        order: limits and timeouts of its sequences.
        stream_datagram_bytes: largest datagram on ``tcp://`` and ``memory://``; ``session.max_datagram_bytes`` is for
            UDP.
        reconnect: how long to wait before another attempt to connect.
        pending_limit_bytes: messages accepted but not yet in a packet; at the limit ``send`` waits.
        publish_window: how many messages to one queue, in one class and of one priority, may be accepted and not yet
            acknowledged; at the limit ``send`` waits. A transaction that is larger waits until all before it is
            acknowledged. None: no such limit. Solace's publish window. Too small: each few messages take a round trip;
            too large: more messages wait here, in doubt, when a peer is away.
        body_cache_bytes: bodies of waiting outgoing packets in memory; further ones are only on the disk. Packets that
            wait in a queue of this node may take as much, those in all queues four times as much, and those that wait
            here for other nodes as much as outgoing ones, the packets themselves included.
        max_redeliveries: how often a failed message is tried again; if it fails once more, it goes to the dead-letter
            queue. Too small: a short fault makes dead letters; too large: a message that always fails keeps its reader
            busy.
        redelivery: how long a message that failed waits before it is redelivered.
        queue_redelivery: the same for some queues, by name.
        forwards: the queues that the node itself passes on, by name.
        limits: limits of what the node stores, and of what its peers may fill.
        max_sessions: sessions at a time; beyond it the oldest unfinished connection is dropped. Too small: peers cannot
            connect; too large: strangers can fill more memory.
        max_queues: queues that arrivals may create; beyond it empty queues without a reader are removed. Too small:
            messages for new queues wait at their senders; too large: a program that makes up names leaves more queues,
            4 KB each.
        max_streams: live incoming streams of one peer. Above half of it a node ends its own idle streams to a peer
            without delay, as the peer may have the same limit. Too small: messages for further queues wait at their
            sender; too large: each takes 2 KiB of the memory of its peer.
        max_peer_subscriptions: subscriptions of one peer, and of all nodes behind it, to topics of this node. Too
            small: further ones are refused; too large: a peer can make each message cost more.
        retire_after_s: a stream ends when it has had nothing outstanding for this long; 0 or None: only to make room
            for others. The next message for its queue begins a new stream.
        close_timeout_s: how long ``close`` waits for the disk, and for the last acks. Too small: what was not
            acknowledged in time is sent again after the next start; too large: a stop takes that long when the disk or
            a peer hangs.
        keep_alive_s: for nodes that do not listen, which no peer can call: how long a session over UDP that they have
            begun may send nothing before it sends a ping. Middle boxes keep flows for at least 30 s; over UDP a day of
            pings costs half a megabyte for each peer. 0 for no such pings. A peer may have its own interval
            (``Node.trust``). Too small: pings cost traffic; too large: middle boxes forget the flow, and messages to
            this node wait.
        keys: how long the keys of messages count, and how many there may be.
        large: bodies that are sent in parts.
        messages_per_packet: the most messages that share a packet; None for as many as fit. With 1, windows and other
            counts of packets are counts of messages. Too small: each message costs the work of a packet; too large: as
            None: a packet has what fits.
        lowest_priority_share: of how many packets to one queue one belongs to the lowest priority that waits; 0: none,
            so that lower priorities wait until no higher one does, as in MSMQ. Too small: urgent messages wait behind
            others; too large: the lowest priority hardly moves.
        ack_events: when acknowledgements are reported (``Node.acknowledgements``); None: each message by itself.
        blocking: the stage that messages have reached when ``send`` returns.
        survives: what the node's store survives: ``power loss``, ``process crash`` (then a loss of power may take the
            last commits) or ``nothing`` (it is in memory). What this node acknowledges as stored is as safe as that,
            and its peers know (``SessionStats.survives``).
        recoverable_survives: the same of recoverable messages, and of what readers acknowledge outside of transactions;
            None: as ``survives``, which is then for transactional messages, transactions and all else.
        time_to_reach_queue_s: how long a message to another node may take to reach its queue if its sender says nothing
            else (``time_to_reach_queue``); None: for any time, and four days to a node that only its id names, which
            may never call again. MSMQ's default is four days (``LongLiveTime``). Too small: messages expire while a
            peer is away; too large: they fill the disk while it is away.
        topics: settings of topics, by the first level of their names; those with ``*`` are for all others.
        udp: the sockets for UDP: ``batched``, many datagrams in one call of the system, or ``portable``, those of
            asyncio-dgram; None: batched where the system has it.
        log_keep_s: how long session logs are kept, at least; None: until somebody removes them. Older segments are
            judged once a day and replaced by a summary (``triack log prune``), unless they break a promise. Too small:
            nothing is left to look at after an incident; too large: the logs fill the disk.
    """

    session: SessionSettings = field(default_factory=SessionSettings)
    order: OrderSettings = field(default_factory=OrderSettings)
    stream_datagram_bytes: int = 65_000
    reconnect: Reconnect = field(default_factory=Reconnect)
    pending_limit_bytes: int = 4 * 1024 * 1024
    publish_window: int | None = None
    body_cache_bytes: int = 16 * 1024 * 1024
    max_redeliveries: int = 10
    redelivery: Redelivery = field(default_factory=Redelivery)
    queue_redelivery: Mapping[str, Redelivery] = field(default_factory=dict)
    forwards: Mapping[str, Forward] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    max_sessions: int = 16_384
    max_queues: int = 10_000
    max_streams: int = 4_096
    max_peer_subscriptions: int = 1_000
    retire_after_s: float | None = 3_600.0
    close_timeout_s: float = 5.0
    keep_alive_s: float = 25.0
    keys: KeySettings = field(default_factory=KeySettings)
    large: LargeBodies = field(default_factory=LargeBodies)
    messages_per_packet: int | None = None
    lowest_priority_share: int = 64
    ack_events: AckTrigger | None = None
    blocking: Blocking = field(default_factory=Blocking)
    survives: Survives = "power loss"
    recoverable_survives: Literal["power loss", "process crash"] | None = None
    time_to_reach_queue_s: float | None = None
    log_keep_s: float | None = None
    topics: Mapping[str, Topic] = field(default_factory=dict)
    udp: UdpSockets | None = None

    def __post_init__(self) -> None:
        times = ("close_timeout_s", "keep_alive_s", "retire_after_s")
        check_settings(self, may_be_zero=("body_cache_bytes", "max_redeliveries", "lowest_priority_share", *times))
        check_datagram("NodeSettings: stream_datagram_bytes", self.stream_datagram_bytes)
        check_kind("NodeSettings: ack_events", self.ack_events, AckTrigger | None)
        check_choice("NodeSettings: survives", self.survives, SURVIVES)
        check_choice("NodeSettings: recoverable_survives", self.recoverable_survives, (*SURVIVES[:2], None))
        check_choice("NodeSettings: udp", self.udp, (*UDP_SOCKETS, None))
        waits = {check_name(queue): it for queue, it in self.queue_redelivery.items()}
        object.__setattr__(self, "queue_redelivery", waits)
        object.__setattr__(self, "topics", {check_root(root): it for root, it in self.topics.items()})
        for queue, redelivery in waits.items():
            check_kind(f"NodeSettings: queue_redelivery of {queue}", redelivery, Redelivery)
        for queue, forward in self.forwards.items():
            check_kind(f"NodeSettings: forwards of {check_queue(queue)}", forward, Forward)
            if queue in (forward.to, forward.others_to):
                raise UsageError(f"NodeSettings: forwards of {queue}: it leads back to the same queue")
        for root, topic in self.topics.items():
            check_kind(f"NodeSettings: topics of {root}", topic, Topic)

    def topic_of(self, root: str) -> Topic:
        """Settings of the topics below a root."""
        return self.topics.get(root) or self.topics.get(ALL_ROOTS) or _TOPIC

    def quota_of(self, queue: str) -> Quota:
        """Limits of that queue, or with ``topic:`` before its name, of the topics below that root."""
        own = self.topic_of(queue.removeprefix(TOPIC_PREFIX)).quota if queue.startswith(TOPIC_PREFIX) else None
        return own or self.limits.quota_of(queue)

    def redelivery_of(self, queue: str) -> Redelivery:
        """When failed messages of that queue are redelivered."""
        return self.queue_redelivery.get(queue, self.redelivery)


_TOPIC = Topic()
"""Settings of roots that have none."""


def synced_by(settings: NodeSettings) -> tuple[bool, bool]:
    """Whether commits with transactional messages, and those with others, are on the disk when they return."""
    return settings.survives == SURVIVES[0], (settings.recoverable_survives or settings.survives) == SURVIVES[0]


def store_survives(settings: NodeSettings) -> Survives:
    """The worst failure that everything in the store survives."""
    return max(settings.survives, settings.recoverable_survives or settings.survives, key=SURVIVES.index)
