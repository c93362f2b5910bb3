"""The content of packets: the sequence header, and control packets of streams. Integers are big-endian.

    DATA       kind u8, flags u8, origin 16 bytes, stream u32, sequence u64, number u64, previous u64,
               queue length u8, queue, body
    ORDER_ACK  kind u8, flags u8, origin 16 bytes, stream u32, sequence u64, number u64
    REJECT     the same, then reason length u8, reason
    HOLD       kind u8, flags u8, origin 16 bytes, stream u32, turn u64, reason; flag 1 says stop, none says go; a
               go for the reason of a stop replaces that, and names packets that were not taken
    END        kind u8, flags u8, origin 16 bytes, stream u32, sequence u64, since u64; flag 1 answers one without flags
    RELAYED    kind u8, flags u8, origin 16 bytes, stream u32, sequence u64, number u64, previous u64, hops u8,
               left u64, queue length u8, final length u8, from length u8, queue, final, from, trace 8 bytes x hops,
               body
    RELAYED_ORDER_ACK
               kind u8, flags u8, origin 16 bytes, stream u32, sequence u64, number u64, hops u8, by 16 bytes,
               with flag 1 mac 16 bytes, start u64, serial u64, incarnation u64, count u8, then for each of the earlier
               starts, the latest last: start u64, end u64
    RELAYED_REJECT
               the same without start and what follows, then reason length u8, reason
    ONWARD     kind u8, flags u8, origin 16 bytes, stream u32, sequence u64, turn u64, here u64; flag 1 says that they
               wait
    ONWARD_ACK kind u8, flags u8, origin 16 bytes, stream u32, sequence u64, turn u64, then any number of ranges: first
               u64, last u64; flag 1 says that its store acks count as such from now on
    RELAYED_END
               kind u8, flags u8, origin 16 bytes, stream u32, sequence u64, since u64, last u64, hops u8, by 16 bytes,
               final length u8, from length u8, final, from, trace 8 bytes x hops, then start and what follows, as of
               RELAYED_ORDER_ACK;
               flag 1 answers one without flags

``origin`` and ``stream`` name a stream; ``sequence`` only grows; ``number`` counts from 1 within it. No stream has
stream 0, which nodes give their dead letters. END comes from the origin: no stream of it to this destination with a
sequence from ``since`` to ``sequence`` is live, or ever will be. The answer says that the destination has forgotten
that of the stream (``queues.streams.retirement``). ``previous`` is the number before this one that is still wanted:
packets that expired leave no false gap ([MS-MQMQ] 2.2.20.5). For express and recoverable streams ``previous`` says that
numbers up to it are no longer wanted; it is 0 in streams that go or went by relays (``ordering.transit``).

RELAYED is data that goes by way of relays, from neighbour to neighbour; DATA goes to its destination itself. ``trace``
names the ``hops`` relays that it has passed, in their order, each by the first bytes of its node id, which is random. A
relay that finds itself there rejects the packet (``route-loop``). Two relays of one path look alike by chance with a
probability of 2 to the power of -64 for each pair: 2 in 10**17 for a path of 29. ``left`` is for how many more
milliseconds it is worth delivering, 0 for any time: each node subtracts the time that it has kept it, and half of the
round trip to the next one, so that no clocks have to agree. ``final`` is its destination, as the receiver is to resolve
it; it is empty if that is the receiver itself. ``from`` is the name that the first relay has for its origin; empty from
the origin itself. Order acks and rejections of such data go back by the neighbour that it came by; ``by`` is the node
that says so. ``mac`` proves to the origin of sealed messages that it is their destination that says so
(``said``); without flag 1 there is none. ONWARD is from a relay to its neighbour:
everything up to ``here`` is on its disk, or has left it. While it waits there or behind the next hop, its origin need
not send it again. The upper six bits of the flags of RELAYED say how long order acks may wait, as its origin states it
(``ordering.order_ack``); 0 says nothing, and relays pass them on unread. Flag 2 of RELAYED says that the link is
synchronous, so that its sender waits for ONWARD_ACK: the packets of these ranges are on the disk of the node behind the
relay, and, if the link to that is synchronous, on that of the next one, and so on.

RELAYED_END is END of a stream that goes or went by relays. ``last`` is the highest number that was sent in it. Each
relay passes it on behind the packets of the stream that wait there. The answer goes back as order acks do.

``start`` and ``serial`` are a commit of the destination's store that has all that it says (``queues.peers.history``),
``incarnation`` counts its starts, and the earlier starts are those before, each with its last commit
(``queues.peers.relayed_histories``); all of it is 0 from others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from triack.base.errors import ProtocolError
from triack.base.names import composed
from triack.base.reasons import DropReason

_DATA = Struct("!BB16sIQQQB")
_ACK = Struct("!BB16sIQQ")
_HOLD = Struct("!BB16sIQ")
_END = Struct("!BB16sIQQ")
_RELAYED = Struct("!BB16sIQQQBQBBB")
_LEFT = Struct("!Q")
_LEFT_AT = 47
"""Where ``left`` is in data that is relayed."""
_RELAYED_ACK = Struct("!BB16sIQQB16s")
_RELAYED_END = Struct("!BB16sIQQQB16sBB")
_STORE = Struct("!QQQB")
_ONWARD = Struct("!BB16sIQQQ")
_ONWARD_ACK = Struct("!BB16sIQQ")
_RANGE = Struct("!QQ")
_KIND_DATA, _KIND_ORDER_ACK, _KIND_REJECT, _KIND_HOLD, _KIND_END = 1, 2, 3, 4, 5
_KIND_RELAYED, _KIND_RELAYED_ORDER_ACK, _KIND_RELAYED_REJECT = 6, 7, 8
_KIND_ONWARD, _KIND_ONWARD_ACK, _KIND_RELAYED_END = 9, 10, 11
_BODY_BEGINS = (bytes([_KIND_DATA]), bytes([_KIND_RELAYED]))
_FLAG_ASK = 0x01
"""The only flag of data."""
_FLAG_AWAITED = 0x02
"""Of relayed data."""
_ACK_WAIT_SHIFT = 2
"""Where ``ack_wait`` begins in the flags of relayed data."""
_FLAG_STOP = 0x01
"""Of a hold."""
_FLAG_ANSWER = 0x01
"""The only flag of an end."""
_FLAG_WAITS = 0x01
"""The only flag of ONWARD."""
_FLAG_ASYNC = 0x01
"""The only flag of ONWARD_ACK."""
_FLAG_MAC = 0x01
"""The only flag of an order ack or a rejection that goes back by relays."""
_FLAG_PROVED = 0x02
"""Of an end that goes by relays: a proof follows its head."""
MAC_BYTES = 16
"""Of a proof: as many as a tag of both ciphers has (RFC 5116, section 5.1)."""

HOPS_MAX = 29
"""The most relays that a packet passes: 0x1D, as in MSMQ, whose UserHeader counts them in five bits ([MS-MQMQ]
2.2.20.1)."""
MARK_BYTES = 8
"""Of a node id, which is random, in a trace: enough that no two relays of a path look alike, and few on each packet."""
NAME_BYTES_MAX = 124
"""Of a destination or an origin in the header of relayed data: the limit of a name (``base.names``)."""

RANGES_MAX = 64
"""Ranges in one ONWARD_ACK, about 1 KB: it fits any datagram, and packets that leave in order are one range."""
EARLIER_MAX = 8
"""Earlier starts in one word, 128 bytes. Two words can be compared that are not more starts apart."""
REASON_BYTES_MAX = 255
"""Of a hold, as of a rejection, whose reason has one byte for its length."""
NUMBER_MAX = 2**63 - 1
"""SQLite keeps no larger integer; no stream gets there."""


@dataclass(slots=True)
class Numbered:
    """What is about one packet of a stream."""

    origin: bytes
    stream: int
    sequence: int
    number: int

    @property
    def named(self) -> tuple[bytes, int, int, int]:
        """Origin, stream, sequence and number."""
        return self.origin, self.stream, self.sequence, self.number


@dataclass(slots=True)
class SequenceHeader(Numbered):
    """Which packet of which stream this is, and for which queue; ``ack_requested`` for an order ack at once."""

    previous: int
    queue: str
    ack_requested: bool
    body: bytes

    def encode(self) -> bytes:
        """Header and body as the content of a packet."""
        return encode_run(self, [self.previous], [self.ack_requested], [self.body])[0]


@dataclass(slots=True)
class RelayedHeader(SequenceHeader):
    """The same of data that relays pass on; see the fields of RELAYED.

    ``awaited``: for ONWARD_ACK. ``ack_wait``: how long order acks may wait, as six bits; 0 says nothing.
    """

    trace: bytes
    left_ms: int
    final: str
    from_name: str
    awaited: bool = False
    ack_wait: int = 0

    @property
    def hops(self) -> int:
        """How many relays it has passed."""
        return len(self.trace) // MARK_BYTES


@dataclass(slots=True)
class OrderAckPacket(Numbered):
    """Everything up to ``number`` of a sequence was accepted in order and is on disk."""

    def encode(self) -> bytes:
        """It as the content of an express packet, as all that follow."""
        return _ACK.pack(_KIND_ORDER_ACK, 0, self.origin, self.stream, self.sequence, self.number)


@dataclass(slots=True)
class RejectPacket(Numbered):
    """The destination will not take packet ``number``, for a named reason. It was not accepted and never will be."""

    reason: str

    def encode(self) -> bytes:
        """See ``OrderAckPacket``."""
        return _ACK.pack(_KIND_REJECT, 0, *self.named) + _with_length(self.reason)


class StoreWord(NamedTuple):
    """What a destination says of its store.

    Attributes:
        start: the id of its present start.
        serial: the last of its commits on the disk.
        incarnation: how many starts there were, this one included.
        earlier: the starts before, the latest last: each by its id, with its last commit.
    """

    start: int
    serial: int
    incarnation: int
    earlier: tuple[tuple[int, int], ...] = ()

    def encode(self) -> bytes:
        """It as the end of a content."""
        head = _STORE.pack(self.start, self.serial, self.incarnation, len(self.earlier))
        return head + b"".join([_RANGE.pack(start, end) for start, end in self.earlier])


NO_WORD = StoreWord(0, 0, 0)


@dataclass(slots=True)
class RelayedOrderAck(OrderAckPacket):
    """The same, on its way back by relays.

    ``by`` is the destination, ``store`` is what it says of its store, and ``mac`` its proof, or empty.
    """

    hops: int
    by: bytes
    store: StoreWord = NO_WORD
    mac: bytes = b""

    def encode(self) -> bytes:
        """See ``OrderAckPacket``."""
        return _encode_back(_KIND_RELAYED_ORDER_ACK, self) + self.store.encode()

    @property
    def said(self) -> bytes:
        """What its proof is about: all that the origin believes of it."""
        return _ACK.pack(_KIND_RELAYED_ORDER_ACK, 0, *self.named) + self.by + self.store.encode()


@dataclass(slots=True)
class RelayedReject(RejectPacket):
    """The same, on its way back by relays; ``by`` is the node that refuses, a relay or the destination.

    ``mac`` is the proof of the destination, or empty.
    """

    hops: int
    by: bytes
    mac: bytes = b""

    def encode(self) -> bytes:
        """See ``OrderAckPacket``."""
        return _encode_back(_KIND_RELAYED_REJECT, self) + _with_length(self.reason)

    @property
    def said(self) -> bytes:
        """What its proof is about."""
        return _ACK.pack(_KIND_RELAYED_REJECT, 0, *self.named) + self.by + self.reason.encode()


@dataclass(slots=True)
class OnwardPacket:
    """A relay has everything of a stream up to ``here`` on its disk, or that has left it.

    While it ``waits``, its origin need not send these packets again. ``turn`` grows with each such word.
    """

    origin: bytes
    stream: int
    sequence: int
    turn: int
    here: int
    waits: bool

    def encode(self) -> bytes:
        """See ``OrderAckPacket``."""
        flags = _FLAG_WAITS if self.waits else 0
        return _ONWARD.pack(_KIND_ONWARD, flags, self.origin, self.stream, self.sequence, self.turn, self.here)


@dataclass(slots=True)
class OnwardAckPacket:
    """A relay has passed packets on, and they are on the disk behind it.

    ``ranges`` are the first and the last number of each run of them. ``is_async``: from now on this node's store acks
    count as such, or no longer. ``turn`` grows with each such word.
    """

    origin: bytes
    stream: int
    sequence: int
    turn: int
    is_async: bool
    ranges: list[tuple[int, int]]

    def encode(self) -> bytes:
        """See ``OrderAckPacket``."""
        flags = _FLAG_ASYNC if self.is_async else 0
        head = _ONWARD_ACK.pack(_KIND_ONWARD_ACK, flags, self.origin, self.stream, self.sequence, self.turn)
        return head + b"".join([_RANGE.pack(first, last) for first, last in self.ranges])


@dataclass(slots=True)
class HoldPacket:
    """The destination has no room for a stream (``stop``), or has some again.

    ``turn`` grows with each change and with each packet that is refused: the destination then has no unacknowledged
    packet of the stream. A hold that is repeated has the turn of the last one, and says nothing of packets. ``reason``
    names the lack of room.
    """

    origin: bytes
    stream: int
    turn: int
    stop: bool
    reason: str = ""

    def encode(self) -> bytes:
        """See ``OrderAckPacket``."""
        flags = _FLAG_STOP if self.stop else 0
        return _HOLD.pack(_KIND_HOLD, flags, self.origin, self.stream, self.turn) + self.reason.encode()


@dataclass(slots=True)
class EndPacket:
    """A stream has ended, says its origin, and so have all others from ``since`` on; as ``answer``: it is forgotten."""

    origin: bytes
    stream: int
    sequence: int
    since: int
    answer: bool

    def encode(self) -> bytes:
        """See ``OrderAckPacket``."""
        flags = _FLAG_ANSWER if self.answer else 0
        return _END.pack(_KIND_END, flags, self.origin, self.stream, self.sequence, self.since)


@dataclass(slots=True)
class RelayedEnd(EndPacket):
    """The same of a stream that goes or went by relays; see RELAYED_END. ``by`` is the node that says so.

    ``mac`` proves to the destination of sealed messages that it is their origin that says so, or is empty.
    """

    last: int
    trace: bytes
    by: bytes
    final: str = ""
    from_name: str = ""
    store: StoreWord = NO_WORD
    mac: bytes = b""

    def encode(self) -> bytes:
        """See ``OrderAckPacket``."""
        flags = (_FLAG_ANSWER if self.answer else 0) | (_FLAG_PROVED if self.mac else 0)
        final, from_name = self.final.encode(), self.from_name.encode()
        named = self.origin, self.stream, self.sequence, self.since, self.last
        head = _RELAYED_END.pack(_KIND_RELAYED_END, flags, *named, self.hops, self.by, len(final), len(from_name))
        return head + self.mac + final + from_name + self.trace + self.store.encode()

    @property
    def said(self) -> bytes:
        """What its proof is about, which the destination believes."""
        head = _END.pack(_KIND_RELAYED_END, 0, self.origin, self.stream, self.sequence, self.since)
        return head + _LEFT.pack(self.last)

    @property
    def hops(self) -> int:
        """How many relays it has passed."""
        return len(self.trace) // MARK_BYTES


Answer = OrderAckPacket | RejectPacket | HoldPacket | OnwardPacket | OnwardAckPacket
"""What a neighbour says of packets that it was sent."""
Packet = SequenceHeader | EndPacket | Answer
"""Every kind of content of a packet."""


def encode_run(
    first: SequenceHeader, previous: Sequence[int], ack_requested: Sequence[bool], bodies: Sequence[bytes]
) -> list[bytes]:
    """Packets of one stream, whose numbers follow each other, as the contents of packets of a session.

    Args:
        first: the header of the first; the other arguments take precedence.
        previous: the number of each that is wanted before it.
        ack_requested: which of them ask for an order ack.
        bodies: their contents.
    """
    queue, pack, origin, stream, sequence = first.queue.encode(), _DATA.pack, first.origin, first.stream, first.sequence
    length = len(queue)
    each = zip(range(first.number, first.number + len(bodies)), previous, ack_requested, bodies, strict=True)
    return [
        pack(_KIND_DATA, _FLAG_ASK if asked else 0, origin, stream, sequence, number, before, length) + queue + body
        for number, before, asked, body in each
    ]


@dataclass(slots=True)
class RelayedPacket:
    """What is not the same in all relayed packets of one stream that leave together."""

    number: int
    previous: int
    left_ms: int
    ack_requested: bool
    body: bytes


def encode_relayed_run(
    first: SequenceHeader,
    final: str,
    from_name: str,
    run: Sequence[RelayedPacket],
    *,
    trace: bytes = b"",
    awaited: bool = False,
    ack_wait: int = 0,
) -> list[bytes]:
    """Packets of one stream for a relay, or by one, as the contents of packets of a session.

    Args:
        first: the stream, its sequence and its queue.
        final: see RELAYED.
        from_name: see RELAYED.
        run: each packet.
        trace: the relays that they have passed, this node included.
        awaited: whether this node waits for ONWARD_ACK of them.
        ack_wait: see ``RelayedHeader``.
    """
    waits = (_FLAG_AWAITED if awaited else 0) | ack_wait << _ACK_WAIT_SHIFT
    names = [first.queue.encode(), final.encode(), from_name.encode()]
    pack, lengths, text = _RELAYED.pack, tuple(map(len, names)), b"".join([*names, trace])
    stream, asks, hops = (first.origin, first.stream, first.sequence), waits | _FLAG_ASK, len(trace) // MARK_BYTES
    contents: list[bytes] = []
    for it in run:
        flags = asks if it.ack_requested else waits
        head = pack(_KIND_RELAYED, flags, *stream, it.number, it.previous, hops, it.left_ms, *lengths)
        contents.append(head + text + it.body)
    return contents


def relayed_header_bytes(queue: str, final: str) -> int:
    """How much of a relayed packet's content its header takes, once its first relay has named its origin.

    What a shorter name leaves is room for the trace. A packet for which that is too little travels in pieces.
    """
    return _RELAYED.size + len(queue.encode()) + len(final.encode()) + NAME_BYTES_MAX


def header_bytes(queue: str) -> int:
    """How much of a packet's content the sequence header takes."""
    return _DATA.size + len(queue.encode())


