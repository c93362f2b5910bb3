"""Messages into packet bodies and back. A body is a run of messages that follow each other; one alone is a run of one.

    head        first byte u8, count u16, ordinal of the first message u64, sent at u64 ms, receive by u64 ms
    place       size of the text u32, offset of this piece of it u32: only with count 0
    text        topic       length u8, name: only with TOPIC
                properties  (number of messages u16, length u16, JSON), until each message has some: only with RICH
                lengths     of all bodies but the last, u16 each
                bodies      the last one is as long as what is left

All integers are big-endian. The bits of the first byte are RICH 0, SEAL 1, LARGE 2, TOPIC 3, the priority of the
messages 4 to 6, and CARES 7: messages have one of the properties ``CARING``, and share no body with others. A message
has the ordinal of the first one and its index, which with the id of its node names it permanently. Messages with
different receive-by times (0 for any time), topics or priorities share no body, so that a queue knows when a packet
expires without reading it.

- A message that is too long for a packet is a run of one whose text is cut: each packet has the same head, with count
  0, and a piece.
- Properties are a JSON object; no bytes are none. Administration messages that tell of successive messages of a node
  differ in nothing else: their properties are a zero u16, the length u16, class u16, node id (16 bytes), the ordinal
  of the first message that they tell of u64, and the JSON of all.
- The name of a topic is what is below its root. A message that a topic's node passes on to a subscription at another
  node has instead a zero u8, the node id of its publisher (16 bytes), the ordinal of the first message there u64, when
  it was published u64 ms, and the whole name.
- With LARGE, the one message stands for a large one, whose ordinal it has (``queues.mailboxes.large_bodies``): its own
  body is the size as u64, or as u48 when it announces the parts, and empty when it says that no more of them come.
- With SEAL, place is always there (zeros if the body is no piece), and the text is sealed, behind a first byte that has
  the other bits. Those who pass it on see only what they need: how many messages end in it, until when they are worth
  passing on, and to which message they belong. Bit 15 of the count says that the body came sealed and was opened; such
  a body never travels.

The work here is for all messages that were sent together, and never for each.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from triack.base.commit import CARES, HEAD_BYTES
from triack.base.delivery import PRIORITY_MAX
from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason
from triack.queues.body_head import (
    HEAD,
    LARGE,
    OPENED,
    PLACE,
    PRIORITY_SHIFT,
    RICH,
    SEAL,
    SEAL_ADDS_BYTES,
    TOPIC,
    count_of,
    is_piece,
    is_sealed,
    mark_opened,
    priority_of,
)
from triack.queues.messages import (
    CARING,
    MAX_BODY_BYTES,
    MAX_PROPERTIES_BYTES,
    NAME_BYTES_MAX,
    SHARED_BYTES,
    Answer,
    AnswerRun,
    LargeMessage,
    Name,
    Outgoing,
    Passed,
    Properties,
    read_name,
    read_shared,
    write_answers,
    write_name,
    write_properties,
    write_shared,
    write_source,
)

PIECE_MIN_BYTES = 256
"""Smallest piece of a large message, except its last: pieces that fill the smallest datagram are larger. Many smaller
ones would take many times their bytes in memory."""
ALIKE_MAX = 64
"""Bodies of one length that are read at once: small messages in the smallest datagrams. The cached ``Struct`` objects
for them take no more than a few MiB."""

_LENGTH_BYTES = 2  # u16
_SHORT_MAX = 0xFFFF
"""Messages that share a body have lengths of 16 bits."""
_LARGE_MAX_BYTES = MAX_BODY_BYTES + MAX_PROPERTIES_BYTES + SHARED_BYTES + NAME_BYTES_MAX
"""Of all pieces of a large message."""


@dataclass(slots=True)
class PacketBody:
    """A packet body.

    Attributes:
        messages: number of messages that end in it: all of a run, and one in the last piece of a large message.
        tickets: number of messages that it is part of: those of a run, and one for each piece of a large message.
        reach_by_ms: wall clock time after which sending it is useless, 0 for never.
        cares: whether its messages have a property of ``CARING``.
    """

    body: bytes
    messages: int
    tickets: int
    reach_by_ms: int
    ack_requested: bool = False
    cares: bool = False


@dataclass(slots=True)
class Unpacked:
    """The messages of a body. ``properties`` is None when none of them has any, ``topic`` in a queue.

    ``publisher`` is the node that published messages which were passed on to a subscription, empty for all others.
    ``sealed``: they came sealed by their sender.
    """

    first_ordinal: int
    sent_at_ms: int
    receive_by_ms: int
    bodies: Sequence[bytes]
    properties: Sequence[Properties] | None
    priority: int = 0
    topic: str | None = None
    publisher: bytes = b""
    sealed: bool = False


@lru_cache(maxsize=4_096)
def _lengths(count: int) -> Struct:
    return Struct(f"!{count}H")


@lru_cache(maxsize=1_024)
def _same_size(count: int, size_bytes: int) -> Struct:
    """Reads ``count`` bodies of one length at once."""
    return Struct(f"{size_bytes}s" * count)


# ---- packing


class _Kind(NamedTuple):
    """What the messages of one body have in common.

    Attributes:
        bits: of the first byte, but for the priority.
        reach_by_ms, receive_by_ms: the expiry of each.
        topic: of each; None in a queue.
        source: of messages that are passed on: their publisher, by how much their ordinals there are higher than here,
            and when they were published.
        answers: of answers: what they share, and by how much their indices are higher than their ordinals.
    """

    bits: int = 0
    reach_by_ms: int = 0
    receive_by_ms: int = 0
    topic: str | None = None
    source: tuple[bytes, int, int] | None = None
    answers: tuple[AnswerRun, int] | None = None

    def start(self, ordinal: int) -> bytes:
        """What is before messages of which the first has that ordinal."""
        if self.answers is not None:
            run, higher = self.answers
            return write_answers(run, ordinal + higher)
        if self.topic is None:
            return b""
        if self.source is None:
            return write_name(self.topic)
        publisher, higher, sent_at_ms = self.source
        return write_source(self.topic, publisher, ordinal + higher, sent_at_ms)


_PLAIN = _Kind()


def _kind_of(message: Outgoing, ordinal: int) -> _Kind:
    """The kind of a message that gets this ordinal."""
    times, topic = message.expiry, message.topic
    if type(message) is Answer:
        assert message.run is not None
        return _Kind(RICH, *times, answers=(message.run, message.index - ordinal))
    if type(message) is Passed:
        return _Kind(TOPIC, *times, topic, (message.publisher, message.ordinal - ordinal, message.sent_at_ms))
    bits = (0 if topic is None else TOPIC) | (LARGE if type(message) is LargeMessage else 0)
    if message.properties and not CARING.isdisjoint(message.properties):
        bits |= CARES
    return _Kind(bits, *times, topic)


def _alike(numbered: tuple[int, Outgoing]) -> tuple[Any, ...]:
    """What messages of one type have in common that differ in their bodies alone."""
    at, message = numbered
    shared = id(message.properties), message.reach_by_ms, message.receive_by_ms, message.ack_now, message.topic
    if type(message) is Passed:
        return *shared, message.publisher, message.ordinal - at, message.sent_at_ms
    if type(message) is Answer:
        return *shared, id(message.run), message.index - at
    return *shared, at if type(message) is LargeMessage else 0


def pack(
    messages: Iterable[bytes | Outgoing],
    limit_bytes: int,
    first_ordinal: int,
    sent_at_ms: int,
    most: int | None = None,
    priority: int = 0,
) -> tuple[list[PacketBody], int]:
    """Pack messages, in order, into as few bodies of at most ``limit_bytes``, and ``most`` messages, as possible.

    Returns the bodies, and the next free ordinal.
    """
    packer = _Packer(min(limit_bytes, _SHORT_MAX), first_ordinal, sent_at_ms, most, priority << PRIORITY_SHIFT)
    for kind, group in groupby(messages, key=type):
        some: Any = group
        if kind is bytes:
            packer.add(list(some), b"", _PLAIN)
            continue
        for _, alike in groupby(enumerate(some), key=_alike):
            packer.add_alike([message for _, message in alike])
    packer.close()
    return packer.packed, packer.ordinal


class _Packer:
    """Fills one body after another. ``bits`` are those of each first byte.

    Attributes:
        packed: the bodies that are full.
        ordinal: of the next message that is in none of them.
    """

    def __init__(self, limit_bytes: int, ordinal: int, sent_at_ms: int, most: int | None, bits: int) -> None:
        self.packed: list[PacketBody] = []
        self.ordinal = ordinal
        self._bits = bits
        self._sent_at_ms = sent_at_ms
        self._most = min(most or _SHORT_MAX, _SHORT_MAX)
        self._full_bytes = limit_bytes - HEAD.size
        # The open body: what its messages have in common, and how many in a row have which properties.
        self._kind = _PLAIN
        self._bodies: list[bytes] = []
        self._groups: list[tuple[int, bytes]] = []
        self._asks = False
        # By their ids, properties of messages and how they are written: those of a list may come again and again.
        self._written: dict[int, tuple[Properties | None, bytes]] = {}
        self._start = b""
        self._room_bytes = 0

    def add_alike(self, messages: list[Outgoing]) -> None:
        """Add messages that differ in their bodies alone. One that stands for a large one has the ordinal of that."""
        first, ordinal = messages[0], self.ordinal + len(self._bodies)
        kind = _kind_of(first, ordinal)
        if type(first) is LargeMessage:
            self.close()
            self.ordinal = first.ordinal
        own = first.properties
        if (known := self._written.get(id(own))) is None:
            known = self._written[id(own)] = own, write_properties(own)
        self.add([it.body for it in messages], known[1], kind, asks=first.ack_now)
        if kind.bits & LARGE:
            self.close()
            self.ordinal = ordinal + 1

    def add(self, bodies: list[bytes], properties: bytes, kind: _Kind, *, asks: bool = False) -> None:
        """Add messages that have these properties."""
        if kind != self._kind:
            self.close()
            self._kind = kind
        if not self._bodies:
            self._begin()
        count = len(bodies)
        size_bytes = self._group_bytes(properties) + _LENGTH_BYTES * count + sum(map(len, bodies))
        if size_bytes <= self._room_bytes and len(self._bodies) + count <= self._most:
            self._take(bodies, properties, size_bytes, asks=asks)
        else:
            self._add_some(bodies, properties, asks=asks)

    def _add_some(self, bodies: list[bytes], properties: bytes, *, asks: bool) -> None:
        """Add messages for which the open body has no room."""
        ends, at = _ends(bodies), 0
        while at < len(bodies):
            if not self._bodies:
                self._begin()
            more_bytes = self._group_bytes(properties)
            stop = bisect_right(ends, ends[at] + self._room_bytes - more_bytes, lo=at) - 1
            stop = min(stop, at + self._most - len(self._bodies))
            if stop > at and (self._bodies or stop == len(bodies)):
                self._take(bodies[at:stop], properties, more_bytes + ends[stop] - ends[at], asks=asks)
                at = stop
            elif self._bodies:
                self.close()
            elif stop > at:
                each = stop - at
                until = at + (len(bodies) - at - 1) // each * each if isinstance(ends, range) else stop
                self._put(bodies[at:until], each, write_shared([(each, properties)]), asks=asks)
                at = until
            else:
                self._cut(bodies[at], properties, asks=asks)
                at += 1

    def _begin(self) -> None:
        """Begin a body. The last of its messages has no length."""
        self._start, self._room_bytes = b"", self._full_bytes + _LENGTH_BYTES
        if self._kind.bits:
            self._start = self._kind.start(self.ordinal)
            self._room_bytes -= len(self._start)

    def _group_bytes(self, properties: bytes) -> int:
        """What properties of the next message take in the open body, if they are not those of the message before."""
        groups = self._groups
        if not groups:
            return SHARED_BYTES + len(properties) if properties else 0
        if groups[-1][1] == properties:
            return 0
        is_rich = len(groups) > 1 or groups[0][1]
        return (SHARED_BYTES if is_rich else 2 * SHARED_BYTES) + len(properties)

    def _take(self, bodies: list[bytes], properties: bytes, size_bytes: int, *, asks: bool) -> None:
        """The open body has these messages, too."""
        self._bodies += bodies
        groups, count = self._groups, len(bodies)
        if groups and groups[-1][1] == properties:
            groups[-1] = groups[-1][0] + count, properties
        else:
            groups.append((count, properties))
        self._room_bytes -= size_bytes
        self._asks = self._asks or asks

    def close(self) -> None:
        """The open body is full."""
        if self._bodies:
            self._put(self._bodies, len(self._bodies), write_shared(self._groups), asks=self._asks)
            self._bodies, self._groups, self._asks = [], [], False

    def _put(self, bodies: list[bytes], each: int, shared: bytes, *, asks: bool) -> None:
        """Finish packet bodies of that many messages; where they are several, all messages have the same length."""
        kind, ordinal, sent_at_ms = self._kind, self.ordinal, self._sent_at_ms
        start, rest = self._start, shared + _write_lengths(bodies[:each]) if each > 1 else shared
        first, cares = self._bits | kind.bits | (RICH if shared else 0), kind.bits & CARES != 0
        for at in range(0, len(bodies), each):
            if at and (kind.source or kind.answers):
                start = kind.start(ordinal + at)
            head = HEAD.pack(first, each, ordinal + at, sent_at_ms, kind.receive_by_ms)
            text = bodies[at] if each == 1 else b"".join(bodies[at : at + each])
            self.packed.append(PacketBody(head + start + rest + text, each, each, kind.reach_by_ms, asks, cares))
        self.ordinal += len(bodies)

    def _cut(self, body: bytes, properties: bytes, *, asks: bool) -> None:
        """Put a message into several bodies, in pieces."""
        kind = self._kind
        text = memoryview(self._start + write_shared([(1, properties)]) + body)
        first, cares = self._bits | kind.bits | (RICH if properties else 0), kind.bits & CARES != 0
        head = HEAD.pack(first, 0, self.ordinal, self._sent_at_ms, kind.receive_by_ms)
        piece_bytes = self._full_bytes - PLACE.size
        for offset in range(0, len(text), piece_bytes):
            piece = text[offset : offset + piece_bytes]
            last = offset + len(piece) == len(text)
            whole = head + PLACE.pack(len(text), offset) + piece
            self.packed.append(PacketBody(whole, int(last), 1, kind.reach_by_ms, asks and last, cares))
        self.ordinal += 1


def _ends(bodies: list[bytes]) -> Sequence[int]:
    """Where each message ends, if each has a length; the first is where they begin."""
    sizes = set(map(len, bodies))
    if len(sizes) == 1:
        each = _LENGTH_BYTES + sizes.pop()
        return range(0, each * len(bodies) + 1, each)
    return list(accumulate([_LENGTH_BYTES + len(body) for body in bodies], initial=0))


def _write_lengths(bodies: list[bytes]) -> bytes:
    """The lengths of all bodies but the last."""
    return b"" if len(bodies) == 1 else _lengths(len(bodies) - 1).pack(*map(len, bodies[:-1]))


def _run(content: tuple[int, int, int], bits: int, groups: list[tuple[int, bytes]], bodies: list[bytes]) -> bytes:
    """A body of any length: ``content`` is the first ordinal, and when it was sent and is to be received."""
    shared = write_shared(groups)
    head = HEAD.pack(bits | (RICH if shared else 0), len(bodies), *content)
    return b"".join([head, shared, _write_lengths(bodies), *bodies])


def pack_one(message: Outgoing, ordinal: int, sent_at_ms: int) -> bytes:
    """One message with its properties as a body of its own, of any length, for queues of this node.

    It is a dead letter, to which nothing more happens: the body does not care.
    """
    bits = message.priority << PRIORITY_SHIFT | (LARGE if isinstance(message, LargeMessage) else 0)
    groups = [(1, write_properties(message.properties))]
    return _run((ordinal, sent_at_ms, message.receive_by_ms), bits, groups, [message.body])


def pack_again(content: Unpacked, indices: Sequence[int], added: Properties, receive_by_ms: int) -> list[bytes]:
    """Messages of a packet as bodies of any length, for a journal: neighbours share one. None of them cares.

    Args:
        content: the packet's messages.
        indices: which of them, ascending.
        added: properties that each copy has besides those of its message.
        receive_by_ms: wall clock at which the copies end; 0 for never.
    """
    packed: list[bytes] = []
    for _, run in groupby(enumerate(indices), key=lambda it: it[1] - it[0]):
        at = [index for _, index in run]
        owns = [content.properties[index] if content.properties else {} for index in at]
        groups = [list(same) for _, same in groupby(owns, key=id)]
        written = [(len(same), write_properties({**same[0], **added})) for same in groups]
        about = content.first_ordinal + at[0], content.sent_at_ms, receive_by_ms
        packed.append(_run(about, content.priority << PRIORITY_SHIFT, written, [content.bodies[index] for index in at]))
    return packed


# ---- unpacking


def unpack(body: bytes) -> Unpacked:
    """Read the messages of a body that is neither sealed nor a piece. Raises ProtocolError ``bad-body``."""
    try:
        first, count, ordinal, sent_at_ms, receive_by_ms = HEAD.unpack_from(body)
        found = Unpacked(ordinal, sent_at_ms, receive_by_ms, (), None, first >> PRIORITY_SHIFT & PRIORITY_MAX)
        if count & OPENED:
            found.sealed, count = True, count & ~OPENED
        if first & SEAL or not count:
            raise ProtocolError(DropReason.BAD_BODY, "it is sealed" if first & SEAL else "it is a piece")
        at = HEAD.size
        if first & TOPIC:
            name = read_name(body, at)
            found.topic, at = name.topic, name.end
            if name.publisher:
                found.publisher, found.first_ordinal, found.sent_at_ms = name[2:]
        if first & RICH:
            found.properties, at = read_shared(body, at, count)
        plain = count == 1 and at == HEAD.size  # most packets of large messages, and each lone message
        found.bodies = (body[at:],) if plain else _bodies(body, at, count)
    except StructError as cause:
        raise ProtocolError(DropReason.BAD_BODY, "too short") from cause
    return found


def _bodies(body: bytes, at: int, count: int) -> Sequence[bytes]:
    """The bodies of that many messages; their lengths begin at that place."""
    if at > len(body):
        raise ProtocolError(DropReason.BAD_BODY, "too short")
    if count == 1:
        return (body[at:],)
    lengths, at, last = _read_lengths(body, at, count)
    if count <= ALIKE_MAX and lengths.count(last) == count - 1:
        return _same_size(count, last).unpack_from(body, at)
    return [body[start:end] for start, end in pairwise(accumulate((*lengths, last), initial=at))]


def _read_lengths(body: bytes, at: int, count: int) -> tuple[tuple[int, ...], int, int]:
    """The lengths of all bodies but the last, where the bodies begin, and the length of the last."""
    lengths = _lengths(count - 1).unpack_from(body, at)
    at += _LENGTH_BYTES * (count - 1)
    last = len(body) - at - sum(lengths)
    if last < 0:
        raise ProtocolError(DropReason.BAD_BODY, "lengths do not add up")
    return lengths, at, last


def unpack_pieces(pieces: Sequence[bytes]) -> Unpacked:
    """The messages of a body, or the large message of these pieces. Raises ProtocolError ``bad-body``."""
    return unpack(pieces[0] if len(pieces) == 1 else join_pieces(pieces))


def join_pieces(pieces: Sequence[bytes]) -> bytes:
    """All pieces of a message, ascending by offset, as one body. Raises ProtocolError ``bad-body``."""
    first, count, *rest = HEAD.unpack_from(pieces[0])
    total_bytes, _ = PLACE.unpack_from(pieces[0], HEAD.size)
    text = b"".join([memoryview(piece)[HEAD_BYTES:] for piece in pieces])
    if len(text) != total_bytes:
        raise ProtocolError(DropReason.BAD_BODY, "not a whole message")
    return HEAD.pack(first, count | 1, *rest) + text


def part_bytes(size_bytes: int, packets: int, messages: int = 1) -> int:
    """Size of parts of a large message, by the packets that hold them: a run of several, or pieces of one."""
    if packets == 1:
        return size_bytes - HEAD.size - (messages - 1) * _LENGTH_BYTES
    return size_bytes - packets * HEAD_BYTES


def _name_of(body: bytes) -> Name | None:
    """What a body says of the topic of its messages; None in a queue, and in a piece that is not the first."""
    if not body[0] & TOPIC:
        return None
    if not is_piece(body):
        return read_name(body, HEAD.size)
    return None if PLACE.unpack_from(body, HEAD.size)[1] else read_name(body, HEAD_BYTES)


def topic_of(body: bytes) -> str | None:
    """What the topic of a body has below its root; None for a queue, and for a piece that is not the first."""
    name = _name_of(body)
    return None if name is None else name.topic


def says_publisher(body: bytes) -> bool:
    """Whether a body says who published its messages. Raises ProtocolError ``bad-body``."""
    name = _name_of(body)
    return name is not None and bool(name.publisher)


# ---- checking


def check(body: bytes, *, may_have_priority: bool = True) -> None:
    """Refuse a body that ``unpack`` could not read, as far as it is seen, or of a wrong priority.

    Raises ProtocolError ``bad-body``.
    """
    try:
        first, count, ordinal, _, _ = HEAD.unpack_from(body)
    except StructError as cause:
        raise ProtocolError(DropReason.BAD_BODY, "too short") from cause
    if not may_have_priority and priority_of(body):
        raise ProtocolError(DropReason.BAD_BODY, "a transactional message with a priority")
    if count & OPENED:
        raise ProtocolError(DropReason.BAD_BODY, "a body that its receiver has not opened, marked as opened")
    if first & SEAL:
        _check_sealed(body)
    elif not count:
        _check_piece(body, len(body) - HEAD_BYTES)
        topic_of(body)
    elif first & RICH:
        unpack(body)
    elif first & TOPIC or count > 1:
        _check_lengths(body)
    if first & LARGE and (first & TOPIC or not ordinal or count > 1):
        raise ProtocolError(DropReason.BAD_BODY, "stands for no large message")


def _check_lengths(body: bytes) -> None:
    """Check what ``unpack`` checks of messages without properties, without making them."""
    name = _name_of(body)
    try:
        _read_lengths(body, HEAD.size if name is None else name.end, count_of(body))
    except StructError as cause:
        raise ProtocolError(DropReason.BAD_BODY, "too short") from cause


def _check_piece(body: bytes, length: int) -> None:
    """Check the place of a piece of that many bytes, which is smaller than the whole text."""
    if length <= 0:
        raise ProtocolError(DropReason.BAD_BODY, "piece too short")
    total_bytes, offset = PLACE.unpack_from(body, HEAD.size)
    end = offset + length
    if end > total_bytes or length == total_bytes or total_bytes > _LARGE_MAX_BYTES:
        raise ProtocolError(DropReason.BAD_BODY, "piece out of range")
    if length < PIECE_MIN_BYTES and end < total_bytes:
        raise ProtocolError(DropReason.BAD_BODY, "piece too small")


def read_batch(body: bytes) -> tuple[int, int, int] | None:
    """Message count, sending time and expiry of valid whole messages without properties; None for any other body."""
    try:
        first, count, _, sent_at_ms, receive_by_ms = HEAD.unpack_from(body)
    except StructError:
        return None
    if first & (RICH | SEAL) or not count or count & OPENED:
        return None
    if count > 1 or first & TOPIC:
        try:
            _check_lengths(body)
        except ProtocolError:
            return None
    return count, sent_at_ms, receive_by_ms


def read_piece(body: bytes) -> tuple[tuple[int, int], tuple[int, int, int]] | None:
    """Of a valid piece behind the first of a message without properties: the message, and what ``read_batch`` says.

    The message is named by its ordinal and its size; its last piece counts as one message, each other one as none. None
    for any other body.
    """
    try:
        first, count, ordinal, sent_at_ms, receive_by_ms = HEAD.unpack_from(body)
        if count or first & (RICH | SEAL | TOPIC | LARGE):
            return None
        length = len(body) - HEAD_BYTES
        _check_piece(body, length)
    except (StructError, ProtocolError):
        return None
    total_bytes, offset = PLACE.unpack_from(body, HEAD.size)
    if not offset:
        return None
    return (ordinal, total_bytes), (int(offset + length == total_bytes), sent_at_ms, receive_by_ms)


def check_source(body: bytes, passed_on: bool) -> None:
    """Refuse a body that ``check`` has accepted if it says who published it, and was not passed on to a subscription.

    Raises ProtocolError ``bad-body``.
    """
    if not passed_on and says_publisher(body):
        raise ProtocolError(DropReason.BAD_BODY, "who published it is said only to a subscription")


# ---- sealed bodies


def split_to_seal(body: bytes) -> tuple[bytes, bytes]:
    """What is still seen of a body when it is sealed, ``HEAD_BYTES`` of it, and the text to be sealed."""
    first, *rest = HEAD.unpack_from(body)
    at = HEAD_BYTES if is_piece(body) else HEAD.size
    head = HEAD.pack(SEAL | first & PRIORITY_MAX << PRIORITY_SHIFT, *rest) + body[HEAD.size : at]
    return head.ljust(HEAD_BYTES, b"\0"), body[:1] + body[at:]


def read_opened(head: bytes, text: bytes) -> bytes:
    """The body whose seen part, ``HEAD_BYTES``, and whose sealed text these are, marked as opened.

    Raises ProtocolError ``bad-body`` if it is no body, or says something else than its seen part.
    """
    if not text or is_sealed(text) or priority_of(text) != priority_of(head):
        raise ProtocolError(DropReason.BAD_BODY, "another kind or priority inside than outside")
    body = text[:1] + head[1 : HEAD_BYTES if is_piece(head) else HEAD.size] + text[1:]
    check(body)
    return mark_opened(body)


def _check_sealed(body: bytes) -> None:
    """Check what is to be seen of a sealed body. Raises ProtocolError ``bad-body``."""
    if len(body) <= HEAD_BYTES + SEAL_ADDS_BYTES:
        raise ProtocolError(DropReason.BAD_BODY, "too short")
    piece = is_piece(body)
    if body[0] & (CARES | RICH | LARGE | TOPIC) or (not piece and any(body[HEAD.size : HEAD_BYTES])):
        raise ProtocolError(DropReason.BAD_BODY, "bits of a sealed body for which it has no use")
    if piece:
        _check_piece(body, len(body) - HEAD_BYTES - SEAL_ADDS_BYTES - 1)
