"""The state of single streams for an operator: what MSMQ shows of exactly-once delivery, and more.

A stream is all messages of one node to one queue of another node in one class. Numbers are those of its packets, which
count from 1 in each sequence. The names do not change.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter

from triack.base.delivery import Delivery
from triack.base.units import SECOND
from triack.ordering.departing import StreamPacketState
from triack.ordering.tiers import tier_label
from triack.queues.manager.engine import Engine
from triack.queues.streams.incoming_stream import IncomingStream
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.transit_stream import TransitStream
from triack.stats.queue_states import again_ns, state_of_outgoing, state_of_transit

STREAMS_MAX = 1_000
"""The most streams of each kind in one answer: it stays within a megabyte, and takes milliseconds to make."""


@dataclass(frozen=True, slots=True)
class OutgoingStreamStats:
    """One stream that this node sends.

    Attributes:
        peer: the node with its destination.
        queue: the queue there.
        delivery: the class.
        priority: of its messages.
        number: its number at this node.
        via: the neighbour that it goes to: a relay, or ``peer`` itself.
        state: ``connected``, ``waiting``, ``held``, ``paused``, ``suspended``, or ``inactive`` without messages.
        waits_for: what its packets wait for; None if they wait for nothing, or there are none.
        sequence: the id of its sequence.
        next_number: the number of its next packet.
        first, last: its first and its last unacknowledged packet; None if there is none.
        to_send: packets that wait to be sent, or to be resent.
        sent: packets that were sent and are not acknowledged.
        kept: acknowledged packets of large messages of which others are not.
        acked: the packet up to which the last order ack reaches; None before the first since the node started.
        acked_s: seconds since that ack came last.
        acked_times: how often it has come.
        tier: the resend tier, ``1-3``, ``4-6``, ``7-9`` or ``10-``, of its next resend; None if none is due.
        attempts: resends in a row without an order ack that covers more.
        resends: packets that were resent because an order ack was missing, since the node started.
        again_s: seconds until it is resent, or its peer is called again, if nothing happens before. None if there is
            nothing to resend, if its session resends by itself, or if something else is needed first.
        relay_has: the packet up to which a relay has all on its disk, where they wait; None if no relay has said so.
        stalled_s: as in ``OutgoingStats``, for packets.
    """

    peer: str
    queue: str
    delivery: Delivery
    priority: int
    number: int
    via: str
    state: str
    waits_for: str | None
    sequence: int
    next_number: int
    first: int | None
    last: int | None
    to_send: int
    sent: int
    kept: int
    acked: int | None
    acked_s: float | None
    acked_times: int
    tier: str | None
    attempts: int
    resends: int
    again_s: float | None
    relay_has: int | None
    stalled_s: float | None

    @property
    def name(self) -> str:
        """Its destination: ``peer/queue``."""
        return f"{self.peer}/{self.queue}"

    @property
    def is_busy(self) -> bool:
        """Whether it has anything that is not acknowledged."""
        return self.first is not None


@dataclass(frozen=True, slots=True)
class IncomingStreamStats:
    """One stream that this node receives.

    Attributes:
        peer: the node that sends it, as this node calls it; its id in 32 hex digits if it has no name here.
        queue: the queue of this node.
        delivery: the class.
        priority: of its messages; of an incoming stream, that of the newest packet.
        number: its number at the node that sends it.
        via: the neighbour that brings it: a relay, or ``peer`` itself; None without a session with that.
        sequence: the id of its sequence.
        accepted: its last accepted packet; None unless it is transactional.
        out_of_order: packets that wait here for others before them.
        rejected: packets that were not accepted since the last one that was, duplicates among them.
        refused: packets that were rejected for good; the sender may not know that yet.
        acked: the packet up to which the last order ack reaches; None before the first since the node started.
        acked_s: seconds since that ack left.
        held: why its sender must wait, by the names of docs/reasons.md; None if it need not.
    """

    peer: str
    queue: str
    delivery: Delivery
    priority: int
    number: int
    via: str | None
    sequence: int
    accepted: int | None
    out_of_order: int
    rejected: int
    refused: int
    acked: int | None
    acked_s: float | None
    held: str | None

    @property
    def name(self) -> str:
        """The queue of this node."""
        return self.queue

    @property
    def is_busy(self) -> bool:
        """Whether anything of it waits, or was refused."""
        return bool(self.out_of_order or self.rejected or self.refused or self.held)


@dataclass(frozen=True, slots=True)
class TransitStreamStats:
    """One stream of another node that this node passes on.

    Attributes:
        final: the node that it is for, as the neighbour that brings it calls it.
        queue: its queue there.
        delivery: the class.
        priority: of its messages; of an incoming stream, that of the newest packet.
        number: its number at the node that sends it.
        came_by: the neighbour that brings it.
        via: the neighbour that it goes to; None while no route or peer leads to its destination.
        state: ``connected``, ``waiting``, ``held``, ``suspended``, or ``inactive`` without messages.
        waits_for: what its packets wait for; None if they wait for nothing, or there are none.
        sequence: the id of its sequence.
        highest: the last packet of it that was stored here.
        first, last: the first and the last packet stored here; None if there is none.
        to_send: packets here that wait to be sent, or to be resent.
        sent: packets here that were sent and are not acknowledged.
        acked: the packet up to which the last order ack of its destination reaches; None before the first.
        again_s: seconds until it is resent, or the neighbour called again, if nothing happens before; None: no such
            time.
        oldest_s: as in ``TransitStats``; None if no packet is stored here.
    """

    final: str
    queue: str
    delivery: Delivery
    priority: int
    number: int
    came_by: str
    via: str | None
    state: str
    waits_for: str | None
    sequence: int
    highest: int
    first: int | None
    last: int | None
    to_send: int
    sent: int
    acked: int | None
    again_s: float | None
    oldest_s: float | None

    @property
    def name(self) -> str:
        """Its destination: ``final/queue``."""
        return f"{self.final}/{self.queue}"

    @property
    def is_busy(self) -> bool:
        """Whether any packet of it is stored here."""
        return self.first is not None


@dataclass(frozen=True, slots=True)
class StreamsStats:
    """Streams of a node; those with something that waits come first.

    Attributes:
        outgoing: those that it sends to other nodes.
        incoming: those that it receives.
        transit: those that it passes on.
        left_out: how many further streams there are.
    """

    outgoing: list[OutgoingStreamStats] = field(default_factory=list)
    incoming: list[IncomingStreamStats] = field(default_factory=list)
    transit: list[TransitStreamStats] = field(default_factory=list)
    left_out: int = 0


def gather_streams(engine: Engine, now_ns: int, name: str | None = None) -> StreamsStats:
    """The state of a node's streams, at most ``STREAMS_MAX`` of each kind.

    ``name`` selects those to or from a peer, or to a queue or destination; None: all.
    """
    outgoing = [it for it in engine.outbox.streams if it.peer and name in (None, it.peer, it.destination, it.via)]
    incoming = [
        it
        for it in engine.inbox.streams
        if it.origin != engine.node_id and (name in (None, it.queue, it.relay) or name == _peer_of(engine, it))
    ]
    transit = [it for it in engine.transits.streams if name in (None, it.final, it.destination, it.came_by, it.via)]
    outgoing.sort(key=lambda it: not it.busy)
    stopped = engine.inbox.admission.holds.stopped
    incoming.sort(key=lambda it: not (it.sequence.held or it.rejected or it in stopped))
    transit.sort(key=lambda it: it.sequence.is_empty)
    left_out = sum(max(0, len(them) - STREAMS_MAX) for them in (outgoing, incoming, transit))
    return StreamsStats(
        [_outgoing(engine, it, now_ns) for it in islice(outgoing, STREAMS_MAX)],
        [_incoming(engine, it, now_ns) for it in islice(incoming, STREAMS_MAX)],
        [_transit(engine, it, now_ns) for it in islice(transit, STREAMS_MAX)],
        left_out,
    )


_STATE_OF = attrgetter("state")
_UNACKED = (StreamPacketState.SENT, StreamPacketState.WAITING_STORE_ACK, StreamPacketState.WAITING_ORDER_ACK)


def _outgoing(engine: Engine, outgoing: OutgoingStream, now_ns: int) -> OutgoingStreamStats:
    sequence, now = outgoing.sequence, state_of_outgoing(engine, outgoing)
    states = Counter(map(_STATE_OF, sequence.entries.values()))
    ack, tier = sequence.last_ack, sequence.tier
    first = next(iter(sequence.entries), None)
    return OutgoingStreamStats(
        peer=outgoing.peer,
        queue=outgoing.queue,
        delivery=outgoing.delivery,
        priority=outgoing.priority,
        number=outgoing.stream_number,
        via=outgoing.via,
        state=now.state.value,
        waits_for=now.waits_for,
        sequence=sequence.sequence,
        next_number=sequence.next_number,
        first=first,
        last=next(reversed(sequence.entries), None),
        to_send=states[StreamPacketState.WAITING_TO_SEND],
        sent=sum(states[state] for state in _UNACKED),
        kept=states[StreamPacketState.KEPT],
        acked=None if ack is None else ack.number,
        acked_s=None if ack is None else (now_ns - ack.at_ns) / SECOND,
        acked_times=0 if ack is None else ack.times,
        tier=None if tier.deadline_ns is None else tier_label(tier.attempt + 1),
        attempts=tier.attempt,
        resends=sequence.resends,
        again_s=_seconds_to(again_ns(engine, outgoing, now), now_ns),
        relay_has=sequence.waits_until or None,
        stalled_s=None if first is None else engine.outbox.latency.stalled_ns(outgoing, now_ns) / SECOND,
    )


def _incoming(engine: Engine, stream: IncomingStream, now_ns: int) -> IncomingStreamStats:
    sequence, held = stream.sequence, engine.inbox.admission.holds.of(stream)
    peer = _peer_of(engine, stream)
    return IncomingStreamStats(
        peer=peer,
        queue=stream.queue,
        delivery=stream.delivery,
        priority=stream.priority,
        number=stream.number,
        via=None if stream.via is None else stream.relay or peer,
        sequence=sequence.position[0] if stream.ordered else stream.filter.sequence,
        accepted=sequence.position[1] if stream.ordered else None,
        out_of_order=sequence.held if stream.ordered else 0,
        rejected=stream.rejected,
        refused=len(stream.rejections),
        acked=stream.acked[1] if stream.acked_at_ns else None,
        acked_s=(now_ns - stream.acked_at_ns) / SECOND if stream.acked_at_ns else None,
        held=None if held is None else held.value,
    )


def _peer_of(engine: Engine, stream: IncomingStream) -> str:
    return engine.name_of(stream.origin) or stream.origin.hex()


def _transit(engine: Engine, stream: TransitStream, now_ns: int) -> TransitStreamStats:
    sequence, now = stream.sequence, state_of_transit(engine, stream)
    states = Counter(map(_STATE_OF, sequence.entries.values()))
    came_ns, numbers = sequence.came_ns, sequence.ranges()
    return TransitStreamStats(
        final=stream.final,
        queue=stream.queue,
        delivery=stream.delivery,
        priority=stream.priority,
        number=stream.id.number,
        came_by=stream.came_by,
        via=None if stream.way is None else stream.way.via,
        state=now.state.value,
        waits_for=now.waits_for,
        sequence=sequence.sequence,
        highest=sequence.highest,
        first=numbers[0][0] if numbers else None,
        last=numbers[-1][1] if numbers else None,
        to_send=states[StreamPacketState.WAITING_TO_SEND] + states[StreamPacketState.ARRIVED] + len(sequence.on_disk),
        sent=states[StreamPacketState.SENT],
        acked=stream.ordered or None,
        again_s=_seconds_to(again_ns(engine, stream, now), now_ns),
        oldest_s=None if came_ns is None else (now_ns - came_ns) / SECOND,
    )


def _seconds_to(at_ns: int | None, now_ns: int) -> float | None:
    return None if at_ns is None else max(0, at_ns - now_ns) / SECOND
