"""Administration messages: which message asks for one, and what it says ([MS-MQQB] 3.1.7.15).

A sender asks with a queue of its own node and with flags. The node at which something happens to the message sends the
answer there, as an ordinary message of the same class of delivery. It asks for nothing itself.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from triack.queues.message_classes import Acks, MessageClass
from triack.queues.packing import ADMIN, CLASS, Outgoing, Properties, Unpacked

__all__ = [
    "AdminRequest",
    "Tell",
    "Told",
    "ack_of",
    "class_of",
    "nobody_told",
    "request_of",
    "wanted_by",
    "write_request",
]


class AdminRequest(NamedTuple):
    """Which administration messages the sender of a message wants, and in which queue of its node."""

    queue: str
    acks: Acks


@dataclass(frozen=True, slots=True)
class Told:
    """Something that happened to messages of one packet.

    Attributes:
        origin: the node that sent them.
        stream, sequence, number: their packet; of a large message, the last one.
        delivery: their class of delivery.
        destination: where they were going, as their node or this one writes it.
        content: the messages of the packet.
        indices: those that it happened to.
        message_class: what happened.
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
"""Takes what happened, and when, by the monotonic clock; the next commit holds the answers."""


def nobody_told(_told: Told, _now_ns: int) -> None:
    """Tell nobody: of parts that stand alone."""


def write_request(queue: str, acks: Acks) -> dict[str, Any]:
    """A request as the property ``ADMIN``."""
    return {"queue": queue, "acks": int(acks)}


def request_of(properties: Properties) -> AdminRequest | None:
    """The request of a message; None for none, and for one that cannot be read."""
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
    for index in told.indices:
        request = request_of(properties[index])
        if request is not None and request.acks & flag:
            found.setdefault(request.queue, []).append(index)
    return found


def class_of(properties: Properties) -> MessageClass:
    """The class of a message. An unknown number, which a newer node may send, counts as a message's own."""
    try:
        return MessageClass(properties.get(CLASS, 0))
    except ValueError:
        return MessageClass.NORMAL


def ack_of(told: Told, index: int) -> Outgoing:
    """The administration message about one of the messages: the body of a negative one is that of the message."""
    content = told.content
    label = content.properties[index].get("label") if content.properties else None
    properties: Properties = {
        CLASS: int(told.message_class),
        "correlation_id": f"{told.origin.hex()}-{content.first_ordinal + index}",
        "reply_to": told.destination,
        **({"label": label} if isinstance(label, str) else {}),
    }
    return Outgoing(content.bodies[index] if told.message_class.is_negative else b"", properties)
