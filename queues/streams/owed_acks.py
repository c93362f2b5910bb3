"""The order acks that a node owes for its incoming streams: which are due, which wait, and how they leave.

Promise: accepted packets are acknowledged in the end, however often sessions come and go, and streams that owe no ack
cost nothing. Each stream decides itself when its ack is due (``ordering.order_ack``).
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from triack.base.ack_debt import AckState
from triack.base.reasons import DropReason
from triack.ordering.wire import NO_WORD, OrderAckPacket, RelayedOrderAck, StoreWord
from triack.queues.deadlines import Deadlines
from triack.queues.peers.history import History
from triack.queues.peers.introduction import StreamPosition
from triack.queues.peers.link import Conversation
from triack.queues.streams.incoming_stream import IncomingStream
from triack.queues.streams.sealing import Sealing
from triack.queues.streams.stream_records import StreamRecords


@dataclass(eq=False, repr=False)
class OwedAcks:
    """The incoming streams whose origins wait for an order ack.

    Args:
        sealing: proves order acks of sealed streams.

    Attributes:
        deadlines: when the waits of streams end.
        due: the streams whose order ack leaves with the next ``send``.
        sent: order acks that left, by trigger.
        history: of this node's store, once it is known.
    """

    node_id: bytes
    sealing: Sealing
    drops: Counter[DropReason]
    records: StreamRecords

    def __post_init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.history: History | None = None
        self._owing: dict[IncomingStream, None] = {}
        self._unasked: dict[str | bytes, dict[IncomingStream, None]] = {}
        self.due: dict[IncomingStream, None] = {}
        self.deadlines = Deadlines[IncomingStream]()

    @property
    def streams(self) -> list[IncomingStream]:
        """The streams for which an order ack is owed, now or later."""
        return list(self._owing)

    def owe(self, stream: IncomingStream) -> None:
        """An order ack is owed for a stream, now or later."""
        self._owing[stream] = None
        if stream.sequence.ack.state is not AckState.DUE:
            self._unasked.setdefault(stream.side, {})[stream] = None
        if stream.owes_ack:
            self.due[stream] = None
        self.deadlines.set(stream, stream.sequence.ack.deadline_ns)

    def handle_request(self, *sides: str | bytes) -> list[IncomingStream]:
        """A peer wants every order ack that is owed to it. Repeated requests cost nothing.

        ``sides``: the peer's id, for its own streams, and its name, for those that it brings as a relay. Returns the
        streams whose order ack had not been requested yet, and those whose order ack is about to leave.
        """
        leaving = [stream for stream in self.due if stream.side in sides]
        owed = [stream for side in sides for stream in self._unasked.pop(side, ()) if stream in self._owing]
        for stream in owed:
            self._request(stream)
        return owed + leaving

    def handle_session_opened(self, streams: Iterable[IncomingStream]) -> None:
        """A session with the origin of these streams is open: acknowledge each of them once more."""
        for stream in streams:
            # After a restart, there is no way back to the origin until a packet shows where it is.
            if stream.ordered and (stream.heard or stream.relay) and stream.sequence.position[1]:
                self._request(stream)

    def handle_moved(self, stream: IncomingStream, before: str | bytes) -> None:
        """A stream comes by another neighbour than before."""
        if self._take_unasked(stream, before):
            self._unasked.setdefault(stream.side, {})[stream] = None

    def _take_unasked(self, stream: IncomingStream, side: str | bytes) -> bool:
        """Whether the order ack of a stream was not requested; it is no longer one of that side's."""
        unasked = self._unasked.get(side, {})
        found = unasked.pop(stream, 0) is None
        if found and not unasked:
            del self._unasked[side]
        return found

    def forget(self, stream: IncomingStream) -> None:
        """A stream has ended: its origin needs no more acks."""
        self._owing.pop(stream, None)
        self.due.pop(stream, None)
        self._take_unasked(stream, stream.side)
        self.deadlines.set(stream, None)

    def request_all(self) -> None:
        """Owed order acks leave now: the node is about to close."""
        for stream in self._owing:
            self._request(stream)

    def _request(self, stream: IncomingStream) -> None:
        stream.sequence.ack.handle_request()
        self.owe(stream)

    def handle_timer(self, now_ns: int) -> None:
        """Let order acks become due whose wait has ended."""
        for stream in self.deadlines.poll_due(now_ns):
            stream.sequence.ack.handle_timer(now_ns)
            self.owe(stream)

    def send(self, route: Callable[[IncomingStream], Conversation | None], now_ns: int) -> None:
        """Hand every due order ack to a conversation with its origin's side.

        Without one it waits until a session opens, which asks for all of them.
        """
        due = list(self.due)
        self.due.clear()
        for stream in due:
            conversation = route(stream) if stream.owes_ack else None
            if conversation is None:
                continue
            if not self._send(stream, conversation, now_ns):
                # Too much waits for the session: the ack is still owed, and its origin asks for it.
                self.drops[DropReason.CONTROL_OVERFLOW] += 1
                self._unasked.setdefault(stream.side, {})[stream] = None
                continue
            sequence = stream.sequence
            # An ack for packets that are accepted but not committed is still owed; it leaves after their commit.
            if sequence.committed == sequence.position:
                sequence.ack.handle_sent()
                del self._owing[stream]

    @property
    def store_word(self) -> StoreWord:
        """What answers by relays say of this node's store."""
        return NO_WORD if self.history is None else self.history.word()

    def _send(self, stream: IncomingStream, conversation: Conversation, now_ns: int) -> bool:
        (sequence, number), peer_id = stream.claimable, conversation.peer_id
        if peer_id == stream.origin:
            ack = OrderAckPacket(*stream.id, sequence, number)
        else:
            relayed = RelayedOrderAck(*stream.id, sequence, number, 0, self.node_id, self.store_word)
            ack = self.sealing.prove(relayed) if stream.sealed else relayed
        if not conversation.say(ack):
            return False
        self.sent[stream.sequence.ack.cause] += 1
        stream.acked, stream.acked_at_ns = (sequence, number), now_ns
        self.records.order_ack_sent(stream, peer_id, now_ns)
        return True


