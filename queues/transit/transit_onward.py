"""What this node tells those that wait for it: which packets it has passed on over their synchronous links to it.

Promise: this node speaks of a packet only after it is stored behind this node, and no later than the interval of the
link that it went by. A word names packets and claims nothing of others: a relay does not know which numbers it has
never seen. Words end with their session. The neighbour sends again what it has no word of, and gets one when that is
passed on.

While the link onward is asynchronous for now, and of streams that end here, this node says that its store acks
are enough.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from triack.base.delivery import Delivery
from triack.base.names import StreamId
from triack.base.ranges import Range, joined
from triack.base.reasons import DropReason
from triack.ordering.wire import RANGES_MAX, OnwardAckPacket, RelayedHeader
from triack.queues.peers.link import Conversation
from triack.queues.streams.transit_stream import TransitStream
from triack.queues.transit.relay_acks import RelayAcks
from triack.queues.transit.return_routes import STREAMS_MAX


@dataclass(eq=False, repr=False)
class TransitOnward:
    """The words of a relay about what it has passed on.

    Args:
        interval_ns: how long words to a neighbour upstream wait for others, by the neighbour that packets go to.
    """

    words: RelayAcks
    interval_ns: Callable[[str], int]

    def __post_init__(self) -> None:
        # What was passed on and not told yet, and when it must be.
        self._passed: dict[TransitStream, list[Range]] = {}
        self._due: OrderedDict[TransitStream, int] = OrderedDict()
        # The streams of which a neighbour knows that store acks are enough.
        self._told: dict[TransitStream, Conversation] = {}
        # The streams that end here of which a neighbour was told so: as many as it may invent, but for the last ones.
        self._ended: dict[Conversation, OrderedDict[StreamId, None]] = {}
        self._turn = 0

    # ---- packets that come

    def handle_arrived(
        self, conversation: Conversation, header: RelayedHeader, delivery: Delivery, now_ns: int
    ) -> None:
        """A packet for a queue of this node came: nobody is behind it to whom it could be passed on."""
        if not header.awaited:
            return
        stream, told = StreamId(header.origin, header.stream), self._ended.setdefault(conversation, OrderedDict())
        if stream not in told and self._say(conversation, stream, header.sequence, [], is_async=True):
            told[stream] = None
            if len(told) > STREAMS_MAX:  # it hears it again
                told.popitem(last=False)
            self.words.records.told_ends_here(header, delivery.label, conversation.peer_id, now_ns)

    def handle_awaited(self, stream: TransitStream, *, is_async: bool, now_ns: int) -> None:
        """A packet came whose neighbour waits for it to be passed on, or the link onward has changed its mode."""
        upstream = self.words.open_with(stream.came_by)
        if upstream is None or is_async is (self._told.get(stream) is upstream):
            return
        if not self._tell(stream, upstream, [], is_async=is_async, now_ns=now_ns):
            return
        if is_async:
            self._told[stream] = upstream
        else:
            self._told.pop(stream, None)

    # ---- packets that are passed on

    def handle_passed(self, stream: TransitStream, ranges: Iterable[Range], now_ns: int) -> None:
        """Packets of a stream are stored behind this node."""
        ranges = list(ranges)
        if not ranges or not stream.awaited or stream.way is None:
            return
        self._passed.setdefault(stream, []).extend(ranges)
        if stream not in self._due:
            self._due[stream] = now_ns + self.interval_ns(stream.way.via)

    def poll(self, now_ns: int) -> None:
        """Tell what is due."""
        for stream in [stream for stream, due_ns in self._due.items() if due_ns <= now_ns]:
            self.tell_now(stream, now_ns)

    def tell_now(self, stream: TransitStream, now_ns: int) -> None:
        """Tell what was passed on. Packets come by another neighbour from now on, or it is due."""
        if self._due.pop(stream, None) is None:
            return
        ranges, upstream = joined(self._passed.pop(stream)), self.words.open_with(stream.came_by)
        # Without a session its neighbour sends again what it was not told of.
        if upstream is None:
            return
        is_async = self._told.get(stream) is upstream
        for at in range(0, len(ranges), RANGES_MAX):
            self._tell(stream, upstream, ranges[at : at + RANGES_MAX], is_async=is_async, now_ns=now_ns)

    def _tell(
        self, stream: TransitStream, upstream: Conversation, ranges: list[Range], *, is_async: bool, now_ns: int
    ) -> bool:
        said = self._say(upstream, stream.id, stream.sequence.sequence, ranges, is_async=is_async)
        if said:
            self.words.records.told_onward(stream, ranges, upstream.peer_id, now_ns, is_async=is_async)
        return said

    def _say(
        self, upstream: Conversation, stream: StreamId, sequence: int, ranges: list[Range], *, is_async: bool
    ) -> bool:
        self._turn += 1
        said = upstream.say(OnwardAckPacket(*stream, sequence, self._turn, is_async, ranges))
        if not said:
            self.words.drops[DropReason.CONTROL_OVERFLOW] += 1
        return said

    # ---- ends

    def handle_session_closed(self, conversation: Conversation) -> None:
        """A word ends with its session."""
        self._ended.pop(conversation, None)
        for stream in [stream for stream, told in self._told.items() if told is conversation]:
            del self._told[stream]

    def forget(self, stream: TransitStream) -> None:
        """A stream is forgotten."""
        self.forget_passed(stream)
        self._told.pop(stream, None)

    def forget_passed(self, stream: TransitStream) -> None:
        """What of the stream is not told yet is not told any more."""
        self._due.pop(stream, None)
        self._passed.pop(stream, None)

    def holds_open(self, conversation: Conversation) -> bool:
        """Whether a session must not end as idle, as something has to be said in it, or was said that ends with it."""
        return any(told is conversation for told in self._told.values()) or any(
            stream.awaited and stream.came_by == conversation.link_name for stream in self._due
        )

    def next_deadline(self) -> int | None:
        """When ``poll`` must be called, or None."""
        return min(self._due.values(), default=None)
