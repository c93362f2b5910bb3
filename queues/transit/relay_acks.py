"""What a relay says to its neighbours about streams in transit: order acks and rejections on their way to the origin.

Promise: a word is passed on as it is; the relay adds nothing and believes nothing of it but that a packet was refused.
It goes to the neighbour upstream that has brought the stream last and has an open session, never back where it came
from, and it passes ``wire.HOPS_MAX`` relays at most, as many as the packet that it is about.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from triack.base.errors import ProtocolError
from triack.base.names import StreamId
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.ordering.transit import TransitPacket
from triack.ordering.wire import (
    HOPS_MAX,
    OnwardPacket,
    RelayedEnd,
    RelayedHeader,
    RelayedOrderAck,
    RelayedReject,
)
from triack.queues.peers.link import Conversation
from triack.queues.streams.departure_records import DepartureRecords
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit.return_routes import Back, ReturnRoutes

WAITS_AFTER_NS = 10 * SECOND
"""A packet that has been here for this long waits: a third of the first resend tier of its origin."""
WAITS_EVERY_NS = 5 * SECOND
"""The time between two words about one stream whose backlog grows."""


@dataclass(eq=False, repr=False)
class RelayAcks:
    """The words of a relay.

    Args:
        open_with: an open conversation with a neighbour, by its name among links; None when there is none.
    """

    node_id: bytes
    open_with: Callable[[str], Conversation | None]
    records: DepartureRecords
    drops: Counter[DropReason]

    def __post_init__(self) -> None:
        self.ways = ReturnRoutes()
        # The streams whose origins were told that packets wait: the conversation, and how far.
        self._told: dict[TransitStream, tuple[Conversation, int]] = {}
        # Those of them of which packets came again nevertheless.
        self._again: set[TransitStream] = set()
        self._waits_at_ns: int | None = None
        # Of the last word: one for all streams, as a stream may be forgotten and begin again in the same session.
        self._turn = 0

    # ---- the way back

    def note(self, stream: TransitStream, via: str) -> None:
        """A packet of a stream came by a neighbour, perhaps another one than its others."""
        back = self.ways.of(stream.id)
        downstream = "" if stream.way is None else stream.way.via
        if back is not None and stream.noted == via and downstream in back.downstreams:
            return
        self.ways.note(stream.id, via, downstream)
        stream.noted = via

    def check(self, stream: StreamId, conversation: Conversation) -> None:
        """Make sure that a neighbour may speak about a stream.

        Raises ProtocolError ``not-our-packet`` if nothing of it has gone there.
        """
        back = self.ways.of(stream)
        if back is None or conversation.link_name not in back.downstreams:
            raise ProtocolError(DropReason.NOT_OUR_PACKET)

    def _upstream(self, stream: StreamId, but: Conversation | None) -> Conversation | None:
        back = self.ways.of(stream)
        return None if back is None else self._open_to(back, but)

    def _open_to(self, back: Back, but: Conversation | None) -> Conversation | None:
        for name in reversed(back.upstreams):
            conversation = self.open_with(name)
            if conversation is not None and (but is None or conversation.link_name != but.link_name):
                return conversation
        return None

    # ---- order acks

    def pass_order_ack(self, conversation: Conversation, packet: RelayedOrderAck, now_ns: int) -> None:
        """Pass an order ack on. Without an open session upstream it is kept for the next one."""
        back = self.ways.of(StreamId(packet.origin, packet.stream))
        if back is None or packet.hops >= HOPS_MAX:
            return
        before = back.acked
        # Words with a proof are all passed on: an invented one with a greater number must not stop them here.
        is_older = before is not None and (before.sequence, before.number) > (packet.sequence, packet.number)
        if is_older and not packet.mac:
            return
        packet.hops += 1
        back.acked = packet
        upstream = self._upstream(StreamId(packet.origin, packet.stream), conversation)
        if upstream is not None:
            self.hand_on(packet, upstream, now_ns)

    def handle_session_opened(self, conversation: Conversation, now_ns: int) -> None:
        """A neighbour is back: tell it again what may have been lost with its last session."""
        for back in self.ways.brought_by(conversation.link_name):
            upstream = self._open_to(back, None) if back.has_words else None
            if upstream is None or upstream.link_name != conversation.link_name:
                continue
            if back.acked is not None:
                self.hand_on(back.acked, conversation, now_ns)
            if back.forgotten is not None:
                self.hand_on(back.forgotten, conversation, now_ns)
            for packet, by in self.ways.take_rejections(back):
                self._send_reject(packet, by, None, now_ns)

    # ---- ends

    def pass_forgotten(self, conversation: Conversation, packet: RelayedEnd, now_ns: int) -> None:
        """Pass on that a destination has forgotten a stream. Without an open session that is kept for the next one."""
        stream = StreamId(packet.origin, packet.stream)
        back = self.ways.of(stream)
        upstream = self._upstream(stream, conversation)
        if back is not None:
            back.forgotten = packet if upstream is None else None
        if upstream is not None:
            self.hand_on(packet, upstream, now_ns)

    def hand_on(self, packet: RelayedOrderAck | RelayedReject | RelayedEnd, to: Conversation, now_ns: int) -> None:
        """Hand a word on to a session."""
        if to.say(packet):
            self.records.relayed(packet, to.peer_id, now_ns)
        else:
            self.drops[DropReason.CONTROL_OVERFLOW] += 1

    # ---- rejections

    def refuse(self, conversation: Conversation, packet: int, header: RelayedHeader, reason: str) -> bool:
        """Refuse a packet that a neighbour has sent. Returns False when too many other answers wait."""
        return conversation.say(RelayedReject(*header.named, reason, 0, self.node_id), (packet,))

    def reject(self, stream: TransitStream, entry: TransitPacket, reason: str, now_ns: int) -> None:
        """A packet has ended here of which its origin, or a neighbour, has a copy still."""
        packet = RelayedReject(*stream.id, stream.sequence.sequence, entry.number, reason, 0, self.node_id)
        self.tell_keeper(stream, packet, now_ns)
        self._send_reject(packet, stream.came_by, None, now_ns)

    def takes(self, stream: TransitStream, count: int) -> bool | None:
        """Whether that number of rejections of a stream can go to its origin, or be kept until a session leads there.

        Returns None when too many words wait in the session: those that are sent make room.
        """
        upstream = self._upstream(stream.id, None)
        if upstream is None:
            return self.ways.has_room(stream.id, stream.came_by, count)
        return True if upstream.has_control_room(count) else None

    def pass_reject(self, conversation: Conversation, packet: RelayedReject, now_ns: int) -> None:
        """Pass a rejection on. Without an open session upstream it is kept for the next one."""
        if packet.hops < HOPS_MAX:
            packet.hops += 1
            self._send_reject(packet, conversation.link_name, conversation, now_ns)

    def tell_keeper(self, stream: TransitStream, packet: RelayedReject, now_ns: int) -> None:
        """A packet has ended whose neighbour has a copy until it is passed on; another one may be the last upstream."""
        keeper, upstream = self.open_with(stream.came_by), self._upstream(stream.id, None)
        if stream.awaited and keeper is not None and (upstream is None or upstream.link_name != stream.came_by):
            self.hand_on(packet, keeper, now_ns)

    def _send_reject(self, packet: RelayedReject, cause: str, but: Conversation | None, now_ns: int) -> None:
        """Send a rejection upstream, or keep it for the next session there; ``cause`` is the neighbour that pays."""
        upstream = self._upstream(StreamId(packet.origin, packet.stream), but)
        if upstream is not None:
            self.hand_on(packet, upstream, now_ns)
        elif not self.ways.keep(packet, cause):
            self.drops[DropReason.NO_WAY_BACK] += 1

    # ---- packets that wait here

    def handle_more(self, now_ns: int) -> None:
        """More transactional packets are on the disk: they may have to wait."""
        if self._waits_at_ns is None:
            self._waits_at_ns = now_ns + WAITS_EVERY_NS

    def tell_waits(self, streams: Iterable[TransitStream], now_ns: int) -> None:
        """Tell the origins of transactional packets that wait here for long that they need not send them again."""
        if self._waits_at_ns is None or now_ns < self._waits_at_ns:
            return
        self._waits_at_ns = None
        for stream in streams:
            sequence = stream.sequence
            if not sequence.ordered or (sequence.is_empty and not stream.sequence.waits_until):
                continue
            oldest_ns = sequence.oldest_ns
            waits_long = sequence.is_empty or (oldest_ns is not None and now_ns - oldest_ns >= WAITS_AFTER_NS)
            here = self._here(stream) if waits_long else stream.sequence.waits_until
            if not self._tell_waits(stream, here, now_ns) or not waits_long:
                self.handle_more(now_ns)

    def tell_waits_at_once(self, stream: TransitStream, now_ns: int) -> None:
        """A session with the neighbour that has brought packets is new: it would send all of them again."""
        if stream.sequence.ordered:
            self._tell_waits(stream, self._here(stream), now_ns)

    def handle_duplicate(self, stream: TransitStream, now_ns: int) -> None:
        """A packet came again that is here. If it waits, a relay on the way has forgotten that: say it again soon."""
        if stream in self._told:
            self._again.add(stream)
            self.handle_more(now_ns)

    @staticmethod
    def _here(stream: TransitStream) -> int:
        """The number up to which a stream waits, here or behind the next hop; 0 if it does not."""
        return stream.sequence.waits_until if stream.sequence.is_empty else stream.sequence.here

    def handle_next_waits(self, stream: TransitStream, packet: OnwardPacket, now_ns: int) -> None:
        """The next hop says how far it has a stream, and whether that waits there: so it waits for its origin, too."""
        if not stream.sequence.handle_waits(packet.turn, packet.here if packet.waits else 0, now_ns):
            return
        told = self._told.get(stream)
        if not packet.waits:
            self.handle_let_go(stream, now_ns)
        elif (told is None or told[1] < packet.here) and not self._tell_waits(stream, packet.here, now_ns):
            self.handle_more(now_ns)

    def handle_empty(self, stream: TransitStream, now_ns: int) -> None:
        """Nothing of a stream is here any more: its origin may send again what does not wait behind the next hop."""
        told = self._told.get(stream)
        if told is None or told[1] > stream.sequence.waits_until:
            self.handle_let_go(stream, now_ns)

    def handle_next_lost(self, stream: TransitStream, now_ns: int) -> None:
        """What the next hop has said has ended with its session, or packets go by another one."""
        if stream.sequence.forget_waits():
            self.handle_let_go(stream, now_ns)

    def holds_open(self, conversation: Conversation) -> bool:
        """Whether a word stands that would end with a session."""
        return any(told[0] is conversation for told in self._told.values())

    def _tell_waits(self, stream: TransitStream, here: int, now_ns: int) -> bool:
        """Say how far a stream waits. Returns False when that has to be tried again; a new session hears at once."""
        upstream = self.open_with(stream.came_by)
        is_known = self._told.get(stream) == (upstream, here) and stream not in self._again
        if upstream is None or not here or is_known:
            return True
        # What its origin has to send again must not wait for what is here: that may wait for it.
        if stream.has_gap or stream.sequence.lacks_before(here):
            return True
        if not self._say(stream, upstream, here, now_ns, waits=True):
            return False
        self._told[stream] = upstream, here
        self._again.discard(stream)
        return True

    def _say(self, stream: TransitStream, upstream: Conversation, here: int, now_ns: int, *, waits: bool) -> bool:
        self._turn += 1
        said = upstream.say(OnwardPacket(*stream.id, stream.sequence.sequence, self._turn, here, waits))
        if said:
            self.records.waits(stream, here, upstream, now_ns, waits=waits)
        return said

    def handle_let_go(self, stream: TransitStream, now_ns: int) -> None:
        """Packets of a stream left without having reached the next hop: its origin may send again.

        If more of it waits, its origin hears that again before its first tier runs out.
        """
        told = self._told.pop(stream, None)
        self._again.discard(stream)
        if told is not None and told[0].is_open:
            self._say(stream, told[0], 0, now_ns, waits=False)
        if stream.sequence.waits_until or not stream.sequence.is_empty:
            self.handle_more(now_ns)

    def handle_session_closed(self, conversation: Conversation) -> None:
        """A word ends with its session."""
        for stream in [stream for stream, told in self._told.items() if told[0] is conversation]:
            del self._told[stream]
            self._again.discard(stream)

    def next_deadline(self) -> int | None:
        """When ``tell_waits`` must be called, or None."""
        return self._waits_at_ns
