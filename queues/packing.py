"""Messages into packet bodies and back: many small ones in a batch, a large one in fragments.

    BATCH     first byte u8, count u16, first ordinal u64, sent at u64 ms, receive by u64 ms, count x length u16, bodies
    RICH      the same with count x length u16 of properties after the lengths, and the properties after the bodies
    ANSWERS   first byte u8, count u16, first ordinal u64, sent at u64 ms, zero u64, message class u16, node id (16
    bytes), (ordinal u64, length u16, properties)
    FRAGMENT  first byte u8, zero u16, ordinal u64, sent at u64 ms, receive by u64 ms, total u32, offset u32, a piece of
    (properties length u32, properties, body)

    SEALED    first byte u8, count u16, first ordinal u64, sent at u64 ms, receive by u64 ms, total u32, offset u32, a
    sealed text (first byte u8 and the rest of one of the others, from behind its receive-by time)

The first byte holds the kind in bits 0 and 1, the priority of the messages in bits 4 to 6, and ``CARES`` in bit 7. With
bit 3, the messages were published to one topic: the length u8 and the name of what it has below its root are behind the
head of a batch, or before the piece of the first fragment, of which they are a part. A message that a topic's node
passes on to a subscription at another node has there, instead: the length u8, a zero u8, the node id of its publisher
(16 bytes), its ordinal there u64, when it was published u64 ms, and the whole name of the topic. With bit 2 and a kind
from 1 to 3, the one message of the body stands for a large one, whose ordinal it has
(``queues.mailboxes.large_bodies``); its own body is the size as u64, or as u48 when it announces the parts, and empty
when it says that no more of them come. Bit 2 with kind 0 makes a SEALED body, of which those who pass it on see only
what they need: how many messages end in it, until when they are worth passing on, and to which large message they
belong. Bit 15 of the count says that the body came sealed and was opened; such a body never travels.

All integers are big-endian. Properties are a JSON object. A message of a batch has the ordinal ``first + index``, which
with the id of its node names it permanently. Messages with different receive-by times (0 for any time) share no body,
so a queue knows when a packet expires without reading it. The bit ``CARES`` says that messages of the body
have one of the properties ``CARING``; they share no body with messages that have none of them. In a RICH body a length
of 0xFFFF stands for the properties of the message before. Where only a few messages have properties, the first length
is 0xFFFF, and instead of the others follow a count u16 and, for each message that has some, index u16 and length u16.
ANSWERS are messages without bodies that tell of successive
messages of a node, from that ordinal on: they differ in nothing else. The work here is per
batch: one ``struct.pack`` and one ``join``.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from struct import Struct
from struct import error as StructError
from typing import Any, cast, overload

from triack.base.commit import CARES, HEAD_BYTES
from triack.base.delivery import PRIORITY_MAX
from triack.base.errors import AddressError, ProtocolError
from triack.base.names import check_levels, check_topic
from triack.base.reasons import DropReason
from triack.queues.body_head import (
    ANSWERS,
    BATCH,
    FRAGMENT,
    HEAD,
    KIND_BITS,
    LARGE,
    OPENED,
    PLACE,
    PRIORITY_SHIFT,
    RICH,
    SEAL,
    SEAL_ADDS_BYTES,
    SEALED_BYTES,
    TOPIC,
    count_of,
    fragment_range,
    is_sealed,
    large_of,
    mark_opened,
    priority_of,
    was_sealed,
)

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Largest message body, as in MSMQ ([MS-MQMQ] 2.2.19.1)."""
USER_PROPERTIES_BYTES = 12 * 1024
"""Limit of a user's properties: a quarter of the maximum is left for those that the dead-letter queue adds."""
MAX_PROPERTIES_BYTES = 16 * 1024
"""Limit of encoded properties, including those that the dead-letter queue adds."""

PIECE_MIN_BYTES = 256
"""Smallest piece of a large message, except its last: pieces that fill the smallest datagram are larger. Many smaller
ones would take many times their bytes in memory."""

ALIKE_MAX = 64
"""Bodies of one length that are read at once: small messages in the smallest datagrams. The cached ``Struct`` objects
for them take no more than a few MiB."""

_TOLD = Struct("!H16sQH")
_SOURCE = Struct("!B16sQQ")
"""What stands before the name of the topic of a message that was passed on; no name begins with its first byte, 0."""
_AS_BEFORE = 0xFFFF
"""In place of a length of properties, which are never that long."""
_FEW = Struct("!HH")
"""The first length of properties where only a few messages have some, ``_AS_BEFORE``, and how many they are."""
_LENGTH = Struct("!I")
_SHORT_MAX = 0xFFFF
"""Lengths in a batch are 16 bits; longer messages travel in fragments."""
_NAME_BYTES_MAX = 256
"""What stands before a large message that is published, at most: the length is a byte."""
_LARGE_MAX_BYTES = MAX_BODY_BYTES + MAX_PROPERTIES_BYTES + _LENGTH.size + _NAME_BYTES_MAX
"""Of all pieces of a large message."""
_NEVER = (0, 0)
"""The expiry of a message without any time limit."""
_NO_PROPERTIES: dict[str, Any] = {}
"""One for all messages without any; nobody changes it."""
_ENCODER = json.JSONEncoder(separators=(",", ":"))
"""One for all, as to make one takes longer than to write a few properties."""

Properties = dict[str, Any]


