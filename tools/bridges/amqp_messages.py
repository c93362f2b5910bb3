"""A message of AMQP 0-9-1 as one of Triack, and back.

AMQP                              Triack
exchange, routing key             headers amqp-exchange, amqp-routing-key
headers                           headers of the same names; what is no text is JSON
correlation id                    correlation id
expiration                        time to be received
message id, reply-to, content     headers amqp-message-id, amqp-reply-to, amqp-content-type,
type and encoding, type, app id   amqp-content-encoding, amqp-type, amqp-app-id
priority                          header amqp-priority; to the broker also the priority of a message that has one
timestamp                         header amqp-timestamp, in seconds
redelivered                       header amqp-again, "1"
header triack-id                  id of the message: what is sent to the broker twice has the same
"""

import json
from datetime import UTC, datetime

from aiormq import spec

from triack.base.checks import LONGEST_LIFE_S
from triack.base.errors import UsageError
from triack.bridges.amqp_link import Arrived
from triack.bridges.part import seconds_left
from triack.node.config.bridge_rules import HEADER
from triack.node.handles.message import Message
from triack.node.shell.outgoing_message import MessageProperties

PREFIX = "amqp-"
"""Begins the names of headers that are none of AMQP."""
ID_HEADER = "triack-id"
"""The header with the id of a message."""
SHORT_BYTES_MAX = 255
"""Of a short string of AMQP: it has one byte for its length."""
PRIORITY_MAX = 255
"""It is a byte."""
PERSISTENT = 2
"""The delivery mode in which the broker confirms a message of a durable queue from its disk."""
FRAME_SPARE_BYTES = 1_024
"""Of the frame with the properties: what is there beside texts, and more."""
TEXT_EXTRA_BYTES = 8
"""What each text has beside itself: lengths and the kind of a value."""
EXPIRATION_MAX_MS = 0xFFFF_FFFF
"""RabbitMQ closes the channel for a longer one. A message that may live longer gets none, and is not lost early."""
ROUTES = {"CC", "BCC"}
"""Headers that RabbitMQ reads as lists of further routing keys. It closes the channel if they are text."""
LATEST_S = 253_402_300_799
"""The last second of the year 9999: Python has no later date."""
MS = 1_000
"""Milliseconds in a second, in which AMQP has its expiration."""
_TEXTS = {
    name: f"{PREFIX}{name.replace('_', '-')}"
    for name in ("message_id", "reply_to", "content_type", "content_encoding", "message_type", "app_id")
} | {"message_type": f"{PREFIX}type"}


def from_amqp(it: Arrived) -> MessageProperties:
    """The properties of a message that came from the broker."""
    said = it.properties
    headers = {name: _text_of(value) for name, value in (said.headers or {}).items()}
    headers |= {name: value for property_, name in _TEXTS.items() if (value := getattr(said, property_))}
    headers |= origin_of(it)
    if said.priority is not None:
        headers[f"{PREFIX}priority"] = str(said.priority)
    if said.timestamp is not None:
        headers[f"{PREFIX}timestamp"] = str(int(said.timestamp.timestamp()))
    if it.again:
        headers[f"{PREFIX}again"] = "1"
    found: MessageProperties = {"headers": headers}
    if said.correlation_id:
        found["correlation_id"] = said.correlation_id
    if said.expiration and said.expiration.isdecimal():
        found["time_to_be_received"] = min(LONGEST_LIFE_S, max(1, int(said.expiration)) / MS)
    return found


def origin_of(it: Arrived) -> dict[str, str]:
    """The headers that say where a message came from."""
    return {f"{PREFIX}exchange": it.exchange, f"{PREFIX}routing-key": it.routing_key}


def value_in(it: Arrived, name: str) -> str | None:
    """The value of a name in a rule; None if the message has none."""
    if name.startswith(HEADER):
        value = (it.properties.headers or {}).get(name.removeprefix(HEADER))
        return None if value is None else _text_of(value)
    if name == "message_id":
        return it.properties.message_id or None
    return it.exchange if name == "exchange" else it.routing_key


def _text_of(value: object) -> str:
    """A value of a header as text."""
    return value if isinstance(value, str) else json.dumps(value, default=_plain)


def _plain(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return value.isoformat() if isinstance(value, datetime) else str(value)


def to_amqp(message: Message, frame_bytes: int) -> spec.Basic.Properties:
    """The properties of a message for the broker. Raises UsageError for what AMQP cannot have."""
    headers = {name: value for name, value in message.headers.items() if not name.startswith(PREFIX)}
    headers[ID_HEADER] = message.id
    texts = {property_: message.headers[name] for property_, name in _TEXTS.items() if message.headers.get(name)}
    texts.setdefault("message_id", message.id)
    if message.correlation_id is not None:
        texts["correlation_id"] = message.correlation_id
    if routes := ROUTES & headers.keys():
        raise UsageError(f"RabbitMQ has another use for its header {min(routes)}")
    for text in (*texts.values(), *headers):
        if len(text.encode()) > SHORT_BYTES_MAX:
            raise UsageError(f"{text[:40]!r}... has more than {SHORT_BYTES_MAX} bytes, as AMQP allows")
    sizes = (len(text.encode()) + TEXT_EXTRA_BYTES for text in (*texts.values(), *headers, *headers.values()))
    if sum(sizes) > frame_bytes - FRAME_SPARE_BYTES:
        raise UsageError(f"its properties are larger than a frame of the broker, {frame_bytes} bytes")
    found = spec.Basic.Properties(headers=dict(headers), delivery_mode=PERSISTENT, priority=_priority_of(message))
    for property_, text in texts.items():
        setattr(found, property_, text)
    moment = message.headers.get(f"{PREFIX}timestamp", "")
    if moment.isdecimal() and int(moment) <= LATEST_S:
        found.timestamp = datetime.fromtimestamp(int(moment), UTC)
    left_s = seconds_left(message)
    if left_s is not None:
        expiration_ms = max(1, round(left_s * MS))
        if expiration_ms <= EXPIRATION_MAX_MS:
            found.expiration = str(expiration_ms)
    return found


def _priority_of(message: Message) -> int | None:
    said = message.headers.get(f"{PREFIX}priority", "")
    if said.isdecimal() and int(said) <= PRIORITY_MAX:
        return int(said)
    return message.priority or None  # a transactional message has none, and says 0
