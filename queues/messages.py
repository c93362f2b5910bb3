"""The messages that go into packet bodies, and what is written of them there beside their bodies: properties, topics.

``packing`` has the layout.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple, overload

from triack.base.errors import AddressError, ProtocolError
from triack.base.names import check_levels, check_topic
from triack.base.reasons import DropReason

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Largest message body, as in MSMQ ([MS-MQMQ] 2.2.19.1)."""
USER_PROPERTIES_BYTES = 12 * 1024
"""Limit of a user's properties: a quarter of the maximum is left for those that the dead-letter queue adds."""
MAX_PROPERTIES_BYTES = 16 * 1024
"""Limit of encoded properties, including those that the dead-letter queue adds."""

NAME_BYTES_MAX = 256
"""The name of a topic in a body, at most: the length is a byte."""
_SHARED = Struct("!HH")
"""Before the properties of successive messages: of how many, and the length. No messages: those of answers."""
_TOLD = Struct("!H16sQ")
"""Of answers: the class, the node of the messages that they tell of, and the ordinal of the first of these."""
_SOURCE = Struct("!B16sQQ")
"""What stands before the name of the topic of a message that was passed on; no name begins with its first byte, 0."""
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
    """What positive administration messages about messages of one packet share."""

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
        ordinal: its ordinal there.
        sent_at_ms: when it was published, by the clock of its publisher.
        topic: the whole name of its topic.
    """

    publisher: bytes = b""
    ordinal: int = 0
    sent_at_ms: int = 0


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


# ---- what a body says of messages beside their bodies


def write_properties(properties: Properties | None) -> bytes:
    """Properties as bytes; ASCII, so that any text survives."""
    return _ENCODER.encode(properties).encode() if properties else b""


def read_properties(raw: bytes) -> Properties:
    """Properties of one message. Raises ProtocolError ``bad-body``."""
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


_read_shared = lru_cache(maxsize=256)(read_properties)
"""Of properties that packet after packet shares; nobody changes them."""


SHARED_BYTES = _SHARED.size
"""What the properties of messages that share them take beside themselves."""


def write_shared(groups: Sequence[tuple[int, bytes]]) -> bytes:
    """The properties of the messages of a body: of how many that follow each other, and what they share.

    Neighbours that share theirs are one group. Empty if no message has any.
    """
    if len(groups) == 1 and not groups[0][1]:
        return b""
    return b"".join([_SHARED.pack(count, len(written)) + written for count, written in groups])


def write_answers(run: AnswerRun, index: int) -> bytes:
    """The properties of the messages of a body that answer about the messages of a packet, from that index on."""
    written = write_properties(run.properties)
    told = _TOLD.pack(run.message_class, run.origin, run.first_ordinal + index)
    return _SHARED.pack(0, len(written)) + told + written


def read_shared(body: bytes, at: int, count: int) -> tuple[Sequence[Properties], int]:
    """The properties of all ``count`` messages of a body, and where they end. Raises ProtocolError ``bad-body``."""
    found: list[Properties] = []
    left = count
    while left:
        messages, length = _SHARED.unpack_from(body, at)
        at += SHARED_BYTES
        if not messages and left == count:
            message_class, origin, first = _TOLD.unpack_from(body, at)
            at += _TOLD.size
            answers = AnswerProperties(message_class, origin, first, count, _read_shared(body[at : at + length]))
            return answers, at + length
        if not 0 < messages <= left:
            raise ProtocolError(DropReason.BAD_BODY, f"properties of {messages} messages where {left} have none")
        if messages == 1:
            found.append(read_properties(body[at : at + length]))
        else:
            found += [_read_shared(body[at : at + length])] * messages
        at += length
        left -= messages
    return found, at


class Name(NamedTuple):
    """The topic of the messages of a body.

    Attributes:
        topic: what it has below its root; the whole name if they were published at another node than sends them.
        end: where it ends in the body.
        publisher: that other node; empty for none.
        first_ordinal: the ordinal there of the first of them.
        sent_at_ms: when they were published there.
    """

    topic: str
    end: int
    publisher: bytes = b""
    first_ordinal: int = 0
    sent_at_ms: int = 0


def write_name(topic: str) -> bytes:
    """What the name of a topic has below its root, with its length."""
    name = topic.encode()
    return bytes([len(name)]) + name


def write_source(topic: str, publisher: bytes, first_ordinal: int, sent_at_ms: int) -> bytes:
    """The whole name of the topic of messages that are passed on, and where they come from, with the length."""
    name = _SOURCE.pack(0, publisher, first_ordinal, sent_at_ms) + topic.encode()
    return bytes([len(name)]) + name


def read_name(body: bytes, at: int) -> Name:
    """Read what ``write_name`` or ``write_source`` wrote. Raises ProtocolError ``bad-body``."""
    end = at + 1 + (body[at] if at < len(body) else 0)
    if end > len(body):
        raise ProtocolError(DropReason.BAD_BODY, "too short")
    name = body[at + 1 : end]
    try:
        if name[:1] != b"\0":
            return Name(check_levels(name.decode()), end)
        _, *source = _SOURCE.unpack_from(name)
        return Name(check_topic(name[_SOURCE.size :].decode()), end, *source)
    except (StructError, UnicodeDecodeError, AddressError) as cause:
        raise ProtocolError(DropReason.BAD_BODY, "no name of a topic") from cause
