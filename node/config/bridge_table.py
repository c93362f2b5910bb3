"""The keys of ``[[bridges]]``, and what its rules mean: topics of a broker to destinations here, and queues to topics.

    sensors/{site}/#  -> cloud/telemetry            from the broker: a topic filter, and a destination
    sensors/{site}/#  -> topic:sensors.{site}.{#}   names of levels stand for what the topic has there
    commands          -> plant/{machine}/set        to the broker: a queue here, and a topic; names are those of headers
    topic:Games.#     -> games/{topic}              the same for a subscription

Running bridges is the work of ``triack.bridges``; this is here so that an error names the line of a mistake.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import urlsplit

from triack.base.checks import check_settings
from triack.base.errors import UsageError
from triack.base.names import TOPIC_PREFIX, check_name, check_queue

__all__ = ["BridgeTable", "Give", "KeyRule", "Take", "first_overlap"]

PORTS = {"mqtt": 1883, "mqtts": 8883}
"""The registered ports of MQTT, without and with TLS."""
QOS_MAX = 2
"""Exactly once; MQTT has no more."""
IN_FLIGHT_MAX = 10_000
"""Their packet ids are remembered in each commit of a message of QoS 2, two bytes each."""
SESSION_MAX_S = 0xFFFF_FFFE
"""MQTT has 32 bits, and its greatest number stands for no end."""
KEY_BYTES_MAX = 255
"""Of a key of a message (``MessageProperties``)."""
REST = "#"
"""The name of the levels for which ``#`` stands."""

_NAME = re.compile(r"\{([^{}]+)\}")
_LEVEL = re.compile(r"\{(\w+)\}")
_INSERTED = re.compile(r"[\w-][\w.-]*")
"""What a level may bring into a destination: no ``/`` or ``:``, which would lead to another node or a topic."""


def _halves(what: str, rule: str) -> tuple[str, str]:
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

    text = _NAME.sub(fill, template)
    return None if missing else text


class Take:
    """From the broker: ``FILTER -> DESTINATION``.

    Attributes:
        rule: as it was written.
        filter: what is subscribed to at the broker, with ``+`` for each level that has a name.
    """

    def __init__(self, rule: str) -> None:
        self.rule = rule
        before, self._to = _halves("take", rule)
        levels = before.split("/")
        named = [_LEVEL.fullmatch(level) for level in levels]
        self._names = [None if name is None else name[1] for name in named]
        self._levels = ["+" if name is not None else level for name, level in zip(named, levels, strict=True)]
        self.filter = "/".join(self._levels)
        if any(set(level) & set("+#{}") and len(level) > 1 for level in self._levels) or REST in self._levels[:-1]:
            raise UsageError(f"take {rule!r}: a level is a text, +, {{NAME}}, or at the end #")
        known = {*filter(None, self._names), "topic", *([REST] if self._levels[-1] == REST else ())}
        if unknown := set(_NAME.findall(self._to)) - known:
            raise UsageError(f"take {rule!r}: the filter has no {{{min(unknown)}}}")

    def destination(self, topic: str) -> str | None:
        """Where a message of a topic goes; None if this rule is not for the topic.

        Raises:
            UsageError: a level cannot be a part of a destination, or the destination would have no name.
        """
        levels = topic.split("/")
        fixed = self._levels[:-1] if self._levels[-1] == REST else self._levels
        if len(levels) < len(fixed) or (len(levels) > len(fixed) and fixed is self._levels):
            return None
        if any(mine not in ("+", one) for mine, one in zip(fixed, levels, strict=False)):
            return None
        found = {name: level for name, level in zip(self._names, levels, strict=False) if name is not None}
        found |= {REST: ".".join(levels[len(fixed) :]), "topic": ".".join(levels)}
        for name in _NAME.findall(self._to):
            if not _INSERTED.fullmatch(found[name]):
                raise UsageError(f"take {self.rule!r}: {found[name]!r} of topic {topic!r} is no part of a destination")
        destination = _filled(self._to, found.get) or ""
        check_queue(destination.rpartition("/")[2])
        return destination

    def overlaps(self, other: "Take") -> bool:
        """Whether a topic may fit both, so that the broker may deliver it twice."""
        mine, others = self._levels, other._levels  # noqa: SLF001 - of the same class
        for a, b in zip(mine, others, strict=False):
            if REST in (a, b):
                return True
            if a != b and "+" not in (a, b):
                return False
        longer, shorter = sorted((mine, others), key=len, reverse=True)
        return len(longer) == len(shorter) or longer[len(shorter)] == REST


def first_overlap(rules: Sequence[Take]) -> tuple[Take, Take] | None:
    """Two rules that may take the same message."""
    pairs = ((a, b) for at, a in enumerate(rules) for b in rules[:at])
    return next(((b, a) for a, b in pairs if a.overlaps(b)), None)


class Give:
    """To the broker: ``SOURCE -> TOPIC``.

    Attributes:
        rule: as it was written.
        source: a queue of this node, or ``topic:PATTERN`` or ``NODE/topic:PATTERN``.
    """

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.source, self._to = _halves("give", rule)
        if TOPIC_PREFIX not in self.source and "/" in self.source:
            raise UsageError(f"give {rule!r}: a queue of this node has no /")

    @property
    def pattern(self) -> str | None:
        """The topics of a subscription; None for a queue."""
        return self.source.removeprefix(TOPIC_PREFIX) if TOPIC_PREFIX in self.source else None

    def topic(self, headers: Mapping[str, str], published_to: str | None) -> str:
        """The topic of a message.

        Args:
            headers: of the message.
            published_to: the topic to which it was published here.

        Raises:
            UsageError: a header is missing, or the topic would be none.
        """
        levels = None if published_to is None else published_to.replace(".", "/")
        found = _filled(self._to, lambda name: levels if name == "topic" else headers.get(name))
        if found is None:
            missing = next(name for name in _NAME.findall(self._to) if name not in headers and name != "topic")
            raise UsageError(f"give {self.rule!r}: the message has no header {missing}")
        if not found or set(found) & set("+#\0"):
            raise UsageError(f"give {self.rule!r}: {found!r} is no topic")
        return found


