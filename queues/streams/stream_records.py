"""Session log records of streams, at their origins, at relays and at their destinations (docs/session-log.md)."""

from collections.abc import Iterator, Mapping
from typing import Any

from triack.base.commit import PositionRow
from triack.base.delivery import LABELS, Delivery
from triack.base.ranges import Range, as_ranges
from triack.base.reasons import EXPIRED, FreedReason
from triack.base.session_log import Record, record_nothing
from triack.ordering.outgoing import StreamPacket
from triack.ordering.transit import TransitPacket
from triack.ordering.wire import (
    OnwardAckPacket,
    RelayedEnd,
    RelayedHeader,
    RelayedOrderAck,
    RelayedReject,
    SequenceHeader,
)
from triack.queues.mailboxes.handed import said_priority
from triack.queues.mailboxes.system_queues import counted_in
from triack.queues.peers.link import Conversation
from triack.queues.streams.group_commit import AcceptedRun, fold
from triack.queues.streams.incoming_stream import IncomingStream
from triack.queues.streams.outgoing_stream import OutgoingStream
from triack.queues.streams.transit_stream import TransitStream


class StreamRecords:
    """Writes the records of one node.

    Attributes:
        topics: the roots of topics whose messages streams pass on, by their numbers: ``queues.remote.forwarder``.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self.topics: dict[int, str] = {}

    # ---- at an origin

    def queued(
        self, outgoing: OutgoingStream, entries: list[StreamPacket], now_ns: int, *, recovered: bool = False
    ) -> None:
        """Packets are committed, or in memory if express; ``recovered``: they were found on the disk."""
        if self._record is record_nothing:
            return
        more: dict[str, object] = {
            "queue": outgoing.queue, "peer_name": outgoing.peer, "sealed": outgoing.sealed, **_priority_of(outgoing)
        }  # fmt: skip
        is_own = not recovered and outgoing.stream_number not in self.topics
        if recovered:
            more["recovered"] = True
        elif not is_own:
            more["topic"] = self.topics[outgoing.stream_number]
        for first, last, count, ordinal in _runs(outgoing, entries):
            named = {"ordinal": ordinal} if is_own and count else {}
            self._write("queued", outgoing, now_ns, first=first, last=last, count=count, **named, **more)

    def local(self, outgoing: OutgoingStream, entries: list[StreamPacket], now_ns: int) -> None:
        """Packets for a queue of this node, which their commit also delivers."""
        more = {"queue": outgoing.queue, **_priority_of(outgoing)}
        for first, last, count, _ in _runs(outgoing, entries):
            self._write("committed", outgoing, now_ns, first=first, last=last, count=count, **more)

    def took(
        self, outgoing: OutgoingStream, entries: list[StreamPacket],
        bridged: Mapping[tuple[OutgoingStream, str, str], list[range]], now_ns: int,
    ) -> None:  # fmt: skip
        """Bridges brought messages of committed packets from their brokers; ``bridged``: see ``GroupCommit``."""
        for (whose, bridge, where), tickets in bridged.items():
            for (number, place), counts in _placed(entries, tickets) if whose is outgoing else ():
                said = {"bridge": bridge, "where": where, "number": number, "place": place, "counts": counts}
                self._write("bridge_took", outgoing, now_ns, **said)

    def recovered(self, outgoing: OutgoingStream, now_ns: int) -> None:
        """A stream to a queue of this node was found on the disk; a crash may have lost its earlier records."""
        last = outgoing.sequence.next_number - 1
        if outgoing.peer or not last:
            return
        ordered = outgoing.delivery is Delivery.TRANSACTIONAL
        where: dict[str, object] = {"number": last} if ordered else {"ranges": [[1, last]]}
        self._write("position_recovered", outgoing, now_ns, **where)

    def resend(self, outgoing: OutgoingStream, again: list[StreamPacket], now_ns: int) -> None:
        """Packets wait to be resent because no order ack came."""
        tier = outgoing.sequence.tier
        said = {"attempt": tier.attempt, "interval_ns": tier.interval_of(tier.attempt)}
        self._write("resend_scheduled", outgoing, now_ns, first=again[0].number, last=again[-1].number, **said)

    def ended(self, outgoing: OutgoingStream, now_ns: int) -> None:
        """A stream has nothing outstanding, and ends."""
        self._write("stream_ended", outgoing, now_ns)

    def removed(self, outgoing: OutgoingStream, entries: list[StreamPacket], reason: str, now_ns: int) -> None:
        """A message was given up."""
        count = counted_in(outgoing.queue, sum(entry.messages for entry in entries))
        said = {"count": count, "reason": "expired" if reason in EXPIRED else reason}
        self._write("removed", outgoing, now_ns, first=entries[0].number, last=entries[-1].number, **said)

    def order_ack(self, outgoing: OutgoingStream, number: int, now_ns: int) -> None:
        """The destination has a sequence up to ``number``."""
        if self._record is record_nothing:
            return
        where = _place_of(*outgoing.id, outgoing.sequence.sequence)
        self._record("order_ack_received", now_ns, **where, number=number)

    def onward(self, outgoing: OutgoingStream, here: int, session: str, now_ns: int, *, waits: bool) -> None:
        """A relay has said how far it has a stream, and whether that waits there."""
        self._write("onward_received", outgoing, now_ns, here=here, waits=waits, session=session)

    # ---- of both roles

    def rerouted(self, stream: OutgoingStream | TransitStream, now_ns: int) -> None:
        """A stream uses another neighbour, or another kind of link, from now on."""
        self._write("rerouted", stream, now_ns, peer_name=stream.via)

    def held(self, stream: OutgoingStream | TransitStream, now_ns: int, reason: str | None) -> None:
        """The next hop has no room for a stream, for this reason; None: it has room again."""
        why = {} if reason is None else {"reason": reason}
        self._write("hold_received", stream, now_ns, stop=reason is not None, **why)

    def onward_acked(
        self, stream: OutgoingStream | TransitStream, packet: OnwardAckPacket, session: str, now_ns: int
    ) -> None:
        """The next hop has passed packets on, or has said that its store acks are enough."""
        ranges = [list(span) for span in packet.ranges]
        said = {"ranges": ranges, "is_async": packet.is_async, "session": session}
        self._write("onward_ack_received", stream, now_ns, **said)

    # ---- at a relay

    def committed(
        self, stream: TransitStream, entries: list[TransitPacket], now_ns: int, *, recovered: bool = False
    ) -> None:
        """Packets are on the disk, or in memory if express; ``recovered``: they were found on the disk."""
        more: dict[str, object] = {"queue": stream.queue, "final": stream.final}
        if recovered:
            more["recovered"] = True
        more["peer_name"] = stream.came_by
        for first, last in as_ranges(sorted(entry.number for entry in entries)):
            self._write("transit_committed", stream, now_ns, first=first, last=last, **more)

    def freed(
        self, stream: TransitStream, entries: list[TransitPacket], reason: FreedReason, now_ns: int, session: str = ""
    ) -> None:
        """This node no longer answers for packets; ``session`` has carried them to the next hop."""
        more: dict[str, object] = {"session": session} if session else {}
        if stream.sequence.sync:
            more["sync"] = True
        for first, last in as_ranges(sorted(entry.number for entry in entries)):
            self._write("transit_freed", stream, now_ns, first=first, last=last, reason=reason, **more)

    def relayed(self, packet: RelayedOrderAck | RelayedReject | RelayedEnd, peer_id: bytes, now_ns: int) -> None:
        """An order ack, a rejection or an end was handed on to a session."""
        if isinstance(packet, RelayedEnd):
            kind, number = "forgotten" if packet.answer else "end", packet.last
        else:
            kind, number = "order-ack" if isinstance(packet, RelayedOrderAck) else "reject", packet.number
        where = _place_of(packet.origin, packet.stream, packet.sequence)
        self._record("control_relayed", now_ns, kind=kind, **where, number=number, peer=peer_id.hex())

    def refused(self, header: RelayedHeader, delivery: Delivery, reason: str, now_ns: int) -> None:
        """A packet arrived that may not be passed on."""
        said = {"first": header.number, "last": header.number, "final": header.final, "reason": reason}
        self._write_of("route_refused", header.named[:3], delivery, now_ns, **said)

    def waits(self, stream: TransitStream, here: int, upstream: Conversation, now_ns: int, *, waits: bool) -> None:
        """A neighbour was told how far a stream is stored here, and whether it waits."""
        told = {"peer": upstream.peer_id.hex(), "session": upstream.label}
        self._write("onward_sent", stream, now_ns, here=here, waits=waits, **told)

    def told_onward(
        self, stream: TransitStream, ranges: list[Range], peer_id: bytes, now_ns: int, *, is_async: bool
    ) -> None:
        """A neighbour was told what was passed on, or that store acks are enough."""
        said = {"ranges": [list(span) for span in ranges], "is_async": is_async, "peer": peer_id.hex()}
        self._write("onward_ack_sent", stream, now_ns, **said)

    # ---- at a destination

    def told_ends_here(self, header: RelayedHeader, delivery: Delivery, peer_id: bytes, now_ns: int) -> None:
        """A neighbour was told that a stream goes no further, so that store acks are enough."""
        said = {"ranges": [], "is_async": True, "peer": peer_id.hex()}
        self._write_of("onward_ack_sent", header.named[:3], delivery, now_ns, **said)

    def rejected(self, header: SequenceHeader, delivery: Delivery, reason: str, now_ns: int) -> None:
        """A packet was not accepted, here or at a relay."""
        self._write_of("rejected", header.named[:3], delivery, now_ns, number=header.number, reason=reason)

    def accepted(self, accepted: Mapping[IncomingStream, list[AcceptedRun]], now_ns: int) -> None:
        """Packets are in the queues for good."""
        if self._record is record_nothing:
            return
        for stream, numbers in accepted.items():
            queue, label = stream.queue, {"class": LABELS[stream.delivery]}
            more: dict[str, Any] = {"queue": queue, **label, **said_priority(stream.delivery, stream.priority)}
            for sequence, first, last, messages in fold(numbers, bridge=stream.ordered):
                said = {"first": first, "last": last, "count": counted_in(queue, messages), **more}
                self._record("committed", now_ns, **_place_of(*stream.id, sequence), **said)

    def order_ack_sent(self, stream: IncomingStream, peer_id: bytes, now_ns: int) -> None:
        """An order ack for ``stream.acked`` has left."""
        if self._record is record_nothing:
            return
        sequence, number = stream.acked
        where = _place_of(*stream.id, sequence)
        self._record("order_ack_sent", now_ns, **where, number=number, peer=peer_id.hex())

    def found(self, stream: IncomingStream, row: PositionRow, now_ns: int) -> None:
        """A stream was found on the disk."""
        where: dict[str, object] = {"number": row.number} if stream.ordered else {"ranges": stream.filter.ranges}
        self._write_of("position_recovered", (*stream.id, row.sequence), stream.delivery, now_ns, **where)

    def forgotten(self, stream: IncomingStream, sequence: int, now_ns: int) -> None:
        """A stream has ended, and the next commit forgets it."""
        self._write_of("stream_forgotten", (*stream.id, sequence), stream.delivery, now_ns)

    def _write(self, event: str, stream: OutgoingStream | TransitStream, now_ns: int, **more: object) -> None:
        self._write_of(event, (*stream.id, stream.sequence.sequence), stream.delivery, now_ns, **more)

    def _write_of(
        self, event: str, of: tuple[bytes, int, int], delivery: Delivery, now_ns: int, /, **more: object
    ) -> None:
        if self._record is not record_nothing:
            self._record(event, now_ns, **_place_of(*of), **more, **{"class": LABELS[delivery]})


def _place_of(origin: bytes, stream: int, sequence: int) -> dict[str, object]:
    return {"origin": origin.hex(), "stream": stream, "sequence": sequence}


def _priority_of(outgoing: OutgoingStream) -> dict[str, object]:
    return said_priority(outgoing.delivery, outgoing.priority)


def _placed(entries: list[StreamPacket], tickets: list[range]) -> Iterator[tuple[tuple[int, int], list[list[int]]]]:
    """Yield, for each series of successive packets, the first packet and place of messages, and the ``counts``."""
    first, counts, at = (0, 0), list[list[int]](), 0
    for entry in entries:
        for some in tickets:
            begin, end = max(some.start, entry.first_ticket), min(some.stop, entry.first_ticket + entry.messages)
            if begin >= end:
                continue
            place = begin - entry.first_ticket
            if counts and (place or entry.number != at + 1):
                yield first, counts
                counts = []
            if not counts:
                first = entry.number, place
            at = entry.number
            if counts and counts[-1][1] == end - begin:
                counts[-1][0] += 1
            else:
                counts.append([1, end - begin])
    if counts:
        yield first, counts


def _runs(outgoing: OutgoingStream, entries: list[StreamPacket]) -> list[tuple[int, int, int, int]]:
    """First number, last number, messages and first ordinal of each run of successive packets and ordinals.

    Parts of messages are none. Ordinals of an earlier start are not known.
    """
    runs: list[tuple[int, int, int, int]] = []
    counts_any = counted_in(outgoing.queue, 1)
    blocks = outgoing.blocks_of(range(entries[0].first_ticket, entries[-1].first_ticket + 1))[::-1] if entries else []
    offset = 0
    for entry in entries:
        messages = entry.messages if counts_any else 0
        is_next = bool(runs) and runs[-1][1] + 1 == entry.number
        while blocks and blocks[-1][0] <= entry.first_ticket:
            offset, is_next = blocks.pop()[1], False
        if is_next:
            first, _, count, ordinal = runs[-1]
            runs[-1] = (first, entry.number, count + messages, ordinal)
        else:
            runs.append((entry.number, entry.number, messages, entry.first_ticket + offset))
    return runs
