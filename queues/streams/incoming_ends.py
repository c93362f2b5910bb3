"""How incoming streams end, as their origins say (``retirement``).

    LIVE --END, and nothing of it is missing--> ENDED
    LIVE --END by relays, and packets are missing--> AWAITED
    AWAITED --all is on the disk | ``REST_NS`` have passed | its place is needed--> ENDED
    ENDED --that is on the disk; of an express stream at once--> forgotten, which its origin hears

Promise: a packet of an ended and forgotten stream begins no stream. The ranges of durable streams that have ended, as
their origins name them, are on the disk, in the commit that deletes their positions. Those of express streams do not
outlive this process or the last session with their origin: no copy of a packet comes by another session. If relays
bring them, they live as long as the process.

The END of a stream follows the packets that wait at each relay. If its route was changed meanwhile, some of them may
wait at another one. So a destination that lacks packets of the stream continues to accept them. What comes later is
refused, and ends as a dead letter at the relay that has it: nothing is lost silently, and nothing is accepted twice.
All of this waiting is in memory: until it is answered, the origin says again that the stream has ended.
"""

from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass
from struct import Struct

from triack.base.commit import PositionRow
from triack.base.delivery import DURABLE, Delivery
from triack.base.errors import ProtocolError, StoreDamaged
from triack.base.names import StreamId
from triack.base.ranges import NumberSet
from triack.base.reasons import DropReason
from triack.base.units import SECOND
from triack.ordering.wire import EndPacket, RelayedEnd, SequenceHeader
from triack.queues.deadlines import Deadlines
from triack.queues.peers.link import Conversation
from triack.queues.peers.peer_limits import StreamPlaces
from triack.queues.peers.permissions import Permissions
from triack.queues.streams.group_commit import GroupCommit, Turn
from triack.queues.streams.incoming_stream import IncomingStream, IncomingStreams
from triack.queues.streams.owed_acks import OwedAcks
from triack.queues.streams.sealing import Sealing
from triack.queues.streams.stream_records import StreamRecords
from triack.queues.streams.stream_state import EXPRESS_STREAMS

ENDED_STREAM = 0
"""No stream: in the table of positions its rows hold the ranges that have ended."""
RANGES_MAX = 8_192
"""Most ranges of one origin, 16 bytes each. A correct one needs at most one more than it has live streams: fewer."""
REST_NS = 7 * 86_400 * SECOND
"""A week: how long a relay that is no longer on any way may be without a session. If a message expired before it
arrived, the stream needs a place for this long, unless that is needed."""
ENDS_MAX = 2_048
"""Streams awaited, of those that one neighbour says have ended: as many as it may have here by default. More are not
noted: it could invent them, and a true origin repeats its END. Each may keep a closed session, some 8 KB."""

_RANGE = Struct("!QQ")


class EndedStreams:
    """The ended streams of all origins."""

    def __init__(self) -> None:
        self._durable: dict[bytes, NumberSet] = {}
        self._express: dict[bytes, NumberSet] = {}
        # By origin: the relay that brings its streams, and its name there.
        self._relays: dict[bytes, tuple[str, str]] = {}

    def restore(self, row: PositionRow) -> None:
        """Read a row of ``ENDED_STREAM``. Raises StoreDamaged."""
        if len(row.filter) % _RANGE.size:
            raise StoreDamaged("ended streams: wrong length")
        ranges = [(first, last) for first, last in _RANGE.iter_unpack(row.filter)]
        self._durable[row.origin] = NumberSet(row.sequence, ranges)
        if row.via:
            self._relays[row.origin] = row.via, row.from_name

    def handle_brought(self, origin: bytes, relay: str, from_name: str) -> None:
        """A relay brings the ends of an origin, which has a name there: as with its streams, that relay pays."""
        self._relays[origin] = relay, from_name

    def has(self, header: SequenceHeader | RelayedEnd, delivery: Delivery) -> bool:
        """Whether the unknown stream of a packet has ended."""
        ended = (self._durable if delivery in DURABLE else self._express).get(header.origin)
        return ended is not None and header.sequence in ended

    def knows(self, origin: bytes, *, durable: bool = True) -> bool:
        """Whether any durable stream of an origin has ended, or any express one."""
        return origin in (self._durable if durable else self._express)

    def is_brought(self, origin: bytes) -> bool:
        """Whether a relay has brought ends of an origin that are still known."""
        return origin in self._relays

    def add(self, origin: bytes, first: int, last: int, *, durable: bool) -> bool:
        """Add a range. Returns False when that would exceed the ranges of any correct origin."""
        ended = (self._durable if durable else self._express).setdefault(origin, NumberSet())
        if ended.gaps >= RANGES_MAX and first > ended.highest + 1:
            return False
        ended.take_run(first, last)
        return True

    def row(self, origin: bytes) -> PositionRow:
        """The ended durable streams of an origin, as the store keeps them."""
        ended = self._durable[origin]
        ranges = b"".join(_RANGE.pack(*each) for each in ended.ranges)
        way = self._relays.get(origin, ("", ""))
        return PositionRow(origin, ENDED_STREAM, Delivery.RECOVERABLE, "", ended.cumulative, 0, ranges, *way)

    def handle_parted(self, origin: bytes) -> None:
        """The last session with an origin has ended."""
        self._express.pop(origin, None)


