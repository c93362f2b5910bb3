"""Administration messages: which message asks for one, and what it says ([MS-MQQB] 3.1.7.15).

A sender asks by naming a queue of its node and by flags. The node at which something happens to the message sends the
answer there, as an ordinary message of the same class of delivery. The answer asks for nothing itself.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from triack.queues.message_classes import Acks, MessageClass
from triack.queues.messages import ADMIN, CLASS, Answer, AnswerProperties, AnswerRun, Outgoing, Properties
from triack.queues.packing import Unpacked


class AdminRequest(NamedTuple):
    """Which administration messages the sender of a message wants, and in which queue of its node."""

    queue: str
    acks: Acks


@dataclass(frozen=True, slots=True)
class Told:
    """Something that happened to messages of one packet.

    Attributes:
        stream, sequence, number: their packet; of a large message, the last one.
        destination: where they were going, as their node or this one writes it.
        indices: those that it happened to.
        place: the index in the packet of the message whose index in ``content`` is 0.
    """

    origin: bytes
    stream: int
    sequence: int
    number: int
    delivery: int
    destination: str
    content: Unpacked
    indices: Iterable[int]
    message_class: MessageClass
    place: int = 0


Tell = Callable[[Told, int], None]
"""Gets what happened, and when, by the monotonic clock; the next commit holds the answers."""


def nobody_told(_told: Told, _now_ns: int) -> None:
    """Tell no node: for parts that are used alone."""


def write_request(queue: str, acks: Acks) -> dict[str, Any]:
    """A request as the property ``ADMIN``."""
    return {"queue": queue, "acks": int(acks)}


def request_of(properties: Properties) -> AdminRequest | None:
    """The request of a message; None for none, and if it cannot be read."""
    said = properties.get(ADMIN)
    if not isinstance(said, dict) or CLASS in properties:
        return None
    queue, acks = said.get("queue"), said.get("acks")
    if not isinstance(queue, str) or type(acks) is not int:
        return None
    return AdminRequest(queue, Acks(acks & 0xF))


def wanted_by(told: Told) -> dict[str, list[int]]:
    """The messages whose senders want to know what happened, by the queue for the answer."""
    found: dict[str, list[int]] = {}
    properties, flag = told.content.properties, told.message_class.asked_by
    if properties is None:
        return found
    last: Properties | None = None
    indices: list[int] | None = None
    for index in told.indices:
        own = properties[index]
        if own is not last:  # messages that were sent as a list share them
            last, request = own, request_of(own)
            wants = request is not None and request.acks & flag
            indices = found.setdefault(request.queue, []) if request is not None and wants else None
        if indices is not None:
            indices.append(index)
    return found


_CLASSES: dict[object, MessageClass] = {int(it): it for it in MessageClass}


def class_of(properties: Properties) -> MessageClass:
    """The class of a message. An unknown number, which a newer node may send, counts as a message's own."""
    number = properties.get(CLASS)
    return _CLASSES.get(number, MessageClass.NORMAL) if type(number) is int else MessageClass.NORMAL


def class_in(properties: Sequence[Properties] | None, index: int) -> MessageClass:
    """The class of a message of a packet, given the properties of all of them."""
    if isinstance(properties, AnswerProperties):
        return _CLASSES.get(properties.message_class, MessageClass.NORMAL)
    return MessageClass.NORMAL if properties is None else class_of(properties[index])


def answers_to(told: Told, indices: list[int]) -> list[Outgoing]:
    """The administration messages about messages of a packet, in a form that is cheap for many."""
    content, properties = told.content, told.content.properties
    if told.message_class.is_negative or properties is None:
        return [ack_of(told, index) for index in indices]
    found: list[Outgoing] = []
    run: AnswerRun | None = None
    last: Properties | None = None
    for index in indices:
        if run is None or properties[index] is not last:
            last = properties[index]
            run = AnswerRun(int(told.message_class), told.origin, content.first_ordinal, _shared(told, last))
        found.append(Answer(b"", run=run, index=index))
    return found


def _shared(told: Told, properties: Properties) -> Properties:
    label = properties.get("label")
    return {"reply_to": told.destination, **({"label": label} if isinstance(label, str) else {})}


def ack_of(told: Told, index: int) -> Outgoing:
    """The administration message about one message: a negative one has the body of that message."""
    content = told.content
    properties: Properties = {
        **_shared(told, content.properties[index] if content.properties else {}),
        CLASS: int(told.message_class),
        "correlation_id": f"{told.origin.hex()}-{content.first_ordinal + index}",
    }
    return Outgoing(content.bodies[index] if told.message_class.is_negative else b"", properties)
