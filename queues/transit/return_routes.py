"""The ways back of streams that have passed: order acks, rejections and answers to END go by them to the origin.

Promise: what a destination or another relay says is passed on as it is; this node adds nothing and believes nothing of
it but that a packet was refused. It goes to the neighbour upstream that has brought the stream last and has an open
session, never back where it came from, and it passes ``wire.HOPS_MAX`` relays at most, as many as the packet that it is
about. Without such a session it is kept for the next one.

All of it is in memory. If it is lost, the origin sends a packet again when its resend tier runs out, and the
destination acknowledges that.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from triack.base.errors import ProtocolError
from triack.base.names import StreamId
from triack.base.reasons import DropReason
from triack.ordering.transit import TransitPacket
from triack.ordering.wire import HOPS_MAX, RelayedEnd, RelayedHeader, RelayedOrderAck, RelayedReject
from triack.queues.peers.link import Conversation
from triack.queues.streams.stream_records import StreamRecords
from triack.queues.streams.transit_stream import TransitStream

STREAMS_MAX = 8_192
"""Streams remembered of those that a neighbour has brought, the last ones: twice as many as it may have live, and some
5 MB, a third of what one peer may fill by default."""
REJECTIONS_MAX = 8_192
"""Rejections kept for which a neighbour pays, the last ones: some 5 MB. It has sent them, or brought what this node
itself rejects. If one is lost, its packet is rejected again after the origin's next resend."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True, eq=False)
class Back:
    """The way back of one stream.

    Attributes:
        upstreams: the neighbours that have brought it, the last one last.
        downstreams: the neighbours that it has gone to, who alone may speak about it.
        forgotten: that its destination has forgotten it, if that found no session to the origin.
        rejected: the last rejections that found no session to the origin, by number, and the
            neighbour that pays for each.
    """

    upstreams: dict[str, None] = field(default_factory=dict)
    downstreams: dict[str, None] = field(default_factory=dict)
    acked: RelayedOrderAck | None = None
    forgotten: RelayedEnd | None = None
    rejected: dict[int, tuple[RelayedReject, str]] = field(default_factory=dict)

    @property
    def has_words(self) -> bool:
        """Whether a neighbour upstream that is back has something to hear."""
        return self.acked is not None or self.forgotten is not None or bool(self.rejected)