NO_DEAD_LETTER = "no_dead_letter"
"""A property: keep no dead letter when the message cannot be delivered, as its sender is notified or gone."""
DEAD_LETTER = "dead_letter"
"""A property: False for no dead letter, or the name of the queue for it, at the node where the message dies."""
JOURNAL = "journal"
"""A property: True to keep a copy at the sender."""
ADMIN = "admin"
"""A property: which administration messages the sender wants, and where; see ``queues.admin_acks``."""
CLASS = "class"
"""A property: the number of a ``MessageClass``. Only administration messages have it."""
SENT_TO = "sent_to"
"""A property of a copy in the journal of what was sent: its destination."""
CARING = frozenset({DEAD_LETTER, JOURNAL, ADMIN})
"""The properties for which a node looks into a body when something happens to its messages."""
DEAD_SEALED = "dead_sealed"
"""A property of the dead letter of a message that was to be sealed: it is sealed again when it is sent again."""
DEAD_UNREAD = "dead_unread"
"""A property of the dead letter of sealed messages, or of part of one, at a node that passed them on: how many. Its
body is the bytes that came."""
DEAD_PART = "dead_part"
"""A property of the dead letter of part of a large message, as the rest had left: the size of the whole as it
travels, in bytes."""
DEATH = frozenset(
    {"dead_reason", "dead_destination", "dead_attempts", "dead_maybe_delivered", DEAD_SEALED, DEAD_UNREAD, DEAD_PART}
)
"""The properties that a dead letter has besides those of its message."""


@dataclass(slots=True)
class Outgoing:
    """A message on its way into a packet; ``key`` is its sender's, for this node only, and empty when it has none.

    It is not sent from ``reach_by_ms`` on, nor from ``receive_by_ms`` on, when it would not be read. 0 is for never.
    With ``ack_now`` its packet asks for its acknowledgements. ``priority`` counts for a message that is put into a
    queue of this node by itself, such as a dead letter; the others have the priority of their stream. ``topic`` is what
    the name of its topic has below the root; None when it goes to a queue.
    """

    body: bytes
    properties: Properties | None = None
    reach_by_ms: int = 0
    key: str = ""
    ack_now: bool = False
    receive_by_ms: int = 0
    priority: int = 0
    topic: str | None = None

    @property
    def expiry(self) -> tuple[int, int]:
        """The times from which sending and reading it are useless; 0 for never."""
        reach_by_ms, receive_by_ms = self.reach_by_ms, self.receive_by_ms
        unread = receive_by_ms > 0 and not 0 < reach_by_ms < receive_by_ms
        return (receive_by_ms if unread else reach_by_ms), receive_by_ms


@dataclass(slots=True)
class LargeMessage(Outgoing):
    """A message that stands for a large one. It has the ordinal of that, and shares no packet."""

    ordinal: int = 0


@dataclass(frozen=True, slots=True)
class AnswerRun:
    """What positive administration messages about messages of one packet share.

    Attributes:
        message_class: what happened.
        origin: the node that sent the messages.
        first_ordinal: the ordinal of the first message of the packet.
        properties: what else the answers say.
    """

    message_class: int
    origin: bytes
    first_ordinal: int
    properties: Properties


@dataclass(slots=True)
class Answer(Outgoing):
    """A positive administration message: about the message with that index in its packet."""

    run: AnswerRun | None = None
    index: int = 0


@dataclass(slots=True)
class Passed(Outgoing):
    """A message that was published here and is passed on to a subscription at another node.

    Attributes:
        publisher: the node that published it.
        ordinal: its ordinal there.
        sent_at_ms: when it was published, by the clock of its publisher.
        topic: the whole name of its topic.
    """

    publisher: bytes = b""
    ordinal: int = 0
    sent_at_ms: int = 0


def _shared_by_list(message: Outgoing) -> tuple[int, int, int, bool, str | None]:
    """What messages of one list have in common: the very same properties, the same times and the same topic."""
    return id(message.properties), message.reach_by_ms, message.receive_by_ms, message.ack_now, message.topic


@dataclass(slots=True)
class PacketBody:
    """A packet body.

    Attributes:
        messages: number of messages that end in it: all of a batch, and one in the last fragment of a large message.
        tickets: number of messages that it is part of: those of a batch, and one for each fragment of a large message.
        reach_by_ms: wall clock time after which sending it is useless, 0 for never.
        ack_requested: whether it must ask for its acknowledgements.
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
    """The messages of a batch. ``properties`` is None when none of them has any, ``topic`` in a queue.

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


class AnswerProperties(Sequence[Properties]):
    """The properties of successive answers, made when they are asked for."""

    __slots__ = ("_class", "_count", "_first", "_origin", "_shared")

    def __init__(self, message_class: int, origin: bytes, first: int, count: int, shared: Properties) -> None:
        self._class = message_class
        self._origin = origin.hex()
        self._first = first
        self._count = count
        self._shared = shared

    @property
    def message_class(self) -> int:
        """The class of all of them."""
        return self._class

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Properties: ...

    @overload
    def __getitem__(self, index: slice) -> list[Properties]: ...

    def __getitem__(self, index: int | slice) -> Properties | list[Properties]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        number = self._first + index % self._count
        return {**self._shared, CLASS: self._class, "correlation_id": f"{self._origin}-{number}"}


@dataclass(slots=True)
class Fragment:
    """One piece of a large message; ``named`` if that begins with the name of a topic, ``sealed`` if it came sealed."""

    ordinal: int
    sent_at_ms: int
    receive_by_ms: int
    total_bytes: int
    offset: int
    piece: bytes
    priority: int = 0
    named: bool = False
    sealed: bool = False

    @property
    def is_last(self) -> bool:
        """Whether the message ends with this piece."""
        return self.offset + len(self.piece) == self.total_bytes


_LONE_AT, _ONE = HEAD.size + 2, b"\0\1"
"""Where the message of a plain batch of one begins, behind its length; and the count in such a batch."""


@lru_cache(maxsize=4_096)
def _lengths(count: int) -> Struct:
    return Struct(f"!{count}H")


@lru_cache(maxsize=1_024)
def _alike(count: int, size_bytes: int) -> Struct:
    """Reads ``count`` bodies of one length at once."""
    return Struct(f"{size_bytes}s" * count)