class Positions:
    """Positions on this disk of the ordered streams of every origin. An accept tells them to an origin before it sends.

    Promise: each position is what an order ack could say at that moment, so that a session that follows a lost one
    retransmits nothing that is stored. Positions that do not fit in an accept follow in order acks, once the session is
    open.
    """

    def __init__(self, records: StreamRecords) -> None:
        self.records = records
        self._streams: dict[bytes, OrderedDict[IncomingStream, None]] = {}

    def handle_committed(self, stream: IncomingStream) -> None:
        """The position of a stream is on the disk, newly or since before the start."""
        streams = self._streams.get(stream.origin)
        if streams is None:
            streams = self._streams[stream.origin] = OrderedDict()
        streams[stream] = None
        streams.move_to_end(stream)

    def forget(self, stream: IncomingStream) -> None:
        """A stream has ended."""
        streams = self._streams.get(stream.origin, OrderedDict())
        streams.pop(stream, None)
        if not streams:
            self._streams.pop(stream.origin, None)

    def tell(self, origin: bytes, limit: int, now_ns: int) -> tuple[StreamPosition, ...]:
        """The positions of at most ``limit`` streams of an origin, the one that moved last first.

        Each is logged once: a stranger can repeat a connect, and must not fill the log.
        """
        told: list[StreamPosition] = []
        for stream in islice(reversed(self._streams.get(origin, OrderedDict())), limit):
            claimable = stream.claimable
            if not claimable[1]:
                continue
            if claimable != stream.acked:
                stream.acked = claimable
                self.records.order_ack_sent(stream, origin, now_ns)
            told.append(StreamPosition(stream.number, *claimable))
        return tuple(told)