def _with_length(reason: str) -> bytes:
    name = reason.encode()
    return bytes([len(name)]) + name


def _encode_back(kind: int, packet: RelayedOrderAck | RelayedReject) -> bytes:
    """The head and the proof of what goes back by relays."""
    return _RELAYED_ACK.pack(kind, _FLAG_MAC if packet.mac else 0, *packet.named, packet.hops, packet.by) + packet.mac


def decode_store_word(content: bytes, at: int = 0) -> StoreWord:
    """What a destination says of its store, in a content that has it there.

    Raises ProtocolError, or an error of ``struct``.
    """
    start, serial, incarnation, count = _STORE.unpack_from(content, at)
    earlier = tuple(_RANGE.iter_unpack(content[at + _STORE.size :]))
    if len(earlier) != count or count > EARLIER_MAX or count > max(0, incarnation - 1):
        raise ProtocolError(DropReason.BAD_PACKET, "the history of a store")
    return StoreWord(start, serial, incarnation, earlier)


def decode(content: bytes) -> Packet:
    """Read a packet's content. Raises ProtocolError ``bad-packet``."""
    try:
        return _DECODERS[content[0]](content)
    except (StructError, KeyError, IndexError, UnicodeDecodeError) as cause:
        raise ProtocolError(DropReason.BAD_PACKET, "not a sequence packet") from cause


