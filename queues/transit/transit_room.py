"""How much of other nodes may wait here: of all of them, by the neighbour that brought it, and of each stream."""

from triack.base.news import NoRoute, TransitOverQuota
from triack.base.reasons import HoldReason
from triack.ordering.departing import StreamPacketState
from triack.ordering.transit import TransitPacket
from triack.queues.mailboxes.incoming_run import IncomingRun
from triack.queues.mailboxes.quotas import Account, Level
from triack.queues.mailboxes.system_queues import SUBSCRIPTIONS_QUEUE, large_target
from triack.queues.node_settings import Limits
from triack.queues.peers.link import Conversation
from triack.queues.streams.admission import DiskRoom
from triack.queues.streams.transit_stream import TransitStream

EXPRESS_OVERHEAD_BYTES = 512
"""Memory of an express packet without its body, measured."""
AHEAD_BYTES = 16 * 1024 * 1024
"""How far beyond the quota packets go that come before all others of their streams."""
WORDS_BYTES = 1_024
"""How much of a stream comes in without room that may be words of what has ended: several, sealed ones, too."""
PACKET_BYTES = 400
"""Memory of a durable packet without its body: some more than the 380 that were measured."""
UNKNOWN_MAX = 256
"""Destinations without a route that are remembered: a neighbour that makes names up must not fill the memory."""


