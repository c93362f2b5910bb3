"""The keys of ``[[bridges]]``, and what rules of MQTT mean: topics of a broker to destinations here, queues to topics.

    sensors/{site}/#  -> cloud/telemetry            from the broker: a topic filter, and a destination
    sensors/{site}/#  -> topic:sensors.{site}.{#}   names of levels are replaced by what the topic has there
    commands          -> plant/{machine}/set        to the broker: a queue here, and a topic; names are those of headers
    topic:Games.#     -> games/{topic}              the same for a subscription

``triack.bridges`` runs bridges; their rules are here so that an error names the line of a mistake.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, TypeVar
from urllib.parse import unquote, urlsplit

from triack.base.checks import check_settings
from triack.base.errors import UsageError
from triack.base.names import check_name
from triack.node.config.bridge_rules import (
    NAME,
    GiveExchange,
    GiveRule,
    MessageKey,
    TakeQueue,
    check_key_names,
    filled_destination,
    halves,
    key_of,
)

PORTS = {"mqtt": {"mqtt": 1883, "mqtts": 8883}, "amqp": {"amqp": 5672, "amqps": 5671}}
"""The registered ports of each protocol, without and with TLS."""
OF_ONE_KIND = {"mqtt": ("qos", "retain", "client_id", "session_s"), "amqp": ("mandatory", "by_message_id")}
"""The keys that have a meaning in one protocol alone."""
QOS_MAX = 2
"""Exactly once; MQTT has no more."""
IN_FLIGHT_MAX = 10_000
"""Their packet ids are remembered in each commit of a message of QoS 2, two bytes each."""
SESSION_MAX_S = 0xFFFF_FFFE
"""MQTT has 32 bits, and its greatest number means no end."""
REST = "#"
"""The name of the levels that ``#`` covers."""

R = TypeVar("R")

_LEVEL = re.compile(r"\{(\w+)\}")