def passing(trace: bytes, node_id: bytes) -> bytes:
    """The trace of what a node passes on that came with this one."""
    return trace + node_id[:MARK_BYTES]


def has_passed(trace: bytes, node_id: bytes) -> bool:
    """Whether a node is in a trace."""
    mark = node_id[:MARK_BYTES]
    return any(trace[at : at + MARK_BYTES] == mark for at in range(0, len(trace), MARK_BYTES))


def carries_body(content: bytes) -> bool:
    """Whether it is data, from its origin or by relays, and no control packet."""
    return content[:1] in _BODY_BEGINS


def left_of(content: bytes) -> int:
    """How many milliseconds a relayed packet has left, 0 for any time."""
    left_ms: int = _LEFT.unpack_from(content, _LEFT_AT)[0]
    return left_ms


def read_following_relayed(first: SequenceHeader, queue: bytes, content: bytes) -> tuple[int, int, bool, bytes] | None:
    """The same as ``read_following``, of data that relays pass on and that came by the same way."""
    assert isinstance(first, RelayedHeader)
    try:
        kind, flags, origin, stream, sequence, number, previous, hops, _, *lengths = _RELAYED.unpack_from(content)
    except StructError:
        return None
    if kind != _KIND_RELAYED or stream != first.stream or sequence != first.sequence or origin != first.origin:
        return None
    if hops != first.hops or not previous < number <= NUMBER_MAX or bool(flags & _FLAG_AWAITED) is not first.awaited:
        return None
    if flags >> _ACK_WAIT_SHIFT != first.ack_wait:
        return None
    names = [queue, first.final.encode(), first.from_name.encode()]
    at = _RELAYED.size + sum(lengths) + len(first.trace)
    if lengths != [len(name) for name in names] or content[_RELAYED.size : at] != b"".join([*names, first.trace]):
        return None
    return number, previous, bool(flags & _FLAG_ASK), content[at:]


