"""What a relay itself tells the neighbour that brings a stream: how far it waits here, and what it has passed on.

Promise: each word ends with its session. The neighbour sends again what it has no word of.

    of a transactional stream that waits:
    SILENT --packets are here for long | a new session | the next hop says so--> TOLD how far
    TOLD --more waits--> TOLD --a packet came again--> TOLD once more, soon
    TOLD --packets leave other than to the next hop, or are held back | nothing waits any more--> SILENT, and says so
    TOLD --its session ends--> SILENT

    of a stream that came over a synchronous link:
    SILENT --packets are stored behind this node--> DUE, for as long as the link that they went by allows --> TOLD
    DUE --packets come by another neighbour from now on--> TOLD to the one before

Of what was passed on, this node speaks only after it is stored behind this node. Such a word names packets and claims
nothing of others: a relay does not know which numbers it has never seen. While the link onward is asynchronous for now,
and of streams that end here, this node says that its store acks are enough.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from triack.base.delivery import Delivery
from triack.base.names import StreamId
from triack.base.ranges import Range, joined
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.ordering.wire import RANGES_MAX, OnwardAckPacket, OnwardPacket, RelayedHeader
from triack.queues.peers.link import Conversation
from triack.queues.streams.stream_records import StreamRecords
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit.return_routes import STREAMS_MAX

WAITS_AFTER_NS = 10 * SECOND
"""A packet that has been here for this long waits: a third of the first resend tier of its origin."""
WAITS_EVERY_NS = 5 * SECOND
"""The time between two words about one stream whose backlog grows."""


@dataclass(eq=False, repr=False)
class RelayAcks:
    """The words of a relay.

    Args:
        open_with: an open conversation with a neighbour, by its name among links; None when there is none.
        interval_ns: how long words about what was passed on wait for others, by the neighbour that packets go to.

    Attributes:
        passed: what was passed on and not told yet, by stream, with when it must be.
    """

    open_with: Callable[[str], Conversation | None]
    interval_ns: Callable[[str], int]
    records: StreamRecords
    drops: Counter[DropReason]

    def __post_init__(self) -> None:
        # The streams whose origins were told that packets wait: the conversation, and how far.
        self._waiting: dict[TransitStream, tuple[Conversation, int]] = {}
        # Those of them of which packets came again nevertheless.
        self._again: set[TransitStream] = set()
        self._waits_at_ns: int | None = None
        self.passed: dict[TransitStream, tuple[int, list[Range]]] = {}
        # The streams of which a neighbour knows that store acks are enough.
        self._stored: dict[TransitStream, Conversation] = {}
        # The streams that end here of which a neighbour was told so: as many as it may invent, but for the last ones.
        self._ended: dict[Conversation, OrderedDict[StreamId, None]] = {}
        # Of the last word of each kind: one for all streams, as a stream may be forgotten and begin again in the same
        # session.
        self._waits_turn = self._passed_turn = 0

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
        if stream in self._waiting:
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
        told = self._waiting.get(stream)
        if not packet.waits:
            self.handle_let_go(stream, now_ns)
        elif (told is None or told[1] < packet.here) and not self._tell_waits(stream, packet.here, now_ns):
            self.handle_more(now_ns)

    def handle_empty(self, stream: TransitStream, now_ns: int) -> None:
        """Nothing of a stream is here any more: its origin may send again what does not wait behind the next hop."""
        told = self._waiting.get(stream)
        if told is None or told[1] > stream.sequence.waits_until:
            self.handle_let_go(stream, now_ns)

    def handle_next_lost(self, stream: TransitStream, now_ns: int) -> None:
        """What the next hop has said has ended with its session, or packets go by another one."""
        if stream.sequence.forget_waits():
            self.handle_let_go(stream, now_ns)

    def _tell_waits(self, stream: TransitStream, here: int, now_ns: int) -> bool:
        """Say how far a stream waits. Returns False when that has to be tried again; a new session hears at once."""
        upstream = self.open_with(stream.came_by)
        is_known = self._waiting.get(stream) == (upstream, here) and stream not in self._again
        if upstream is None or not here or is_known:
            return True
        # What its origin has to send again must not wait for what is here: that may wait for it.
        if stream.has_gap or stream.sequence.lacks_before(here):
            return True
        if not self._say_waits(stream, upstream, here, now_ns, waits=True):
            return False
        self._waiting[stream] = upstream, here
        self._again.discard(stream)
        return True

    def _say_waits(self, stream: TransitStream, upstream: Conversation, here: int, now_ns: int, *, waits: bool) -> bool:
        self._waits_turn += 1
        said = upstream.say(OnwardPacket(*stream.id, stream.sequence.sequence, self._waits_turn, here, waits))
        if said:
            self.records.waits(stream, here, upstream, now_ns, waits=waits)
        return said

    def handle_let_go(self, stream: TransitStream, now_ns: int) -> None:
        """Packets of a stream left without having reached the next hop: its origin may send again.

        If more of it waits, its origin hears that again before its first tier runs out.
        """
        told = self._waiting.pop(stream, None)
        self._again.discard(stream)
        if told is not None and told[0].is_open:
            self._say_waits(stream, told[0], 0, now_ns, waits=False)
        if stream.sequence.waits_until or not stream.sequence.is_empty:
            self.handle_more(now_ns)

    # ---- store acks that are enough

    def handle_arrived(
        self, conversation: Conversation, header: RelayedHeader, delivery: Delivery, now_ns: int
    ) -> None:
        """A packet for a queue of this node came: no node is behind it to which it could be passed on."""
        if not header.awaited:
            return
        stream, told = StreamId(header.origin, header.stream), self._ended.setdefault(conversation, OrderedDict())
        if stream not in told and self._say_passed(conversation, stream, header.sequence, [], is_async=True):
            told[stream] = None
            if len(told) > STREAMS_MAX:  # it hears it again
                told.popitem(last=False)
            self.records.told_ends_here(header, delivery, conversation.peer_id, now_ns)

    def handle_awaited(self, stream: TransitStream, *, is_async: bool, now_ns: int) -> None:
        """A packet came whose neighbour waits for it to be passed on, or the link onward has changed its mode."""
        upstream = self.open_with(stream.came_by)
        if upstream is None or is_async is (self._stored.get(stream) is upstream):
            return
        if not self._tell_passed(stream, upstream, [], is_async=is_async, now_ns=now_ns):
            return
        if is_async:
            self._stored[stream] = upstream
        else:
            self._stored.pop(stream, None)

    # ---- packets that are passed on

    def handle_passed(self, stream: TransitStream, ranges: Iterable[Range], now_ns: int) -> None:
        """Packets of a stream are stored behind this node."""
        ranges = list(ranges)
        if not ranges or not stream.awaited or stream.way is None:
            return
        if stream not in self.passed:
            self.passed[stream] = now_ns + self.interval_ns(stream.way.via), []
        self.passed[stream][1].extend(ranges)

    def poll_passed(self, now_ns: int) -> None:
        """Tell what is due."""
        for stream in [stream for stream, (due_ns, _) in self.passed.items() if due_ns <= now_ns]:
            self.tell_now(stream, now_ns)

    def tell_now(self, stream: TransitStream, now_ns: int) -> None:
        """Tell what was passed on. Packets come by another neighbour from now on, or it is due."""
        due, upstream = self.passed.pop(stream, None), self.open_with(stream.came_by)
        # Without a session its neighbour sends again what it was not told of.
        if due is None or upstream is None:
            return
        ranges, is_async = joined(due[1]), self._stored.get(stream) is upstream
        for at in range(0, len(ranges), RANGES_MAX):
            self._tell_passed(stream, upstream, ranges[at : at + RANGES_MAX], is_async=is_async, now_ns=now_ns)

    def _tell_passed(
        self, stream: TransitStream, upstream: Conversation, ranges: list[Range], *, is_async: bool, now_ns: int
    ) -> bool:
        said = self._say_passed(upstream, stream.id, stream.sequence.sequence, ranges, is_async=is_async)
        if said:
            self.records.told_onward(stream, ranges, upstream.peer_id, now_ns, is_async=is_async)
        return said

    def _say_passed(
        self, upstream: Conversation, stream: StreamId, sequence: int, ranges: list[Range], *, is_async: bool
    ) -> bool:
        self._passed_turn += 1
        said = upstream.say(OnwardAckPacket(*stream, sequence, self._passed_turn, is_async, ranges))
        if not said:
            self.drops[DropReason.CONTROL_OVERFLOW] += 1
        return said

    def forget_passed(self, stream: TransitStream) -> None:
        """What of the stream is not told yet is not told any more."""
        self.passed.pop(stream, None)

    # ---- ends

    def forget(self, stream: TransitStream) -> None:
        """A stream is forgotten, or goes by another way."""
        self.forget_passed(stream)
        self._stored.pop(stream, None)

    def handle_session_closed(self, conversation: Conversation) -> None:
        """Words end with their session."""
        self._ended.pop(conversation, None)
        for stream in [stream for stream, told in self._stored.items() if told is conversation]:
            del self._stored[stream]
        for stream in [stream for stream, told in self._waiting.items() if told[0] is conversation]:
            del self._waiting[stream]
            self._again.discard(stream)

    def holds_open(self, conversation: Conversation) -> bool:
        """Whether a session must not end as idle, as something has to be said in it, or was said that ends with it."""
        told = (*self._stored.values(), *[told[0] for told in self._waiting.values()])
        return conversation in told or any(it.awaited and it.came_by == conversation.link_name for it in self.passed)

    def next_deadline(self) -> int | None:
        """When ``tell_waits`` or ``poll_passed`` must be called, or None."""
        times = [due_ns for due_ns, _ in self.passed.values()]
        if self._waits_at_ns is not None:
            times.append(self._waits_at_ns)
        return min(times, default=None)