class LastBrought(Generic[Key]):
    """What each neighbour has brought, the last ones of each.

    A neighbour drives out what it has brought itself, and nothing that others have: it may invent as many as it likes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by: dict[str, OrderedDict[Key, None]] = {}

    def note(self, via: str, key: Key) -> Key | None:
        """A neighbour has brought something. Returns what of it gives way, if something must."""
        its = self._by.setdefault(via, OrderedDict())
        its[key] = None
        its.move_to_end(key)
        return its.popitem(last=False)[0] if len(its) > self._most else None

    def room(self, via: str) -> int:
        """How much more a neighbour may bring before something of it gives way."""
        return self._most - len(self._by.get(via, ()))

    def by(self, via: str) -> Iterable[Key]:
        """What one neighbour has brought."""
        return self._by.get(via, ())

    def forget(self, via: str, key: Key) -> None:
        """Something of a neighbour is forgotten."""
        its = self._by.get(via)
        if its is not None:
            its.pop(key, None)
            if not its:
                del self._by[via]


@dataclass(eq=False, repr=False)
class ReturnRoutes:
    """The ways back of all streams.

    Args:
        open_with: an open conversation with a neighbour, by its name among links; None when there is none.

    Attributes:
        backs: the way back of each.
    """

    node_id: bytes
    open_with: Callable[[str], Conversation | None]
    records: StreamRecords
    drops: Counter[DropReason]

    def __post_init__(self) -> None:
        self.backs: dict[StreamId, Back] = {}
        self._brought = LastBrought[StreamId](STREAMS_MAX)
        self._rejections = LastBrought[tuple[StreamId, int]](REJECTIONS_MAX)

    def note(self, stream: StreamId, via: str, downstream: str) -> None:
        """Packets of a stream came by a neighbour, and go on to another one (empty: to none)."""
        back = self.backs.get(stream)
        if back is None:
            back = self.backs[stream] = Back()
        back.upstreams.pop(via, None)
        back.upstreams[via] = None
        if downstream:
            back.downstreams[downstream] = None
        gone = self._brought.note(via, stream)
        if gone is not None and (old := self.backs.get(gone)) is not None:
            old.upstreams.pop(via, None)
            if not old.upstreams:  # no other neighbour has brought it
                self.take_rejections(old)
                del self.backs[gone]

    def note_packet(self, stream: TransitStream, via: str) -> None:
        """A packet of a stream came by a neighbour, perhaps another one than its others."""
        back = self.backs.get(stream.id)
        if back is None or stream.noted != via or stream.via not in back.downstreams:
            self.note(stream.id, via, stream.via)
            stream.noted = via

    def brought_by(self, upstream: str) -> list[StreamId]:
        """The streams that a neighbour has brought."""
        return list(self._brought.by(upstream))

    def check(self, stream: StreamId, conversation: Conversation) -> None:
        """Make sure that a neighbour may speak about a stream.

        Raises ProtocolError ``not-our-packet`` if nothing of it has gone there.
        """
        back = self.backs.get(stream)
        if back is None or conversation.link_name not in back.downstreams:
            raise ProtocolError(DropReason.NOT_OUR_PACKET)

    def _upstream(self, stream: StreamId, but: Conversation | None) -> Conversation | None:
        back = self.backs.get(stream)
        for name in reversed(back.upstreams) if back is not None else ():
            conversation = self.open_with(name)
            if conversation is not None and (but is None or conversation.link_name != but.link_name):
                return conversation
        return None

    def hand_on(self, packet: RelayedOrderAck | RelayedReject | RelayedEnd, to: Conversation, now_ns: int) -> None:
        """Hand something on to a session."""
        if to.say(packet):
            self.records.relayed(packet, to.peer_id, now_ns)
        else:
            self.drops[DropReason.CONTROL_OVERFLOW] += 1

    def handle_session_opened(self, conversation: Conversation, now_ns: int) -> None:
        """A neighbour is back: tell it again what may have been lost with its last session."""
        for stream in self.brought_by(conversation.link_name):
            back = self.backs[stream]
            upstream = self._upstream(stream, None) if back.has_words else None
            if upstream is None or upstream.link_name != conversation.link_name:
                continue
            for packet in (back.acked, back.forgotten):
                if packet is not None:
                    self.hand_on(packet, conversation, now_ns)
            for rejection, by in self.take_rejections(back):
                self._send_reject(rejection, by, None, now_ns)

    # ---- order acks, and answers to END

    def pass_order_ack(self, conversation: Conversation, packet: RelayedOrderAck, now_ns: int) -> None:
        """Pass an order ack on."""
        stream = StreamId(packet.origin, packet.stream)
        back = self.backs.get(stream)
        if back is None or packet.hops >= HOPS_MAX:
            return
        before = back.acked
        # Words with a proof are all passed on: an invented one with a greater number must not stop them here.
        is_older = before is not None and (before.sequence, before.number) > (packet.sequence, packet.number)
        if is_older and not packet.mac:
            return
        packet.hops += 1
        back.acked = packet
        upstream = self._upstream(stream, conversation)
        if upstream is not None:
            self.hand_on(packet, upstream, now_ns)

    def pass_forgotten(self, conversation: Conversation, packet: RelayedEnd, now_ns: int) -> None:
        """Pass on that a destination has forgotten a stream."""
        stream = StreamId(packet.origin, packet.stream)
        back, upstream = self.backs.get(stream), self._upstream(stream, conversation)
        if back is not None:
            back.forgotten = packet if upstream is None else None
        if upstream is not None:
            self.hand_on(packet, upstream, now_ns)

    # ---- rejections

    def refuse(self, conversation: Conversation, packet: int, header: RelayedHeader, reason: str) -> bool:
        """Refuse a packet that a neighbour has sent. Returns False when too many other answers wait."""
        return conversation.say(RelayedReject(*header.named, reason, 0, self.node_id), (packet,))

    def reject(self, stream: TransitStream, entry: TransitPacket, reason: str, now_ns: int) -> None:
        """A packet has ended here of which its origin, or a neighbour, has a copy still."""
        packet = RelayedReject(*stream.id, stream.sequence.sequence, entry.number, reason, 0, self.node_id)
        self.tell_keeper(stream, packet, now_ns)
        self._send_reject(packet, stream.came_by, None, now_ns)

    def pass_reject(self, conversation: Conversation, packet: RelayedReject, now_ns: int) -> None:
        """Pass a rejection on."""
        if packet.hops < HOPS_MAX:
            packet.hops += 1
            self._send_reject(packet, conversation.link_name, conversation, now_ns)

    def tell_keeper(self, stream: TransitStream, packet: RelayedReject, now_ns: int) -> None:
        """A packet has ended whose neighbour has a copy until it is passed on; another one may be the last upstream."""
        keeper, upstream = self.open_with(stream.came_by), self._upstream(stream.id, None)
        if stream.awaited and keeper is not None and (upstream is None or upstream.link_name != stream.came_by):
            self.hand_on(packet, keeper, now_ns)

    def takes(self, stream: TransitStream, count: int) -> bool | None:
        """Whether that number of rejections of a stream can go to its origin, or be kept until a session leads there.

        Returns None when too many words wait in the session: those that are sent make room.
        """
        upstream = self._upstream(stream.id, None)
        if upstream is None:
            return stream.id in self.backs and self._rejections.room(stream.came_by) >= count
        return True if upstream.has_control_room(count) else None

    def _send_reject(self, packet: RelayedReject, cause: str, but: Conversation | None, now_ns: int) -> None:
        """Send a rejection upstream, or keep it for the next session there; ``cause`` is the neighbour that pays."""
        upstream = self._upstream(StreamId(packet.origin, packet.stream), but)
        if upstream is not None:
            self.hand_on(packet, upstream, now_ns)
        elif not self.keep(packet, cause):
            self.drops[DropReason.NO_WAY_BACK] += 1

    def keep(self, packet: RelayedReject, by: str) -> bool:
        """Keep a rejection until there is a session upstream; a neighbour pays. Returns False when no way is known."""
        stream = StreamId(packet.origin, packet.stream)
        back = self.backs.get(stream)
        if back is None:
            return False
        if packet.number in back.rejected:
            self._forget_rejection(back, packet.number)
        back.rejected[packet.number] = packet, by
        gone = self._rejections.note(by, (stream, packet.number))
        if gone is not None:
            del self.backs[gone[0]].rejected[gone[1]]
        return True

    def take_rejections(self, back: Back) -> list[tuple[RelayedReject, str]]:
        """Take the rejections that are kept of a stream, and the neighbour that pays for each."""
        return [self._forget_rejection(back, number) for number in list(back.rejected)]

    def _forget_rejection(self, back: Back, number: int) -> tuple[RelayedReject, str]:
        packet, by = back.rejected.pop(number)
        self._rejections.forget(by, (StreamId(packet.origin, packet.stream), number))
        return packet, by