class KeyRule:
    """What makes two messages of a broker the same one.

    It is a text with ``{topic}``, ``{payload}``, ``{json.A.B}`` or ``{user.NAME}``, which stand for the topic, the
    payload's hash, a value in it, and a user property.

    Raises:
        UsageError: there is no such name.
    """

    def __init__(self, rule: str) -> None:
        self._rule = rule
        names = _NAME.findall(rule)
        wrong = [one for one in names if one not in ("topic", "payload") and not one.startswith(("json.", "user."))]
        if rule and (wrong or not names):
            raise UsageError(f"key {rule!r}: write {{topic}}, {{payload}}, {{json.FIELD}} or {{user.NAME}}")

    def key(self, topic: str, payload: bytes, user: Iterable[tuple[str, str]]) -> str | None:
        """The key of a message; None if the rule is empty, or the message lacks a part."""
        if not self._rule:
            return None
        values = dict(user)

        def value_of(name: str) -> str | None:
            kind, _, path = name.partition(".")
            if kind == "user":
                return values.get(path)
            return _in_json(payload, path) if kind == "json" else topic if kind == "topic" else _digest(payload)

        key = _filled(self._rule, value_of)
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


@dataclass(frozen=True, slots=True)
class BridgeTable:
    """The keys of one bridge.

    Attributes:
        name: of the bridge, in `triack status`; it is a part of what the node remembers of it.
        mqtt: the broker, which speaks MQTT 5: `mqtt://HOST:PORT`, or `mqtts://HOST:PORT` with TLS.
        take: what goes from the broker to Triack, such as `"sensors/{site}/# -> cloud/telemetry"`.
        give: what goes from Triack to the broker, such as `"commands -> plant/{machine}/set"`.
        key: makes a key of each message that comes from the broker, such as `"{topic} {json.seq}"`, so that one that
            comes twice counts once. Empty: no keys.
        qos: of the subscriptions and of what is given to the broker: 0, 1 or 2.
        retain: whether the broker retains what it is given.
        in_flight: messages that may be unacknowledged in each direction. Too small: each few messages take a round trip
            to the broker; too large: more come again after a crash.
        client_id: names the session at the broker; empty for `triack-` and the names of node and bridge.
        session_s: how long the broker keeps what comes while the bridge is away. Too small: what comes during a long
            absence is lost at the broker; too large: it keeps messages for a bridge that is gone.
        user: the user at the broker; empty for none.
        password_file: a file with the password; relative to the file that names it.
        tls_ca: with `mqtts`, a file with the authority of the broker's certificate; empty for those of the system.
    """

    name: str
    mqtt: str
    take: list[str] = field(default_factory=list)
    give: list[str] = field(default_factory=list)
    key: str = ""
    qos: int = 1
    retain: bool = False
    in_flight: int = 100
    client_id: str = ""
    session_s: float = 604_800.0
    user: str = ""
    password_file: str = ""
    tls_ca: str = ""

    def __post_init__(self) -> None:
        check_settings(self, may_be_zero=("qos",))
        checks: dict[str, Callable[[], object]] = {
            "name": lambda: check_name(self.name),
            "mqtt": lambda: self.address,
            "take": lambda: self.taking,
            "give": lambda: self.giving,
            "key": lambda: KeyRule(self.key),
        }
        for name, check in checks.items():
            try:
                check()
            except (UsageError, ValueError) as error:
                raise UsageError(f"BridgeTable: {name}: {error}") from None
        for name, most in (("qos", QOS_MAX), ("in_flight", IN_FLIGHT_MAX), ("session_s", SESSION_MAX_S)):
            if getattr(self, name) > most:
                raise UsageError(f"BridgeTable: {name} must be at most {most}, not {getattr(self, name)!r}")
        if not self.take and not self.give:
            raise UsageError("BridgeTable: take is empty, and so is give: there is nothing to do")

    @property
    def address(self) -> tuple[str, int, bool]:
        """Host and port of the broker, and whether it is reached with TLS."""
        found = urlsplit(self.mqtt)
        if found.scheme not in PORTS or not found.hostname or found.path.strip("/") or found.username is not None:
            raise UsageError(f"{self.mqtt!r} is not mqtt://HOST:PORT or mqtts://HOST:PORT")
        return found.hostname, found.port or PORTS[found.scheme], found.scheme == "mqtts"

    @property
    def taking(self) -> list[Take]:
        """The rules from the broker. Raises UsageError."""
        rules = [Take(rule) for rule in self.take]
        if (both := first_overlap(rules)) is not None:
            raise UsageError(f"{both[0].rule!r} and {both[1].rule!r} may take the same message")
        return rules

    @property
    def giving(self) -> list[Give]:
        """The rules to the broker. Raises UsageError."""
        rules = [Give(rule) for rule in self.give]
        if len({rule.source for rule in rules}) < len(rules):
            raise UsageError("each queue or pattern may be there once")
        return rules