def read_following(first: SequenceHeader, queue: bytes, content: bytes) -> tuple[int, int, bool, bytes] | None:
    """Read a packet of the stream of ``first``: number, previous, whether it asks, body. None for any other content.

    ``queue`` is the encoded name of its queue.
    """
    try:
        kind, flags, origin, stream, sequence, number, previous, queue_bytes = _DATA.unpack_from(content)
    except StructError:
        return None
    at = _DATA.size + queue_bytes
    if kind != _KIND_DATA or stream != first.stream or sequence != first.sequence or origin != first.origin:
        return None
    if content[_DATA.size : at] != queue or not previous < number <= NUMBER_MAX:
        return None
    return number, previous, bool(flags & _FLAG_ASK), content[at:]


def _decode_data(content: bytes) -> SequenceHeader:
    _, flags, origin, stream, sequence, number, previous, queue_bytes = _DATA.unpack_from(content)
    at = _DATA.size + queue_bytes
    in_range = sequence <= NUMBER_MAX and previous < number <= NUMBER_MAX
    if at > len(content) or not (stream and sequence and in_range):
        raise ProtocolError(DropReason.BAD_PACKET, "sequence header out of range")
    queue = content[_DATA.size : at].decode()
    return SequenceHeader(origin, stream, sequence, number, previous, queue, bool(flags & _FLAG_ASK), content[at:])


