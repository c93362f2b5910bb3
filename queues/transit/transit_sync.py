"""Streams in transit over synchronous links: what frees their packets now, and what neighbours before hear.

Promise: a recoverable packet that goes by a synchronous link stays here until the next hop has passed it on, unless the
link is asynchronous for now. Neighbours that wait hear only of what is stored behind this node in that sense.
"""

from collections.abc import Callable, Iterable

from triack.base.ranges import without
from triack.base.reasons import FreedReason
from triack.ordering.transit import TransitPacket
from triack.ordering.wire import OnwardAckPacket, RelayedHeader
from triack.queues.peers.link import Conversation
from triack.queues.routes import Way
from triack.queues.streams.departing_stream import ranges_of
from triack.queues.streams.departure_records import DepartureRecords
from triack.queues.streams.group_commit import Turn
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.sync_links import SyncLinks
from triack.queues.transit.transit_onward import TransitOnward

Free = Callable[[TransitStream, list[TransitPacket], FreedReason, Turn], None]
"""Called with a stream, packets of it that are freed, why, and the turn."""


class TransitSync:
    """The synchronous side of all streams in transit.

    Args:
        onward: what neighbours are told that wait for packets to be passed on.
        links: which links are synchronous.
        records: writes to the session log.
        free: called with packets that this node answers for no longer.
        is_sync: whether packets of a stream have to be passed on before they count as stored for good.

    Attributes:
        onward: as above.
    """

    __slots__ = ("_free", "_is_sync", "_links", "_records", "onward")

    def __init__(
        self,
        onward: TransitOnward,
        links: SyncLinks,
        records: DepartureRecords,
        free: Free,
        is_sync: Callable[[TransitStream], bool],
    ) -> None:
        self.onward = onward
        self._links = links
        self._records = records
        self._free = free
        self._is_sync = is_sync

    # ---- the way of a stream

    def awaits(self, stream: TransitStream, way: Way | None) -> bool:
        """Whether packets of a stream have to be passed on by the next hop of a way."""
        return stream.durable and self._links.awaits(way)

    def lead(self, stream: TransitStream) -> None:
        """A stream goes by another way from now on."""
        stream.next_hop.awaited = self.awaits(stream, stream.way)
        stream.next_hop.handle_session_closed()
        stream.sequence.set_sync(self._is_sync(stream))

    def _is_behind(self, stream: TransitStream) -> bool:
        """Whether the link onward is synchronous by the routes, and asynchronous for now."""
        return stream.next_hop.awaited and not self._links.is_sync(stream.way)

    def forget(self, stream: TransitStream) -> None:
        """A stream is forgotten, or goes by another way."""
        self.onward.forget(stream)
        self._links.forget(stream)

    def handle_new_sequence(self, stream: TransitStream) -> None:
        """A newer sequence begins and numbers its packets from 1 again: drop what was still to be said of the older."""
        self.onward.forget_passed(stream)
        self._links.forget(stream)

    # ---- packets

    def note_awaited(self, stream: TransitStream, header: RelayedHeader, now_ns: int) -> None:
        """Note whether the neighbour waits for packets to be passed on."""
        stream.awaited = header.awaited and stream.durable
        if stream.awaited:
            self.onward.handle_awaited(stream, is_async=self._is_behind(stream), now_ns=now_ns)

    def handle_stored(self, stream: TransitStream, entries: list[TransitPacket], now_ns: int) -> None:
        """Packets are on the disk here: over a synchronous link they wait from now on."""
        if stream.next_hop.awaited:
            self._links.add(stream.way, stream, ranges_of(entries), now_ns)

    def handle_rerouted(self, stream: TransitStream, now_ns: int) -> None:
        """A stream goes by another way, and what is on the disk here waits for that."""
        if stream.next_hop.awaited:
            self._links.add(stream.way, stream, stream.sequence.ranges(stored=True), now_ns)

    def handle_gone(self, stream: TransitStream, entries: list[TransitPacket]) -> None:
        """Packets end here: nobody waits for them."""
        self._links.remove(stream.way, stream, ranges_of(entries))

    def handle_freed(self, stream: TransitStream, entries: list[TransitPacket], now_ns: int) -> None:
        """The next hop has packets on its disk, so that they leave this one.

        Over a synchronous link only those count as passed on of which it has said so before. Over one that is
        asynchronous for now all do, but the others are still awaited, unless the next hop has said that its store acks
        are enough.
        """
        if not (stream.awaited or stream.next_hop.awaited):
            return
        passed = [entry for entry in entries if entry.onward]
        self.onward.handle_passed(stream, ranges_of(passed if stream.sequence.sync else entries), now_ns)
        self._links.remove(stream.way, stream, ranges_of(entries if stream.next_hop.is_async else passed))

    # ---- words

    def handle_onward_ack(
        self, stream: TransitStream, conversation: Conversation, packet: OnwardAckPacket, turn: Turn
    ) -> None:
        """The next hop has passed packets on, or says that its store acks are enough from now on."""
        if packet.sequence != stream.sequence.sequence or not stream.next_hop.awaited:
            return
        self._records.onward_acked(stream, packet, conversation.label, turn.now_ns)
        left, freed = stream.sequence.handle_onward(packet.ranges)
        # Words know no hops, and in a circle of relays one may be about another copy. So what stays here is awaited as
        # before: else its link would never be too old. A word about what nobody awaits would go round without end.
        passed = without(packet.ranges, left) if left else packet.ranges
        awaited = self._links.remove(stream.way, stream, passed)
        if freed:
            self._free(stream, freed, FreedReason.ONWARD_ACK, turn)
        self.onward.handle_passed(stream, awaited, turn.now_ns)
        if stream.next_hop.handle_word(packet.turn, is_async=packet.is_async):
            self._set_sync(stream, turn)

    def handle_link_mode(self, streams: Iterable[TransitStream], turn: Turn) -> None:
        """The link of these streams is asynchronous for now, or no longer: tell those that wait for it."""
        for stream in list(streams):
            self._set_sync(stream, turn)
            if stream.awaited:
                self.onward.handle_awaited(stream, is_async=self._is_behind(stream), now_ns=turn.now_ns)

    def _set_sync(self, stream: TransitStream, turn: Turn) -> None:
        freed = stream.sequence.set_sync(self._is_sync(stream))
        if freed:
            self.handle_freed(stream, freed, turn.now_ns)
            self._free(stream, freed, FreedReason.STORE_ACK, turn)
