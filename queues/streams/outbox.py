"""Outgoing streams, the links that they share, and the outcome of every outgoing packet.

A durable packet is offered to a session only after the commit that holds it has returned. It leaves the store only
after the acknowledgement that frees its class, or together with its arrival in the dead-letter queue.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

from triack.base.clock import WallClock
from triack.base.commit import (
    HEAD_BYTES,
    OWN_STATE,
    Commit,
    OutgoingRow,
    OutgoingStreamRow,
    StoreContent,
    kept_under,
    key_of,
    split_key,
)
from triack.base.delivery import DURABLE, Ack, Delivery, default_priority
from triack.base.names import TOPIC_PREFIX
from triack.base.ranges import as_ranges
from triack.base.reasons import DeadReason, HoldReason
from triack.base.session_log import Record
from triack.base.units import MS
from triack.ordering import wire
from triack.ordering.departing import StreamPacketState
from triack.ordering.hold import HoldState
from triack.ordering.order_ack import AckWait
from triack.ordering.outgoing import StreamPacket
from triack.ordering.tiers import tier_label
from triack.queues.ack_latency import AckLatency
from triack.queues.clock_jumps import ClockJumps
from triack.queues.mailboxes.expiry import LETTERS_MAX
from triack.queues.mailboxes.local_queues import LocalQueues
from triack.queues.mailboxes.mailbox import QueuedPacket
from triack.queues.mailboxes.system_queues import PREFIX, large_queue
from triack.queues.messages import LargeMessage, Outgoing
from triack.queues.node_settings import NodeSettings
from triack.queues.packing import part_bytes
from triack.queues.pauses import Pause
from triack.queues.peers.link import Conversation, Link, Links
from triack.queues.routes import Routes
from triack.queues.schedule import Phase, Restore, Schedule
from triack.queues.stages import Stage
from triack.queues.streams.accepted_keys import Accepted, AcceptedKeys
from triack.queues.streams.dead_lettering import DeadLettering
from triack.queues.streams.departing_stream import NO_RELAY, DepartingContext, ranges_of, relayed_packets
from triack.queues.streams.departing_streams import FETCH_AHEAD_PACKETS, DepartingStreams
from triack.queues.streams.group_commit import GroupCommit, Turn
from triack.queues.streams.holds import HeldStream, Holds
from triack.queues.streams.outgoing_stream import EXPRESS_LIMIT_BYTES, Ordinals, OutgoingStream, Row
from triack.queues.streams.retirement import ENDED, Retirement
from triack.queues.streams.sealing import Sealing
from triack.queues.streams.sent_copies import SentCopies
from triack.queues.streams.stream_records import StreamRecords
from triack.queues.streams.stream_state import StreamState
from triack.queues.sync_links import SyncLinks
from triack.session.protocol.frames import Ask
from triack.session.protocol.states import IN_DOUBT, CloseReason

PUBLISHED_BYTES = 16 * 1024
"""Size of packets that are published at their own node: no datagram carries them, and each costs every subscription
some work, however many messages it holds. Larger ones hardly gain more."""

BODY_STATE = f"{OWN_STATE}body."
"""Before the ordinal of a large message in progress: its destination, so that a next process can give it up."""

UNNAMED_LIFE_S = 345_600.0
"""How long messages wait for a node that only its id names: four days, as by default in MSMQ."""

_NODE_ID = re.compile("[0-9a-f]{32}")  # the name of a node that has no other
_HOLD_REASONS = {str(reason): reason for reason in HoldReason}


class HasRoom(Protocol):
    """Says whether a queue of this node accepts one more message of the node itself."""

    def __call__(self, name: str, *, durable: bool, coming: int) -> bool:
        """The same, besides ``coming`` messages."""


class Outbox(DepartingStreams[OutgoingStream]):
    """All outgoing streams of a node.

    Args:
        incarnation: number of its start; express sequences and message ordinals grow with it.
        content_bytes: largest packet content for a peer, given the largest datagram of its open session, or None.
        has_room: whether a local queue accepts one more message of this node itself, besides those that are coming.
        sealing: seals packets, and judges answers about them.

    Attributes:
        cached_bytes: bodies of packets that are in memory and on the disk.
        take_ordinal: the ordinal of a large message, which it needs before it is submitted.
        copies: freed messages that the journal of this node must have, until it has them.
        holds: the outgoing streams that wait for room at their destinations, and why.
        unpacked: the outgoing streams with submitted messages that are in no packet yet.
        latency: how long packets wait for the acks that free them.
        resends: packets that were resent for want of an order ack, by resend tier.
        retirement: numbers streams, and ends them.
        note_asked: called with packets that care, before they are queued.
    """

    def __init__(
        self,
        node_id: bytes,
        incarnation: int,
        settings: NodeSettings,
        *,
        content_bytes: Callable[[str, int | None], int],
        wall: WallClock,
        queues: LocalQueues,
        has_room: HasRoom,
        links: Links,
        routes: Routes,
        sync_links: SyncLinks,
        sealing: Sealing,
        record: Record,
    ) -> None:
        super().__init__("outgoing", links, sync_links, wall)
        self.sealing = sealing
        self._routes = routes
        self._node_id = node_id
        self._settings = settings
        self._ack_wait = AckWait.stated(settings.order).code
        self._content_bytes = content_bytes
        self._local_queues = queues
        self._has_room = has_room
        self._records = StreamRecords(record)
        self.cached_bytes = 0
        self._queues: dict[tuple[str, str, Delivery, int, bool], OutgoingStream] = {}
        self._by_number: dict[int, OutgoingStream] = {}
        self._ordinals = Ordinals(incarnation)
        self.take_ordinal = self._ordinals.take
        self.unpacked: dict[OutgoingStream, None] = {}
        self.latency = AckLatency()
        self.resends: Counter[str] = Counter()
        self._jumps = ClockJumps()
        self.holds = Holds(here=False)
        self.keys = AcceptedKeys(settings.keys)
        self.note_asked: Callable[[OutgoingStream, list[StreamPacket], int], None] = lambda *_: None
        self.dead_lettering = DeadLettering(node_id, self._records, self.keys, queues.put_dead_letter)
        self.dead_lettering.give_up_body = self.give_up_body
        self.copies = SentCopies(node_id)
        parts = node_id, incarnation, settings, links, self._records
        self.retirement = Retirement(*parts, forget=self._unregister, prove=sealing.prove_end)

    def register(self, schedule: Schedule) -> None:
        """Register what is done for the streams of this node, and when."""
        schedule.restore(Restore.STREAMS, self.restore)
        self.retirement.register(schedule)
        schedule.timer(self.handle_timer, self.deadlines)
        self.dead_lettering.register(schedule)
        schedule.step(Phase.END, self.copies.complete, self.copies.waiting)
        schedule.source(self.poll_fetch, self.dead_lettering.waiting, self.copies.waiting, self.wanting)
        schedule.step(Phase.PACK, self.pack_durable, self.unpacked)
        schedule.step(Phase.SENDS, self.handle_committed)
        schedule.step(Phase.PACK_EXPRESS, self.pack_express, self.unpacked)
        schedule.tell(self.links.resuming.news, self.holds.news)

    # ---- starting

    def restore(self, content: StoreContent, turn: Turn, jumps: ClockJumps) -> None:
        """Restore the outgoing streams from the store. Bodies stay on the disk until they are needed."""
        self._jumps = jumps
        self.retirement.restore(content.streams, content.state)
        for row in content.streams:
            outgoing = self._make(row)
            if row.next_number <= ENDED:
                self.retirement.handle_ended(outgoing)
            else:
                self._add(outgoing)
        for index in content.outgoing:
            stream, number = split_key(index.key)
            outgoing = self._by_number[stream]
            here = outgoing.sequence.sequence
            if index.reach_by_ms:
                index.reach_by_ms = max(1, index.reach_by_ms + jumps.outgoing_ms(here, number))
            outgoing.restore(index, number, jumps.own_sent_ms(here, number, index.head, turn.now_ms))
            self._note_stored(outgoing, [(number, number)], turn.now_ns)
        self.keys.restore(content.state, self._by_number, turn.now_ms, turn.commit, moved_ms=self._jumps.by_ms)
        self.links.resuming.restore(content.state)
        for ordinal, destination in kept_under(content.state, BODY_STATE):
            peer, _, queue = destination.decode().rpartition("/")  # its sender died before it sent the message
            parts = self.outgoing_stream(peer, large_queue(queue), Delivery.TRANSACTIONAL, turn.commit)
            self.give_up_upload(parts, int(ordinal))
            turn.commit.state[BODY_STATE + ordinal] = None
        for outgoing in self._by_number.values():
            if (sent_at_ms := outgoing.sequence.oldest_ms) is not None:
                self.latency.handle_restored(outgoing, turn.now_ns - (turn.now_ms - sent_at_ms) * MS)
            self._records.recovered(outgoing, turn.now_ns)
            self._records.queued(outgoing, list(outgoing.sequence.entries.values()), turn.now_ns, recovered=True)
            self.retirement.handle_freed(outgoing)
            self._look_at(outgoing)

    def outgoing_stream(
        self, peer: str, queue: str, delivery: Delivery, commit: Commit, priority: int | None = None, seal: bool = False
    ) -> OutgoingStream:
        """The outgoing stream to a queue, created if needed; ``peer`` empty for a queue of this node.

        Its packets leave sealed if the caller, or what is said of the peer or the route, wants that.
        """
        if priority is None:
            priority = default_priority(delivery)
        seal = bool(peer) and (seal or self.sealing.is_wanted(peer))
        outgoing = self._queues.get((peer, queue, delivery, priority, seal))
        if outgoing is not None:
            return outgoing
        stream, sequence = self.retirement.number(durable=delivery in DURABLE)
        row = OutgoingStreamRow(stream, peer, queue, delivery, sequence, 1, priority=priority, sealed=int(seal))
        if delivery in DURABLE:
            commit.streams[row.stream] = row
        outgoing = self._add(self._make(row))
        # It may stay unused.
        self.retirement.handle_freed(outgoing)
        return outgoing

    def current(self, outgoing: OutgoingStream, commit: Commit) -> OutgoingStream:
        """The outgoing stream with this one's destination: itself, unless it has ended meanwhile."""
        if outgoing.life is StreamState.LIVE:
            return outgoing
        queue, delivery, priority = outgoing.queue, outgoing.delivery, outgoing.priority
        return self.outgoing_stream(outgoing.peer, queue, delivery, commit, priority, outgoing.sealed)

    def _make(self, row: OutgoingStreamRow) -> OutgoingStream:
        way = self._routes.way_of(row.peer) if row.peer else None
        datagram_bytes = self.links[way.via].datagram_bytes if way else None
        if way is None and row.queue.startswith(TOPIC_PREFIX):
            content_bytes = PUBLISHED_BYTES
        else:
            content_bytes = self._content_bytes(way.via if way else "", datagram_bytes)
        return OutgoingStream(
            self._node_id,
            row,
            content_bytes=content_bytes,
            settings=self._settings.order,
            messages_per_packet=self._settings.messages_per_packet,
            way=way,
        )

    def _add(self, outgoing: OutgoingStream) -> OutgoingStream:
        self._queues[outgoing.key] = outgoing
        self._by_number[outgoing.stream_number] = outgoing
        self._go_by(outgoing, outgoing.way)
        if outgoing.peer:
            outgoing.sequence.set_sync(self._is_sync(outgoing))
            self.links[outgoing.via].add(outgoing)
            self.retirement.look_at(outgoing.via)
        return outgoing

    def pass_on(self, outgoing: OutgoingStream, topic: str) -> None:
        """From now on an outgoing stream has messages of a topic, for a subscription of its peer."""
        self._records.topics[outgoing.stream_number] = topic

    def _unregister(self, outgoing: OutgoingStream) -> None:
        """It ends: the next message for the same queue has another stream."""
        self._records.topics.pop(outgoing.stream_number, None)
        self._forget_key(outgoing)
        del self._by_number[outgoing.stream_number]
        self.wanting.pop(outgoing, None)
        self.deadlines.set(outgoing, None)
        self.keys.handle_ended(outgoing)
        self.copies.asking.pop(outgoing, None)
        self.latency.forget(outgoing)
        self.sync_links.forget(outgoing)
        if outgoing.peer:
            self.links[outgoing.via].remove(outgoing)

    def _has_key(self, stream: OutgoingStream) -> bool:
        return self.sealing.look_at(stream)

    def _streams_by(self, link: Link) -> list[OutgoingStream]:
        return link.streams

    def pause_of(self, stream: OutgoingStream) -> Pause | None:
        """See ``DepartingStreams``."""
        return self._local_queues.pauses.of_stream(stream.peer, stream.queue)

    # ---- submitting and packing

    def submit(self, outgoing: OutgoingStream, message: bytes | Outgoing, size_bytes: int) -> int:
        """Accept a message. Returns its ticket."""
        self.unpacked[outgoing] = None
        if outgoing.submitted == outgoing.numbered:
            self._ordinals.number(outgoing)
        return outgoing.submit(message, size_bytes)

    def give_up_body(self, peer: str, queue: str, ordinal: int, commit: Commit) -> None:
        """Let the destination of a large message free its body: no message that represents it will come."""
        parts = self.outgoing_stream(peer, large_queue(queue), Delivery.TRANSACTIONAL, commit)
        self.submit(parts, LargeMessage(b"", ordinal=ordinal), 0)

    def give_up_upload(self, parts: OutgoingStream, ordinal: int) -> None:
        """The same, when not all of the body has left: send no more of it.

        All in ``parts`` belongs to bodies that were given up. Their destination may have no room for more, and only
        this notice makes some. So the notice waits behind nothing.
        """
        word = LargeMessage(b"", ordinal=ordinal)
        # Each keeps its ticket.
        parts.pending = [it if isinstance(it, Outgoing) and not it.body else word for it in parts.pending]
        parts.dropped_until = parts.sequence.next_number
        self.submit(parts, word, 0)
        self._drop_parts(parts)

    def _drop_parts(self, parts: OutgoingStream) -> None:
        """Give up all packets of bodies that were given up, but not the notices of that: these may leave."""
        sequence, until = parts.sequence, parts.dropped_until
        for entry in [it for it in sequence.entries.values() if it.number < until and part_bytes(it.size_bytes, 1)]:
            self.dead_lettering.give_up(parts, entry, DeadReason.PURGED)
        if not parts.committing and not parts.pending:
            parts.dropped_until = 0
        sequence.hold.handle_progress()
        self._look_at(parts)

    def submit_many(self, outgoing: OutgoingStream, messages: list[bytes | Outgoing], size_bytes: int) -> list[Row]:
        """Accept messages, in order; ``size_bytes`` is their total size."""
        self.unpacked[outgoing] = None
        rows: list[Row] = []
        while messages:
            if outgoing.submitted == outgoing.numbered:
                self._ordinals.number(outgoing)
            count = outgoing.numbered - outgoing.submitted
            rows.append(outgoing.submit_many(messages[:count], 0 if rows else size_bytes))
            messages = messages[count:]
        return rows

    def submit_once(
        self, outgoing: OutgoingStream, message: Outgoing, size_bytes: int, now_ms: int, commit: Commit
    ) -> Accepted:
        """Accept a message with a key, or return the one that was accepted with the key before."""
        accepted = self.keys.find(outgoing, message.key, now_ms)
        if accepted is None:
            ticket = self.submit(outgoing, message, size_bytes)
            stream = outgoing.stream_number, outgoing.sequence.sequence
            where = outgoing.peer, outgoing.queue, stream, outgoing
            accepted = Accepted(message.key, *where, outgoing.ordinal_of(ticket), now_ms, ticket)
            self.keys.add(accepted, commit)
        return accepted

    def room_bytes(self, outgoing: OutgoingStream, coming: int = 0) -> int:
        """How much an outgoing stream accepts without waiting. One message may exceed that; at 0 nothing is accepted.

        ``coming``: messages that are to be submitted to it before, besides those that were.
        """
        if outgoing.readers and any(reader.is_full for reader in outgoing.readers):
            return 0
        if outgoing in self.copies.asking and self._local_queues.holds_copies:
            return 0
        coming += len(outgoing.pending)
        if not outgoing.peer and not self._has_room(outgoing.queue, durable=outgoing.durable, coming=coming):
            return 0
        if outgoing.durable:
            return self._settings.pending_limit_bytes - outgoing.pending_bytes
        return EXPRESS_LIMIT_BYTES - outgoing.pending_bytes - outgoing.unacked_bytes

    def life_s(self, outgoing: OutgoingStream) -> float | None:
        """How many seconds a message waits at most if its sender says nothing; None for any time."""
        life_s = self._settings.time_to_reach_queue_s
        if not outgoing.peer:
            return None
        return UNNAMED_LIFE_S if life_s is None and _is_node_id(outgoing.peer) else life_s

    def unnamed_until_ms(self, outgoing: OutgoingStream, now_ns: int) -> int:
        """When messages of this node itself end that wait for a node which only its id names; 0 for other nodes."""
        if not _is_node_id(outgoing.peer):
            return 0
        return self._wall.ms(now_ns) + round((self._settings.time_to_reach_queue_s or UNNAMED_LIFE_S) * 1_000)

    def _take_unpacked(self, *, durable: bool) -> list[OutgoingStream]:
        taken = [outgoing for outgoing in self.unpacked if outgoing.durable is durable]
        for outgoing in taken:
            del self.unpacked[outgoing]
        if not self.unpacked:
            self.unpacked.clear()  # one that was once large is slow to iterate, unless it is made anew by this
        return taken

    def pack_express(self, turn: Turn) -> bool:
        """Make packets of submitted express messages; they need no commit. Returns True: others may need one now."""
        while self.unpacked and (taken := self._take_unpacked(durable=False)):
            for outgoing in taken:
                self._pack_express(outgoing, turn)
        return True

    def _poll_packets(self, outgoing: OutgoingStream, turn: Turn) -> list[StreamPacket]:
        entries = outgoing.poll_packets(turn.now_ms)
        if outgoing.cares and any(entry.cares for entry in entries):
            self.note_asked(outgoing, entries, turn.now_ns)
        return entries

    def _pack_express(self, outgoing: OutgoingStream, turn: Turn) -> None:
        entries = self._poll_packets(outgoing, turn)
        self._records.queued(outgoing, entries, turn.now_ns)
        if outgoing.peer:
            outgoing.start(entries)
            self._note_started(outgoing, entries, turn.now_ns)
            self._look_at(outgoing)
        else:
            self._put_local(outgoing, entries, turn)
            self._finish_local(outgoing, entries)
            self._records.local(outgoing, entries, turn.now_ns)

    def pack_durable(self, turn: Turn) -> None:
        """Put all submitted messages of durable classes into the next commit."""
        # Messages for queues of this node may have answers, which are in the same commit.
        while self.unpacked and (taken := self._take_unpacked(durable=True)):
            for outgoing in taken:
                self._pack_durable(outgoing, turn)

    def _pack_durable(self, outgoing: OutgoingStream, turn: Turn) -> None:
        entries = self._poll_packets(outgoing, turn)
        stream = outgoing.stream_number
        turn.commit.streams[stream] = outgoing.row()
        turn.started.append((outgoing, entries))
        self.keys.handle_packed(outgoing, entries, turn.commit)
        if outgoing.peer:
            first_key = key_of(stream, 0)
            turn.commit.outgoing += [
                OutgoingRow(first_key + entry.number, entry.messages, entry.reach_by_ms, entry.body or b"")
                for entry in entries
            ]
        else:
            self._put_local(outgoing, entries, turn)

    def _put_local(self, outgoing: OutgoingStream, entries: list[StreamPacket], turn: Turn) -> None:
        origin, stream, sequence = self._node_id, outgoing.stream_number, outgoing.sequence.sequence
        if outgoing.cares:
            self.copies.take(outgoing, entries)
        for entry in entries:
            body = entry.body or b""
            packet = QueuedPacket((), origin, stream, sequence, entry.number, outgoing.delivery, 1, len(body), [body])
            self._local_queues.put(outgoing.queue, packet, body[:HEAD_BYTES], turn)

    def handle_committed(self, group: GroupCommit) -> None:
        """The commit has returned: its packets may be sent."""
        now_ns = group.now_ns
        if group.dead_lettered:
            self._remove_dead_lettered(group.dead_lettered)
        if group.ending or group.over:
            self.retirement.handle_stored(group.ending)
            self.retirement.handle_deleted(group.over)
        for outgoing, entries in group.started:
            self._records.queued(outgoing, entries, now_ns)
            if group.bridged:
                self._records.took(outgoing, entries, group.bridged, now_ns)
            if not outgoing.peer:
                self._finish_local(outgoing, entries)
                self._records.local(outgoing, entries, now_ns)
                continue
            outgoing.start(entries)
            self._note_started(outgoing, entries, now_ns)
            for entry in entries:
                self.cached_bytes += entry.size_bytes
                if self.cached_bytes > self._settings.body_cache_bytes:
                    self._release_bodies([entry])
            if outgoing.dropped_until:
                self._drop_parts(outgoing)
            self._look_at(outgoing)

    def _note_started(self, outgoing: OutgoingStream, entries: list[StreamPacket], now_ns: int) -> None:
        if entries:
            self.latency.handle_started(outgoing, entries[-1].number, now_ns)
            self._note_stored(outgoing, [(entries[0].number, entries[-1].number)], now_ns)

    def _finish_local(self, outgoing: OutgoingStream, entries: list[StreamPacket]) -> None:
        """A packet for a queue of this node has arrived as soon as it is committed."""
        outgoing.start(entries)
        for entry in entries:
            outgoing.sequence.remove(entry)
        outgoing.handle_freed(entries)
        self.retirement.handle_freed(outgoing)

    # ---- sending

    def contents_of(
        self, outgoing: OutgoingStream, run: list[StreamPacket], arrives_ns: int
    ) -> tuple[list[bytes], list[DepartingContext], list[int]]:
        """See ``DepartingStreams``."""
        sequence = outgoing.sequence
        awaited = outgoing.stages.asks_of(run)
        if sequence.start.credit is not None:
            # The stream, and others that wait for its place, stand still until its destination says that it has
            # accepted these. The delay of its acks would be added to each step.
            awaited[-1] = awaited[-1] or Ask.WITH_STORE
        ack_requested = [sequence.poll_ask(entry) or waits != 0 for entry, waits in zip(run, awaited, strict=True)]
        # A stream that has ever used relays says of no number that it is not wanted any more: see ordering.transit.
        ordered = outgoing.delivery is Delivery.TRANSACTIONAL
        previous = sequence.previous_of_run(run) if ordered or not outgoing.relayed else [0] * len(run)
        named = *outgoing.id, sequence.sequence, run[0].number
        first = wire.SequenceHeader(*named, previous[0], outgoing.queue, ack_requested[0], b"")
        bodies = [entry.body or b"" for entry in run]
        if outgoing.seal is not None:
            open_ones = zip(run, previous, bodies, strict=True)
            bodies = [self.sealing.seal(outgoing, entry.number, before, body) for entry, before, body in open_ones]
        if outgoing.way is None or outgoing.way.is_direct:
            hops, contents = NO_RELAY, wire.encode_run(first, previous, ack_requested, bodies)
        else:
            hops = 0
            packets = relayed_packets(run, previous, ack_requested, bodies, self._wall.ms(arrives_ns))
            to, awaits = outgoing.way.final, outgoing.next_hop.awaited
            contents = wire.encode_relayed_run(first, to, "", packets, awaited=awaits, ack_wait=self._ack_wait)
        return contents, outgoing.contexts_of(run, previous, hops), awaited

    # ---- acknowledgements

    def handle_acked(
        self, outgoing: OutgoingStream, entries: list[StreamPacket], ack: Ack, _by: Conversation, turn: Turn
    ) -> None:
        """A session or store ack covers packets."""
        sequence = outgoing.sequence
        is_slow = sequence.start.credit is not None
        # A copy of what the next hop had already says nothing of its room.
        takes = ack is Ack.STORE and any(not entry.stored for entry in entries)
        freed = sequence.handle_ack(entries, ack)
        if freed:
            self._free(outgoing, freed, turn)
        if is_slow and not outgoing.durable:
            # The destination had no place for this express stream and has one now. The ack of a fragment frees nothing
            # by itself, but lets the next fragments leave.
            sequence.hold.handle_progress()
        if (takes and sequence.hold.handle_progress()) or (is_slow and (ack is Ack.STORE or not outgoing.durable)):
            self._look_at(outgoing)
        if ack is Ack.SESSION:
            outgoing.stages.handle_progress(entries, Stage.RECEIVED)
            return
        if outgoing.next_hop.is_async:
            self.sync_links.remove(outgoing.way, outgoing, ranges_of(entries))
        outgoing.stages.handle_progress(entries, Stage.STORED if sequence.sync else Stage.ONWARD)

    def leads(self, stream: int, peer_id: bytes) -> bool:
        """Whether a node is the neighbour to which a stream goes or went: only that node may answer for its packets."""
        outgoing = self._by_number.get(stream) or self.retirement.ended(stream)
        return outgoing is not None and self.links.leads(outgoing, peer_id)

    def destination_of(self, stream: int) -> str:
        """The node that a stream goes to, by name; empty when there is no such stream."""
        outgoing = self._by_number.get(stream) or self.retirement.ended(stream)
        return "" if outgoing is None else outgoing.peer

    def handle_order_ack(self, stream: int, sequence: int, number: int, turn: Turn) -> None:
        """The destination has a sequence up to ``number``."""
        outgoing = self._by_number.get(stream)
        if outgoing is None or outgoing.sequence.sequence != sequence:
            # It is about an older sequence, or another stream that had this number. If that one was sealed, and this
            # one is not, it was not checked whether its destination says so.
            return
        self._records.order_ack(outgoing, number, turn.now_ns)
        freed = outgoing.sequence.handle_order_ack(sequence, number, turn.now_ns)
        if freed:
            outgoing.sequence.hold.handle_progress()
            if self.sync_links.awaited:
                self.sync_links.remove(outgoing.way, outgoing, ranges_of(freed))
        self._free(outgoing, freed, turn)
        self._look_at(outgoing)

    def handle_onward_ack(self, conversation: Conversation, packet: wire.OnwardAckPacket, turn: Turn) -> None:
        """A relay has passed packets on, or says that its store acks are enough from now on."""
        outgoing = self._by_number.get(packet.stream)
        if outgoing is None or outgoing.sequence.sequence != packet.sequence:
            return
        self._records.onward_acked(outgoing, packet, conversation.label, turn.now_ns)
        covered, freed = outgoing.sequence.handle_onward(packet.ranges)
        self.sync_links.remove(outgoing.way, outgoing, packet.ranges)
        self._free(outgoing, freed, turn)
        outgoing.stages.handle_progress(covered, Stage.ONWARD)
        if outgoing.next_hop.handle_word(packet.turn, is_async=packet.is_async):
            if packet.is_async:
                stored = [entry for entry in outgoing.sequence.entries.values() if entry.stored]
                self.sync_links.remove(outgoing.way, outgoing, ranges_of(stored))
            self._set_sync(outgoing, turn)
        # What the relay before had stored, and this one has not yet, leaves room for others.
        self._look_at(outgoing)

    def _set_sync(self, outgoing: OutgoingStream, turn: Turn) -> None:
        freed = outgoing.sequence.set_sync(self._is_sync(outgoing))
        self._free(outgoing, freed, turn)
        outgoing.stages.handle_progress(list(outgoing.sequence.entries.values()), Stage.ONWARD)

    def handle_onward(self, conversation: Conversation, packet: wire.OnwardPacket, now_ns: int) -> None:
        """A relay says how far it has a stream, and whether that waits there: then it need not be sent again."""
        outgoing = self._led_by(conversation, packet)
        if outgoing is None or outgoing.sequence.sequence != packet.sequence:
            return
        if outgoing.sequence.handle_waits(packet.turn, packet.here if packet.waits else 0, now_ns):
            sequence = outgoing.sequence
            waiting = [entry for entry in sequence.entries.values() if entry.number <= sequence.waits_until]
            outgoing.stages.handle_progress(waiting, Stage.STORED if sequence.sync else Stage.ONWARD)
            self._records.onward(outgoing, packet.here, conversation.label, now_ns, waits=packet.waits)
            self._look_at(outgoing)

    def handle_reject(self, conversation: Conversation, packet: wire.RejectPacket, turn: Turn) -> None:
        """A packet, and so its message, was refused for good, as its destination or a relay says."""
        outgoing = self._by_number.get(packet.stream)
        if outgoing is None:
            return
        verdict = self.sealing.judge_reject(outgoing, conversation, packet, turn.now_ns)
        if verdict is None or outgoing.sequence.sequence != packet.sequence:
            return
        entry, reason = outgoing.sequence.entries.get(packet.number), verdict.reason
        if entry is None or entry.state is StreamPacketState.REJECTED:
            return
        if not entry.sends:
            # It is about a copy of an earlier process of this node, or invented: the outcome of this one is not known.
            return
        is_behind = isinstance(packet, wire.RelayedReject) and packet.by != conversation.peer_id
        if is_behind and outgoing.delivery is Delivery.RECOVERABLE and not outgoing.next_hop.awaited:
            # The neighbour had it on its disk before a node behind it refused it, so that its dead letter is there. The
            # rejection has overtaken the store ack, which frees this copy.
            return
        if self._leave_to_relay(outgoing, entry, reason, turn):
            return
        if verdict.certain:
            self._forget_sent(outgoing, self.dead_lettering.reject(outgoing, entry, reason))
        else:
            self.dead_lettering.give_up(outgoing, entry, reason)
            self._look_at(outgoing)
        if outgoing.sequence.hold.handle_progress():
            # It was not held back, so the next may not be, either.
            self._look_at(outgoing)

    def stream(self, number: int) -> OutgoingStream | None:
        """The outgoing stream of that number, or None."""
        return self._by_number.get(number)

    def _leave_to_relay(self, outgoing: OutgoingStream, entry: StreamPacket, reason: str, turn: Turn) -> bool:
        """If a relay answers for a message that has ended, its dead letter is there: free what is here.

        As over an asynchronous link, where the store ack of the relay has freed it before. So a journal gets its copy.
        """
        entries = outgoing.sequence.message_of(entry)
        if not outgoing.sequence.relay_answers(entries):
            return False
        for part in entries:
            outgoing.sequence.remove(part)
            outgoing.handle_removed(part, reason)
        self.sync_links.remove(outgoing.way, outgoing, ranges_of(entries))
        self._free(outgoing, entries, turn)
        self._look_at(outgoing)
        return True

    def _led_by(self, conversation: Conversation, packet: wire.Answer) -> OutgoingStream | None:
        # Only holds of that neighbour, and its notices that packets wait there, count: each has separate turns.
        outgoing = self._by_number.get(packet.stream)
        if outgoing is None or self.links[outgoing.via].peer_id != conversation.peer_id:
            return None
        return outgoing

    def _note_held(self, stream: OutgoingStream, reason: str, now_ns: int, *, stop: bool, is_new: bool) -> None:
        why = _HOLD_REASONS.get(reason, HoldReason.UNKNOWN)
        if stop and why is HoldReason.TOO_MANY_STREAMS:
            self.retirement.handle_crowded(stream.via)
        elif not stop:
            self.retirement.handle_room(stream.via)
        if is_new:
            self._records.held(stream, now_ns, why.value if stop else None)
        if stream.sequence.hold.state is HoldState.GOING:
            self.holds.free(stream)
        else:
            self.holds.hold(stream, HeldStream(stream.peer, stream.queue, stream.delivery, why))

    def _free(self, outgoing: OutgoingStream, entries: list[StreamPacket], turn: Turn) -> None:
        done = self.copies.take(outgoing, entries) if outgoing.cares and entries else entries
        self._let_go(outgoing, entries)
        if entries:
            left = outgoing.sequence.entries
            self.latency.handle_freed(outgoing, left, turn.now_ns, busy=bool(left))
        if entries and outgoing.durable:
            via = outgoing.via
            self.links.resuming.handle_freed(via, self.links[via].peer_id)
            stream = outgoing.stream_number
            for first, last in as_ranges(sorted([entry.number for entry in done])):
                turn.commit.outgoing_deletes.append((key_of(stream, first), key_of(stream, last)))

    def _let_go(self, outgoing: OutgoingStream, entries: list[StreamPacket]) -> None:
        if outgoing.durable:
            self._release_bodies(entries)
        outgoing.handle_freed(entries)
        self._forget_sent(outgoing, entries)
        self.retirement.handle_freed(outgoing)

    def _release_bodies(self, entries: list[StreamPacket]) -> None:
        for entry in entries:
            if entry.body is not None:
                self.cached_bytes -= entry.size_bytes
                entry.body = None

    # ---- sessions come and go

    def handle_routes_changed(self, turn: Turn) -> None:
        """Routes or peers have changed: streams with another way now send all that is not freed by that."""
        for outgoing in self._by_number.values():
            self._follow_route(outgoing, outgoing.peer, turn)
        self.retirement.handle_routes_changed(self._routes.way_of)

    def move(self, outgoing: OutgoingStream, peer: str, turn: Turn) -> None:
        """The node that a stream goes to has another name from now on: it is the same stream, by another way."""
        if outgoing.peer != peer and outgoing.life is StreamState.LIVE:
            self._follow_route(outgoing, peer, turn)

    def _follow_route(self, outgoing: OutgoingStream, peer: str, turn: Turn) -> None:
        """Let a stream use the way that leads to a node, by its name: if that is another one, all is resent."""
        way = self._routes.way_of(peer) if peer else None
        is_sync = outgoing.durable and self.sync_links.awaits(way)
        if way is None or (way == outgoing.way and is_sync is outgoing.next_hop.awaited and peer == outgoing.peer):
            self._look_for_key(outgoing)
            return
        self.links[outgoing.via].remove(outgoing)
        if peer != outgoing.peer:
            self._rename(outgoing, peer, turn)
        self._go_by(outgoing, way)
        outgoing.sequence.handle_session_closed()
        # That nothing came of the way before says nothing of this one: as with a new session, the first tier again.
        outgoing.sequence.handle_session_opened(turn.now_ns)
        self._note_stored(outgoing, ranges_of(outgoing.sequence.entries.values()), turn.now_ns)
        self._set_sync(outgoing, turn)
        self.holds.free(outgoing)
        self._records.rerouted(outgoing, turn.now_ns)
        link = self.links[way.via]
        link.add(outgoing)
        outgoing.fit(self._content_bytes(link.peer, link.datagram_bytes))
        self._look_at(outgoing)

    def _rename(self, outgoing: OutgoingStream, peer: str, turn: Turn) -> None:
        self._forget_key(outgoing)
        outgoing.rename(peer)
        self._queues.setdefault(outgoing.key, outgoing)
        if outgoing.durable:
            turn.commit.streams[outgoing.stream_number] = outgoing.row()

    def _forget_key(self, outgoing: OutgoingStream) -> None:
        if self._queues.get(outgoing.key) is outgoing:  # after a change of its name another one may have that key
            del self._queues[outgoing.key]

    def _look_for_key(self, outgoing: OutgoingStream) -> None:
        """Peers or routes have changed: a stream that leaves sealed may have its key now, or no longer."""
        if outgoing.seal is None:
            return
        if self.sealing.look_at(outgoing):
            self._look_at(outgoing)
        else:
            self.links[outgoing.via].turns.withdraw(outgoing)

    def handle_size(self, link: Link) -> None:
        """Datagrams to a peer are larger from now on, or smaller."""
        content_bytes = self._content_bytes(link.peer, link.datagram_bytes)
        for outgoing in link.streams:
            outgoing.fit(content_bytes)

    def handle_session_opened(self, link: Link, now_ns: int) -> None:
        """A session serves a link."""
        self.links.handle_opened(link, now_ns)
        self.handle_size(link)
        for outgoing in link.streams:
            outgoing.sequence.handle_session_opened(now_ns)
            self._look_at(outgoing)
        self.retirement.handle_session_opened(link)
        if link.is_sending:
            link.wake()

    def handle_session_closed(self, link: Link, reason: CloseReason, now_ns: int) -> None:
        """The session of a link is gone: packets that are not freed are resent.

        If there was nothing to send, streams that wait for an order ack continue to wait.
        """
        link.handle_closed(reason, now_ns)
        self.handle_size(link)
        self.retirement.handle_room(link.peer)
        not_stored = reason is CloseReason.STORE_ACK_TIMEOUT
        hands_back = reason in IN_DOUBT and self._settings.reconnect.after_session_lost == "hand back"
        for outgoing in link.streams:
            # No application takes back what nodes say to each other in queues of the system.
            if hands_back and not outgoing.queue.startswith(PREFIX):
                for entry in outgoing.sequence.unconfirmed():
                    self.dead_lettering.give_up(outgoing, entry, DeadReason.SESSION_LOST)
            outgoing.sequence.handle_session_closed(idle=link.idle, not_stored=not_stored)
            if outgoing.next_hop.awaited:
                self._handle_word_lost(outgoing)
            self.holds.free(outgoing)  # its destination holds it again if it must
            self._look_at(outgoing)

    # ---- giving up

    def handle_timer(self, turn: Turn) -> None:
        """Resend tiers, expiries, and links that may try again."""
        for key in self.deadlines.poll_due(turn.now_ns):
            if isinstance(key, Link):
                key.wake()
                continue
            if not key.paused:
                key.sequence.hold.handle_timer(turn.now_ns)
            if again := key.sequence.handle_timer(turn.now_ns):
                self.resends[tier_label(key.sequence.tier.attempt)] += len(again)
                self._records.resend(key, again, turn.now_ns)
            for entry in key.poll_expired(turn.now_ms, LETTERS_MAX):
                if entry.number not in key.sequence.entries:
                    continue  # it has gone with another part of its message
                if not self._leave_to_relay(key, entry, DeadReason.REACH_QUEUE_TIMEOUT, turn):
                    self.dead_lettering.give_up(key, entry, DeadReason.REACH_QUEUE_TIMEOUT)
            self._look_at(key)

    def give_up(self, link: Link, reason: str) -> None:
        """Give up everything that waits for a peer: it can never be delivered."""
        for outgoing in link.streams:
            for entry in list(outgoing.sequence.entries.values()):
                self.dead_lettering.give_up(outgoing, entry, reason)

    def _remove_dead_lettered(self, lettered: list[tuple[OutgoingStream, list[StreamPacket], str]]) -> None:
        """The dead letters are on disk: only now may later packets pass over these."""
        for outgoing, entries, reason in lettered:
            left = [entry for entry in entries if entry.number in outgoing.sequence.entries]
            for entry in left:
                outgoing.sequence.remove(entry)
                outgoing.handle_removed(entry, reason)
            self._let_go(outgoing, left)
            self.sync_links.remove(outgoing.way, outgoing, ranges_of(left))
            if not outgoing.sequence.entries:
                self.latency.forget(outgoing)
            self._look_at(outgoing)

    # ---- bodies on the disk

    def _missing(self) -> Iterator[tuple[OutgoingStream, StreamPacket]]:
        """Packets of given-up messages, then of freed ones that are copied, then of the streams that want some."""
        yield from self.dead_lettering.missing(FETCH_AHEAD_PACKETS)
        yield from self.copies.missing(FETCH_AHEAD_PACKETS)
        yield from self._missing_of_streams()

    def _key_of(self, stream: OutgoingStream, entry: StreamPacket) -> int:
        return key_of(stream.stream_number, entry.number)

    def _handle_body(self, stream: OutgoingStream, entry: StreamPacket, body: bytes) -> None:
        entry.body = self._jumps.move_outgoing(stream.sequence.sequence, entry.number, body)
        if entry.state is not StreamPacketState.DONE:  # else it is only to be copied
            self.cached_bytes += entry.size_bytes

    # ---- queries

    @property
    def streams(self) -> list[OutgoingStream]:
        """Every outgoing stream."""
        return list(self._by_number.values())

    def volatile(self, *, all_classes: bool) -> bool:
        """Whether packets wait for acknowledgement that are not on the disk; ``all_classes``: or on it."""
        return any(
            outgoing.sequence.entries for outgoing in self._by_number.values() if all_classes or not outgoing.durable
        )


def _is_node_id(peer: str) -> bool:
    """Whether the name of a link is the id of a node that has no name here."""
    return _NODE_ID.fullmatch(peer) is not None