class AwaitedEnds:
    """The streams that have ended, of which packets are awaited.

    Attributes:
        due: when ``poll_due`` returns something.
        ends: what the origin of each has said, by which conversation, and until when to wait.
    """

    def __init__(self) -> None:
        self.ends: dict[StreamId, tuple[Conversation, RelayedEnd, int]] = {}
        # How many each neighbour has said.
        self._by: Counter[str] = Counter()
        self.due = Deadlines[StreamId]()

    def wait(self, conversation: Conversation, packet: RelayedEnd, now_ns: int) -> None:
        """A stream has ended, and packets of it are missing. The first statement about it counts."""
        stream = StreamId(packet.origin, packet.stream)
        before, by = self.ends.get(stream), conversation.link_name
        if before is None or before[0].link_name != by:
            if self._by[by] >= ENDS_MAX:
                return
            self._by[by] += 1
            if before is not None:
                self._uncount(before[0])
        is_same = before is not None and before[1].sequence == packet.sequence
        until_ns = before[2] if before is not None and is_same else now_ns + REST_NS
        self.ends[stream] = conversation, packet, until_ns
        self.due.set(stream, until_ns)

    def handle_stored(self, stream: StreamId, now_ns: int) -> None:
        """More of a stream is on the disk."""
        if stream in self.ends:
            self.due.set(stream, now_ns)

    def hasten(self, relay: str) -> None:
        """There is no place for another stream that a relay brings: the one that waits longest must end now."""
        stream = next((stream for stream, (by, *_) in self.ends.items() if by.link_name == relay), None)
        if stream is not None:
            self.ends[stream] = (*self.ends[stream][:2], 0)
            self.due.set(stream, 0)

    def poll_due(self, now_ns: int) -> list[tuple[Conversation, RelayedEnd, bool]]:
        """What is due now: which conversation has said it, what it said, and whether to wait no longer.

        Hand a stream that still lacks something to ``wait`` again.
        """
        due = [self.ends[stream] for stream in self.due.poll_due(now_ns)]
        return [(conversation, packet, until_ns <= now_ns) for conversation, packet, until_ns in due]

    def forget(self, stream: StreamId) -> None:
        """A stream is forgotten."""
        ended = self.ends.pop(stream, None)
        if ended is not None:
            self._uncount(ended[0])
        self.due.set(stream, None)

    def _uncount(self, conversation: Conversation) -> None:
        by = conversation.link_name
        self._by[by] -= 1
        if not self._by[by]:
            del self._by[by]


