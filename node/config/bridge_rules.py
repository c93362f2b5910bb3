"""What the rules of all bridges share, texts with names in braces, and the rules of AMQP 0-9-1.

orders          -> cloud/orders                  from the broker: a queue there, and a destination
events          -> topic:plant.{routing_key}     names are replaced by what the message has
commands        -> plant/machine.{machine}       to the broker: a queue here, an exchange, and a routing key
commands        -> /commands                     the default exchange: the routing key is the name of a queue
topic:Games.#   -> games/{topic}                 the same for a subscription
"""

import json
import re
from collections.abc import Callable, Mapping
from hashlib import sha256

from triack.base.errors import UsageError
from triack.base.names import TOPIC_PREFIX, check_queue

KEY_BYTES_MAX = 255
"""Of a key of a message (``MessageProperties``)."""
NAME = re.compile(r"\{([^{}]+)\}")
SHORT_BYTES_MAX = 255
"""Of a routing key, or the name of a queue or exchange (AMQP 0-9-1, short string)."""
HEADER = "header."
"""Begins the name of a header of AMQP."""
MESSAGE_NAMES = ("message_id", "routing_key", "exchange")
_INSERTED = re.compile(r"[\w-][\w.-]*")
"""What a name may bring into a destination: no ``/`` or ``:``, which would lead to another node or a topic."""


def halves(what: str, rule: str) -> tuple[str, str]:
    """Both sides of a rule. Raises UsageError."""
    before, arrow, after = (part.strip() for part in rule.partition("->"))
    if not (before and arrow and after):
        raise UsageError(f'{what} {rule!r}: write "FROM -> TO"')
    return before, after


def _filled(template: str, value_of: Callable[[str], str | None]) -> str | None:
    """A template with the values of its names; None if one of them has none."""
    missing = False

    def fill(match: re.Match[str]) -> str:
        nonlocal missing
        value = value_of(match[1])
        missing = missing or value is None
        return value or ""

    text = NAME.sub(fill, template)
    return None if missing else text


def filled_destination(rule: str, template: str, value_of: Callable[[str], str | None], origin: str) -> str:
    """The destination of a message.

    Raises UsageError: a value is missing or cannot be a part of a destination, or the destination would have no name.
    """
    for name in NAME.findall(template):
        value = value_of(name)
        if value is None:
            raise UsageError(f"take {rule!r}: the message of {origin} has no {name}")
        if not _INSERTED.fullmatch(value):
            raise UsageError(f"take {rule!r}: {value!r} of {origin} is no part of a destination")
    destination = _filled(template, value_of) or ""
    check_queue(destination.rpartition("/")[2])
    return destination


class GiveRule:
    """To a broker: ``SOURCE -> PLACE``.

    Attributes:
        source: a queue of this node, or ``topic:PATTERN`` or ``NODE/topic:PATTERN``.
        place: a template; names in it are those of headers.
    """

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.source, self.place = halves("give", rule)
        if TOPIC_PREFIX not in self.source and "/" in self.source:
            raise UsageError(f"give {rule!r}: a queue of this node has no /")

    @property
    def pattern(self) -> str | None:
        """The topics of a subscription; None for a queue."""
        return self.source.removeprefix(TOPIC_PREFIX) if TOPIC_PREFIX in self.source else None

    def filled(self, template: str, headers: Mapping[str, str], published_to: str | None) -> str:
        """Fill a template with headers of a message, and the topic that it was published to. Raises UsageError."""
        values = {**headers, **({} if published_to is None else {"topic": published_to})}
        found = _filled(template, values.get)
        if found is None:
            missing = next(name for name in NAME.findall(template) if name not in values)
            raise UsageError(f"give {self.rule!r}: the message has no header {missing}")
        return found


def check_key_names(rule: str, names: tuple[str, ...], headers: str) -> None:
    """Check the names in the rule of a key. Raises UsageError: there is no such name."""
    found = NAME.findall(rule)
    wrong = [one for one in found if one not in (*names, "payload") and not one.startswith(("json.", headers))]
    if rule and (wrong or not found):
        listed = ", ".join(f"{{{name}}}" for name in (*names, "payload", "json.FIELD"))
        raise UsageError(f"key {rule!r}: write {listed} or {{{headers}NAME}}")


def key_of(rule: str, payload: bytes, value_of: Callable[[str], str | None]) -> str | None:
    """The key of a message; None if the rule is empty, or the message lacks a part."""
    if not rule:
        return None

    def value(name: str) -> str | None:
        if name == "payload":
            return _digest(payload)
        return _in_json(payload, name.removeprefix("json.")) if name.startswith("json.") else value_of(name)

    key = _filled(rule, value)
    if key is None:
        return None
    encoded = key.encode(errors="surrogatepass")  # JSON may name half a letter
    is_key = len(encoded) <= KEY_BYTES_MAX and encoded.decode(errors="replace") == key
    return key if is_key else _digest(encoded)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _in_json(payload: bytes, path: str) -> str | None:
    """A text or a number in a payload; None if it is not there."""
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return str(found) if isinstance(found, str | int | float) else None


class TakeQueue:
    """From the broker: ``QUEUE -> DESTINATION``."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.queue, self._to = halves("take", rule)
        if NAME.search(self.queue) or len(self.queue.encode()) > SHORT_BYTES_MAX:
            raise UsageError(f"take {rule!r}: {self.queue!r} is no queue of a broker")
        for name in NAME.findall(self._to):
            if name not in ("routing_key", "exchange") and not name.startswith(HEADER):
                raise UsageError(f"take {rule!r}: write {{routing_key}}, {{exchange}} or {{header.NAME}}")

    def destination(self, value_of: Callable[[str], str | None]) -> str:
        """Where a message goes, by the values of names. Raises UsageError if that is nowhere."""
        return filled_destination(self.rule, self._to, value_of, f"queue {self.queue!r}")


class GiveExchange(GiveRule):
    """To the broker: ``SOURCE -> EXCHANGE/ROUTING_KEY``."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.exchange, slash, self._routing_key = self.place.partition("/")
        if not slash or NAME.search(self.exchange) or len(self.exchange.encode()) > SHORT_BYTES_MAX:
            raise UsageError(f"give {rule!r}: write SOURCE -> EXCHANGE/ROUTING_KEY; the exchange may be empty")

    def routing_key(self, headers: Mapping[str, str], published_to: str | None) -> str:
        """The routing key of a message. Raises UsageError if a header is missing, or it is too long."""
        found = self.filled(self._routing_key, headers, published_to)
        if len(found.encode()) > SHORT_BYTES_MAX:
            raise UsageError(f"give {self.rule!r}: a routing key of {len(found.encode())} bytes")
        return found


class MessageKey:
    """What makes two messages of a broker the same one: the message id if there is one, or else a rule.

    ``rule`` is a text with ``{message_id}``, ``{routing_key}``, ``{exchange}``, ``{payload}``, ``{json.A.B}`` or
    ``{header.NAME}``; empty: none. With ``by_message_id`` the message id comes first. Raises UsageError: no such name.
    """

    def __init__(self, rule: str, *, by_message_id: bool) -> None:
        check_key_names(rule, MESSAGE_NAMES, HEADER)
        self._rules = [*(["{message_id}"] if by_message_id else []), rule]

    def key(self, payload: bytes, value_of: Callable[[str], str | None]) -> str | None:
        """The key of a message; None if it lacks a part of each."""
        return next((key for rule in self._rules if (key := key_of(rule, payload, value_of))), None)