def _decode_relayed(content: bytes) -> SequenceHeader:
    _, flags, origin, stream, sequence, number, previous, hops, left_ms, *lengths = _RELAYED.unpack_from(content)
    queue_end = _RELAYED.size + lengths[0]
    final_end = queue_end + lengths[1]
    from_end = final_end + lengths[2]
    at = from_end + MARK_BYTES * hops
    if at > len(content) or not (stream and sequence) or previous >= number or max(sequence, number) > NUMBER_MAX:
        raise ProtocolError(DropReason.BAD_PACKET, "sequence header out of range")
    if hops > HOPS_MAX or max(lengths[1:]) > NAME_BYTES_MAX or left_ms > NUMBER_MAX:
        raise ProtocolError(DropReason.BAD_PACKET, "hops, names or time out of range")
    return RelayedHeader(
        origin,
        stream,
        sequence,
        number,
        previous,
        content[_RELAYED.size : queue_end].decode(),
        bool(flags & _FLAG_ASK),
        content[at:],
        content[from_end:at],
        left_ms,
        composed(content[queue_end:final_end].decode()),
        composed(content[final_end:from_end].decode()),
        bool(flags & _FLAG_AWAITED),
        flags >> _ACK_WAIT_SHIFT,
    )


def _decode_relayed_order_ack(content: bytes) -> RelayedOrderAck:
    origin, stream, sequence, number, hops, by, mac, at = _decode_back(content)
    return RelayedOrderAck(origin, stream, sequence, number, hops, by, decode_store_word(content, at), mac)


