"""All streams of other nodes that pass through this one: their rows in the group commit, their links, their limits.

Promise: a packet of a durable class is store-acknowledged to the neighbour that it came by only after the commit that
holds it has returned, and it leaves the store only after the acknowledgement of the next hop that frees its class
(``base.delivery.FREED_BY``), or together with its arrival in the dead-letter queue, or when its origin hears that it
was refused and still has it. A packet for which there is no room is not taken, and its stream is held, as for a full
queue.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import NamedTuple

from triack.base.clock import WallClock
from triack.base.commit import StoreContent, TransitIndex, TransitStreamRow, key_of, split_key
from triack.base.delivery import Ack, Delivery
from triack.base.errors import AddressError, ProtocolError
from triack.base.names import StreamId, check_name
from triack.base.ranges import without
from triack.base.reasons import DeadReason, DropReason, FreedReason, HoldReason, RejectReason
from triack.base.units import MS, SECOND
from triack.ordering.departing import StreamPacketState
from triack.ordering.hold import HoldState
from triack.ordering.transit import Taken, TransitPacket
from triack.ordering.wire import (
    Answer,
    OnwardAckPacket,
    OnwardPacket,
    RelayedEnd,
    RelayedHeader,
    RelayedOrderAck,
    RelayedReject,
)
from triack.queues.body_head import messages_in, priority_of
from triack.queues.clock_jumps import ClockJumps
from triack.queues.deadlines import Deadlines
from triack.queues.mailboxes.expiry import LETTERS_MAX
from triack.queues.mailboxes.incoming_run import IncomingRun
from triack.queues.node_settings import STREAM_BYTES, NodeSettings
from triack.queues.pauses import Pause, Pauses
from triack.queues.peers.link import Conversation, Link, Links
from triack.queues.routes import Way
from triack.queues.schedule import Phase, Restore, Schedule
from triack.queues.streams.admission import Admission
from triack.queues.streams.departing_stream import DepartingContext, ranges_of
from triack.queues.streams.departing_streams import FETCH_AHEAD_PACKETS, DepartingStreams
from triack.queues.streams.group_commit import GroupCommit, Turn
from triack.queues.streams.holds import HoldsHere
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.sync_links import SyncLinks
from triack.queues.transit.packet_classifier import PacketClassifier
from triack.queues.transit.pending_dead_letters import PendingDeadLetters
from triack.queues.transit.relay_acks import RelayAcks
from triack.queues.transit.return_routes import ReturnRoutes
from triack.queues.transit.transit_ends import TransitEnds
from triack.queues.transit.transit_room import TransitBodies, TransitNews, TransitRoom
from triack.session.protocol.states import CloseReason

IDLE_NS = 60 * SECOND
"""How long a stream is kept when nothing of it is here: streams pause, and a row costs little."""
NOT_STORED_NS = 100 * MS
"""When to look again at a packet whose time ran out before its commit has returned."""
ON_ITS_WAY_NS = 1 * SECOND
"""The same of a packet that is on its way: it left in time, so it is given up only if its session ends without an ack.
Given up before, it would have two ends."""

RESTORED_TOGETHER = 4_096
"""How many packets are in memory at a time while a start goes through those on the disk: a record each is too much."""


class _Came(NamedTuple):
    """A packet that has come, and its number in the session of its conversation."""

    conversation: Conversation
    packet: int
    header: RelayedHeader
    delivery: Delivery


class Transits(DepartingStreams[TransitStream]):
    """All streams in transit.

    Attributes:
        bodies: those that only the disk has, until they are needed.
    """

    def __init__(
        self,
        settings: NodeSettings,
        *,
        door: PacketClassifier,
        admission: Admission,
        links: Links,
        returns: ReturnRoutes,
        words: RelayAcks,
        sync_links: SyncLinks,
        letters: PendingDeadLetters,
        wall: WallClock,
        pauses: Pauses,
    ) -> None:
        super().__init__("transit", links, sync_links, wall)
        self.door, self._places = door, admission.stream_places
        self.returns, self._records, self._drops = returns, returns.records, returns.drops
        self.words, self.letters = words, letters
        self._pauses = pauses
        self._streams: dict[StreamId, TransitStream] = {}
        self._by_number: dict[int, TransitStream] = {}
        self._by_link: dict[str, dict[TransitStream, None]] = {}
        self.next_number = 1
        self._free_numbers: deque[int] = deque()
        self._idle = Deadlines[TransitStream]()
        # The numbers of forgotten streams: of those with a row, and of those whose row a commit deletes.
        self._gone: list[int] = []
        self._dropping: list[int] = []
        # Streams that have ended, of which packets may still be here, and the last of their sequences.
        self._over: dict[TransitStream, int] = {}
        self.room = TransitRoom(settings.limits, admission.disk_room, admission.waiting)
        self.bodies = TransitBodies(self.room, settings.body_cache_bytes)
        self.news = TransitNews()
        self.holds = HoldsHere[TransitStream](self._places.hold_sender)
        self.ends = TransitEnds(door, returns, self._has_packets)

    def register(self, schedule: Schedule) -> None:
        """Register what is done for the streams that pass through, and when."""
        letters, words = self.letters, self.words
        schedule.restore(Restore.STREAMS, self.restore)
        schedule.timer(self.handle_timer, self.deadlines, self._idle)
        schedule.deadline(letters.next_deadline, letters.pieces)
        schedule.deadline(words.next_deadline, self._streams, words.passed)
        schedule.step(Phase.RELAY, self.complete, self._gone, self._over, letters.waiting, letters.pieces)
        schedule.step(Phase.SENDS, self.handle_committed, self._streams, self._dropping)
        schedule.step(Phase.GIVE, self.go, self._streams, words.passed)
        schedule.source(self.poll_fetch, letters.waiting, self.wanting)
        schedule.tell(self.holds.news, self.news.news)

    # ---- starting

    def restore(self, content: StoreContent, turn: Turn, jumps: ClockJumps) -> None:
        """Restore the streams from the store. Bodies stay on the disk until they are needed.

        The store does not say when packets came: they count as here since they were sent, as far as clocks tell that.
        """
        now_ns, now_ms = turn.now_ns, turn.now_ms
        for row in content.transit_streams:
            stream = TransitStream(row)
            self._add(stream, self.door.way_of(stream.final))
            self.next_number = max(self.next_number, stream.number + 1)
        used = set(self._by_number)
        self._free_numbers.extend(number for number in range(1, self.next_number) if number not in used)
        for number, some in groupby(content.transit, key=_number_of):
            stream, indices = self._by_number[number], iter(some)
            while entries := [
                stream.restore_packet(it, split_key(it.key)[1], now_ns - jumps.age_ms(it.head, now_ms) * MS)
                for it in islice(indices, RESTORED_TOGETHER)
            ]:
                self._restore(stream, entries, now_ns)
        for stream in self._streams.values():
            self.returns.note_packet(stream, stream.came_by)
            self._look_at(stream)
            self._rest(stream, now_ns)

    def _restore(self, stream: TransitStream, entries: list[TransitPacket], now_ns: int) -> None:
        self.room.count(stream, entries)
        self._records.committed(stream, entries, now_ns, recovered=True)
        self._note_stored(stream, ranges_of(entries), now_ns)
        self.words.handle_more(now_ns)
        self.bodies.handle_stored(stream, entries)

    def _add(self, stream: TransitStream, way: Way | None) -> None:
        self._streams[stream.id] = self._by_number[stream.number] = stream
        self._places.account.add(stream.came_by.encode(), STREAM_BYTES)
        self._lead(stream, way)

    def _lead(self, stream: TransitStream, way: Way | None) -> None:
        """A stream goes by a way from now on."""
        self._by_link.get(stream.via, {}).pop(stream, None)
        if way is not None:
            self._by_link.setdefault(way.via, {})[stream] = None
        self._go_by(stream, way)
        stream.sequence.handle_session_closed(rerouted=True)
        stream.sequence.set_sync(self._is_sync(stream))

    # ---- packets that arrive

    def handle_end(self, conversation: Conversation, packet: RelayedEnd, now_ns: int) -> None:
        """The end of a stream that is to be passed on. Raises ProtocolError."""
        self.ends.handle_end(conversation, packet, self._from(conversation, packet), now_ns)
        stream = self._streams.get(StreamId(packet.origin, packet.stream))
        if stream is not None and stream.delivery is Delivery.TRANSACTIONAL:
            self._over[stream] = packet.sequence

    def _has_packets(self, stream_id: StreamId) -> bool:
        stream = self._streams.get(stream_id)
        return stream is not None and (not stream.sequence.is_empty or stream.leaving > 0)

    def handle_packet(
        self, conversation: Conversation, packet: int, header: RelayedHeader, delivery: Delivery, turn: Turn
    ) -> None:
        """Take a packet that is to be passed on.

        Raises ProtocolError if it contradicts what is known of its stream, or comes in another peer's name.
        """
        way, came = self.door.judge(conversation, header), _Came(conversation, packet, header, delivery)
        if isinstance(way, RejectReason):
            self._refuse(came, way, turn)
            return
        stream = self._stream_of(conversation, header, delivery, way, turn.now_ns)
        if stream is None:
            self._records.rejected(header, delivery, RejectReason.HELD_BACK, turn.now_ns)
            conversation.withhold(delivery, packet)
            if not self._places.keep_out(conversation, header, packet):
                self._drops[DropReason.CONTROL_OVERFLOW] += 1
            return
        self.returns.note_packet(stream, conversation.link_name)
        self._note_awaited(stream, header, turn.now_ns)
        stream.ack_wait = header.ack_wait or stream.ack_wait
        taken = Taken.OTHER_WAY
        if stream.comes_as(conversation, header):
            taken = stream.sequence.judge(header.sequence, header.number)
        if taken is Taken.STALE:
            self._refuse(came, RejectReason.STALE_SEQUENCE, turn)
        elif taken is Taken.DUPLICATE:
            self._handle_duplicate(stream, came, turn)
        elif taken is Taken.OTHER_WAY:
            self._hold_back(stream, came, HoldReason.OTHER_WAY, turn)
        elif stream.is_purged(header.sequence, header.number):
            self._refuse(came, DeadReason.PURGED, turn)
        else:
            self._handle_fresh(stream, came, turn)

    def handle_run(self, conversation: Conversation, run: IncomingRun, delivery: Delivery, turn: Turn) -> bool:
        """Take all packets of a run that is to be passed on, as ``handle_packet`` would one by one.

        Returns False when the packets must come one by one because their fates may differ; nothing has changed then.
        """
        header = run.header
        assert isinstance(header, RelayedHeader)
        stream = self._streams.get(StreamId(header.origin, header.stream))
        if stream is None or stream.judged_by is not conversation or not stream.is_of(header, delivery):
            return False
        sequence = stream.sequence
        if header.sequence != sequence.sequence or header.number <= sequence.highest or stream in self.holds.stopped:
            return False
        if not stream.comes_as(conversation, header) or stream.noted != stream.came_by:
            return False
        if not self.room.takes(stream, conversation, run):
            return False
        if stream.awaited or header.awaited:
            self._note_awaited(stream, header, turn.now_ns)
        stream.ack_wait = header.ack_wait or stream.ack_wait
        left_by_ms = [turn.now_ms + left_ms if left_ms else 0 for left_ms in run.lefts_ms]
        step, count = run.previous_step, len(run.bodies)
        entries = [
            TransitPacket(number, body, len(body), messages, previous, turn.now_ns, reach_by_ms=by_ms)
            for number, body, messages, previous, by_ms in zip(
                range(header.number, header.number + count),
                run.bodies,
                run.counts,
                range(header.previous, header.previous + count) if step else [header.previous] * count,
                left_by_ms,
                strict=True,
            )
        ]
        entries[-1].ack_requested = run.ack_requested
        self._take(stream, conversation, entries, range(run.packet, run.packet + count), turn)
        return True

    def _stream_of(
        self, conversation: Conversation, header: RelayedHeader, delivery: Delivery, way: Way, now_ns: int
    ) -> TransitStream | None:
        """The stream of a packet, made when it is new; None when there is no place for one more.

        Raises ProtocolError ``bad-packet`` if it has another queue, class or priority than its stream.
        """
        stream_id = StreamId(header.origin, header.stream)
        stream = self._streams.get(stream_id)
        if stream is not None and not stream.is_of(header, delivery):
            here = stream.queue, stream.delivery, stream.priority
            if here != (header.queue, delivery, priority_of(header.body)):
                if not stream.sequence.is_empty or header.sequence <= stream.sequence.sequence:
                    raise ProtocolError(DropReason.BAD_PACKET, "a stream changed its queue, class or priority")
                # Its number belongs to another stream of its origin now.
                stream.queue, stream.delivery = header.queue, delivery
                self.words.handle_next_lost(stream, now_ns)
                self._forget(stream)
                stream = None
            else:
                stream.final = header.final
        if stream is None:
            key = conversation.link_name.encode()
            if self._places.has_enough(key):
                return None
            number = self._free_numbers.popleft() if self._free_numbers else self.next_number
            self.next_number = max(self.next_number, number + 1)
            to = header.queue, header.final, self._from(conversation, header), conversation.link_name
            row = TransitStreamRow(number, *stream_id, delivery, header.sequence, *to, highest=0, ordered=0)
            stream = TransitStream(row._replace(priority=priority_of(header.body), trace=header.trace))
            self._add(stream, way)
            # Perhaps nothing of it is ever taken.
            self._idle.set(stream, now_ns + IDLE_NS)
            self._places.let_in(conversation, stream_id)
        elif stream.way != way:
            self._reroute(stream, way, now_ns)
        if stream.sequence.is_empty:
            self._come_by(stream, conversation, header, now_ns)
        stream.judged_by = conversation if stream.came_by == conversation.link_name else None
        return stream

    def _come_by(self, stream: TransitStream, conversation: Conversation, header: RelayedHeader, now_ns: int) -> None:
        """Nothing of a stream is here: from now on its packets come as this one."""
        stream.trace = header.trace
        if stream.came_by == conversation.link_name:
            return
        self._places.account.add(stream.came_by.encode(), -STREAM_BYTES)
        # What waits behind the next hop is for the new neighbour to hear, and no more for the old one. What has been
        # passed on is for the old one, as the new one may never have had it.
        self.words.handle_let_go(stream, now_ns)
        self.words.tell_now(stream, now_ns)
        stream.came_by, stream.from_name = conversation.link_name, self._from(conversation, header)
        self._places.account.add(stream.came_by.encode(), STREAM_BYTES)

    @staticmethod
    def _from(conversation: Conversation, header: RelayedHeader | RelayedEnd) -> str:
        """The name of the origin: as the first relay has it, or, if that is this node, as this node has it."""
        if header.origin != conversation.peer_id:
            return header.from_name
        try:
            return check_name(conversation.peer_label)
        except AddressError:
            return header.origin.hex()

    def _handle_fresh(self, stream: TransitStream, came: _Came, turn: Turn) -> None:
        conversation, packet, header, _ = came
        reason = self.room.lacks(stream, conversation)
        goes_ahead = self.room.lets_ahead(stream, header.number, len(header.body), reason)
        if reason is not None and stream.durable and not goes_ahead:
            self._hold_back(stream, came, reason, turn)
            return
        if self.room.is_over(stream):
            self._refuse(came, RejectReason.QUEUE_FULL, turn)
            return
        body = header.body
        entry = TransitPacket(
            header.number,
            body,
            len(body),
            messages_in(body),
            header.previous,
            turn.now_ns,
            reach_by_ms=turn.now_ms + header.left_ms if header.left_ms else 0,
            ack_requested=header.ack_requested,
        )
        if header.sequence > stream.sequence.sequence:
            self._begin(stream, header.sequence, turn)
        self._take(stream, conversation, [entry], (packet,), turn)
        if reason is not None and stream not in self.holds.stopped:
            self.holds.stop(stream, conversation, stream.destination, reason)

    def _begin(self, stream: TransitStream, sequence: int, turn: Turn) -> None:
        """A newer sequence begins. What is here of the older one goes before, so that its records name that one."""
        if dropped := list(stream.sequence.entries.values()):
            self._let_go(stream, dropped, FreedReason.STALE_SEQUENCE, turn)
        stream.ordered = stream.repeats = 0
        self.words.handle_next_lost(stream, turn.now_ns)
        # It numbers its packets from 1 again: what was still to be said of the older one is dropped.
        self.words.forget_passed(stream)
        self.sync_links.forget(stream)
        stream.purged = []
        stream.sequence.begin(sequence)

    def _take(
        self,
        stream: TransitStream,
        conversation: Conversation,
        entries: list[TransitPacket],
        packets: Iterable[int],
        turn: Turn,
    ) -> None:
        """Take fresh packets: the durable ones with the next commit, the others at once."""
        self._idle.set(stream, None)
        stream.sequence.add(entries)
        self.room.count(stream, entries)
        stream.expect(entries)
        if not stream.durable:
            self._records.committed(stream, entries, turn.now_ns)
            stream.sequence.handle_stored(entries)
            self._look_at(stream)
            return
        turn.commit.transit += [stream.packet_row(it, it.body or b"") for it in entries]
        turn.commit.transit_streams[stream.number] = stream.row()
        self.room.waiting.add(conversation.peer_id, sum([entry.size_bytes for entry in entries]))
        turn.passed_on.append((stream, entries, conversation.peer_id))
        turn.stored.setdefault(conversation, []).extend(packets)

    def _handle_duplicate(self, stream: TransitStream, came: _Came, turn: Turn) -> None:
        conversation, packet, header, _ = came
        sequence, entry = stream.sequence, stream.sequence.find(header.number)
        assert entry is not None
        is_lower, spans = sequence.ordered and header.previous < entry.previous, stream.keys_of([entry])
        again = sequence.handle_duplicate(entry, header.previous, ack_requested=header.ack_requested)
        if is_lower:
            # It moves to another place in one commit.
            turn.commit.transit_deletes += spans
            turn.commit.transit.append(stream.packet_row(entry, header.body))
            self.room.charge(stream)
            if entry.body is not None:
                # A sealed body is good with the ``previous`` that it came with alone.
                entry.body = header.body
        if stream.durable:
            # It is on disk, or will be with the next commit.
            turn.store_ack(conversation, packet)
        self.words.handle_duplicate(stream, turn.now_ns)
        if again:
            self._look_at(stream)

    def _refuse(self, came: _Came, reason: RejectReason | DeadReason, turn: Turn) -> None:
        """Refuse a packet at the door: its origin still has it. Nothing is remembered, as routes change."""
        conversation, packet, header, delivery = came
        self._records.refused(header, delivery, reason, turn.now_ns)
        if reason is RejectReason.NO_ROUTE:
            self.news.handle_no_route(header.final, conversation.link_name)
        conversation.withhold(delivery, packet)
        if not self.returns.refuse(conversation, packet, header, reason):
            self._drops[DropReason.CONTROL_OVERFLOW] += 1

    # ---- room

    def _hold_back(self, stream: TransitStream, came: _Came, reason: HoldReason, turn: Turn) -> None:
        conversation, packet, header, _ = came
        self._records.rejected(header, stream.delivery, RejectReason.HELD_BACK, turn.now_ns)
        conversation.withhold(stream.delivery, packet)
        if stream.sequence.ordered and stream.sequence.handle_held_back(header.sequence, header.number):
            self.words.handle_let_go(stream, turn.now_ns)
        if reason is HoldReason.TRANSIT_FULL:
            self.news.handle_full(stream.came_by, self.room)
        if not self.holds.stop(stream, conversation, stream.destination, reason, (packet,)):
            self._drops[DropReason.CONTROL_OVERFLOW] += 1

    def go(self, turn: Turn) -> bool:
        """Let streams continue when there is room again, and say what waits. Returns True: bodies may be needed."""
        if self.room.is_relieved:
            self.room.is_relieved = not self.holds.go(self.room.lets_wait)
        self.news.handle_room(self.room)
        self.words.poll_passed(turn.now_ns)
        self.words.tell_waits(self._streams.values(), turn.now_ns)
        return True

    # ---- commits

    def complete(self, turn: Turn) -> None:
        """Complete the commit before it goes to the disk: dead letters, and streams that have been idle for long."""
        if self._gone:
            turn.commit.transit_stream_deletes += self._gone
            self._dropping += self._gone
            for number in self._gone:
                turn.commit.transit_streams.pop(number, None)
            self._gone.clear()
        if self._over:
            self._let_go_ended(turn)
        for stream, entries, reason, certain in self.letters.write(turn):
            self._records.freed(stream, entries, _said(reason), turn.now_ns)
            if not certain:
                self._tell_awaiting(stream, entries, reason, turn.now_ns)
            turn.commit.transit_deletes += stream.keys_of(entries)
            turn.dead_in_transit.append((stream, entries))
        for stream, entries, *_ in self.letters.take_late():
            # Their message would arrive nowhere if its last fragments ended here.
            stream.sequence.go_on(entries)
            self._look_at(stream)

    def _let_go_ended(self, turn: Turn) -> None:
        """Let go of packets whose origin answers for them no longer: each has arrived, or is a dead letter there.

        Nobody would close a gap before them. What the running commit brings goes when that has returned.
        """
        over = list(self._over.items())
        self._over.clear()
        for stream, sequence in over:
            if sequence < stream.sequence.sequence:
                continue
            is_all = False
            while not is_all:
                is_all = not stream.sequence.on_disk
                entries = stream.sequence.entries.values()
                if stored := [entry for entry in entries if entry.state is not StreamPacketState.ARRIVED]:
                    self._let_go(stream, stored, FreedReason.STALE_SEQUENCE, turn)
                self.bodies.bring_back(stream, 1)
            if not stream.sequence.is_empty:
                self._over[stream] = sequence

    def handle_committed(self, group: GroupCommit) -> None:
        """The commit has returned: its packets may be sent, and those that it has moved are gone."""
        now_ns = group.now_ns
        for stream, entries, peer_id in group.passed_on:
            self.room.handle_stored(peer_id, entries)
            self._records.committed(stream, entries, now_ns)
            self._note_stored(stream, ranges_of(entries), now_ns)
            self.bodies.handle_stored(stream, entries)
            if stream.sequence.ordered:
                self.words.handle_more(now_ns)
            self._look_at(stream)
        for stream, entries in group.dead_in_transit:
            left = [entry for entry in entries if stream.sequence.entries.get(entry.number) is entry]
            self._forget_entries(stream, left, now_ns)
            self._look_at(stream)
        for stream in group.departed:
            stream.leaving -= 1
            if stream.sequence.is_empty:
                self.ends.pass_on(stream.id, now_ns)
        if deleted := group.commit.transit_stream_deletes:
            self._free_numbers.extend(deleted)
            del self._dropping[: len(deleted)]

    # ---- sending

    def _streams_by(self, link: Link) -> Iterable[TransitStream]:
        return self._by_link.get(link.peer, ())

    def contents_of(
        self, stream: TransitStream, run: list[TransitPacket], arrives_ns: int
    ) -> tuple[list[bytes], list[DepartingContext], list[int]]:
        """See ``DepartingStreams``."""
        # As no more of it fits here, no ack delay is to be added.
        hurries = stream.durable and self.room.is_scarce(stream)
        passed_by = self.door.node_id
        return stream.contents_of(run, self._wall.ms(arrives_ns), passed_by=passed_by, hurries=hurries)

    def _missing(self) -> Iterator[tuple[TransitStream, TransitPacket]]:
        """Packets for dead letters, then of the streams that want some."""
        yield from self.letters.missing()
        yield from self._missing_of_streams()

    def _bring_back(self, stream: TransitStream) -> None:
        self.bodies.bring_back(stream, FETCH_AHEAD_PACKETS)

    def _key_of(self, stream: TransitStream, entry: TransitPacket) -> int:
        return key_of(stream.number, entry.place)

    def _handle_body(self, _stream: TransitStream, entry: TransitPacket, body: bytes) -> None:
        if entry.state is not StreamPacketState.DONE:
            entry.body = body
            self.bodies.count(entry)

    # ---- acknowledgements of the next hop

    def handle_acked(
        self, stream: TransitStream, entries: list[TransitPacket], ack: Ack, by: Conversation, turn: Turn
    ) -> None:
        """A session or store ack of the next hop covers packets."""
        sequence = stream.sequence
        # A packet that was held back has a session ack, too, and a copy of what the next hop had has a store ack.
        is_slow = sequence.start.credit is not None
        tells_of_room = ack is Ack.STORE if stream.durable else is_slow
        is_new = sequence.freed_by is Ack.ONWARD and any(not entry.taken for entry in entries)
        freed = sequence.handle_ack(entries, ack)
        if freed:
            stream.repeats = 0
            self._note_passed(stream, freed, turn.now_ns)
            self._free(stream, freed, _ACKED[sequence.freed_by], turn, by.label)
            if stream.durable:
                self.links.resuming.handle_freed(by.link_name, by.peer_id)
        takes = tells_of_room and (is_new or bool(freed))
        if (takes and sequence.hold.handle_progress()) or is_slow:
            self._look_at(stream)

    def handle_onward(self, conversation: Conversation, packet: OnwardPacket, now_ns: int) -> None:
        """The next hop says how far it has a stream, and whether that waits there."""
        stream = self._led_by(conversation, packet)
        if stream is not None and stream.sequence.ordered and packet.sequence == stream.sequence.sequence:
            self.words.handle_next_waits(stream, packet, now_ns)

    # ---- synchronous links

    def _note_awaited(self, stream: TransitStream, header: RelayedHeader, now_ns: int) -> None:
        """Note whether the neighbour waits for packets to be passed on."""
        stream.awaited = header.awaited and stream.durable
        self._tell_mode(stream, now_ns)

    def _tell_mode(self, stream: TransitStream, now_ns: int) -> None:
        """Tell a neighbour that waits whether the link onward, synchronous by the routes, is asynchronous for now."""
        if stream.awaited:
            is_behind = stream.next_hop.awaited and not self.sync_links.is_sync(stream.way)
            self.words.handle_awaited(stream, is_async=is_behind, now_ns=now_ns)

    def _note_passed(self, stream: TransitStream, entries: list[TransitPacket], now_ns: int) -> None:
        """The next hop has packets on its disk, so that they leave this one.

        Over a synchronous link only those count as passed on of which it has said so before. Over one that is
        asynchronous for now all do, but the others are still awaited, unless the next hop has said that its store acks
        are enough.
        """
        if not (stream.awaited or stream.next_hop.awaited):
            return
        passed = [entry for entry in entries if entry.onward]
        self.words.handle_passed(stream, ranges_of(passed if stream.sequence.sync else entries), now_ns)
        self.sync_links.remove(stream.way, stream, ranges_of(entries if stream.next_hop.is_async else passed))

    def handle_onward_ack(self, conversation: Conversation, packet: OnwardAckPacket, turn: Turn) -> None:
        """The next hop has passed packets on, or says that its store acks are enough from now on."""
        stream = self._led_by(conversation, packet)
        if stream is None or packet.sequence != stream.sequence.sequence or not stream.next_hop.awaited:
            return
        self._records.onward_acked(stream, packet, conversation.label, turn.now_ns)
        left, freed = stream.sequence.handle_onward(packet.ranges)
        # Words know no hops, and in a circle of relays one may be about another copy. So what stays here is awaited as
        # before: else its link would never be too old. A word that no node awaits would go round without end.
        passed = without(packet.ranges, left) if left else packet.ranges
        awaited = self.sync_links.remove(stream.way, stream, passed)
        if freed:
            self._free_passed(stream, freed, FreedReason.ONWARD_ACK, turn)
        self.words.handle_passed(stream, awaited, turn.now_ns)
        if stream.next_hop.handle_word(packet.turn, is_async=packet.is_async):
            self._set_sync(stream, turn)

    def _set_sync(self, stream: TransitStream, turn: Turn) -> None:
        if freed := stream.sequence.set_sync(self._is_sync(stream)):
            self._note_passed(stream, freed, turn.now_ns)
            self._free_passed(stream, freed, FreedReason.STORE_ACK, turn)
        self._tell_mode(stream, turn.now_ns)

    def _free_passed(
        self, stream: TransitStream, entries: list[TransitPacket], reason: FreedReason, turn: Turn
    ) -> None:
        """Packets that the next hop had stored are freed by another word than a store ack.

        When both ends have called, that word may come by another session than the one that has carried them.
        """
        carrier = self.links.carrier_to(stream.via)
        self._forget_sent(stream, entries)
        self._free(stream, entries, reason, turn, carrier.label if carrier is not None else "")

    def _free(
        self, stream: TransitStream, entries: list[TransitPacket], reason: FreedReason, turn: Turn, session: str = ""
    ) -> None:
        """Packets are not here any more, from the next commit on."""
        self._records.freed(stream, entries, reason, turn.now_ns, session)
        if stream.durable:
            turn.commit.transit_deletes += stream.keys_of(entries)
            turn.departed.append(stream)
            stream.leaving += 1
        self._forget_entries(stream, entries, turn.now_ns)

    def _let_go(self, stream: TransitStream, entries: list[TransitPacket], reason: FreedReason, turn: Turn) -> None:
        """Remove packets that no ack has freed."""
        self._forget_sent(stream, entries)
        stream.sequence.remove(entries)
        if reason is FreedReason.LET_GO:
            stream.sequence.lack([entry.number for entry in entries])
        self.sync_links.remove(stream.way, stream, ranges_of(entries))
        self._free(stream, entries, reason, turn)
        self.words.handle_let_go(stream, turn.now_ns)
        # In slow start it was perhaps these that the others waited for.
        self._look_at(stream)

    def _forget_entries(self, stream: TransitStream, entries: list[TransitPacket], now_ns: int) -> None:
        self.room.count(stream, entries, -1)
        stream.sequence.remove(entries)
        for entry in entries:
            if stream.durable:
                self.bodies.release(entry)
            entry.body = None
        stream.expect_no_more(entries)
        self._rest(stream, now_ns)

    def _rest(self, stream: TransitStream, now_ns: int) -> None:
        """If nothing of a stream is here, forget it after a while."""
        if stream.sequence.is_empty:
            self.words.handle_empty(stream, now_ns)
            self.ends.pass_on(stream.id, now_ns)
            self._idle.set(stream, now_ns + IDLE_NS)

    def _forget(self, stream: TransitStream) -> None:
        """Forget a stream of which nothing is here; its row goes with the next commit."""
        self._idle.set(stream, None)
        self.wanting.pop(stream, None)
        self.deadlines.set(stream, None)
        self.holds.forget(stream)
        self.words.forget(stream)
        self._lead(stream, None)
        del self._streams[stream.id], self._by_number[stream.number]
        self._places.account.add(stream.came_by.encode(), -STREAM_BYTES)
        self._places.freed[:] = (stream,)
        if stream.durable:
            self._gone.append(stream.number)
        else:
            self._free_numbers.append(stream.number)

    # ---- words of the next hop

    def _sent_to(self, conversation: Conversation, packet: Answer) -> TransitStream | None:
        """The stream that a neighbour speaks about, if it is here.

        Raises ProtocolError ``not-our-packet`` if it has never gone to that neighbour.
        """
        stream_id = StreamId(packet.origin, packet.stream)
        self.returns.check(stream_id, conversation)
        return self._streams.get(stream_id)

    def _led_by(self, conversation: Conversation, packet: Answer) -> TransitStream | None:
        """The same, if the neighbour is the next hop of the stream now."""
        stream = self._sent_to(conversation, packet)
        return stream if stream is not None and stream.via == conversation.link_name else None

    def handle_order_ack(self, conversation: Conversation, packet: RelayedOrderAck, turn: Turn) -> None:
        """A destination has a stream up to a number: pass that on to its origin."""
        stream = self._sent_to(conversation, packet)
        is_current = stream is not None and packet.sequence == stream.sequence.sequence
        if stream is not None and is_current and stream.handle_order_ack(packet.number):
            self.words.handle_let_go(stream, turn.now_ns)
        self.returns.pass_order_ack(conversation, packet, turn.now_ns)

    def handle_reject(self, conversation: Conversation, packet: RelayedReject, turn: Turn) -> None:
        """A packet was refused for good downstream."""
        stream = self._sent_to(conversation, packet)
        if stream is not None and packet.sequence == stream.sequence.sequence:
            entry = stream.sequence.entries.get(packet.number)
            # If it was not sent, the word is about an earlier copy; what comes of this one is not known yet.
            if entry is not None and entry.state is StreamPacketState.SENT:
                self._handle_refused(stream, entry, packet, conversation, turn)
        if packet.reason == FreedReason.LET_GO:
            # It is between neighbours: the origin has the packet, and sends it again.
            return
        self.returns.pass_reject(conversation, packet, turn.now_ns)

    def _handle_refused(
        self, stream: TransitStream, entry: TransitPacket, packet: RelayedReject, conversation: Conversation, turn: Turn
    ) -> None:
        """A packet that was sent is refused."""
        if packet.reason == FreedReason.LET_GO:
            self._handle_given_back(stream, entry, turn)
            return
        self.returns.tell_keeper(stream, packet, turn.now_ns)
        had_stored = packet.by != conversation.peer_id or entry.taken
        if stream.delivery is Delivery.RECOVERABLE and had_stored:
            # The next hop had stored it before it was refused, so its dead letter is there.
            self._let_go(stream, [entry], FreedReason.REJECTED, turn)
        else:
            self._give_up(stream, [entry], packet.reason, turn, certain=True)
        if stream.sequence.hold.handle_progress():
            # It was not held back, so perhaps the next is not, either.
            self._look_at(stream)

    def _handle_given_back(self, stream: TransitStream, entry: TransitPacket, turn: Turn) -> None:
        """The destination has held a packet for long, as one before it is missing.

        If such a one is here, both go again. If not, only the origin can close the gap, and sends this packet, too.
        """
        if stream.sequence.ordered and stream.sequence.lowest == entry.number:
            self._let_go(stream, [entry], FreedReason.LET_GO, turn)
            return
        self._forget_sent(stream, [entry])
        stream.sequence.handle_given_back(entry)
        self._look_at(stream)

    def _note_held(self, stream: TransitStream, reason: str, now_ns: int, *, stop: bool, is_new: bool) -> None:
        if is_new:
            self._records.held(stream, now_ns, reason if stop else None)
        stream.held = "" if stream.sequence.hold.state is HoldState.GOING else reason or stream.held

    def _give_up(
        self, stream: TransitStream, entries: list[TransitPacket], reason: str, turn: Turn, *, certain: bool = False
    ) -> None:
        """Packets will not be passed on. Who answers for them decides what becomes of them.

        Recoverable ones are dead letters here, as their origin has let go of them. The origin of transactional ones has
        them still. Express ones are lost, and counted. ``certain``: they were not delivered.
        """
        if stream.delivery is Delivery.RECOVERABLE:
            if kept := [entry for entry in entries if entry.taken]:
                # The next hop answers for these.
                if not certain:
                    self._tell_awaiting(stream, kept, reason, turn.now_ns)
                self._let_go(stream, kept, _said(reason), turn)
                entries = [entry for entry in entries if entry.state is not StreamPacketState.DONE]
            self._forget_sent(stream, entries)
            stream.sequence.give_up(entries)
            for entry in entries:
                # A destination that has forgotten the stream cannot tell whether it had this packet.
                self.letters.add(stream, entry, reason, certain=certain and reason != RejectReason.STALE_SEQUENCE)
            self.words.handle_let_go(stream, turn.now_ns)
            return
        if stream.delivery is Delivery.EXPRESS:
            self._drops[DropReason.TRANSIT_LOST] += len(entries)
        self._let_go(stream, entries, _said(reason), turn)

    def _tell_awaiting(self, stream: TransitStream, entries: list[TransitPacket], reason: str, now_ns: int) -> None:
        """Packets end here. A neighbour that has copies until they are passed on need not wait."""
        for entry in entries if stream.awaited else ():
            self.returns.reject(stream, entry, reason, now_ns)

    # ---- sessions, routes, time

    def handle_session_opened(self, conversation: Conversation, now_ns: int) -> None:
        """A session is open: tell the neighbour again what may have been lost, and offer it what waits for it."""
        self.returns.handle_session_opened(conversation, now_ns)
        for stream in self._streams.values():
            if stream.came_by == conversation.link_name:
                self.words.tell_waits_at_once(stream, now_ns)
        link = conversation.link
        if link is not None and link.conversation is conversation:
            self.ends.handle_session_opened(link, now_ns)
            for stream in self._streams_by(link):
                self._look_at(stream)

    def handle_session_closed(self, conversation: Conversation) -> None:
        """A session is over, and with it what was said in it."""
        self.holds.handle_session_closed(conversation)
        self.words.handle_session_closed(conversation)

    def handle_link_closed(self, link: Link, reason: CloseReason, now_ns: int) -> None:
        """The session that served a link is over: packets that are not freed go out again."""
        for stream in self._streams_by(link):
            stream.held = ""
            self.words.handle_next_lost(stream, now_ns)
            stream.sequence.handle_session_closed(not_stored=reason is CloseReason.STORE_ACK_TIMEOUT)
            if stream.next_hop.awaited:
                self._handle_word_lost(stream)
            self.bodies.handle_waiting(stream)
            self._look_at(stream)

    def pause_of(self, stream: TransitStream) -> Pause | None:
        """The pause of what a stream goes to, by its destination or the neighbour that is that, or None."""
        found = (self._pauses.of_stream(name, stream.queue) for name in stream.pausable)
        return next((pause for pause in found if pause is not None), None)

    def holds_open(self, conversation: Conversation) -> bool:
        """Whether a session must not end as idle: its neighbour relies on what was said in it."""
        if self.words.holds_open(conversation):
            return True
        link = conversation.link
        return link is not None and link.conversation is conversation and self.relies_on(link)

    def has_to_ask(self, link: Link) -> bool:
        """Whether the next hop has to be asked if it is still there, as no stream asks it for room now and then."""
        holds = (stream.sequence.hold for stream in self._streams_by(link) if not stream.paused)
        return self.relies_on(link) and all(hold.state is HoldState.GOING for hold in holds)

    def handle_routes_changed(self, now_ns: int) -> None:
        """Routes, peers or their permissions have changed."""
        self.news.handle_routes_changed()
        for stream in self._streams.values():
            stream.judged_by = None
            way = self.door.way_of(stream.final)
            awaited = stream.durable and self.sync_links.awaits(way)
            if way != stream.way or stream.next_hop.awaited is not awaited:
                self._reroute(stream, way, now_ns)

    def _reroute(self, stream: TransitStream, way: Way | None, now_ns: int) -> None:
        """The packets of a stream that are not freed go by another way from now on."""
        self._lead(stream, way)
        self.words.forget(stream)
        self.words.handle_next_lost(stream, now_ns)
        stream.held = ""
        if way is not None:
            self._records.rerouted(stream, now_ns)
        self._note_stored(stream, stream.sequence.ranges(stored=True), now_ns)
        self.returns.note_packet(stream, stream.noted)
        self._look_at(stream)

    def handle_timer(self, turn: Turn) -> None:
        """Probes of held streams, packets whose time has run out, and streams that are idle."""
        for stream in self.deadlines.poll_due(turn.now_ns):
            stream.sequence.hold.handle_timer(turn.now_ns)
            self._expire(stream, turn)
            self._look_at(stream)
        for stream in self._idle.poll_due(turn.now_ns):
            if stream.sequence.waits_until or stream.leaving or stream in self.holds.stopped:
                # The next hop, or the disk, has more to say about it; or its neighbour waits for a word of this node.
                self._idle.set(stream, turn.now_ns + IDLE_NS)
            elif stream.sequence.is_empty:
                self._forget(stream)

    def _expire(self, stream: TransitStream, turn: Turn) -> None:
        expired = self.bodies.bring_back_expired(stream, turn.now_ms, LETTERS_MAX)
        for entry in stream.poll_expired(turn.now_ms, LETTERS_MAX):
            if entry.state is StreamPacketState.ARRIVED:
                stream.expiries.set(entry.number, turn.now_ms + NOT_STORED_NS // MS)
            elif entry.state is StreamPacketState.SENT and not entry.taken:
                stream.expiries.set(entry.number, turn.now_ms + ON_ITS_WAY_NS // MS)
            elif entry.state is not StreamPacketState.GIVEN_UP and stream.may_expire(entry):
                expired.append(entry)
        if expired and stream.sequence.ordered:
            for entry in expired:
                self.returns.reject(stream, entry, DeadReason.REACH_QUEUE_TIMEOUT, turn.now_ns)
        if expired:
            self._give_up(stream, expired, DeadReason.REACH_QUEUE_TIMEOUT, turn)

    def end_by_hand(self, stream: TransitStream, entries: list[TransitPacket], reason: str, turn: Turn) -> None:
        """An operator ends packets that wait here.

        Recoverable ones are dead letters here; the origins of transactional ones are told, and keep theirs.
        """
        if stream.sequence.ordered:
            stream.handle_purged(entry.number for entry in entries)
            for entry in entries:
                self.returns.reject(stream, entry, reason, turn.now_ns)
        self._give_up(stream, entries, reason, turn)

    # ---- queries

    @property
    def streams(self) -> list[TransitStream]:
        """Every stream in transit."""
        return list(self._streams.values())


_ACKED: dict[Ack, FreedReason] = {
    Ack.SESSION: FreedReason.SESSION_ACK,
    Ack.STORE: FreedReason.STORE_ACK,
    Ack.ONWARD: FreedReason.ONWARD_ACK,
}
"""Why this node answers for packets no longer that an ack has freed, by the ack that frees them."""
_FREED_FOR: dict[str, FreedReason] = {
    DeadReason.REACH_QUEUE_TIMEOUT: FreedReason.EXPIRED,
    DeadReason.PURGED: FreedReason.PURGED,
}
"""Why this node answers for packets no longer that were given up, other than as they were refused."""


def _number_of(index: TransitIndex) -> int:
    return split_key(index.key)[0]


def _said(reason: str) -> FreedReason:
    """A reason as the session log has it."""
    return _FREED_FOR.get(reason, FreedReason.REJECTED)
