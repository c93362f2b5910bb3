"""Requests and answers between nodes about subscriptions: JSON in transactional messages of ``$subscriptions``.

    the subscriber asks                                          the node with the topics answers
    subscribe: name, number, pattern, durable, delivery, ...     accepted, or refused with a reason
    unsubscribe: name, number                                    ended
    live: the names and numbers of all its subscriptions here    unknown: those that it does not have

``ended`` comes without a request when an operator there ended the subscription. ``accepted`` comes with a reason when
its node may no longer have it, and without one when it may again. ``live`` ends each subscription that it does not
name.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from triack.base.delivery import Delivery
from triack.base.errors import AddressError, ProtocolError
from triack.base.names import NAME_BYTES_MAX, check_name, composed
from triack.base.reasons import DropReason
from triack.queues.mailboxes.system_queues import subscribed_queue

LETTERS_MAX = {"pattern": 1_000, "why": 1_000}
"""Most characters of a pattern, as each is kept until it is refused, and of an explanation. Other texts are names."""
NAMES_MAX = 100_000
"""Subscriptions in one message: as many as fit into the largest one."""
NUMBER_MAX = 1 << 62
"""Numbers count the subscriptions of a node: the starts of the node are in the upper bits."""

T = TypeVar("T")


class _Message:
    """One message. Its fields, in their order, are those of the JSON, after ``do``, which names its kind."""

    do: str

    def encode(self) -> bytes:
        """The body of the message."""
        its = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
        if "delivery" in its:
            its["delivery"] = its["delivery"].label
        return json.dumps({"do": self.do, **its}, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Subscribe(_Message):
    """A node asks for a subscription.

    Attributes:
        name: the subscription's name at the subscriber, which has a queue for it.
        number: of the request.
        durable: whether it continues while its subscriber is away.
        delivery: the class of its messages, or a weaker one in which they were published.
    """

    do: str = field(default="subscribe", init=False)
    name: str
    number: int
    pattern: str
    durable: bool
    delivery: Delivery
    max_unacked: int


@dataclass(frozen=True)
class Unsubscribe(_Message):
    """A node ends one of its subscriptions."""

    do: str = field(default="unsubscribe", init=False)
    name: str
    number: int


@dataclass(frozen=True)
class Live(_Message):
    """A node has these subscriptions here, and no others: numbers by names."""

    do: str = field(default="live", init=False)
    names: Mapping[str, int]


@dataclass(frozen=True)
class Answer(_Message):
    """What happened to a subscription: ``accepted``, ``refused`` or ``ended``; ``reason`` is a ``RefusalReason``."""

    do: str
    name: str
    number: int
    reason: str = ""
    why: str = ""


@dataclass(frozen=True)
class Unknown(_Message):
    """The node with the topics does not have these subscriptions."""

    do: str = field(default="unknown", init=False)
    names: Mapping[str, int]


def check_remote_name(name: object) -> str:
    """Return ``name`` when a subscription to another node can have it: its queue has a longer one. Raises AddressError.

    The names that a node gives to subscriptions that are not durable begin with ``$``, as no other name does.
    """
    checked = check_name(name)
    if len(subscribed_queue(checked).encode()) > NAME_BYTES_MAX:
        raise AddressError(f"name {checked!r}: it is too long for a subscription to another node")
    return checked


Message = Subscribe | Unsubscribe | Live | Answer | Unknown

_KINDS: Mapping[str, type[Message]] = {
    "subscribe": Subscribe,
    "unsubscribe": Unsubscribe,
    "live": Live,
    "unknown": Unknown,
    **dict.fromkeys(("accepted", "refused", "ended"), Answer),
}


def decode(body: bytes) -> Message:
    """Read a message. Raises ProtocolError ``bad-request``."""
    try:
        its = json.loads(body)
        kind = _KINDS[_get(its, "do", str)]
        return kind(**{one.name: _READERS[one.name](its, one.name) for one in fields(kind) if one.init})
    except (ValueError, KeyError, RecursionError, AddressError) as cause:
        raise ProtocolError(DropReason.BAD_REQUEST, str(cause)) from cause


def _get(its: Any, name: str, kind: type[T]) -> T:
    value = its.get(name) if isinstance(its, dict) else None
    if type(value) is not kind:
        raise ValueError(f"{name} is no {kind.__name__}")
    return value


def _number(its: Any, name: str) -> int:
    value = _get(its, name, int)
    if not 0 < value < NUMBER_MAX:
        raise ValueError(f"{name} is out of range")
    return value


def _text(its: Any, name: str) -> str:
    value = _get(its, name, str)
    if len(value) > LETTERS_MAX.get(name, NAME_BYTES_MAX):
        raise ValueError(f"{name} is too long")
    return value


def _names(its: Any, name: str) -> dict[str, int]:
    names = _get(its, name, dict)
    if len(names) > NAMES_MAX:
        raise ValueError("too many names")
    return {check_remote_name(it): _number(names, it) for it in names}


_READERS: Mapping[str, Callable[[Any, str], Any]] = {
    "do": _text,
    "name": lambda its, name: check_remote_name(_text(its, name)),
    "number": _number,
    "pattern": lambda its, name: composed(_text(its, name)),
    "durable": lambda its, name: _get(its, name, bool),
    "delivery": lambda its, name: Delivery[_text(its, name).upper()],
    "max_unacked": _number,
    "names": _names,
    "reason": _text,
    "why": _text,
}
"""Reads a field by its name, and checks it."""
