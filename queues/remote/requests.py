"""What nodes ask and tell each other about subscriptions: JSON in transactional messages of ``$subscriptions``.

    the subscriber asks                                          the node with the topics answers
    subscribe: name, number, pattern, durable, delivery, ...     accepted, or refused with a reason
    unsubscribe: name, number                                    ended
    live: the names and numbers of all its subscriptions here    unknown: those that it does not have

``ended`` comes without a question when an operator there ended the subscription, ``accepted`` with a reason when its
node may not have it any more, and without one when it may again. ``live`` ends each subscription that
it does not name.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from triack.base.delivery import Delivery
from triack.base.errors import AddressError, ProtocolError
from triack.base.names import NAME_BYTES_MAX, check_name, composed
from triack.base.reasons import DropReason
from triack.queues.mailboxes.system_queues import subscribed_queue

__all__ = ["Answer", "Live", "Subscribe", "Unknown", "Unsubscribe", "check_remote_name", "decode"]

PATTERN_LETTERS_MAX = 1_000
"""A longer pattern is no request: no name has as many letters, and each is kept in memory until it is refused."""
WHY_LETTERS_MAX = 1_000
"""Of an explanation in words."""
NAMES_MAX = 100_000
"""Subscriptions in one message: as many as fit into the largest one."""
NUMBER_MAX = 1 << 62
"""Numbers count the subscriptions of a node: the starts of the node are in the upper bits."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A node asks for a subscription.

    Attributes:
        name: the subscription's name at the subscriber, which has a queue for it.
        number: of the request.
        pattern: the topics.
        durable: whether it goes on while its subscriber is away.
        delivery: the class of its messages, or a weaker one in which they were published.
        max_unacked: messages that may be on their way.
    """

    name: str
    number: int
    pattern: str
    durable: bool
    delivery: Delivery
    max_unacked: int

    def encode(self) -> bytes:
        """The body of the message."""
        return _encode(
            do="subscribe",
            name=self.name,
            number=self.number,
            pattern=self.pattern,
            durable=self.durable,
            delivery=self.delivery.label,
            max_unacked=self.max_unacked,
        )


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """A node ends one of its subscriptions."""

    name: str
    number: int

    def encode(self) -> bytes:
        """The body of the message."""
        return _encode(do="unsubscribe", name=self.name, number=self.number)


@dataclass(frozen=True, slots=True)
class Live:
    """A node has these subscriptions here, and no others: numbers by names."""

    names: Mapping[str, int]

    def encode(self) -> bytes:
        """The body of the message."""
        return _encode(do="live", names=dict(self.names))


@dataclass(frozen=True, slots=True)
class Answer:
    """What has become of a subscription: ``accepted``, ``refused`` or ``ended``.

    Attributes:
        reason: why it was refused, or why one that was accepted gets nothing now, by the names of ``RefusalReason``.
        why: the same in words.
    """

    do: str
    name: str
    number: int
    reason: str = ""
    why: str = ""

    def encode(self) -> bytes:
        """The body of the message."""
        return _encode(do=self.do, name=self.name, number=self.number, reason=self.reason, why=self.why)


@dataclass(frozen=True, slots=True)
class Unknown:
    """The node with the topics does not have these subscriptions."""

    names: Mapping[str, int]

    def encode(self) -> bytes:
        """The body of the message."""
        return _encode(do="unknown", names=dict(self.names))


def check_remote_name(name: object) -> str:
    """Return ``name`` when a subscription to another node can have it: its queue has a longer one. Raises AddressError.

    The names that a node gives to subscriptions that are not durable begin with ``$``, as no other name does.
    """
    checked = check_name(name)
    if len(subscribed_queue(checked).encode()) > NAME_BYTES_MAX:
        raise AddressError(f"name {checked!r}: it is too long for a subscription to another node")
    return checked


def decode(body: bytes) -> Subscribe | Unsubscribe | Live | Answer | Unknown:
    """Read a message. Raises ProtocolError ``bad-request``."""
    try:
        fields = json.loads(body)
        return _DECODERS[_get(fields, "do", str)](fields)
    except (ValueError, KeyError, RecursionError, AddressError) as cause:
        raise ProtocolError(DropReason.BAD_REQUEST, str(cause)) from cause


def _encode(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _get(fields: Any, name: str, kind: type[T]) -> T:
    """A field of its type. Raises ValueError."""
    value = fields.get(name) if isinstance(fields, dict) else None
    if type(value) is not kind:
        raise ValueError(f"{name} is no {kind.__name__}")
    return value


def _number(fields: Any, name: str) -> int:
    value = _get(fields, name, int)
    if not 0 < value < NUMBER_MAX:
        raise ValueError(f"{name} is out of range")
    return value


def _text(fields: Any, name: str, letters: int) -> str:
    value = _get(fields, name, str)
    if len(value) > letters:
        raise ValueError(f"{name} is too long")
    return value


def _name(fields: Any) -> str:
    return check_remote_name(_text(fields, "name", NAME_BYTES_MAX))


def _names(fields: Any) -> dict[str, int]:
    names = _get(fields, "names", dict)
    if len(names) > NAMES_MAX:
        raise ValueError("too many names")
    return {check_remote_name(name): _number(names, name) for name in names}


def _read_subscribe(fields: Any) -> Subscribe:
    return Subscribe(
        _name(fields),
        _number(fields, "number"),
        composed(_text(fields, "pattern", PATTERN_LETTERS_MAX)),
        _get(fields, "durable", bool),
        Delivery[_text(fields, "delivery", PATTERN_LETTERS_MAX).upper()],
        _number(fields, "max_unacked"),
    )


def _read_answer(fields: Any) -> Answer:
    return Answer(
        _get(fields, "do", str),
        _name(fields),
        _number(fields, "number"),
        _text(fields, "reason", NAME_BYTES_MAX),
        _text(fields, "why", WHY_LETTERS_MAX),
    )


def _read_unsubscribe(fields: Any) -> Unsubscribe:
    return Unsubscribe(_name(fields), _number(fields, "number"))


_DECODERS: dict[str, Callable[[Any], Subscribe | Unsubscribe | Live | Answer | Unknown]] = {
    "subscribe": _read_subscribe,
    "unsubscribe": _read_unsubscribe,
    "live": lambda fields: Live(_names(fields)),
    "accepted": _read_answer,
    "refused": _read_answer,
    "ended": _read_answer,
    "unknown": lambda fields: Unknown(_names(fields)),
}