def _decode_relayed_reject(content: bytes) -> RelayedReject:
    origin, stream, sequence, number, hops, by, mac, at = _decode_back(content)
    return RelayedReject(origin, stream, sequence, number, _reason_of(content, at), hops, by, mac)


def _decode_back(content: bytes) -> tuple[Any, ...]:
    """What goes back by relays: its fields up to ``by``, the proof, empty without one, and where that ends."""
    _, flags, *named = _RELAYED_ACK.unpack_from(content)
    end = _RELAYED_ACK.size + (MAC_BYTES if flags & _FLAG_MAC else 0)
    if flags & ~_FLAG_MAC or end > len(content):
        raise ProtocolError(DropReason.BAD_PACKET, "flags or proof of a word")
    return *named, content[_RELAYED_ACK.size : end], end


def _reason_of(content: bytes, at: int) -> str:
    """The reason at the end of a content, with its length before it."""
    reason = content[at + 1 :]
    if len(reason) != content[at]:
        raise ProtocolError(DropReason.BAD_PACKET, "reason length")
    return reason.decode()


def _decode_onward(content: bytes) -> OnwardPacket:
    _, flags, origin, stream, sequence, turn, here = _ONWARD.unpack(content)
    if flags & ~_FLAG_WAITS or not stream or max(sequence, turn, here) > NUMBER_MAX:
        raise ProtocolError(DropReason.BAD_PACKET, "word of a relay out of range")
    return OnwardPacket(origin, stream, sequence, turn, here, bool(flags & _FLAG_WAITS))