class TransitRoom:
    """Quotas of what passes through a node.

    A stream may have as much here as is left for all others, so that one full queue downstream does not take the room
    of all other queues.

    Args:
        waiting: packets in memory that wait for their commit.

    Attributes:
        disk: bytes in transit on the disk, by the neighbour that they came by.
        memory: the same of express packets.
        away: memory for the packets that only the disk has, by the same neighbour.
        is_relieved: whether there is more room since streams were looked at that wait for some.
    """

    def __init__(self, limits: Limits, disk_room: DiskRoom, waiting: Account) -> None:
        self._limits = limits
        self._disk_room = disk_room
        self.waiting = waiting
        # An account lets one payer have half of all: that half is the quota. Beyond it each has its equal share.
        self.disk = Account(limits.peer_transit_bytes, 2 * limits.transit_quota.size_bytes)
        self.memory = Account(limits.peer_memory_bytes // 4, limits.memory_bytes // 4)
        self.away = Account(limits.peer_memory_bytes // 4, limits.memory_bytes // 4)
        self.messages = Level(limits.transit_quota.messages)
        self.is_relieved = False

    def count(self, stream: TransitStream, entries: list[TransitPacket], sign: int = 1) -> None:
        """Packets are here from now on, or with the sign -1 no more."""
        messages = sign * sum([entry.messages for entry in entries])
        size_bytes = sign * sum([entry.size_bytes for entry in entries])
        self.messages.add(messages)
        stream.messages += messages
        stream.size_bytes += size_bytes
        account = self.disk if stream.durable else self.memory
        overhead_bytes = 0 if stream.durable else sign * EXPRESS_OVERHEAD_BYTES * len(entries)
        account.add(stream.came_by.encode(), size_bytes + overhead_bytes)
        self.is_relieved = self.is_relieved or sign < 0

    def handle_stored(self, peer_id: bytes, entries: list[TransitPacket]) -> None:
        """Packets that a node has sent do not wait for their commit any more."""
        self.waiting.add(peer_id, -sum([entry.size_bytes for entry in entries]))
        self.is_relieved = True

    def charge(self, stream: TransitStream) -> None:
        """Packets of a stream were put away or brought back: charge what those take that only the disk has."""
        size_bytes = stream.sequence.on_disk.size_bytes
        if size_bytes != stream.away_bytes:
            self.away.add(stream.came_by.encode(), size_bytes - stream.away_bytes)
            stream.away_bytes = size_bytes

    def lacks(self, stream: TransitStream, conversation: Conversation) -> HoldReason | None:
        """Why a packet of a stream cannot be taken now, or None."""
        if not stream.durable:
            return HoldReason.PEER_MEMORY if self.memory.is_full(stream.came_by.encode()) else None
        if self._disk_room.is_low:
            return HoldReason.STORE_LOW
        key = stream.came_by.encode()
        if self.disk.is_full(key) or self.away.is_full(key) or self.messages.is_full or self._has_share(stream):
            return HoldReason.TRANSIT_FULL
        return HoldReason.STORE_BUSY if self.waiting.is_full(conversation.peer_id) else None

    def lets_wait(self, stream: TransitStream, conversation: Conversation, reason: HoldReason) -> bool:
        """Whether a stream still has to wait that a neighbour was asked to hold back for a reason."""
        if stream.came_by != conversation.link_name or reason is HoldReason.OTHER_WAY:
            return not stream.sequence.is_empty
        return self.lacks(stream, conversation) is not None

    def lets_ahead(self, stream: TransitStream, number: int, size_bytes: int, reason: HoldReason | None) -> bool:
        """Whether a packet is taken though there is no room: those of its stream that are here may wait for it.

        An ordered stream cannot get past the packet that its destination wants next. If a full relay had only later
        ones, and kept that one out, they would wait for each other without end. And what may make room, at its
        destination, does not wait for room here, as long as it is little.
        """
        if reason not in (HoldReason.TRANSIT_FULL, HoldReason.STORE_LOW):
            return False
        may_make_room = stream.queue == SUBSCRIPTIONS_QUEUE or large_target(stream.queue)
        if may_make_room and stream.size_bytes + size_bytes <= WORDS_BYTES:
            return True
        if reason is HoldReason.STORE_LOW:
            return False
        is_first = stream.sequence.ordered and number < stream.sequence.lowest
        is_over = self.disk.total_bytes >= self._limits.transit_quota.size_bytes + AHEAD_BYTES
        return is_first and not is_over and not self.away.is_over(stream.came_by.encode())

    def is_over(self, stream: TransitStream) -> bool:
        """Whether a neighbour that was asked to stop an express stream has sent twice its limit."""
        return not stream.durable and self.memory.is_over(stream.came_by.encode())

    def takes(self, stream: TransitStream, conversation: Conversation, run: IncomingRun) -> bool:
        """Whether there is room for all of a run."""
        size_bytes, key, messages = run.body_bytes, stream.came_by.encode(), run.messages
        if not self.messages.takes(messages):
            return False
        if not stream.durable:
            return self.memory.takes(key, size_bytes + EXPRESS_OVERHEAD_BYTES * len(run.bodies))
        if self._disk_room.is_low or not self.waiting.takes(conversation.peer_id, size_bytes):
            return False
        free_messages, free_bytes = self._left(stream)
        has_share = (
            stream.has_share
            or stream.messages + 2 * messages >= free_messages
            or stream.size_bytes + 2 * size_bytes >= free_bytes
        )
        return not has_share and self.disk.takes(key, size_bytes) and not self.away.is_full(key)

    def is_scarce(self, stream: TransitStream) -> bool:
        """Whether a stream has at least half of what it may have here."""
        messages, size_bytes = self._left(stream)
        return 2 * stream.messages >= messages or 2 * stream.size_bytes >= size_bytes

    def _left(self, stream: TransitStream) -> tuple[int, int]:
        """How many messages and bytes its neighbour may still have here."""
        of_all = self._limits.transit_quota.size_bytes - self.disk.total_bytes
        of_neighbour = self._limits.peer_transit_bytes - self.disk.of(stream.came_by.encode())
        size_bytes = min(of_all, of_neighbour) if of_all > 0 else of_neighbour
        return self.messages.limit - self.messages.value, size_bytes

    def _has_share(self, stream: TransitStream) -> bool:
        """Whether a stream has its share; it may have more again when it has less than half of that."""
        messages, size_bytes = self._left(stream)
        factor = 2 if stream.has_share else 1
        stream.has_share = factor * stream.messages >= messages or factor * stream.size_bytes >= size_bytes
        return stream.has_share


class TransitBodies:
    """The packets in transit that are on the disk, too.

    Promise: the packets that are in memory, too, take a limited part of it, and all others a few bytes each
    (``ordering.disk_backlog``). If there is no room for a packet, only the disk has it and those of its stream behind
    it.

    Args:
        room: is charged for what only the disk has.
        limit_bytes: packets and bodies beyond this stay on the disk alone.

    Attributes:
        cached_bytes: durable packets that are in memory and on the disk, with their bodies.
    """

    def __init__(self, room: TransitRoom, limit_bytes: int) -> None:
        self._room = room
        self._limit_bytes = limit_bytes
        self.cached_bytes = 0

    def handle_stored(self, stream: TransitStream, entries: list[TransitPacket]) -> None:
        """Packets are on the disk: they stay in memory if there is room, and may leave."""
        on_disk = stream.sequence.on_disk
        behind, away = on_disk.first if on_disk else None, list[TransitPacket]()
        for entry in entries:
            if entry.state is not StreamPacketState.ARRIVED:
                continue
            if self.cached_bytes < self._limit_bytes and (behind is None or entry.number < behind):
                self.count(entry)
            else:
                away.append(entry)
                behind = entry.number if behind is None else min(behind, entry.number)
        if away:
            self._put_away(stream, away)
        stream.sequence.handle_stored(entries)

    def handle_waiting(self, stream: TransitStream) -> None:
        """The next hop of a stream is away: what waits for it makes room."""
        if stream.durable and self.cached_bytes > self._limit_bytes:
            self._put_away(stream, list(stream.sequence.entries.values()))

    def bring_back(self, stream: TransitStream, limit: int) -> None:
        """Packets that only the disk has are needed."""
        brought = stream.sequence.bring_back(limit)
        stream.expect(brought)
        for entry in brought:
            self.count(entry)
        self._room.charge(stream)

    def bring_back_expired(self, stream: TransitStream, now_ms: int, limit: int) -> list[TransitPacket]:
        """Bring packets back whose time has run out."""
        expired = stream.sequence.bring_back_expired(now_ms, limit)
        for entry in expired:
            self.count(entry)
        self._room.charge(stream)
        return expired

    def _put_away(self, stream: TransitStream, entries: list[TransitPacket]) -> None:
        away = stream.sequence.put_away(entries)
        stream.expect_no_more(away)
        for entry in away:
            self.release(entry)
        self._room.charge(stream)

    def count(self, entry: TransitPacket) -> None:
        """A packet that the disk has is in memory, too, or its body is from now on."""
        size_bytes = PACKET_BYTES + (entry.size_bytes if entry.body is not None else 0)
        self.cached_bytes += size_bytes - entry.cached_bytes
        entry.cached_bytes = size_bytes

    def release(self, entry: TransitPacket) -> None:
        """Forget a packet that is not needed any more, or that the disk has."""
        self.cached_bytes -= entry.cached_bytes
        entry.cached_bytes, entry.body = 0, None


class TransitNews:
    """Gathers events for the operator: destinations that no route leads to, and quotas that are full.

    Each is reported once until its cause has changed.
    """

    def __init__(self) -> None:
        self.news: list[NoRoute | TransitOverQuota] = []
        self._unknown: dict[tuple[str, str], None] = {}
        self._full: set[str] = set()

    def handle_no_route(self, final: str, came_by: str) -> None:
        """Nothing says where a destination is, for which a neighbour has brought messages."""
        if (final, came_by) not in self._unknown and len(self._unknown) < UNKNOWN_MAX:
            self._unknown[final, came_by] = None
            self.news.append(NoRoute(final, came_by))

    def handle_routes_changed(self) -> None:
        """There may be ways now."""
        self._unknown.clear()

    def handle_full(self, came_by: str, room: TransitRoom) -> None:
        """A packet of a neighbour has found no room."""
        if came_by not in self._full:
            self._full.add(came_by)
            size_bytes = room.disk.of(came_by.encode())
            self.news.append(TransitOverQuota(came_by, room.messages.value, size_bytes, room.disk.total_bytes))

    def handle_room(self, room: TransitRoom) -> None:
        """What a neighbour had brought may have left: then it has room again, and not only for a packet or two."""
        if self._full:
            self._full = {came_by for came_by in self._full if room.disk.of(came_by.encode())}