@dataclass(eq=False, repr=False)
class IncomingEnds:
    """The ends of the incoming streams of a node.

    Args:
        forget: called with a stream that has ended, and is no longer on the disk.

    Attributes:
        ended: the streams that have ended.
        awaited: those that have, while packets of them may still be at relays.
    """

    streams: IncomingStreams
    places: StreamPlaces
    permissions: Permissions
    sealing: Sealing
    order_acks: OwedAcks
    drops: Counter[DropReason]
    records: StreamRecords
    forget: Callable[[IncomingStream], None]

    def __post_init__(self) -> None:
        self.ended = EndedStreams()
        self.awaited = AwaitedEnds()
        # Those whose packets the commit accepts that goes to the disk.
        self._storing: Container[IncomingStream] = ()

    def restore(self, row: PositionRow) -> None:
        """Read what the store has of the ended streams of an origin. Raises StoreDamaged."""
        self.ended.restore(row)
        if row.via:
            self.permissions.origins.bind(row.origin, row.via, row.from_name)
        self.places.charge(row.origin)

    def handle_end(self, conversation: Conversation, packet: EndPacket, turn: Turn) -> None:
        """An origin says that a stream has ended: forget it with the next commit, and then answer.

        Raises ProtocolError if the neighbour may not say so, or the origin leaves more gaps than it may have.
        """
        if isinstance(packet, RelayedEnd):
            if packet.origin != conversation.peer_id:
                if self.permissions.check_brought(conversation, packet) is not None:
                    raise ProtocolError(DropReason.END_ASTRAY, f"{conversation.peer_label} may not bring it")
                if self._ends_sealed(packet) and not self.sealing.believes_end(packet):
                    raise ProtocolError(DropReason.FORGED_WORD, "an end of sealed streams")
            if not self._has_all(packet, turn):
                self.awaited.wait(conversation, packet, turn.now_ns)
                return
        self._end(conversation, packet, turn)

    def _ends_sealed(self, packet: RelayedEnd) -> bool:
        streams = self.streams.of(packet.origin)
        return any(it.sealed and packet.since <= it.begun <= packet.sequence for it in streams)

    def _has_all(self, packet: RelayedEnd, turn: Turn) -> bool:
        """Whether nothing can be missing of a stream that has ended, and all that has arrived is on the disk."""
        stream = self.streams.find(packet.origin, packet.stream)
        if stream is None or stream.current > packet.sequence or stream.has_ended:
            return not packet.last or self.ended.has(packet, Delivery.RECOVERABLE)
        if self._is_coming(stream, turn):
            return False
        return stream.delivery is not Delivery.RECOVERABLE or stream.filter.cumulative >= packet.last

    def _is_coming(self, stream: IncomingStream, turn: Turn) -> bool:
        """Whether the next commit, or the one that goes to the disk, accepts packets of a stream."""
        return stream in turn.accepted or stream in self._storing

    def handle_timer(self, turn: Turn) -> None:
        """Forget ended streams that are complete, or that have waited for the rest for long enough."""
        for conversation, packet, is_over in self.awaited.poll_due(turn.now_ns):
            stream = self.streams.find(packet.origin, packet.stream)
            is_stored = stream is None or not self._is_coming(stream, turn)
            if not (self._has_all(packet, turn) or (is_over and is_stored)):
                self.awaited.wait(conversation, packet, turn.now_ns)
                continue
            try:
                self._end(conversation, packet, turn)
            except ProtocolError as error:
                self.drops[error.reason] += 1

    def _end(self, conversation: Conversation, packet: EndPacket, turn: Turn) -> None:
        origin, durable = packet.origin, packet.stream < EXPRESS_STREAMS
        is_brought = isinstance(packet, RelayedEnd) and origin != conversation.peer_id
        stream = self.streams.find(origin, packet.stream)
        if stream is not None and (stream.current > packet.sequence or stream.has_ended):
            # Its number belongs to another stream by now, or it is about to be forgotten.
            stream = None
        self.awaited.forget(StreamId(origin, packet.stream))
        is_known = bool(self.streams.of(origin)) or self.ended.knows(origin)
        if isinstance(packet, RelayedEnd) and is_brought and not is_known:
            self.permissions.origins.bind(origin, conversation.link_name, packet.from_name)
        if not is_known and self.places.has_enough(origin):
            # There is no place for packets of the stream either. Their origin repeats that it has ended.
            self.permissions.origins.forget(origin)
            return
        if isinstance(packet, RelayedEnd) and is_brought:
            self.ended.handle_brought(origin, conversation.link_name, packet.from_name)
        # The express ones of a neighbour are forgotten with its session.
        if (durable or is_brought) and not self.ended.knows(origin, durable=durable):
            self.places.charge(origin)
        # This includes a stream without any arrived packet: its packets may still be in flight.
        if not self.ended.add(origin, packet.since, packet.sequence, durable=durable):
            raise ProtocolError(DropReason.TOO_MANY_ENDS)
        if stream is not None:
            stream.has_ended = True
            self.records.forgotten(stream, packet.sequence, turn.now_ns)
        if durable:
            turn.ended.append((conversation, packet, stream))
            return
        if stream is not None:
            self.forget(stream)
        self._answer_end(conversation, packet)

    def _answer_end(self, conversation: Conversation, packet: EndPacket) -> None:
        named = packet.origin, packet.stream, packet.sequence, packet.since
        answer = EndPacket(*named, answer=True)
        if isinstance(packet, RelayedEnd):
            store = self.order_acks.store_word
            answer = RelayedEnd(*named, True, packet.last, b"", self.permissions.node_id, store=store)
        # Without an answer its origin asks again in the next session.
        if not conversation.session.is_closed and not conversation.say(answer):
            self.drops[DropReason.CONTROL_OVERFLOW] += 1

    # ---- commits

    def complete(self, group: GroupCommit) -> None:
        """Complete the commit before it goes to the disk, after the positions of streams."""
        self._storing, commit = group.accepted, group.commit
        for _, end, ended in group.ended:
            stream = StreamId(end.origin, end.stream)
            if ended is not None:
                commit.positions.pop(stream, None)
                commit.position_deletes.append(stream)
            if self.ended.knows(end.origin):
                commit.positions[StreamId(end.origin, ENDED_STREAM)] = self.ended.row(end.origin)

    def handle_committed(self, group: GroupCommit, now_ns: int) -> None:
        """The commit has returned: answer the ends that it holds."""
        if self._storing is group.accepted:
            self._storing = ()
        for stream in group.accepted:
            self.awaited.handle_stored(stream.id, now_ns)
        for conversation, end, ended in group.ended:
            if ended is not None:
                self.forget(ended)
            self._answer_end(conversation, end)
