"""A node's statistics as typed values: queues, links, sessions, and counters by reason.

docs/metrics.md documents the names. They do not change: monitoring programs may rely on them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from triack.base.ack_trigger import AckTerms
from triack.base.delivery import Delivery
from triack.base.names import TOPIC_PREFIX
from triack.base.paths import address_in
from triack.base.survival import Survives
from triack.base.units import SECOND
from triack.queues.histogram import COMMIT_BOUNDS_S, Histogram
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.mailboxes.parts_queue import PartsQueue
from triack.queues.manager.engine import Engine
from triack.queues.node_settings import Quota, store_survives
from triack.queues.pauses import Pause
from triack.queues.peers.link import Conversation, Link
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.topics.subscription import Subscription
from triack.session.protocol.states import SessionState
from triack.stats.holding import HeldPacket, Holding, Reader
from triack.stats.queue_states import QueueState, StateNow, state_of, state_of_outgoing, state_of_transit
from triack.stats.stream_stats import StreamsStats, gather_streams
from triack.stats.topic_stats import Passing, RemoteSubscriptionStats, TopicStats, age_s, gather_remote, gather_topics
from triack.stats.troubles import BridgeStats, TroubleStats, find_bridge_troubles, find_troubles


@dataclass(frozen=True, slots=True)
class HolderStats:
    """A reader that has leased messages of a queue.

    Attributes:
        name: the task, thread or program that reads.
        pid: its process, if that is not the node's; None if it is the node's, or unknown.
        messages: the number of messages that it has.
        since_s: seconds since it received the first of them; 0 for none.
        waits_for: the error with which its handler failed last, while messages wait for that; None if none wait.
    """

    name: str
    pid: int | None
    messages: int
    since_s: float
    waits_for: str | None = None


@dataclass(frozen=True, slots=True)
class QueueStats:
    """One queue of this node.

    Attributes:
        messages: unacknowledged messages, including those that readers have.
        bytes: size of the packets that hold them.
        oldest_s: seconds since the oldest of them was sent, by the clocks of its sender and of this node; None if there
            are none.
        is_full: whether it has reached its quota, so that senders wait or are refused.
        arrived: messages that have come into it since the node started.
        left: messages that have gone from it since: acknowledged, expired, moved or purged.
        holders: the readers that have leased messages, or whose handlers failed with messages that wait.
        paused_s: seconds since an operator paused it, so that readers wait; None if it is not paused.
        state: ``local``, ``full`` or ``paused``.
        waits_for: what must happen before it gives out or accepts messages again; None for nothing.
        max_messages: its quota of messages.
        max_bytes: its quota of bytes.
        when_full: what happens then: ``hold`` or ``reject``; for dead letters as ``DeadLetters`` says.
        quota_is_set: whether an operator has set its quota, so that the settings do not count.
        by_priority: ``messages`` by priority: eight numbers, that of priority 0 first.
    """

    messages: int
    bytes: int
    oldest_s: float | None
    is_full: bool
    arrived: int
    left: int
    holders: list[HolderStats] = field(default_factory=list)
    paused_s: float | None = None
    state: str = QueueState.LOCAL.value
    waits_for: str | None = None
    max_messages: int = Quota().messages
    max_bytes: int = Quota().size_bytes
    when_full: str = Quota().when_full
    quota_is_set: bool = False
    by_priority: list[int] = field(default_factory=list)

    @property
    def in_hand(self) -> int:
        """How many messages readers have leased."""
        return sum(holder.messages for holder in self.holders)


@dataclass(frozen=True, slots=True)
class HistogramStats:
    """How often a duration was how long, since the node started: a histogram.

    Attributes:
        bounds_s: the longest duration of each bucket, in seconds, ascending.
        counts: how many durations each bucket has; one more than bounds, as the last bucket has the longer ones.
        sum_s: the sum of all durations, in seconds.
    """

    bounds_s: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    sum_s: float = 0.0


@dataclass(frozen=True, slots=True)
class OutgoingStats:
    """One outgoing queue: the messages on their way to one queue elsewhere, in one class and of one priority.

    Attributes:
        peer: the peer's name, or its address if it has no name.
        queue: the queue there.
        delivery: the class.
        messages: messages that have not arrived yet, as far as is known.
        packets: packets that the ack of their class has not freed yet; messages still to be packed count as one.
        bytes: size of their bodies.
        accepted: messages that were accepted since the node started.
        held: why the destination has no room for them now, by the names of docs/reasons.md; None if it has.
        paused_s: seconds since an operator paused it, so that nothing leaves; None if it is not paused.
        via: the peer that they go to: the relay on the way to ``peer``, or else ``peer`` itself.
        stalled_s: seconds since a message arrived there, or since the first waiting one was sent, if that is later;
            None if no message waits. After a start it counts from the latter until a message arrives.
        state: ``connected``, ``waiting``, ``held``, ``paused``, ``suspended``, or ``inactive`` without messages.
        waits_for: what its messages wait for: ``key``, ``address``, ``answer`` and ``restart`` as in its link, ``room``
            with the reason, ``resume``, ``start`` while no process runs the node, an ack that frees them once all are
            sent, or ``relay`` if a relay has all of them. None: nothing, or there are none.
        priority: of its messages.
        oldest_s: seconds since the first waiting message was sent, also over restarts of the node; None if none waits,
            or none is on the disk yet.
    """

    peer: str
    queue: str
    delivery: Delivery
    messages: int
    packets: int
    bytes: int
    accepted: int
    held: str | None = None
    paused_s: float | None = None
    via: str = ""
    stalled_s: float | None = None
    state: str = QueueState.INACTIVE.value
    waits_for: str | None = None
    priority: int = 0
    oldest_s: float | None = None


@dataclass(frozen=True, slots=True)
class HoldStats:
    """Messages of a peer to one queue of this node, in one class, that wait at the peer for room here.

    Attributes:
        peer: the peer's name.
        queue: the queue.
        delivery: the class.
        reason: why there is no room, by the names of docs/reasons.md.
    """

    peer: str
    queue: str
    delivery: Delivery
    reason: str


@dataclass(frozen=True, slots=True)
class TransitStats:
    """Messages of one stream of another node that wait here for another node.

    Attributes:
        final: the node that they are for, as the neighbour that brought them calls it.
        queue: its queue there.
        delivery: their class.
        came_by: the neighbour that brought them.
        via: the neighbour that they go to; empty while no route or peer leads to their destination.
        messages, packets: number of messages, and of the packets that hold them.
        bytes: of these packets.
        oldest_s: seconds since the first of them came. For those that came before this node started: seconds since they
            were sent, by the clocks of their origin and of this node.
        held: why the next hop makes them wait, by the names of docs/reasons.md; None if it does not.
        paused_s: seconds since an operator paused their destination here; None if it is not paused.
        state: ``connected``, ``waiting``, ``paused``, ``held`` or ``suspended``.
        waits_for: as in ``OutgoingStats``, or ``route`` while no route or peer leads to their destination.
        priority: theirs.
    """

    final: str
    queue: str
    delivery: Delivery
    came_by: str
    via: str
    messages: int
    packets: int
    bytes: int
    oldest_s: float
    held: str | None
    paused_s: float | None
    state: str
    waits_for: str | None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class AckStats:
    """When this end of a session acknowledges, as agreed at its opening: when the first of these conditions holds.

    Attributes:
        packets: after this many packets; None: no such condition.
        bytes: after this many bytes of packets; None: no such condition.
        delay_s: this many seconds after the first packet that is not acknowledged.
        piggyback_s: with other packets once this much of the delay has passed; None: never.
    """

    packets: int | None
    bytes: int | None
    delay_s: float
    piggyback_s: float | None


@dataclass(frozen=True, slots=True)
class SessionStats:
    """One open session, whichever end began it.

    Attributes:
        address: where its datagrams go.
        peer: the other node's name.
        node_id: its id, 32 hex digits.
        window: the most packets that may be unacknowledged.
        unacknowledged: packets that are unacknowledged now.
        round_trip_s: smoothed, in seconds; None before the first sample.
        resends: packets retransmitted in this session.
        congestion: ``newreno`` or ``bbr``; ``stream`` over TCP, which has its own control; ``none`` in memory.
        congestion_window_bytes: bytes that may be in flight; None in memory.
        datagram_bytes: the largest datagram; over UDP it grows to the limit of the path.
        session_acks: when this end acknowledges packets that arrived.
        store_acks: when it acknowledges packets on its disk.
        survives: the kind of failure that the other node's store survives, as it reports; ``stored`` means that much.
    """

    address: str
    peer: str
    node_id: str
    window: int
    unacknowledged: int
    round_trip_s: float | None
    resends: int
    congestion: str
    congestion_window_bytes: int | None
    datagram_bytes: int
    session_acks: AckStats
    store_acks: AckStats
    survives: Survives


@dataclass(frozen=True, slots=True)
class LinkStats:
    """The link to one peer to which this node sends.

    Attributes:
        is_up: whether a session is open.
        sessions: sessions opened since the node started.
        resends: packets retransmitted in all of them.
        suspended: why nothing is sent there any more, or None.
        waits_for: why messages to the peer cannot leave: ``key`` if this node does not trust it; ``address`` if its
            address is unknown and it must connect; ``answer`` while it has not answered an attempt to connect;
            ``restart`` if it is suspended. None if nothing is missing, or there are no messages for it.
        session: the open session, or None.
        gaps: how often another node answered than the one that had acknowledged earlier messages.
        window_closings: how often a publish window of a queue whose messages go to it was full (``publish_window``).
        mode: ``sync`` while the link is synchronous, by a route; else ``async``.
        is_idle: whether no session is open and none is needed, as there is nothing to send to the peer.
    """

    is_up: bool
    sessions: int
    resends: int
    suspended: str | None
    waits_for: str | None
    session: SessionStats | None
    gaps: int
    mode: str
    window_closings: int = 0
    is_idle: bool = False

    @property
    def state(self) -> str:
        """``up``, ``idle``, ``down`` or ``suspended``. The first two are in good order."""
        if self.suspended:
            return "suspended"
        return "up" if self.is_up else "idle" if self.is_idle else "down"


@dataclass(frozen=True, slots=True)
class WayStats:
    """A route that has several neighbours.

    Attributes:
        to: the destinations that it is for.
        ways: the neighbours, the preferred one first.
        via: the one that receives the messages now.
        why: why that one does: how those before it are.
    """

    to: str
    ways: tuple[str, ...]
    via: str
    why: str


@dataclass(frozen=True, slots=True)
class NodeStats:
    """A node at one moment.

    Attributes:
        queues: its queues by name.
        outgoing: its outgoing queues, without those to its own queues.
        links: the peers to which it sends, by name, or by address if they have no names.
        sessions: every open session.
        drops: counts of drops, by the reasons of docs/reasons.md.
        closes: sessions that ended, by reason.
        rollbacks: suspended peers by node id, with whose store it is: ``own``, ``peer`` or ``unknown``.
        dead_letters: messages that went to the dead-letter queue, or to one that their sender has chosen, since the
            node started, by reason.
        store_low: whether the node accepts nothing new for the disk, as that has less room than the reserve.
        room_bytes: bytes that the disk still accepts, at the last check; None if unknown.
        survives: the kind of failure that the node's store survives: ``power loss``, unless a setting or the lack of a
            data directory makes it less.
        holds: messages that wait at peers for room at this node.
        transit: messages of other nodes that wait here for other nodes.
        topics: the topics of this node and their subscriptions, by the first level of their names.
        subscriptions: the subscriptions of this node to topics of other nodes.
        troubles: all that stops messages now and that an operator can fix, with what to do.
        store_busy_s: seconds that the store's current job has taken so far; None without a job. Many seconds mean that
            the disk hangs.
        commit_time: how long the group commits took.
        ack_latency: how long packets waited for the ack that frees them; in each outgoing queue one packet is measured
            at a time.
        time_in_queue: the time from sending a message until the first reader got it, by the clocks of its sender and of
            this node.
        acks: acks that left, by kind (``session``, ``store``, ``order``) and by trigger.
        tier_resends: packets that were resent because an order ack was missing, by resend tier.
        streams: the state of its streams, a thousand of each kind at most; ``Node.streams`` has any of them.
        ways: the routes that have several neighbours, and which of these is in use.
        declined_letters: messages that ended without a dead letter, as their senders want none, by reason.
        admin_acks: administration messages that this node has queued since it started, by class.
        bridges: the bridges to brokers that the process of the node runs.
    """

    queues: dict[str, QueueStats]
    outgoing: list[OutgoingStats]
    links: dict[str, LinkStats]
    sessions: list[SessionStats]
    drops: dict[str, int]
    closes: dict[str, int]
    rollbacks: dict[str, str]
    dead_letters: dict[str, int]
    store_low: bool
    room_bytes: int | None
    survives: Survives
    holds: list[HoldStats] = field(default_factory=list)
    transit: list[TransitStats] = field(default_factory=list)
    topics: dict[str, TopicStats] = field(default_factory=dict)
    subscriptions: list[RemoteSubscriptionStats] = field(default_factory=list)
    declined_letters: dict[str, int] = field(default_factory=dict)
    admin_acks: dict[str, int] = field(default_factory=dict)
    troubles: list[TroubleStats] = field(default_factory=list)
    store_busy_s: float | None = None
    commit_time: HistogramStats = field(default_factory=HistogramStats)
    ack_latency: HistogramStats = field(default_factory=HistogramStats)
    time_in_queue: HistogramStats = field(default_factory=HistogramStats)
    acks: dict[str, dict[str, int]] = field(default_factory=dict)
    tier_resends: dict[str, int] = field(default_factory=dict)
    streams: StreamsStats = field(default_factory=StreamsStats)
    ways: list[WayStats] = field(default_factory=list)
    bridges: list[BridgeStats] = field(default_factory=list)


@dataclass(slots=True)
class DiskFigures:
    """How long the store's jobs take.

    Attributes:
        commits: of the group commits that have returned.
        began_ns: when the current job was given to the store; None without a job.
    """

    commits: Histogram = field(default_factory=lambda: Histogram(COMMIT_BOUNDS_S))
    began_ns: int | None = None


def gather(
    engine: Engine,
    drops: Mapping[str, int],
    disk: DiskFigures,
    holding: Holding,
    now_ns: int,
    bridges: list[BridgeStats],
) -> NodeStats:
    """Gather the statistics of an engine."""
    dropped = Counter({str(reason): count for reason, count in engine.drops.items()})
    dropped.update(drops)
    now_ms = engine.wall.ms(now_ns)
    return NodeStats(
        queues={
            name: _queue(engine, mailbox, holding, now_ms, now_ns)
            for name, mailbox in sorted(engine.queues.mailboxes.items())
            if _is_shown(name, mailbox)
        },
        topics=gather_topics(engine.topics, holding, now_ms, partial(_passing, engine)),
        subscriptions=gather_remote(engine.remote.own, now_ns),
        outgoing=[_outgoing(engine, outgoing, now_ms, now_ns) for outgoing in engine.outbox.streams if outgoing.peer],
        links={peer: _link(link, engine) for peer, link in engine.outbox.links.items()},
        holds=[
            HoldStats(*it[:3], it.reason.value)
            # Streams of several priorities that wait for the same reason make one line.
            for it in dict.fromkeys((*engine.inbox.admission.holds.streams, *engine.transits.holds.streams))
        ],
        transit=[
            _transit(engine, stream, now_ms, now_ns)
            for stream in engine.transits.streams
            if not stream.sequence.is_empty
        ],
        sessions=[_session(it) for it in engine.handshakes.conversations.values() if _is_open(it)],
        drops=dict(dropped),
        closes=dict(engine.closes),
        rollbacks=engine.rollbacks,
        dead_letters=dict(engine.queues.dead_letters),
        declined_letters=dict(engine.queues.declined_letters),
        admin_acks=dict(engine.administration.queued),
        store_low=engine.inbox.admission.disk_room.is_low,
        room_bytes=engine.inbox.admission.disk_room.room_bytes,
        survives=store_survives(engine.settings),
        troubles=[*find_troubles(engine, now_ns), *find_bridge_troubles(bridges)],
        store_busy_s=None if disk.began_ns is None else (now_ns - disk.began_ns) / SECOND,
        commit_time=_histogram(disk.commits),
        ack_latency=_histogram(engine.outbox.latency.durations),
        time_in_queue=_histogram(engine.queues.waits),
        acks=_by_kind(engine.acks),
        tier_resends=dict(engine.outbox.resends),
        streams=gather_streams(engine, now_ns),
        ways=[
            WayStats(it.to, it.ways, choice.via, engine.ways.explain(choice, now_ns))
            for it in engine.routes.all
            if (choice := engine.routes.choice_of(it)) is not None
        ],
        bridges=bridges,
    )


def _passing(engine: Engine, subscription: Subscription) -> Passing:
    """How a subscription of another node gets its messages."""
    pump = engine.remote.of_peers.pump_of(subscription)
    if pump is None:
        return Passing()
    if not pump.is_allowed:
        return Passing(pump.ahead, "may_subscribe")
    states = (state_of_outgoing(engine, it) for it in pump.streams if it.busy)
    return Passing(pump.ahead, next((it.waits_for for it in states if it.waits_for is not None), None))


def _outgoing(engine: Engine, outgoing: OutgoingStream, now_ms: int, now_ns: int) -> OutgoingStats:
    held = engine.outbox.holds.of(outgoing)
    return OutgoingStats(
        outgoing.peer,
        outgoing.queue,
        outgoing.delivery,
        outgoing.messages,
        outgoing.unacknowledged,
        outgoing.pending_bytes + outgoing.unacked_bytes,
        outgoing.submitted - outgoing.recovered,
        None if held is None else held.value,
        _paused_s(engine.outbox.pause_of(outgoing), now_ms),
        outgoing.via,
        engine.outbox.latency.stalled_ns(outgoing, now_ns) / SECOND if outgoing.sequence.entries else None,
        *_words(state_of_outgoing(engine, outgoing)),
        outgoing.priority,
        age_s(outgoing.sequence.oldest_ms, now_ms),
    )


def _queue(engine: Engine, mailbox: Mailbox, holding: Holding, now_ms: int, now_ns: int) -> QueueStats:
    waits = bool(mailbox.reader.returned)
    held = [one for one in holding.of(mailbox.name) if one[1] or waits or one[0].is_own]
    sent_ms = [one.packet.sent_at_ms for _, packets in held for one in packets]
    state, waits_for = _words(state_of(mailbox))
    oldest_ms = min([*sent_ms, *([] if mailbox.oldest_ms is None else [mailbox.oldest_ms])], default=None)
    return QueueStats(
        mailbox.length,
        _size_of(mailbox),
        age_s(oldest_ms, now_ms),
        mailbox.fill.is_full,
        arrived=mailbox.left + mailbox.length - mailbox.restored,
        left=mailbox.left,
        holders=[_holder(reader, packets, now_ns) for reader, packets in held],
        paused_s=_paused_s(mailbox.pause, now_ms),
        state=state,
        waits_for=waits_for,
        max_messages=mailbox.fill.messages.limit,
        max_bytes=mailbox.fill.bytes.limit,
        when_full=engine.queues.when_full(mailbox.name),
        quota_is_set=mailbox.name in engine.queues.set_quotas.by_name,
        by_priority=list(mailbox.lengths),
    )


def _size_of(mailbox: Mailbox) -> int:
    return mailbox.fill.bytes.value if isinstance(mailbox, PartsQueue) else mailbox.size_bytes


def _is_shown(name: str, mailbox: Mailbox) -> bool:
    """Whether users see the queue: one with parts of large messages only while parts arrive."""
    return not (name.startswith(TOPIC_PREFIX) or (isinstance(mailbox, PartsQueue) and not _size_of(mailbox)))


def _paused_s(pause: Pause | None, now_ms: int) -> float | None:
    return age_s(None if pause is None else pause.since_ms, now_ms)


def _words(now: StateNow) -> tuple[str, str | None]:
    return now.state.value, now.waits_for


def _transit(engine: Engine, stream: TransitStream, now_ms: int, now_ns: int) -> TransitStats:
    came_ns = stream.sequence.came_ns
    assert came_ns is not None
    return TransitStats(
        stream.final,
        stream.queue,
        stream.delivery,
        stream.came_by,
        stream.via,
        stream.messages,
        len(stream.sequence),
        stream.size_bytes,
        (now_ns - came_ns) / SECOND,
        stream.held or None,
        _paused_s(engine.transits.pause_of(stream), now_ms),
        *_words(state_of_transit(engine, stream)),
        stream.priority,
    )


def _histogram(histogram: Histogram) -> HistogramStats:
    return HistogramStats(histogram.bounds_s, list(histogram.counts), histogram.sum_ns / SECOND)


def _by_kind(acks: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {kind: {} for kind in ("session", "store", "order")}
    for (kind, trigger), count in acks.items():
        found[kind][str(trigger)] = count
    return found


def _holder(reader: Reader, held: list[HeldPacket], now_ns: int) -> HolderStats:
    messages = sum([one.bits.bit_count() for one in held])
    since_ns = min([one.since_ns for one in held], default=now_ns)
    return HolderStats(reader.name, reader.pid, messages, max(0, now_ns - since_ns) / SECOND, reader.waits_for or None)


def _is_open(conversation: Conversation | None) -> bool:
    return conversation is not None and conversation.session.state in (SessionState.OPEN, SessionState.DRAINING)


def _link(link: Link, engine: Engine) -> LinkStats:
    waits_for = engine.handshakes.reach.waits_for(link)
    session = _session(link.conversation) if link.conversation is not None and _is_open(link.conversation) else None
    return LinkStats(
        is_up=session is not None,
        sessions=link.sessions,
        resends=link.resends + (session.resends if session is not None else 0),
        suspended=None if link.suspended is None else str(link.suspended),
        waits_for=None if waits_for is None else waits_for.value,
        session=session,
        gaps=engine.outbox.links.resuming.gaps[link.peer],
        mode=engine.outbox.sync_links.mode_of(link.peer).value,
        window_closings=engine.publish_windows.closings[link.peer],
        is_idle=session is None and not link.busy,
    )


def _session(conversation: Conversation) -> SessionStats:
    session = conversation.session.stats()
    return SessionStats(
        address=address_in(conversation.path),
        peer=conversation.peer_label,
        node_id=conversation.peer_id.hex(),
        window=session.window,
        unacknowledged=session.unacked,
        round_trip_s=None if session.round_trip_ns is None else session.round_trip_ns / SECOND,
        resends=session.resends,
        congestion=session.congestion,
        congestion_window_bytes=session.congestion_window_bytes,
        datagram_bytes=session.datagram_bytes,
        session_acks=_acks(session.ack_terms),
        store_acks=_acks(session.store_ack_terms),
        survives="power loss" if conversation.peer is None else conversation.peer.survives,
    )


def _acks(terms: AckTerms) -> AckStats:
    piggyback_s = None if terms.piggyback_ns is None else terms.piggyback_ns / SECOND
    return AckStats(terms.count, terms.bytes_, terms.delay_ns / SECOND, piggyback_s)