class Take:
    """From the broker: ``FILTER -> DESTINATION``. ``filter`` has ``+`` for each level that has a name."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        before, self._to = halves("take", rule)
        levels = before.split("/")
        named = [_LEVEL.fullmatch(level) for level in levels]
        self._names = [None if name is None else name[1] for name in named]
        self._levels = ["+" if name is not None else level for name, level in zip(named, levels, strict=True)]
        self.filter = "/".join(self._levels)
        if any(set(level) & set("+#{}") and len(level) > 1 for level in self._levels) or REST in self._levels[:-1]:
            raise UsageError(f"take {rule!r}: a level is a text, +, {{NAME}}, or at the end #")
        known = {*filter(None, self._names), "topic", *([REST] if self._levels[-1] == REST else ())}
        if unknown := set(NAME.findall(self._to)) - known:
            raise UsageError(f"take {rule!r}: the filter has no {{{min(unknown)}}}")

    def destination(self, topic: str) -> str | None:
        """Where a message of a topic goes; None if this rule is not for the topic.

        Raises UsageError: a level cannot be a part of a destination, or the destination would have no name.
        """
        levels = topic.split("/")
        fixed = self._levels[:-1] if self._levels[-1] == REST else self._levels
        if len(levels) < len(fixed) or (len(levels) > len(fixed) and fixed is self._levels):
            return None
        if any(mine not in ("+", one) for mine, one in zip(fixed, levels, strict=False)):
            return None
        found = {name: level for name, level in zip(self._names, levels, strict=False) if name is not None}
        found |= {REST: ".".join(levels[len(fixed) :]), "topic": ".".join(levels)}
        return filled_destination(self.rule, self._to, found.get, f"topic {topic!r}")

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


class Give(GiveRule):
    """To the broker: ``SOURCE -> TOPIC``."""

    def topic(self, headers: Mapping[str, str], published_to: str | None) -> str:
        """The topic of a message. Raises UsageError: a header is missing, or the topic would be none."""
        levels = None if published_to is None else published_to.replace(".", "/")
        found = self.filled(self.place, headers, levels)
        if not found or set(found) & set("+#\0"):
            raise UsageError(f"give {self.rule!r}: {found!r} is no topic")
        return found


class KeyRule:
    """What makes two messages of a broker the same one. Raises UsageError: there is no such name.

    It is a text with ``{topic}``, ``{payload}`` (its hash), ``{json.A.B}`` (a value in it) or ``{user.NAME}`` (a user
    property).
    """

    def __init__(self, rule: str) -> None:
        self._rule = rule
        check_key_names(rule, ("topic",), "user.")

    def key(self, topic: str, payload: bytes, user: Iterable[tuple[str, str]]) -> str | None:
        """The key of a message; None if the rule is empty, or the message lacks a part."""
        values = dict(user)
        return key_of(self._rule, payload, lambda name: topic if name == "topic" else values.get(name[5:]))


@dataclass(frozen=True, slots=True)
class BridgeTable:
    """The keys of one bridge.

    Attributes:
        name: of the bridge, in `triack status`; it is a part of what the node remembers of it.
        mqtt: the broker, which speaks MQTT 5: `mqtt://HOST:PORT`, or `mqtts://HOST:PORT` with TLS.
        amqp: instead of `mqtt`, a broker of AMQP 0-9-1, such as RabbitMQ: `amqp://HOST:PORT/VHOST`, or `amqps://...`.
        take: what goes from the broker to Triack: `"sensors/{site}/# -> cloud/telemetry"`; of AMQP
            `"orders -> cloud/orders"`.
        give: what goes from Triack to the broker: `"commands -> plant/{machine}/set"`; of AMQP
            `"commands -> plant/machine.{machine}"`, an exchange and a routing key.
        key: makes a key of each message that comes from the broker, such as `"{topic} {json.seq}"`, so that one that
            comes twice counts once. Empty: no keys, but for message ids of AMQP.
        qos: MQTT: of the subscriptions and of what is given to the broker: 0, 1 or 2.
        retain: MQTT: whether the broker retains what it is given.
        mandatory: AMQP: whether a message that the broker would lead to no queue is refused, and not dropped there.
        by_message_id: AMQP: whether the message id is the key of a message that has one.
        in_flight: messages that may be unacknowledged in each direction; of AMQP, from each queue. Too small: each few
            messages take a round trip to the broker; too large: more come again after a crash.
        client_id: MQTT: names the session at the broker; empty for `triack-` and the names of node and bridge.
        session_s: MQTT: how long the broker keeps what comes while the bridge is away. Too small: what comes during a
            long absence is lost at the broker; too large: it keeps messages for a bridge that is gone.
        user: the user at the broker; empty for none, which is `guest` with AMQP.
        password_file: a file with the password; relative to the file that names it.
        tls_ca: with TLS, a file with the authority of the broker's certificate; empty for those of the system.
    """

    name: str
    mqtt: str = ""
    amqp: str = ""
    take: list[str] = field(default_factory=list)
    give: list[str] = field(default_factory=list)
    key: str = ""
    qos: int = 1
    retain: bool = False
    mandatory: bool = True
    by_message_id: bool = True
    in_flight: int = 100
    client_id: str = ""
    session_s: float = 604_800.0
    user: str = ""
    password_file: str = ""
    tls_ca: str = ""

    def __post_init__(self) -> None:
        check_settings(self, may_be_zero=("qos",))
        if bool(self.mqtt) == bool(self.amqp):
            raise UsageError("BridgeTable: mqtt: a bridge has either mqtt or amqp, its broker")
        checks: dict[str, Callable[[], object]] = {
            "name": lambda: check_name(self.name),
            self.kind: lambda: self.address,
            "take": lambda: self.taken_queues if self.amqp else self.taking,
            "give": lambda: self.given_to_exchanges if self.amqp else self.giving,
            "key": lambda: self.message_key if self.amqp else KeyRule(self.key),
        }
        for name, check in checks.items():
            try:
                check()
            except (UsageError, ValueError) as error:
                raise UsageError(f"BridgeTable: {name}: {error}") from None
        for name, most in (("qos", QOS_MAX), ("in_flight", IN_FLIGHT_MAX), ("session_s", SESSION_MAX_S)):
            if getattr(self, name) > most:
                raise UsageError(f"BridgeTable: {name} must be at most {most}, not {getattr(self, name)!r}")
        other = "mqtt" if self.amqp else "amqp"
        for one in fields(self):
            if one.name in OF_ONE_KIND[other] and getattr(self, one.name) != one.default:
                raise UsageError(f"BridgeTable: {one.name} is a key of {other}")
        if not self.take and not self.give:
            raise UsageError("BridgeTable: take is empty, and so is give: there is nothing to do")

    @property
    def kind(self) -> Literal["mqtt", "amqp"]:
        """The protocol of the broker."""
        return "amqp" if self.amqp else "mqtt"

    @property
    def broker(self) -> str:
        """The broker, as it was written."""
        return self.amqp or self.mqtt

    @property
    def address(self) -> tuple[str, int, bool]:
        """Host and port of the broker, and whether it is reached with TLS."""
        found, ports = urlsplit(self.broker), PORTS[self.kind]
        has_path = bool(found.path.strip("/")) and not self.amqp
        if found.scheme not in ports or not found.hostname or has_path or found.username is not None or found.query:
            raise UsageError(f"{self.broker!r} is not {self.kind}://HOST:PORT or {self.kind}s://HOST:PORT")
        return found.hostname, found.port or ports[found.scheme], found.scheme.endswith("s")

    @property
    def vhost(self) -> str:
        """The virtual host of a broker of AMQP."""
        return unquote(urlsplit(self.broker).path[1:]) or "/"

    @property
    def taking(self) -> list[Take]:
        """The rules from a broker of MQTT. Raises UsageError."""
        rules = [Take(rule) for rule in self.take]
        if (both := first_overlap(rules)) is not None:
            raise UsageError(f"{both[0].rule!r} and {both[1].rule!r} may take the same message")
        return rules

    @property
    def giving(self) -> list[Give]:
        """The rules to a broker of MQTT. Raises UsageError."""
        return _once([Give(rule) for rule in self.give], lambda rule: rule.source)

    @property
    def taken_queues(self) -> list[TakeQueue]:
        """The rules from a broker of AMQP. Raises UsageError."""
        return _once([TakeQueue(rule) for rule in self.take], lambda rule: rule.queue)

    @property
    def given_to_exchanges(self) -> list[GiveExchange]:
        """The rules to a broker of AMQP. Raises UsageError."""
        return _once([GiveExchange(rule) for rule in self.give], lambda rule: rule.source)

    @property
    def message_key(self) -> MessageKey:
        """What makes two messages of a broker of AMQP the same one. Raises UsageError."""
        return MessageKey(self.key, by_message_id=self.by_message_id)


def _once(rules: list[R], source_of: Callable[[R], str]) -> list[R]:
    if len({source_of(rule) for rule in rules}) < len(rules):
        raise UsageError("each queue or pattern may be there once")
    return rules