def _decode_onward_ack(content: bytes) -> OnwardAckPacket:
    _, flags, origin, stream, sequence, turn = _ONWARD_ACK.unpack_from(content)
    ranges = list(_RANGE.iter_unpack(content[_ONWARD_ACK.size :]))
    if flags & ~_FLAG_ASYNC or not stream or max(sequence, turn) > NUMBER_MAX or len(ranges) > RANGES_MAX:
        raise ProtocolError(DropReason.BAD_PACKET, "onward ack out of range")
    if any(not 0 < first <= last <= NUMBER_MAX for first, last in ranges):
        raise ProtocolError(DropReason.BAD_PACKET, "a range of an onward ack")
    return OnwardAckPacket(origin, stream, sequence, turn, bool(flags & _FLAG_ASYNC), ranges)


def _decode_order_ack(content: bytes) -> OrderAckPacket:
    return OrderAckPacket(*_ACK.unpack(content)[2:])


def _decode_reject(content: bytes) -> RejectPacket:
    _, _, origin, stream, sequence, number = _ACK.unpack_from(content)
    return RejectPacket(origin, stream, sequence, number, _reason_of(content, _ACK.size))


def _decode_hold(content: bytes) -> HoldPacket:
    _, flags, origin, stream, turn = _HOLD.unpack_from(content)
    reason = content[_HOLD.size :]
    if flags & ~_FLAG_STOP or not turn or len(reason) > REASON_BYTES_MAX:
        raise ProtocolError(DropReason.BAD_PACKET, "hold out of range")
    return HoldPacket(origin, stream, turn, bool(flags & _FLAG_STOP), reason.decode())


def _decode_end(content: bytes) -> EndPacket:
    _, flags, origin, stream, sequence, since = _END.unpack(content)
    if flags & ~_FLAG_ANSWER or not stream or not 0 < since <= sequence <= NUMBER_MAX:
        raise ProtocolError(DropReason.BAD_PACKET, "end out of range")
    return EndPacket(origin, stream, sequence, since, bool(flags & _FLAG_ANSWER))


def _decode_relayed_end(content: bytes) -> RelayedEnd:
    _, flags, origin, stream, sequence, since, last, hops, by, *lengths = _RELAYED_END.unpack_from(content)
    at = _RELAYED_END.size + (MAC_BYTES if flags & _FLAG_PROVED else 0)
    final_end = at + lengths[0]
    if (
        flags & ~(_FLAG_ANSWER | _FLAG_PROVED)
        or at > len(content)
        or not stream
        or not 0 < since <= sequence <= NUMBER_MAX
        or last > NUMBER_MAX
    ):
        raise ProtocolError(DropReason.BAD_PACKET, "end out of range")
    if hops > HOPS_MAX or max(lengths) > NAME_BYTES_MAX:
        raise ProtocolError(DropReason.BAD_PACKET, "hops or names out of range")
    from_end = final_end + lengths[1]
    end = from_end + MARK_BYTES * hops
    names = content[at:final_end].decode(), content[final_end:from_end].decode()
    store, is_answer = decode_store_word(content, end), bool(flags & _FLAG_ANSWER)
    mac, trace = content[_RELAYED_END.size : at], content[from_end:end]
    return RelayedEnd(origin, stream, sequence, since, is_answer, last, trace, by, *names, store, mac)


_DECODERS: dict[int, Callable[[bytes], Packet]] = {
    _KIND_DATA: _decode_data,
    _KIND_ORDER_ACK: _decode_order_ack,
    _KIND_REJECT: _decode_reject,
    _KIND_HOLD: _decode_hold,
    _KIND_END: _decode_end,
    _KIND_RELAYED: _decode_relayed,
    _KIND_RELAYED_ORDER_ACK: _decode_relayed_order_ack,
    _KIND_RELAYED_REJECT: _decode_relayed_reject,
    _KIND_ONWARD: _decode_onward,
    _KIND_ONWARD_ACK: _decode_onward_ack,
    _KIND_RELAYED_END: _decode_relayed_end,
}
