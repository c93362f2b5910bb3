"""Messages that an application sends: checks of the arguments, and their form in a packet."""

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from triack.base.checks import check_kind, check_life
from triack.base.errors import AddressError, MessageTooLarge, UsageError
from triack.base.names import LEVEL_END, check_name, composed
from triack.base.printable import counted
from triack.queues.admin_acks import write_request
from triack.queues.mailboxes.system_queues import DEAD_LETTER_QUEUE, is_reserved
from triack.queues.message_classes import Acks, as_acks
from triack.queues.messages import (
    ADMIN,
    DEAD_LETTER,
    JOURNAL,
    MAX_BODY_BYTES,
    USER_PROPERTIES_BYTES,
    Outgoing,
    write_properties,
)
from triack.queues.streams.accepted_keys import KEY_BYTES_MAX

DEADLINE_GRAIN_MS = 100
"""Deadlines are rounded up to this, so that messages sent together share packets."""


class MessageProperties(TypedDict, total=False):
    """The properties that a sender may set beside a message's body, by keyword. None is the same as leaving one out.

    Attributes:
        correlation_id: matches a reply with its request.
        reply_to: the destination to which replies should go.
        label: a text for people.
        headers: names and values of the application's own, both text.
        time_to_reach_queue: seconds until it must be on the destination's disk; None: as
            ``NodeSettings.time_to_reach_queue_s`` says.
        time_to_be_received: seconds until it must have been received.
        key: names the message for this node: if a message to the same queue with this key was accepted within
            ``KeySettings.lifetime_s``, a new one counts as that message, and is not sent. At most 255 bytes; it
            stays here.
        priority: 0 to 7; a reader gets messages of a higher one first. Without it, 3. A transactional message always
            has 0, as all of them arrive in the order of their sending.
        dead_letter: False: when it cannot be delivered, keep no dead letter of it (WCF's ``DeadLetterQueue.None``, a
            message of NServiceBus without ``UseDeadLetterQueue``). A text: the queue for that letter, at the node where
            the message ends (``DeadLetterQueue.Custom``); made if needed. True, as without it: ``dead-letter``.
        admin_queue: a queue of the sending node for administration messages about it.
        acks: which of them, such as ``triack.Acks.FULL_RECEIVE``; never without ``admin_queue``.
        journal: whether the journal of this node, ``$journal``, keeps a copy as soon as the message has arrived (MSMQ's
            ``UseJournalQueue`` of a message): when its acknowledgement frees it, in the commit that deletes it here.
            What becomes a dead letter is not copied. ``Limits.journal`` says how much is kept.
        seal: seal it for its destination, so that no node on the way can read it (docs/sealed.md). Its outgoing queue
            is another one than that of messages that are not sealed: there is no order between the two. None: as
            is said of its peer and its route. A message for a queue of this node is not sealed.
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
    seal: bool | None
    dead_letter: bool | str | None
    admin_queue: str | None
    acks: Acks | None
    journal: bool | None


def below_root(destination: str) -> str:
    """What the topic of a destination has below its root."""
    return composed(destination.rpartition("/")[2]).partition(LEVEL_END)[2]


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


def with_properties(
    destination: str,
    body: bytes,
    properties: MessageProperties,
    now_ms: int,
    node: str | None = None,
    life_s: float | None = None,
) -> Outgoing:
    """A message with its properties.

    Raises:
        UsageError: there is no such property, or it is of a wrong type or out of range.
        MessageTooLarge: all of them together are over 12 KiB.
    """
    reach_by_ms = 0 if life_s is None else _deadline_ms("time_to_reach_queue_s", life_s, now_ms)
    deadlines = {"time_to_reach_queue": reach_by_ms, "time_to_be_received": 0}
    key = ""
    ack_now = False
    kept: dict[str, Any] = _admin(destination, properties, node)
    for name, value in properties.items():
        if name not in MessageProperties.__annotations__:
            valid = ", ".join(MessageProperties.__annotations__)
            raise UsageError(f"send to {destination}: {name} is no message property; valid are {valid}")
        # Priority and seal choose the outgoing stream, and were checked there.
        if value is None or name in ("admin_queue", "acks", "priority", "seal"):
            continue
        if name in deadlines:
            deadlines[name] = _deadline_ms(name, value, now_ms)
        elif name == "headers":
            kept[name] = _headers(destination, value)
        elif name == "key":
            key = check_key(destination, value)
        elif name == "dead_letter":
            kept |= _dead_letter(destination, value)
        elif name == "journal":
            kept |= {JOURNAL: True} if _truth(destination, name, value) else {}
        elif name == "ack_now":
            ack_now = _truth(destination, name, value)
        elif isinstance(value, str):
            kept[name] = value
        else:
            raise UsageError(f"send to {destination}: {name} must be text, not {value!r}")
    if len(write_properties(kept)) > USER_PROPERTIES_BYTES:
        raise MessageTooLarge(f"send to {destination}: properties over the limit of {USER_PROPERTIES_BYTES} bytes")
    reach_by_ms, receive_by_ms = deadlines.values()
    return Outgoing(body, kept or None, reach_by_ms, key, ack_now, receive_by_ms)


def _headers(destination: str, headers: object) -> dict[str, str]:
    if not isinstance(headers, Mapping):
        raise UsageError(f"send to {destination}: headers must be a mapping of text to text, not {headers!r}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise UsageError(f"send to {destination}: headers must be text, not {name!r}: {value!r}")
    return dict(headers)


def _dead_letter(destination: str, value: object) -> dict[str, Any]:
    if value is True or value == DEAD_LETTER_QUEUE:
        return {}
    if value is not False:
        if not isinstance(value, str):
            raise UsageError(
                f"send to {destination}: dead_letter must be True, False or the name of a queue, not {value!r}"
            )
        value = _check_queue(destination, "dead_letter", value)
    return {DEAD_LETTER: value}


def _admin(destination: str, properties: MessageProperties, node: str | None) -> dict[str, Any]:
    queue, said = properties.get("admin_queue"), properties.get("acks")
    acks = Acks.NONE if said is None else as_acks(f"send to {destination}", said)
    if queue is None and not acks:
        return {}
    if queue is None or not acks:
        missing, given = ("admin_queue", "acks") if queue is None else ("acks", "admin_queue")
        raise UsageError(f"send to {destination}: {given} needs {missing}, too")
    if not isinstance(queue, str):
        raise UsageError(f"send to {destination}: admin_queue must be the name of a queue, not {queue!r}")
    there, _, name = queue.rpartition("/")
    if there and node is not None and there != node:
        raise UsageError(
            f"send to {destination}: admin_queue {queue} is not a queue of this node, {node}; other nodes must not get "
            "what they did not ask for"
        )
    name = _check_queue(destination, "admin_queue", name)
    return {ADMIN: write_request(name, acks)}


def _check_queue(destination: str, name: str, queue: str) -> str:
    """Return the name, composed. Raises UsageError unless that is the name of a queue of an application."""
    try:
        checked = check_name(queue)
    except AddressError as error:
        raise UsageError(f"send to {destination}: {name}: {error}") from None
    if is_reserved(checked):
        raise UsageError(f"send to {destination}: {name} {queue!r} is a name of the node's own queues")
    return checked


def _truth(destination: str, name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"send to {destination}: {name} must be True or False, not {value!r}")
    return value


OF_A_LIST = "key", "priority", "seal"
"""What ``each`` cannot say: ``keys`` has the keys, and the others choose the outgoing queue of the whole list."""


def check_each(
    destination: str, each: Iterable[MessageProperties], count: int
) -> tuple[list[int], dict[int, MessageProperties]]:
    """The properties of each message of a list: by their ids, as many messages may have the same object.

    Raises UsageError for what they cannot be.
    """
    check_kind(f"send to {destination}: each", each, Iterable)
    owns = list(each)
    if len(owns) != count:
        raise UsageError(f"send to {destination}: {len(owns)} in each for {counted(count, 'message')}")
    distinct = {id(own): own for own in owns}
    for own in distinct.values():
        check_kind(f"send to {destination}: one of each", own, dict)
        if wrong := [name for name in OF_A_LIST if name in own]:
            raise UsageError(f"send to {destination}: {wrong[0]} cannot be said in each; keys are in keys=")
    return list(map(id, owns)), distinct


def check_key(destination: str, key: object) -> str:
    """The key of a message. Raises UsageError when it is no key."""
    try:
        if isinstance(key, str) and 0 < len(key.encode()) <= KEY_BYTES_MAX:
            return key
    except UnicodeEncodeError:
        pass
    raise UsageError(f"send to {destination}: a key is text of 1 to {KEY_BYTES_MAX} bytes, not {key!r}")


def _deadline_ms(name: str, seconds: Any, now_ms: int) -> int:
    check_life(name, seconds)
    return -(-int(now_ms + seconds * 1_000) // DEADLINE_GRAIN_MS) * DEADLINE_GRAIN_MS
