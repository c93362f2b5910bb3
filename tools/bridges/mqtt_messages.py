"""A message of MQTT as one of Triack, and back.

MQTT 5                     Triack
topic                      header mqtt-topic
content type               header mqtt-content-type
response topic             header mqtt-response-topic
correlation data           correlation id; header mqtt-correlation with its hex digits if it is no text
user properties            headers of the same names; of several with one name, the last
message expiry             time to be received
retained, sent again       headers mqtt-retain and mqtt-again, "1"
user property triack-id    id of the message: what is sent to the broker twice has the same
"""

import re
from typing import Any

from gmqtt.mqtt.property import Property

from triack.base.errors import UsageError
from triack.bridges.framing import packed_length
from triack.bridges.mqtt_link import Arrived
from triack.bridges.part import seconds_left
from triack.node.handles.message import Message
from triack.node.shell.outgoing_message import MessageProperties

PREFIX = "mqtt-"
"""Begins the names of headers that are no user properties."""
ID_PROPERTY = "triack-id"
"""The user property with the id of a message."""
_ID_NAME = b"&" + len(ID_PROPERTY).to_bytes(2) + ID_PROPERTY.encode()
"""Begins that property: 38 is a user property, and each text has its length before it."""
EXPIRY_MAX_S = 0xFFFF_FFFF
"""The number has 32 bits."""
TEXT_BYTES_MAX = 0xFFFF
"""Of a text of MQTT, which has two bytes for its length."""
_FORBIDDEN = re.compile("[\0-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
"""Letters for which a broker may close the connection (MQTT 5, section 1.5.4)."""
_HEX = re.compile("([0-9a-f]{2})+")
_TEXTS = {"content_type": f"{PREFIX}content-type", "response_topic": f"{PREFIX}response-topic"}


def from_mqtt(it: Arrived) -> MessageProperties:
    """The properties of a message that came from the broker."""
    said = it.properties
    headers = dict(said.get("user_property", ()))
    headers |= {name: said[property_][0] for property_, name in _TEXTS.items() if property_ in said}
    flags = {f"{PREFIX}retain": it.retain, f"{PREFIX}again": it.again}
    headers |= {name: "1" for name, is_set in flags.items() if is_set}
    headers[f"{PREFIX}topic"] = it.topic
    found: MessageProperties = {"headers": headers}
    if "correlation_data" in said:
        data = bytes(said["correlation_data"][0])
        try:
            found["correlation_id"] = data.decode()
        except UnicodeDecodeError:
            headers[f"{PREFIX}correlation"] = data.hex()
    if "message_expiry_interval" in said:
        found["time_to_be_received"] = float(max(1, said["message_expiry_interval"][0]))
    return found


def to_mqtt(message: Message) -> bytes:
    """The properties of a message, as the broker gets them. Raises UsageError for what MQTT cannot have."""
    message_id = message.id.encode()
    found = _ID_NAME + len(message_id).to_bytes(2) + message_id
    if message.has_properties or message.receive_by is not None:
        found = b"".join(Property.factory(name=name).dumps(value) for name, value in _named(message).items()) + found
    return packed_length(len(found)) + found


def _named(message: Message) -> dict[str, Any]:
    """What its sender has set, as gmqtt names it."""
    headers = message.headers
    user = [(name, value) for name, value in headers.items() if not name.startswith(PREFIX) and name != ID_PROPERTY]
    found: dict[str, Any] = {"user_property": [(as_text(name), as_text(value)) for name, value in user]} if user else {}
    found |= {property_: as_text(headers[name]) for property_, name in _TEXTS.items() if name in headers}
    if set(found.get("response_topic", "")) & set("+#"):
        raise UsageError("a response topic is no filter")
    correlation, digits = message.correlation_id, headers.get(f"{PREFIX}correlation", "")
    if correlation is not None:
        found["correlation_data"] = as_text(correlation).encode()
    elif _HEX.fullmatch(digits):
        found["correlation_data"] = bytes.fromhex(digits)
    left_s = seconds_left(message)
    if left_s is not None:
        found["message_expiry_interval"] = min(EXPIRY_MAX_S, max(1, round(left_s)))
    return found


def as_text(text: str) -> str:
    """A text that MQTT can carry. Raises UsageError for any other."""
    if len(text.encode()) > TEXT_BYTES_MAX or _FORBIDDEN.search(text):
        raise UsageError(f"{text[:40]!r} is no text that MQTT can carry")
    return text
