"""What leaves: lanes, the links they share, and the fate of every outgoing packet.

A durable packet is offered to a session only after the commit that holds it has returned, and leaves the store only
after the acknowledgement that frees its class, or together with its arrival in the dead-letter queue.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from triack.base.commit import HEAD_BYTES, OutgoingQueueRow, OutgoingRow, Read, StoreContent, key_of, split_key
from triack.base.delivery import Delivery
from triack.base.reasons import DeadReason
from triack.ordering.outgoing import Entry, EntryState
from triack.ordering.wire import SequenceHeader
from triack.queues.group_commit import GroupCommit
from triack.queues.inbox import Inbox, Record
from triack.queues.link import Link
from triack.queues.mailbox import QueuedPacket
from triack.queues.outgoing_queue import OutgoingQueue
from triack.queues.packing import Outgoing, Unpacked, fragment_range, join_fragments, read_fragment, unpack
from triack.queues.settings import NodeSettings

if TYPE_CHECKING:
    from random import Random

__all__ = ["Outbox", "PacketContext"]

EXPRESS_LANES = 1 << 31
"""Express lanes are numbered from here in each life of the process; only durable ones are remembered."""
FETCH_AHEAD_PACKETS = 2_048


@dataclass(slots=True)
class PacketContext:
    """What a session carries along with a sequence packet. ``previous`` is what the header said when it left."""

    lane: OutgoingQueue
    entry: Entry
    previous: int


class Outbox:
    """All outgoing streams of a node.

    Args:
        node_id: this node.
        incarnation: which start of it; express sequences and message ordinals grow with it.
        settings: limits.
        content_bytes: largest packet content for an address.
        inbox: where messages for queues of this node go.
        random: for the jitter of reconnecting.
        record: writes to the session log.
    """

    def __init__(
        self,
        node_id: bytes,
        incarnation: int,
        settings: NodeSettings,
        *,
        content_bytes: Callable[[str], int],
        inbox: Inbox,
        random: "Random",
        record: Record,
    ) -> None:
        self._node_id = node_id
        self._incarnation = incarnation
        self._settings = settings
        self._content_bytes = content_bytes
        self._inbox = inbox
        self._random = random
        self._record = record
        self._lanes: dict[tuple[str, str, Delivery], OutgoingQueue] = {}
        self._by_number: dict[int, OutgoingQueue] = {}
        self.links: dict[str, Link] = {}
        self._next_lane = 1
        self._next_express_lane = EXPRESS_LANES
        # 2^40 messages for each of 2^24 starts.
        self._ordinal = incarnation << 40
        self._unpacked: dict[OutgoingQueue, None] = {}
        self._doomed: list[tuple[OutgoingQueue, list[Entry], str]] = []
        self.cached_bytes = 0

    # ---- starting

    def restore(self, content: StoreContent, now_ns: int) -> None:
        """Take what the store has. Bodies stay on the disk until they are needed."""
        for row in content.lanes:
            self._add_lane(row)
        for index in content.outgoing:
            lane, number = split_key(index.key)
            entry = Entry(number, None, index.size_bytes, index.messages, -1, 0, index.reach_by_ms)
            self._by_number[lane].restore(entry)
        for lane_ in self._by_number.values():
            self._record_queued(lane_, list(lane_.sequence.entries.values()), now_ns, recovered=True)

    def lane_for(self, address: str, queue: str, delivery: Delivery, pending: GroupCommit) -> OutgoingQueue:
        """The stream for that queue, made when there is none; ``address`` empty for a queue of this node."""
        lane = self._lanes.get((address, queue, delivery))
        if lane is not None:
            return lane
        if delivery is Delivery.EXPRESS:
            self._next_express_lane += 1
            return self._add_lane(
                OutgoingQueueRow(self._next_express_lane, address, queue, delivery, self._incarnation, 1)
            )
        row = OutgoingQueueRow(self._next_lane, address, queue, delivery, 1, 1)
        pending.commit.lanes[row.lane] = row
        return self._add_lane(row)

    def _add_lane(self, row: OutgoingQueueRow) -> OutgoingQueue:
        lane = OutgoingQueue(
            row.lane,
            row.address,
            row.queue,
            Delivery(row.delivery),
            sequence=row.sequence,
            next_number=row.next_number,
            content_bytes=self._content_bytes(row.address),
            settings=self._settings.order,
        )
        self._lanes[(lane.address, lane.queue, lane.delivery)] = lane
        self._by_number[lane.lane] = lane
        if lane.lane < EXPRESS_LANES:
            self._next_lane = max(self._next_lane, lane.lane + 1)
        if lane.address:
            link = self.links.get(lane.address)
            if link is None:
                link = self.links[lane.address] = Link(lane.address, self._settings, self._random)
            link.add(lane)
        return lane

    # ---- submitting and packing

    def submit(self, lane: OutgoingQueue, message: bytes | Outgoing, size_bytes: int) -> int:
        """Accept a message. Returns its ticket."""
        self._unpacked[lane] = None
        return lane.submit(message, size_bytes)

    def room(self, lane: OutgoingQueue) -> bool:
        """Whether a lane takes another message without waiting."""
        if lane.durable:
            return lane.pending_bytes < self._settings.pending_limit_bytes
        return lane.pending_bytes + lane.unacked_bytes < self._settings.express_limit_bytes

    def pack_express(self, pending: GroupCommit, now_ns: int, now_ms: int) -> None:
        """Make packets of submitted express messages; they need no commit."""
        for lane in [lane for lane in self._unpacked if not lane.durable]:
            del self._unpacked[lane]
            entries, self._ordinal = lane.poll_packets(self._ordinal, now_ms)
            self._record_queued(lane, entries, now_ns)
            if lane.address:
                lane.start(entries)
            else:
                self._put_local(lane, entries, pending)
                self._finish_local(lane, entries)

    def pack_durable(self, pending: GroupCommit, now_ms: int) -> None:
        """Put everything submitted in a durable class into the next commit, all of it together."""
        for lane in [lane for lane in self._unpacked if lane.durable]:
            del self._unpacked[lane]
            entries, self._ordinal = lane.poll_packets(self._ordinal, now_ms)
            sequence = lane.sequence
            pending.commit.lanes[lane.lane] = OutgoingQueueRow(
                lane.lane, lane.address, lane.queue, lane.delivery, sequence.sequence, sequence.next_number
            )
            pending.started.append((lane, entries))
            if lane.address:
                pending.commit.outgoing += [
                    OutgoingRow(key_of(lane.lane, entry.number), entry.completes, entry.reach_by_ms, entry.body or b"")
                    for entry in entries
                ]
            else:
                self._put_local(lane, entries, pending)

    def _put_local(self, lane: OutgoingQueue, entries: list[Entry], pending: GroupCommit) -> None:
        for entry in entries:
            body = entry.body or b""
            parcel = QueuedPacket(
                [], self._node_id, lane.lane, lane.sequence.sequence, entry.number, lane.delivery, 1, len(body), [body]
            )
            self._inbox.put_local(lane.queue, parcel, body, pending)

    def handle_committed(self, pending: GroupCommit, now_ns: int) -> None:
        """The commit has returned: its packets may be sent."""
        self._remove_buried(pending)
        for lane, entries in pending.started:
            self._record_queued(lane, entries, now_ns)
            if not lane.address:
                self._finish_local(lane, entries)
                self._record_local(lane, entries, now_ns)
                continue
            lane.start(entries)
            for entry in entries:
                self.cached_bytes += entry.size_bytes
                if self.cached_bytes > self._settings.body_cache_bytes:
                    self._cool(entry)

    def _finish_local(self, lane: OutgoingQueue, entries: list[Entry]) -> None:
        """A packet for a queue of this node has arrived as soon as it is committed."""
        lane.start(entries)
        for entry in entries:
            lane.sequence.remove(entry)
            lane.handle_freed(entry)

    # ---- sending

    def content_of(self, lane: OutgoingQueue, entry: Entry) -> tuple[bytes, PacketContext, bool]:
        """The content of a packet that leaves now, its token, and whether someone waits for its acks."""
        awaited = lane.receipts.awaits(entry)
        previous = lane.sequence.previous_of(entry)
        asks = lane.sequence.poll_ask(entry) or awaited
        header = SequenceHeader(
            self._node_id,
            lane.lane,
            lane.sequence.sequence,
            entry.number,
            previous,
            lane.queue,
            asks,
            entry.body or b"",
        )
        return header.encode(), PacketContext(lane, entry, previous), awaited

    # ---- acknowledgements

    def handle_session_ack(self, token: PacketContext, pending: GroupCommit) -> None:
        """A session ack covers the packet."""
        if token.lane.sequence.handle_session_ack(token.entry):
            self._free(token.lane, [token.entry], pending)
        else:
            token.lane.receipts.handle_progress(token.entry)

    def handle_store_ack(self, token: PacketContext, pending: GroupCommit) -> None:
        """A store ack covers the packet."""
        if token.lane.sequence.handle_store_ack(token.entry):
            self._free(token.lane, [token.entry], pending)
        else:
            token.lane.receipts.handle_progress(token.entry)

    def leads(self, number_of_lane: int, peer_id: bytes) -> bool:
        """Whether a lane leads to that node, as far as we know: nobody else has a say in its packets."""
        lane = self._by_number.get(number_of_lane)
        link = self.links.get(lane.address) if lane is not None else None
        return link is not None and link.peer_id == peer_id

    def handle_order_ack(
        self, number_of_lane: int, sequence: int, number: int, pending: GroupCommit, now_ns: int
    ) -> None:
        """The destination has a sequence up to ``number``."""
        lane = self._by_number.get(number_of_lane)
        if lane is None:
            return
        self._record(
            "order_ack_received",
            now_ns,
            origin=self._node_id.hex(),
            lane=lane.lane,
            sequence=sequence,
            number=number,
        )
        self._free(lane, lane.sequence.handle_order_ack(sequence, number, now_ns), pending)

    def handle_reject(self, number_of_lane: int, sequence: int, number: int, reason: str) -> None:
        """The destination will never take a packet."""
        lane = self._by_number.get(number_of_lane)
        if lane is None or lane.sequence.sequence != sequence:
            return
        entry = lane.sequence.entries.get(number)
        if entry is not None:
            self._doom(lane, entry, reason)

    def doom(self, link: Link, reason: str) -> None:
        """Nothing that waits for that address can ever be delivered."""
        for lane in link.lanes:
            for entry in list(lane.sequence.entries.values()):
                self._doom(lane, entry, reason)

    def _doom(self, lane: OutgoingQueue, entry: Entry, reason: str) -> None:
        """Give up the message that a packet is part of: send it no more, and bury it when its bodies are here."""
        if entry.state is not EntryState.GIVEN_UP:
            group = lane.sequence.message_of(entry)
            lane.sequence.give_up(group)
            self._doomed.append((lane, group, reason))

    def _free(self, lane: OutgoingQueue, entries: list[Entry], pending: GroupCommit) -> None:
        if not entries:
            return
        self._let_go(lane, entries)
        if lane.durable:
            span = (key_of(lane.lane, entries[0].number), key_of(lane.lane, entries[-1].number))
            pending.commit.outgoing_deletes.append(span)

    def _let_go(self, lane: OutgoingQueue, entries: list[Entry]) -> None:
        for entry in entries:
            self._cool(entry)
            lane.handle_freed(entry)
        conversation = self.links[lane.address].conversation
        if conversation is not None and entries:
            conversation.session.handle_settled([entry.packet for entry in entries if entry.packet])

    def _cool(self, entry: Entry) -> None:
        if entry.body is not None:
            self.cached_bytes -= entry.size_bytes
            entry.body = None

    # ---- giving up

    def handle_timer(self, now_ns: int, now_ms: int) -> None:
        """Resend tiers and expiries."""
        for lane in self._by_number.values():
            again = lane.sequence.handle_timer(now_ns)
            if again:
                self._record_resend(lane, again, now_ns)
            for entry in lane.poll_expired(now_ms):
                self._doom(lane, entry, DeadReason.REACH_QUEUE_TIMEOUT)

    def bury(self, pending: GroupCommit, now_ns: int, now_ms: int) -> None:
        """Put given-up messages into the dead-letter queue, with the next commit; those whose bodies are here."""
        doomed, self._doomed = self._doomed, []
        for lane, group, reason in doomed:
            if any(entry.number not in lane.sequence.entries or entry.body is None for entry in group):
                self._wait_for_bodies(lane, group, reason)
            elif (content := _content_of([entry.body or b"" for entry in group])) is None:
                # A part of the message is delivered already: then the rest must follow.
                lane.sequence.revive(group)
            else:
                self._bury(lane, group, content, reason, pending, now_ms)
                # Before the commit: if the process dies right after it, nothing else would tell of the removal.
                count = sum(entry.completes for entry in group)
                said = "expired" if reason == DeadReason.REACH_QUEUE_TIMEOUT else reason
                self._record_range("removed", lane, group[0].number, group[-1].number, now_ns, count=count, reason=said)

    def _wait_for_bodies(self, lane: OutgoingQueue, group: list[Entry], reason: str) -> None:
        left = [entry for entry in group if entry.number in lane.sequence.entries]
        if len(left) == len(group) and lane.durable:
            self._doomed.append((lane, group, reason))
        else:
            lane.sequence.revive(left)

    def _bury(
        self, lane: OutgoingQueue, group: list[Entry], content: Unpacked, reason: str, pending: GroupCommit, now_ms: int
    ) -> None:
        destination = f"{lane.address}/{lane.queue}"
        maybe_delivered = any(entry.sends for entry in group)
        for index, body in enumerate(content.bodies):
            properties = dict(content.properties[index]) if content.properties else {}
            properties.update(dead_reason=reason, dead_destination=destination, dead_maybe_delivered=maybe_delivered)
            letter, ordinal = Outgoing(body, properties), content.first_ordinal + index
            self._inbox.put_dead_letter(letter, self._node_id, ordinal, now_ms, pending)
        if lane.durable:
            span = (key_of(lane.lane, group[0].number), key_of(lane.lane, group[-1].number))
            pending.commit.outgoing_deletes.append(span)
        pending.buried.append((lane, group, reason))

    def _remove_buried(self, pending: GroupCommit) -> None:
        """The dead letters are on disk: only now may the packets after them go without them."""
        for lane, group, reason in pending.buried:
            left = [entry for entry in group if entry.number in lane.sequence.entries]
            for entry in left:
                lane.sequence.remove(entry)
                lane.receipts.handle_removed(entry, reason)
            self._let_go(lane, left)

    # ---- bodies on the disk

    def poll_fetch(self) -> Read | None:
        """Which bodies to fetch next, or None."""
        keys: list[int] = [
            key_of(lane.lane, entry.number) for lane, group, _ in self._doomed for entry in group if entry.body is None
        ][:FETCH_AHEAD_PACKETS]
        for lane in self._by_number.values():
            if lane.fetching:
                keys += [
                    key_of(lane.lane, entry.number)
                    for entry in lane.sequence.upcoming(FETCH_AHEAD_PACKETS)
                    if entry.body is None
                ]
                lane.fetching = False
        return Read("outgoing", keys) if keys else None

    def handle_fetched(self, read: Read) -> None:
        """Bodies have come from the disk."""
        for key, body in read.bodies.items():
            lane_number, number = split_key(key)
            entry = self._by_number[lane_number].sequence.entries.get(number)
            if entry is not None and entry.body is None:
                entry.body = body
                self.cached_bytes += entry.size_bytes

    # ---- looking

    def next_deadline(self, wall_offset_ns: int) -> int | None:
        """When ``handle_timer`` must be called, or None."""
        lanes = self._by_number.values()
        deadlines = [lane.sequence.tier.deadline_ns for lane in lanes]
        expiries = [lane.next_expiry_ms for lane in lanes]
        deadlines += [None if at_ms is None else at_ms * 1_000_000 - wall_offset_ns for at_ms in expiries]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def lanes(self) -> list[OutgoingQueue]:
        """Every lane."""
        return list(self._by_number.values())

    def volatile(self, *, all_classes: bool) -> bool:
        """Whether packets wait to be acknowledged that no disk holds."""
        return any(lane.sequence.entries for lane in self._by_number.values() if all_classes or not lane.durable)

    @property
    def unfinished(self) -> bool:
        """Whether anything submitted is not yet in a packet."""
        return bool(self._unpacked)

    # ---- records

    def _record_queued(
        self, lane: OutgoingQueue, entries: list[Entry], now_ns: int, *, recovered: bool = False
    ) -> None:
        more: dict[str, object] = {"recovered": True} if recovered else {}
        for first, last, count in _runs(entries):
            self._record_range(
                "queued", lane, first, last, now_ns, count=count, queue=lane.queue, peer_address=lane.address, **more
            )

    def _record_local(self, lane: OutgoingQueue, entries: list[Entry], now_ns: int) -> None:
        """A packet for a queue of this node is committed at its destination in the same moment."""
        for first, last, count in _runs(entries):
            self._record_range("committed", lane, first, last, now_ns, count=count, queue=lane.queue)

    def _record_resend(self, lane: OutgoingQueue, again: list[Entry], now_ns: int) -> None:
        tier = lane.sequence.tier
        wait_ns = tier.interval_of(tier.attempt)
        first, last = again[0].number, again[-1].number
        self._record_range("resend_scheduled", lane, first, last, now_ns, attempt=tier.attempt, interval_ns=wait_ns)

    def _record_range(
        self, event: str, lane: OutgoingQueue, first: int, last: int, now_ns: int, **more: object
    ) -> None:
        self._record(
            event,
            now_ns,
            origin=self._node_id.hex(),
            lane=lane.lane,
            sequence=lane.sequence.sequence,
            first=first,
            last=last,
            **more,
            **{"class": lane.delivery.label},
        )


def _runs(entries: list[Entry]) -> list[tuple[int, int, int]]:
    """First number, last number and messages of each run of successive packets."""
    runs: list[tuple[int, int, int]] = []
    for entry in entries:
        if runs and runs[-1][1] + 1 == entry.number:
            runs[-1] = (runs[-1][0], entry.number, runs[-1][2] + entry.completes)
        else:
            runs.append((entry.number, entry.number, entry.completes))
    return runs


def _content_of(bodies: list[bytes]) -> Unpacked | None:
    """The messages in these bodies; None when they are a part of a large one."""
    ranges = [fragment_range(body[:HEAD_BYTES], len(body)) for body in bodies]
    first = ranges[0]
    if first is None:
        return unpack(bodies[0])
    if sum(item[2] for item in ranges if item is not None) != first[3]:
        return None
    return unpack(join_fragments([read_fragment(body) for body in bodies]))
