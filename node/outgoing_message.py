"""What an application may send: its arguments checked, and turned into what goes into a packet."""

from typing import Any

from triack.base.checks import LONGEST_LIFE_S
from triack.base.errors import MessageTooLarge, UsageError
from triack.queues.packing import MAX_BODY_BYTES, USER_PROPERTIES_BYTES, Outgoing, write_properties

__all__ = ["as_bytes", "check_size", "with_properties"]

DEADLINE_GRAIN_MS = 100
"""Deadlines are rounded up to this, so that messages sent together share packets."""
_TEXTS = ("correlation_id", "reply_to", "label")


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


def with_properties(destination: str, body: bytes, properties: dict[str, Any], now_ms: int) -> Outgoing:
    """A message with what the sender set beside its body.

    Args:
        destination: for what is said to people.
        body: the message's body.
        properties: as given to ``Node.send``; times in seconds from now.
        now_ms: the wall clock, from which deadlines count.

    Raises:
        UsageError: there is no such property, or it is of a wrong type or out of range.
        MessageTooLarge: all of them together are over 12 KiB.
    """
    reach_by_ms = 0
    kept: dict[str, Any] = {}
    for name, value in properties.items():
        if name == "time_to_reach_queue":
            reach_by_ms = _deadline_ms(name, value, now_ms)
        elif name == "time_to_be_received":
            kept["receive_by_ms"] = _deadline_ms(name, value, now_ms)
        elif name not in _TEXTS or not isinstance(value, str):
            raise UsageError(f"send to {destination}: {name}={value!r} is no message property")
        else:
            kept[name] = value
    if len(write_properties(kept)) > USER_PROPERTIES_BYTES:
        raise MessageTooLarge(f"send to {destination}: properties over the limit of {USER_PROPERTIES_BYTES} bytes")
    return Outgoing(body, kept or None, reach_by_ms)


def _deadline_ms(name: str, seconds: object, now_ms: int) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST_LIFE_S:
        raise UsageError(f"{name} must be a number of seconds, above 0 and at most {LONGEST_LIFE_S}, not {seconds!r}")
    return -(-int(now_ms + seconds * 1_000) // DEADLINE_GRAIN_MS) * DEADLINE_GRAIN_MS
