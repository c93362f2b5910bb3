"""Messages that an application sends: checks of the arguments, and their form in a packet."""

from collections.abc import Mapping
from typing import Any, TypedDict

from triack.base.checks import LONGEST_LIFE_S
from triack.base.errors import MessageTooLarge, UsageError
from triack.queues.packing import MAX_BODY_BYTES, USER_PROPERTIES_BYTES, Outgoing, write_properties
from triack.queues.streams.accepted_keys import KEY_BYTES_MAX

__all__ = ["MessageProperties", "as_bytes", "check_key", "check_size", "with_properties"]

DEADLINE_GRAIN_MS = 100
"""Deadlines are rounded up to this, so that messages sent together share packets."""


class MessageProperties(TypedDict, total=False):
    """The properties that a sender may set beside a message's body, by keyword. None is the same as leaving one out.

    Attributes:
        correlation_id: matches a reply with its request.
        reply_to: the destination to which replies should go.
        label: a text for people.
        headers: names and values of the application's own, both text.
        time_to_reach_queue: seconds until it must be on the destination's disk.
        time_to_be_received: seconds until it must have been received.
        key: names the message for this node: if a message to the same queue with this key was accepted within
            ``KeySettings.lifetime_s``, a new one counts as that message, and is not sent. At most 255 bytes; it
            stays here.
        priority: 0 to 7; a reader gets messages of a higher one first. Without it, 3. A transactional message always
            has 0, as all of them arrive in the order of their sending.
        ack_now: ask for every acknowledgement of it at once, and report it at once (Solace's Ack Immediately).
    """

    correlation_id: str | None
    reply_to: str | None
    label: str | None
    headers: Mapping[str, str] | None
    time_to_reach_queue: float | None
    time_to_be_received: float | None
    key: str | None
    priority: int | None
    ack_now: bool | None


def as_bytes(destination: str, body: object) -> bytes:
    """A body as bytes. Raises UsageError when it is not made of bytes."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise UsageError(f"send to {destination}: a body is bytes, not {type(body).__name__}")


def check_size(destination: str, body: bytes) -> None:
    """Raises MessageTooLarge for a body over MSMQ's limit, [MS-MQMQ] 2.2.19.1."""
    if len(body) > MAX_BODY_BYTES:
        raise MessageTooLarge(
            f"send to {destination}: a body of {len(body)} bytes is over the limit of {MAX_BODY_BYTES}"
        )


def with_properties(destination: str, body: bytes, properties: MessageProperties, now_ms: int) -> Outgoing:
    """A message with its properties.

    Args:
        destination: for messages to people.
        body: the message's body.
        properties: as given to ``Node.send``; times in seconds from now.
        now_ms: the wall clock, from which deadlines count.

    Raises:
        UsageError: there is no such property, or it is of a wrong type or out of range.
        MessageTooLarge: all of them together are over 12 KiB.
    """
    reach_by_ms = receive_by_ms = 0
    key = ""
    ack_now = False
    kept: dict[str, Any] = {}
    for name, value in properties.items():
        if name not in MessageProperties.__annotations__:
            raise UsageError(f"send to {destination}: {_no_property(name)}")
        if value is None:
            continue
        if name == "time_to_reach_queue":
            reach_by_ms = _deadline_ms(name, value, now_ms)
        elif name == "time_to_be_received":
            receive_by_ms = _deadline_ms(name, value, now_ms)
        elif name == "headers":
            kept[name] = _headers(destination, value)
        elif name == "key":
            key = check_key(destination, value)
        elif name == "priority":
            pass  # it chooses the outgoing queue, and was checked there
        elif name == "ack_now":
            ack_now = _truth(destination, name, value)
        elif isinstance(value, str):
            kept[name] = value
        else:
            raise UsageError(f"send to {destination}: {name} must be text, not {value!r}")
    if len(write_properties(kept)) > USER_PROPERTIES_BYTES:
        raise MessageTooLarge(f"send to {destination}: properties over the limit of {USER_PROPERTIES_BYTES} bytes")
    return Outgoing(body, kept or None, reach_by_ms, key, ack_now, receive_by_ms)


def _no_property(name: str) -> str:
    return f"{name} is no message property; valid are {', '.join(MessageProperties.__annotations__)}"


def _headers(destination: str, headers: object) -> dict[str, str]:
    if not isinstance(headers, Mapping):
        raise UsageError(f"send to {destination}: headers must be a mapping of text to text, not {headers!r}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise UsageError(f"send to {destination}: headers must be text, not {name!r}: {value!r}")
    return dict(headers)


def _truth(destination: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"send to {destination}: {name} must be True or False, not {value!r}")
    return value


def check_key(destination: str, key: object) -> str:
    """The key of a message. Raises UsageError when it is no key."""
    try:
        if isinstance(key, str) and 0 < len(key.encode()) <= KEY_BYTES_MAX:
            return key
    except UnicodeEncodeError:
        pass
    raise UsageError(f"send to {destination}: a key is text of 1 to {KEY_BYTES_MAX} bytes, not {key!r}")


def _deadline_ms(name: str, seconds: object, now_ms: int) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST_LIFE_S:
        raise UsageError(f"{name} must be a number of seconds, above 0 and at most {LONGEST_LIFE_S}, not {seconds!r}")
    return -(-int(now_ms + seconds * 1_000) // DEADLINE_GRAIN_MS) * DEADLINE_GRAIN_MS