def pack(
    messages: Iterable[bytes | Outgoing],
    limit_bytes: int,
    first_ordinal: int,
    sent_at_ms: int,
    most: int | None = None,
    priority: int = 0,
) -> tuple[list[PacketBody], int]:
    """Pack messages, in order, into as few bodies of at most ``limit_bytes``, and ``most`` messages, as possible.

    Returns:
        The bodies, and the next free ordinal.
    """
    packer = _Packer(min(limit_bytes, _SHORT_MAX), first_ordinal, sent_at_ms, most, priority << PRIORITY_SHIFT)
    for kind, some in groupby(messages, key=type):
        if kind is bytes:
            packer.add_plain(cast("list[bytes]", list(some)))
            continue
        if kind is Answer:
            packer.add_answers(cast("list[Answer]", list(some)))
            continue
        if kind is Passed:
            packer.add_passed(cast("list[Passed]", list(some)))
            continue
        if kind is LargeMessage:
            for message in cast("list[LargeMessage]", list(some)):
                packer.add_large(message)
            continue
        for _, alike in groupby(cast("list[Outgoing]", list(some)), key=_shared_by_list):
            packer.add_list(list(alike))
    packer.close_run()
    return packer.packed, packer.ordinal


class _Packer:
    """Fills one batch after another; a batch is RICH as soon as one of its messages has properties.

    ``bits`` are those of each first byte besides the kind.
    """

    def __init__(self, limit_bytes: int, ordinal: int, sent_at_ms: int, most: int | None, bits: int) -> None:
        self._bits = bits
        self.packed: list[PacketBody] = []
        self.ordinal = ordinal
        self._sent_at_ms = sent_at_ms
        self._full_bytes = self._room_bytes = limit_bytes - HEAD.size
        self._bodies: list[bytes] = []
        self._properties: list[bytes] = []
        self._last = b""
        self._rich = False
        self._asks = False
        self._cares = False
        self._expiry = _NEVER
        self._topic: str | None = None
        self._name = b""
        # Of messages that are passed on: the first of those that follow each other, and how many are in bodies.
        self._source: Passed | None = None
        self._passed = 0
        self._most = min(most or _SHORT_MAX, _SHORT_MAX)

    def turn_to_topic(self, topic: str | None) -> None:
        """The next messages are for this topic, by what its name has below the root; None: for a queue."""
        if topic != self._topic:
            self._turn_to_name(topic, b"" if topic is None else _write_name(topic))

    def _turn_to_name(self, topic: str | None, name: bytes) -> None:
        self.close_run()
        self._source = None
        self._topic, self._name = topic, name
        self._room_bytes = self._full_bytes - len(name)

    def add(self, body: bytes, properties: bytes, expiry: tuple[int, int], *, ack_requested: bool = False) -> None:
        shared = properties == self._last and bool(self._bodies)
        size_bytes = len(body) + 2 + ((0 if shared else len(properties)) + 2 if properties or self._rich else 0)
        becomes_rich = bool(properties) and not self._rich
        if becomes_rich:
            size_bytes += 2 * len(self._bodies)
        if size_bytes > self._room_bytes or expiry != self._expiry or len(self._bodies) == self._most:
            self.close_run()
            self._expiry = expiry
            size_bytes = len(body) + 2 + (len(properties) + 2 if properties else 0)
            if size_bytes > self._room_bytes:
                self._add_fragments(body, properties, ack_requested=ack_requested)
                return
        self._asks = self._asks or ack_requested
        self._rich = self._rich or bool(properties)
        self._bodies.append(body)
        self._properties.append(properties)
        self._last = properties
        self._room_bytes -= size_bytes

    def add_answers(self, answers: list[Answer]) -> None:
        """Add positive administration messages: neighbours of one run share a body."""
        self.turn_to(cares=False)
        self.close_run()
        at = 0
        while at < len(answers):
            first, stop = answers[at], at + 1
            most = at + self._most
            while stop < min(len(answers), most) and answers[stop].run is first.run:
                if answers[stop].index != first.index + stop - at:
                    break
                stop += 1
            assert first.run is not None
            body = _answers(first.run, first.index, stop - at, self.ordinal, self._sent_at_ms, self._bits)
            if len(body) > self._full_bytes + HEAD.size:
                # Its label is long: no compact form, but pieces.
                for answer in answers[at:stop]:
                    told = AnswerProperties(*_told(first.run, answer.index), 1, first.run.properties)[0]
                    self.add(b"", write_properties(told), first.expiry)
                self.close_run()
            else:
                self.packed.append(PacketBody(body, stop - at, stop - at, first.reach_by_ms))
                self.ordinal += stop - at
            at = stop

    def add_large(self, message: LargeMessage) -> None:
        """Add a message that stands for a large one, under the ordinal of that; its own ordinal is never used."""
        self.close_run()
        unused, self.ordinal = self.ordinal, message.ordinal
        self._bits |= LARGE
        self.add_list([message])
        self.close_run()
        self._bits &= ~LARGE
        self.ordinal = unused + 1

    def add_list(self, messages: list[Outgoing]) -> None:
        """Add messages that were sent as a list: they differ in their bodies alone."""
        first = messages[0]
        properties, expiry = first.properties, first.expiry
        written = write_properties(properties)
        self.turn_to(cares=properties is not None and not CARING.isdisjoint(properties))
        self.turn_to_topic(first.topic)
        bodies, at = [message.body for message in messages], 0
        ends = list(accumulate([len(body) + 4 for body in bodies], initial=0))
        while at < len(bodies):
            stop = at
            if self._rich and self._bodies and written and written == self._last and expiry == self._expiry:
                stop = bisect_right(ends, ends[at] + self._room_bytes, lo=at) - 1
                stop = min(stop, at + self._most - len(self._bodies))
            if stop > at:
                self._bodies += bodies[at:stop]
                self._properties += [written] * (stop - at)
                self._room_bytes -= ends[stop] - ends[at]
                self._asks = self._asks or first.ack_now
                at = stop
            else:
                self.add(bodies[at], written, expiry, ack_requested=first.ack_now)
                at += 1

    def add_passed(self, messages: list[Passed]) -> None:
        """Add messages that are passed on: successive ones of one publisher and one packet share a body."""
        self.turn_to(cares=False)
        before: Passed | None = None
        for message in messages:
            if before is None or not _follows(before, message):
                self._turn_to_name(message.topic, _write_source(message, 0))
                self._source, self._passed = message, 0
            self.add(message.body, write_properties(message.properties), message.expiry)
            before = message
        self._turn_to_name(None, b"")

    def _named(self, messages: int) -> bytes:
        """What stands before the next messages, which are put now."""
        if self._source is None:
            return self._name
        name = _write_source(self._source, self._passed)
        self._passed += messages
        return name

    def turn_to(self, *, cares: bool) -> None:
        """The next messages have a property of ``CARING``, or none of them."""
        if cares is not self._cares:
            self.close_run()
            self._cares = cares
            self._bits ^= CARES

    def add_plain(self, bodies: list[bytes]) -> None:
        """Add messages that are only bodies, like ``add``, as many at a time as a batch has room for."""
        self.turn_to(cares=False)
        at = self._put_alike(bodies)
        ends = plain = list(accumulate([len(body) + 2 for body in bodies], initial=0))
        rich: list[int] = []
        while at < len(bodies):
            stop = at
            if self._expiry == _NEVER and self._topic is None:
                ends = plain
                if self._rich:  # each takes room for a length more
                    ends = rich = rich or list(accumulate([len(body) + 4 for body in bodies], initial=0))
                stop = bisect_right(ends, ends[at] + self._room_bytes, lo=at) - 1
                stop = min(stop, at + self._most - len(self._bodies))
                if stop == at and self._bodies:
                    self.close_run()
                    continue
            if at < stop < len(bodies) and not self._bodies:
                self._put(bodies[at:stop], None)
                at = stop
            elif stop > at:
                self._bodies += bodies[at:stop]
                self._properties += [b""] * (stop - at)
                self._last = b""
                self._room_bytes -= ends[stop] - ends[at]
                at = stop
            else:
                self.add(bodies[at], b"", _NEVER)
                at += 1

    def _put_alike(self, bodies: list[bytes]) -> int:
        """Finish batches of as many bodies of one length as they have room for. Returns how many are in them.

        The last batch is left, as others may join it.
        """
        size_bytes = len(bodies[0])
        each = min(self._most, self._full_bytes // (size_bytes + 2))
        is_plain = not self._bodies and self._expiry == _NEVER and self._topic is None and self._source is None
        if not each or not is_plain or set(map(len, bodies)) != {size_bytes}:
            return 0
        whole = (len(bodies) - 1) // each
        lengths = _lengths(each).pack(*[size_bytes] * each)
        head_of, kind, sent_at_ms, ordinal = HEAD.pack, BATCH | self._bits, self._sent_at_ms, self.ordinal
        for at in range(0, whole * each, each):
            text = bodies[at] if each == 1 else b"".join(bodies[at : at + each])
            body = head_of(kind, each, ordinal + at, sent_at_ms, 0) + lengths + text
            self.packed.append(PacketBody(body, each, each, 0))
        self.ordinal += whole * each
        return whole * each

    def close_run(self) -> None:
        if not self._bodies:
            return
        self._put(self._bodies, self._properties if self._rich else None)
        self._bodies, self._properties, self._rich, self._asks = [], [], False, False
        self._room_bytes = self._full_bytes - len(self._name)

    def _put(self, bodies: list[bytes], properties: list[bytes] | None) -> None:
        """Finish a batch."""
        count, (reach_by_ms, receive_by_ms) = len(bodies), self._expiry
        name = self._name if self._source is None else self._named(count)
        body = _batch(bodies, properties, self.ordinal, self._sent_at_ms, receive_by_ms, self._bits, name)
        self.packed.append(PacketBody(body, count, count, reach_by_ms, self._asks, self._cares))
        self.ordinal += count

    def _add_fragments(self, body: bytes, properties: bytes, *, ack_requested: bool) -> None:
        blob = memoryview(self._named(1) + _LENGTH.pack(len(properties)) + properties + body)
        piece_bytes = self._full_bytes - PLACE.size
        reach_by_ms, receive_by_ms = self._expiry
        kind = FRAGMENT | (TOPIC if self._name else 0) | self._bits
        head = HEAD.pack(kind, 0, self.ordinal, self._sent_at_ms, receive_by_ms)
        for offset in range(0, len(blob), piece_bytes):
            piece = blob[offset : offset + piece_bytes]
            last = offset + len(piece) == len(blob)
            fragment = head + PLACE.pack(len(blob), offset) + piece
            self.packed.append(PacketBody(fragment, int(last), 1, reach_by_ms, ack_requested and last, self._cares))
        self.ordinal += 1


def pack_one(message: Outgoing, ordinal: int, sent_at_ms: int) -> bytes:
    """One message with its properties as a body of its own, of any length, for queues of this node.

    It is a dead letter, to which nothing more happens: the body does not care.
    """
    properties, bits = write_properties(message.properties), message.priority << PRIORITY_SHIFT
    if isinstance(message, LargeMessage):
        bits |= LARGE
    if max(len(message.body), len(properties)) <= _SHORT_MAX:
        return _batch([message.body], [properties], ordinal, sent_at_ms, message.receive_by_ms, bits)
    blob = _LENGTH.pack(len(properties)) + properties + message.body
    head = HEAD.pack(FRAGMENT | bits, 0, ordinal, sent_at_ms, message.receive_by_ms)
    return head + PLACE.pack(len(blob), 0) + blob


def _properties_with(content: Unpacked, indices: Iterable[int], added: Properties) -> list[Properties]:
    """The properties of messages, and others; messages that share theirs share the result."""
    found: list[Properties] = []
    before: Properties | None = None
    for index in indices:
        own: Properties = content.properties[index] if content.properties else _NO_PROPERTIES
        if own is not before:
            found.append({**own, **added})
        else:
            found.append(found[-1])
        before = own
    return found


def pack_again(content: Unpacked, indices: Sequence[int], added: Properties, receive_by_ms: int) -> list[bytes]:
    """Messages of a packet as bodies of any length, for a journal: neighbours share one. None of them cares.

    Args:
        content: the packet's messages.
        indices: which of them, ascending.
        added: properties that each copy has besides those of its message.
        receive_by_ms: wall clock at which the copies end; 0 for never.
    """
    packed: list[bytes] = []
    bits = content.priority << PRIORITY_SHIFT
    for _, run in groupby(enumerate(indices), key=lambda it: it[1] - it[0]):
        at = [index for _, index in run]
        bodies, given = [content.bodies[index] for index in at], _properties_with(content, at, added)
        written = {id(own): write_properties(own) for own in given}
        properties = [written[id(own)] for own in given]
        first = content.first_ordinal + at[0]
        if max(map(len, (*bodies, *properties))) <= _SHORT_MAX:
            told = properties if any(properties) else None
            packed.append(_batch(bodies, told, first, content.sent_at_ms, receive_by_ms, bits))
            continue
        for ordinal, (body, own) in enumerate(zip(bodies, given, strict=True), first):
            message = Outgoing(body, own, receive_by_ms=receive_by_ms, priority=content.priority)
            packed.append(pack_one(message, ordinal, content.sent_at_ms))
    return packed


def unpack(body: bytes) -> Unpacked:
    """Read a batch, or a whole message that ``join_fragments`` made. Raises ProtocolError ``bad-body``."""
    if _is_lone(body):
        first, _, ordinal, sent_at_ms, receive_by_ms = HEAD.unpack_from(body)
        priority = first >> PRIORITY_SHIFT & PRIORITY_MAX
        return Unpacked(ordinal, sent_at_ms, receive_by_ms, (body[_LONE_AT:],), None, priority)
    content = _unpack(body)
    if content.topic is not None and (source := source_of(body)) is not None:
        content.publisher, content.first_ordinal, content.sent_at_ms, _ = source
    return content


def source_of(body: bytes) -> tuple[bytes, int, int, str] | None:
    """What stands before messages that are passed on; None before all others, and in a later fragment."""
    if not body[0] & TOPIC:
        return None
    at = HEAD.size
    if body[0] & KIND_BITS == FRAGMENT:
        if read_fragment(body).offset:
            return None
        at += PLACE.size
    end = at + 1 + (body[at] if at < len(body) else 0)
    return _read_source(body[at + 1 : end]) if at + 1 < end <= len(body) and not body[at + 1] else None


def check_source(body: bytes, passed_on: bool) -> None:
    """Refuse a body that ``check`` has accepted if it says who published it, and was not passed on to a subscription.

    Raises:
        ProtocolError: ``bad-body``.
    """
    if not passed_on and body and source_of(body) is not None:
        raise ProtocolError(DropReason.BAD_BODY, "who published it is said only to a subscription")


def _unpack(body: bytes) -> Unpacked:
    try:
        first, count, first_ordinal, sent_at_ms, receive_by_ms = HEAD.unpack_from(body)
        kind, priority = first & KIND_BITS, first >> PRIORITY_SHIFT & PRIORITY_MAX
        is_sealed_or_was = count & OPENED or first & (KIND_BITS | SEAL) == SEAL
        if kind == FRAGMENT or is_sealed_or_was:
            return _unpack_opened(body) if is_sealed_or_was else _unpack_whole(read_fragment(body))
        if kind == ANSWERS and count:
            return _unpack_answers(body)
        if kind not in (BATCH, RICH) or not count:
            raise ProtocolError(DropReason.BAD_BODY, f"kind {kind}, count {count}")
        topic, at = (None, HEAD.size) if not first & TOPIC else _read_name(body, HEAD.size)
        lengths = _lengths(count).unpack_from(body, at)
        at += 2 * count
        is_alike = kind == BATCH and 1 < count <= ALIKE_MAX and lengths.count(lengths[0]) == count
        if is_alike and at + count * lengths[0] == len(body):
            bodies = _alike(count, lengths[0]).unpack_from(body, at)
            return Unpacked(first_ordinal, sent_at_ms, receive_by_ms, bodies, None, priority, topic)
        property_lengths: tuple[int, ...] = ()
        if kind == RICH:
            are_few = _lengths(1).unpack_from(body, at)[0] == _AS_BEFORE
            property_lengths = () if are_few else _lengths(count).unpack_from(body, at)
            if are_few or property_lengths.count(_AS_BEFORE) == count - 1:
                read = _unpack_few if are_few else _unpack_shared
                return read(body, at, lengths, topic)
            at += 2 * count
        taken = [0 if length == _AS_BEFORE else length for length in property_lengths]
        ends = list(accumulate((*lengths, *taken), initial=at))
    except StructError as cause:
        raise ProtocolError(DropReason.BAD_BODY, "too short") from cause
    if ends[-1] != len(body):
        raise ProtocolError(DropReason.BAD_BODY, "lengths do not add up")
    pieces = [body[start:end] for start, end in pairwise(ends)]
    if kind == BATCH:
        return Unpacked(first_ordinal, sent_at_ms, receive_by_ms, pieces, None, priority, topic)
    properties: list[Properties] = []
    for length, raw in zip(property_lengths, pieces[count:], strict=True):
        properties.append(properties[-1] if length == _AS_BEFORE else _read_properties(raw))
    return Unpacked(first_ordinal, sent_at_ms, receive_by_ms, pieces[:count], properties, priority, topic)


def part_bytes(size_bytes: int, packets: int, messages: int = 1) -> int:
    """Size of parts of a large message, by the packets that hold them: a batch of several, or fragments of one."""
    if packets == 1:
        return size_bytes - HEAD.size - messages * _lengths(1).size
    return size_bytes - packets * (HEAD.size + PLACE.size) - _LENGTH.size


def topic_of(body: bytes) -> str | None:
    """What the topic of a body has below its root; None for a queue, and for a fragment that is not the first."""
    if not body[0] & TOPIC:
        return None
    if body[0] & KIND_BITS != FRAGMENT:
        return _read_name(body, HEAD.size)[0]
    fragment = read_fragment(body)
    return None if fragment.offset else _read_name(fragment.piece, 0)[0]


def check(body: bytes, *, may_have_priority: bool = True) -> None:
    """Refuse a body that ``unpack`` or ``read_fragment`` could not read, as far as it is seen, or of a wrong priority.

    Raises:
        ProtocolError: ``bad-body``.
    """
    if body and not may_have_priority and priority_of(body):
        raise ProtocolError(DropReason.BAD_BODY, "a transactional message with a priority")
    if is_sealed(body):
        _check_sealed(body)
        return
    if was_sealed(body):
        raise ProtocolError(DropReason.BAD_BODY, "a body that its receiver has not opened, marked as opened")
    kind = body[0] & KIND_BITS if body else 0
    if kind == FRAGMENT:
        read_fragment(body)
        topic_of(body)
    elif kind == BATCH:
        _check_batch(body)
    else:
        unpack(body)
    if body[0] & LARGE:
        _check_large(body)


def _check_large(body: bytes) -> None:
    """Refuse a body that can stand for no large message: it is published, has no ordinal, or more than one message."""
    if body[0] & TOPIC or not body[0] & KIND_BITS or not large_of(body) or count_of(body) != 1:
        raise ProtocolError(DropReason.BAD_BODY, "stands for no large message")


# ---- sealed bodies


def split_to_seal(body: bytes) -> tuple[bytes, bytes]:
    """What is still seen of a body when it is sealed, ``HEAD_BYTES`` of it, and the text to be sealed."""
    first, count, ordinal, sent_at_ms, receive_by_ms = HEAD.unpack_from(body)
    is_piece = first & KIND_BITS == FRAGMENT
    place = body[HEAD.size : HEAD_BYTES] if is_piece else bytes(PLACE.size)
    seen = SEAL | first & PRIORITY_MAX << PRIORITY_SHIFT
    head = HEAD.pack(seen, 0 if is_piece else count, ordinal, sent_at_ms, receive_by_ms) + place
    return head, body[:1] + body[HEAD.size :]


def read_opened(head: bytes, text: bytes, size_bytes: int) -> bytes:
    """The body whose seen part and whose sealed text these are, marked as opened.

    Args:
        head: its first ``HEAD_BYTES`` as they came.
        text: what was sealed.
        size_bytes: length of the sealed body.

    Raises:
        ProtocolError: ``bad-body``: it is no body, or it says something else than its seen part.
    """
    body = text[:1] + head[1 : HEAD.size] + text[1:]
    if not text or is_sealed(text) or priority_of(text) != priority_of(head):
        raise ProtocolError(DropReason.BAD_BODY, "another kind or priority inside than outside")
    if text[0] & KIND_BITS == FRAGMENT:
        seen, told = fragment_range(head, size_bytes), fragment_range(body[:HEAD_BYTES], len(body))
        if seen is None or seen != told:
            raise ProtocolError(DropReason.BAD_BODY, "another place inside than outside")
    check(body)
    return mark_opened(body)


def _check_sealed(body: bytes) -> None:
    """Check what is to be seen of a sealed body. Raises ProtocolError ``bad-body``."""
    if len(body) <= HEAD_BYTES + SEAL_ADDS_BYTES:
        raise ProtocolError(DropReason.BAD_BODY, "too short")
    _, count, _, _, _ = HEAD.unpack_from(body)
    total_bytes, offset = PLACE.unpack_from(body, HEAD.size)
    length = len(body) - HEAD_BYTES - SEALED_BYTES
    if body[0] & (CARES | TOPIC) or count & OPENED or (count and (total_bytes or offset)):
        raise ProtocolError(DropReason.BAD_BODY, "bits of a sealed body for which it has no use")
    if not count and not (0 < length <= total_bytes - offset and total_bytes <= _LARGE_MAX_BYTES):
        raise ProtocolError(DropReason.BAD_BODY, "fragment out of range")


def _unpack_opened(body: bytes) -> Unpacked:
    if is_sealed(body):
        raise ProtocolError(DropReason.BAD_BODY, "it is sealed")
    first, count, *rest = HEAD.unpack_from(body)
    content = unpack(HEAD.pack(first, count & ~OPENED, *rest) + body[HEAD.size :])
    content.sealed = True
    return content


def read_batch(body: bytes) -> tuple[int, int, int] | None:
    """Message count, sending time and expiry of a valid batch; None for any other body."""
    if _is_lone(body):
        _, count, _, sent_at_ms, receive_by_ms = HEAD.unpack_from(body)
        return count, sent_at_ms, receive_by_ms
    try:
        return _check_batch(body) if body and body[0] & (KIND_BITS | SEAL) == BATCH else None
    except ProtocolError:
        return None


def _check_batch(body: bytes) -> tuple[int, int, int]:
    """Check what ``unpack`` checks, without making the messages. Returns message count, sending time and expiry."""
    try:
        first, count, _, sent_at_ms, receive_by_ms = HEAD.unpack_from(body)
        at = _read_name(body, HEAD.size)[1] if first & TOPIC else HEAD.size
        lengths = _lengths(count).unpack_from(body, at)
    except StructError as cause:
        raise ProtocolError(DropReason.BAD_BODY, "too short") from cause
    if not count or at + 2 * count + sum(lengths) != len(body):
        raise ProtocolError(DropReason.BAD_BODY, "lengths do not add up")
    return count, sent_at_ms, receive_by_ms


def _is_lone(body: bytes) -> bool:
    """Whether a body is a plain batch of one message, as each that is about as long as a packet has."""
    size_bytes = len(body) - _LONE_AT
    if size_bytes < 0 or body[0] & (KIND_BITS | TOPIC) != BATCH or body[1:3] != _ONE:
        return False
    return body[HEAD.size] << 8 | body[HEAD.size + 1] == size_bytes


def read_fragment(body: bytes) -> Fragment:
    """Read a fragment. Raises ProtocolError ``bad-body``."""
    try:
        first, count, ordinal, sent_at_ms, receive_by_ms = HEAD.unpack_from(body)
        total_bytes, offset = PLACE.unpack_from(body, HEAD.size)
    except StructError as cause:
        raise ProtocolError(DropReason.BAD_BODY, "fragment too short") from cause
    piece = body[HEAD.size + PLACE.size :]
    if not piece or offset + len(piece) > total_bytes or total_bytes > _LARGE_MAX_BYTES:
        raise ProtocolError(DropReason.BAD_BODY, "fragment out of range")
    if len(piece) < PIECE_MIN_BYTES and offset + len(piece) < total_bytes:
        raise ProtocolError(DropReason.BAD_BODY, "fragment too small")
    priority = first >> PRIORITY_SHIFT & PRIORITY_MAX
    named, sealed = bool(first & TOPIC), bool(count & OPENED)
    return Fragment(ordinal, sent_at_ms, receive_by_ms, total_bytes, offset, piece, priority, named, sealed)


def join_fragments(fragments: list[Fragment]) -> bytes:
    """Join all pieces of a message, ascending by offset, into one body for ``unpack``."""
    first = fragments[0]
    kind = FRAGMENT | first.priority << PRIORITY_SHIFT | (TOPIC if first.named else 0)
    head = HEAD.pack(kind, OPENED if first.sealed else 0, first.ordinal, first.sent_at_ms, first.receive_by_ms)
    return head + PLACE.pack(first.total_bytes, 0) + b"".join(fragment.piece for fragment in fragments)


def unpack_pieces(pieces: Sequence[bytes]) -> Unpacked:
    """The messages of a batch, or the large message of these pieces. Raises ProtocolError ``bad-body``."""
    return unpack(pieces[0] if len(pieces) == 1 else join_fragments([read_fragment(piece) for piece in pieces]))


def _batch(
    bodies: list[bytes],
    properties: list[bytes] | None,
    ordinal: int,
    sent_at_ms: int,
    receive_by_ms: int,
    bits: int,
    name: bytes = b"",
) -> bytes:
    count, bits = len(bodies), bits | (TOPIC if name else 0)
    lengths = _lengths(count).pack(*map(len, bodies))
    if properties is None:
        return HEAD.pack(BATCH | bits, count, ordinal, sent_at_ms, receive_by_ms) + name + lengths + b"".join(bodies)
    head = HEAD.pack(RICH | bits, count, ordinal, sent_at_ms, receive_by_ms)
    few = [(at, it) for at, it in enumerate(properties) if it] if properties.count(b"") > count // 2 else []
    is_shared = any(it == before and at == before_at + 1 for (before_at, before), (at, it) in pairwise(few))
    if few and 2 * len(few) + 2 < count and not is_shared:
        lengths += _FEW.pack(_AS_BEFORE, len(few)) + b"".join([_FEW.pack(at, len(it)) for at, it in few])
        return head + name + lengths + b"".join(bodies) + b"".join([it for _, it in few])
    written = [_AS_BEFORE if at and it and it == properties[at - 1] else len(it) for at, it in enumerate(properties)]
    lengths += _lengths(count).pack(*written)
    kept = [it for it, length in zip(properties, written, strict=True) if length != _AS_BEFORE]
    return head + name + lengths + b"".join(bodies) + b"".join(kept)


def _follows(before: Passed, message: Passed) -> bool:
    """Whether a message was published behind another one, in the same packet."""
    return (
        message.ordinal == before.ordinal + 1
        and message.publisher == before.publisher
        and message.sent_at_ms == before.sent_at_ms
        and message.topic == before.topic
        and message.expiry == before.expiry
    )


def _write_source(message: Passed, behind: int) -> bytes:
    """What stands before messages that are passed on, with its length: the first is that many behind this one."""
    source = _SOURCE.pack(0, message.publisher, message.ordinal + behind, message.sent_at_ms)
    name = source + (message.topic or "").encode()
    return bytes([len(name)]) + name


def _read_source(name: bytes) -> tuple[bytes, int, int, str]:
    """Read what ``_write_source`` wrote: publisher, ordinal, when it was published, topic. Raises ProtocolError."""
    try:
        _, publisher, ordinal, sent_at_ms = _SOURCE.unpack_from(name)
        return publisher, ordinal, sent_at_ms, check_topic(name[_SOURCE.size :].decode())
    except (StructError, UnicodeDecodeError, AddressError) as cause:
        raise ProtocolError(DropReason.BAD_BODY, "no message that is passed on") from cause


def _write_name(below: str) -> bytes:
    """What the name of a topic has below its root, with its length."""
    name = below.encode()
    return bytes([len(name)]) + name


def _read_name(body: bytes, at: int) -> tuple[str, int]:
    """Read what ``_write_name`` wrote. Returns it, and where it ends. Raises ProtocolError ``bad-body``."""
    end = at + 1 + (body[at] if at < len(body) else 0)
    if at + 1 < end <= len(body) and not body[at + 1]:
        return _read_source(body[at + 1 : end])[3], end
    try:
        name = body[at + 1 : end].decode()
        if at < len(body) and end <= len(body):
            return check_levels(name), end
    except (UnicodeDecodeError, AddressError) as cause:
        raise ProtocolError(DropReason.BAD_BODY, "no name of a topic") from cause
    raise ProtocolError(DropReason.BAD_BODY, "too short")


def _told(run: AnswerRun, index: int) -> tuple[int, bytes, int]:
    return run.message_class, run.origin, run.first_ordinal + index


def _answers(run: AnswerRun, index: int, count: int, ordinal: int, sent_at_ms: int, bits: int) -> bytes:
    shared = write_properties(run.properties)
    head = HEAD.pack(ANSWERS | bits, count, ordinal, sent_at_ms, 0)
    return head + _TOLD.pack(*_told(run, index), len(shared)) + shared


def _unpack_shared(body: bytes, at: int, lengths: tuple[int, ...], topic: str | None) -> Unpacked:
    """A RICH body whose messages all have the same properties. Their lengths begin at that place."""
    _, count, first_ordinal, sent_at_ms, receive_by_ms = HEAD.unpack_from(body)
    (length,) = _lengths(1).unpack_from(body, at)
    at += 2 * count
    end = at + sum(lengths)
    if end + length != len(body):
        raise ProtocolError(DropReason.BAD_BODY, "lengths do not add up")
    bodies = _bodies(body, at, lengths)
    properties = [_read_shared(body[end:])] * count if count > 1 else [_read_properties(body[end:])]
    return Unpacked(first_ordinal, sent_at_ms, receive_by_ms, bodies, properties, priority_of(body), topic)


def _unpack_few(body: bytes, at: int, lengths: tuple[int, ...], topic: str | None) -> Unpacked:
    """A RICH body of which only a few messages have properties. What says which begins at that place."""
    _, count, first_ordinal, sent_at_ms, receive_by_ms = HEAD.unpack_from(body)
    _, few = _FEW.unpack_from(body, at)
    at += _FEW.size
    if not 0 < few < count:
        raise ProtocolError(DropReason.BAD_BODY, f"properties of {few} messages of {count}")
    places = [_FEW.unpack_from(body, at + _FEW.size * which) for which in range(few)]
    at += _FEW.size * few
    end = at + sum(lengths)
    properties: list[Properties] = [_NO_PROPERTIES] * count
    before = -1
    for index, length in places:
        if not (before < index < count and length):
            raise ProtocolError(DropReason.BAD_BODY, "properties of no message")
        properties[index] = _read_properties(body[end : end + length])
        end, before = end + length, index
    if end != len(body):
        raise ProtocolError(DropReason.BAD_BODY, "lengths do not add up")
    bodies = _bodies(body, at, lengths)
    return Unpacked(first_ordinal, sent_at_ms, receive_by_ms, bodies, properties, priority_of(body), topic)


def _bodies(body: bytes, at: int, lengths: tuple[int, ...]) -> Sequence[bytes]:
    """The bodies of these lengths, of which the first begins at that place."""
    count = len(lengths)
    if 1 < count <= ALIKE_MAX and lengths.count(lengths[0]) == count:
        return _alike(count, lengths[0]).unpack_from(body, at)
    return [body[start:stop] for start, stop in pairwise(accumulate(lengths, initial=at))]


def _unpack_answers(body: bytes) -> Unpacked:
    _, count, first_ordinal, sent_at_ms, receive_by_ms = HEAD.unpack_from(body)
    message_class, origin, first, length = _TOLD.unpack_from(body, HEAD.size)
    shared = body[HEAD.size + _TOLD.size :]
    if len(shared) != length or receive_by_ms:
        raise ProtocolError(DropReason.BAD_BODY, "lengths do not add up")
    properties = AnswerProperties(message_class, origin, first, count, _read_shared(shared))
    return Unpacked(first_ordinal, sent_at_ms, 0, [b""] * count, properties, priority_of(body))


def _unpack_whole(fragment: Fragment) -> Unpacked:
    piece = fragment.piece
    topic, at = _read_name(piece, 0) if fragment.named else (None, 0)
    piece = piece[at:]
    (length,) = _LENGTH.unpack_from(piece)
    if not fragment.is_last or fragment.offset or _LENGTH.size + length > len(piece):
        raise ProtocolError(DropReason.BAD_BODY, "not a whole message")
    properties = _read_properties(piece[_LENGTH.size : _LENGTH.size + length])
    body = piece[_LENGTH.size + length :]
    listed = [properties] if properties else None
    times = fragment.sent_at_ms, fragment.receive_by_ms
    return Unpacked(fragment.ordinal, *times, [body], listed, fragment.priority, topic)


def write_properties(properties: Properties | None) -> bytes:
    """Properties as bytes; ASCII, so that any text survives."""
    return _ENCODER.encode(properties).encode() if properties else b""


@lru_cache(maxsize=256)
def _read_shared(raw: bytes) -> Properties:
    """Properties that packet after packet shares; nobody changes them."""
    return _read_properties(raw)


def _read_properties(raw: bytes) -> Properties:
    if not raw:
        return _NO_PROPERTIES
    if len(raw) > MAX_PROPERTIES_BYTES:
        raise ProtocolError(DropReason.BAD_BODY, "properties over the limit")
    try:
        properties = json.loads(raw)
    except (ValueError, RecursionError) as cause:
        raise ProtocolError(DropReason.BAD_BODY, "properties are not JSON") from cause
    if not isinstance(properties, dict):
        raise ProtocolError(DropReason.BAD_BODY, "properties are not an object")
    return properties
