"""Every key of ``triack.toml``: fields of the settings of a node, by the same name, except those of ``gone``.

Nothing is listed twice: names, types, defaults and descriptions are those of the classes. A path is the tables and the
name of a key. In the paths of queues and peers, ``*`` replaces the name of one.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import cache
from inspect import getdoc
from itertools import takewhile
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from triack.node.config.bridge_table import BridgeTable
from triack.node.config.gone import gone
from triack.node.files.access import DEFAULT_SUITE
from triack.queues.node_settings import Forward, Journal, NodeSettings, Quota, Redelivery, Topic
from triack.queues.routes import Route
from triack.queues.stages import Stage, StageName

SIZES: Mapping[str, int] = {
    "B": 1,
    "kB": 1_000,
    "KiB": 1 << 10,
    "MB": 1_000**2,
    "MiB": 1 << 20,
    "GB": 1_000**3,
    "GiB": 1 << 30,
    "TB": 1_000**4,
    "TiB": 1 << 40,
}
"""Bytes in each unit (IEC 80000-13)."""
SECONDS: Mapping[str, float] = {"ms": 0.001, "s": 1, "min": 60, "h": 3_600, "d": 86_400}

_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([A-Za-z]+)")
"""Accepts more digits than any limit has."""
_BINARY = ("TiB", "GiB", "MiB", "KiB")
_LONG = ("d", "h", "min", "s")


def read_quantity(text: str, units: Mapping[str, float]) -> float | None:
    """The number of bytes or seconds that a text states; None if it is no number with one of these units."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or found[2] not in units:
        return None
    value = float(found[1]) * units[found[2]] if "." in found[1] else int(found[1]) * units[found[2]]
    return int(value) if value == int(value) else value


def write_quantity(value: float, units: Mapping[str, float]) -> str | None:
    """The shortest such text for a number that is a whole multiple of a large unit, or None."""
    for unit in _BINARY if units is SIZES else _LONG:
        if value and not value % units[unit]:
            return f"{int(value // units[unit])} {unit}"
    return None


_BARE = re.compile(r"[A-Za-z0-9_*-]+")
_NAMES_OF_TOML = re.compile(r"\b(?:None|True|False)\b")

KeyPath = tuple[str, ...]
"""The tables, from the outermost on, and the name of a key."""


NUMBERED = ("routes", "bridges")
"""The tables that are lists; their tables have numbers for names."""
NAMED = ("queues", "topics", "peers", *NUMBERED)
"""The tables that hold one table for each queue, root of topics, peer, route or bridge."""


@dataclass(frozen=True, slots=True)
class NodeTable:
    """The keys of ``[node]`` that are arguments of ``triack.open`` and options of ``triack serve``.

    Attributes:
        name: a label for people; for ``triack serve`` by default the name of the data directory.
        data: the data directory; relative to the file that names it. ``none`` keeps everything in memory.
        listen: ``udp://host:port`` or ``tcp://host:port``; port 0 takes a free one. Without it the node only connects.
        announce: where others find it, if not where it listens.
        log: the directory of the session log; relative to the file that names it.
        policy: the policy whose values are in force where no other is given, as ``triack policy list`` has them.
        queues: the only queues that it has; without this key a queue is made when the first message for it arrives.
        suite: cipher and hash; the same at all peers.
        insecure: whether it runs without keys; on loopback addresses only.
        tls_cert: accepts TCP with TLS, with the certificate in this file.
        tls_key: the file of its private key, if that is in another file.
        tls_ca: opens TCP with TLS, to servers with certificates of the authority in this file.
        metrics: ``host:port`` at which ``triack serve`` has metrics for Prometheus, without authentication.
    """

    name: str | None = None
    data: str | None = None
    listen: str | None = None
    announce: str | None = None
    log: str | None = None
    policy: str | None = None
    queues: list[str] | None = None
    suite: str = DEFAULT_SUITE
    insecure: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_ca: str | None = None
    metrics: str | None = None


@dataclass(frozen=True, slots=True)
class PeerTable:
    """The keys of a peer. Its keys and permissions are in ``trust.json`` alone.

    Attributes:
        address: where the peer is, besides the addresses that ``trust.json`` has of it.
    """

    address: str | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """One key.

    Attributes:
        path: the tables that it is in, and its name.
        units: the units that a text may use, or None.
        may_be_none: whether ``"none"`` has a meaning: no value.
    """

    path: KeyPath
    type: Any
    default: Any
    description: str
    units: Mapping[str, float] | None = field(default=None, compare=False)
    may_be_none: bool = False

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path[-1]

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts that it accepts, if only these."""
        kinds = get_args(self.type) if get_origin(self.type) is not Literal else (self.type,)
        return tuple(one for kind in kinds if get_origin(kind) is Literal for one in get_args(kind))


_SAID_OF: Mapping[str, str] = {
    "node": "The node itself.",
    "session": "Every session with a peer.",
    "session.ack_trigger": "When session acks leave.",
    "order": "Every ordered stream.",
    "reconnect": "Connecting again, and what a lost session leaves behind.",
    "redelivery": "When messages that failed come again.",
    "limits": "What the node stores, and what its peers may fill.",
    "limits.quota": "Limits of each queue except the dead-letter queue.",
    "limits.dead_letters": "Limits of the dead-letter queue.",
    "limits.journal": "Limits of journals: copies of what readers took, and of what was sent with `journal`.",
    "limits.transit_quota": "Limits of all messages that wait here for other nodes.",
    "large": "Bodies that are sent in parts.",
    "keys": "Keys with which messages are sent once.",
    "ack_events": "When acknowledgements are reported to the program.",
    "blocking": "The stage that messages have reached when a call that sends them returns.",
    "queues.*.quota": "Limits of one queue; what is not said here is as in [limits.quota].",
    "queues.*.journal": "Keep what readers take from one queue; what is not said here is as in [limits.journal].",
    "queues.*.redelivery": "When failed messages of one queue come again; otherwise as in [redelivery].",
    "queues.*.forward": "Pass on what arrives in one queue, each message once and in order.",
    "topics.*": "Topics below one root, the first level of their names; those of `*` are for all others.",
    "topics.*.quota": "Limits of the messages that subscriptions want; otherwise as in [limits.quota].",
    "peers.*": "One peer: only its address. Its keys and permissions are in trust.json.",
    "routes.*": "One route: messages for the nodes `to` go by the peer `via`, or the first of several that answers. "
    "The first route that fits counts.",
    "bridges.*": "One bridge between this node and a broker of MQTT or AMQP, which `triack serve` runs.",
}
"""The tables, in the order in which pages and files show them. Others come last."""
_ABOUT: Mapping[KeyPath, str] = {tuple(table.split(".")): text for table, text in _SAID_OF.items()}


def part_of(type_: Any) -> Any:
    """The class of settings that a field holds, itself or optionally; None for a field that holds a value."""
    members = () if get_origin(type_) is Mapping else get_args(type_)
    return next((one for one in (type_, *members) if is_dataclass(one)), None)


def _keys_of(kind: Any, prefix: KeyPath, defaults: Any = None) -> Iterator[Key]:
    """The keys of a class of settings and of its parts; ``defaults`` is an object of it with the default values."""
    hints, described = get_type_hints(kind), _descriptions(kind)
    for one in fields(kind):
        type_ = hints[one.name]
        part, default = part_of(type_), getattr(defaults, one.name, None)
        if part is not None:
            within = (one.name,) if prefix == ("node",) else (*prefix, one.name)
            yield from _keys_of(part, within, default or part())
        elif get_origin(type_) is not Mapping:  # what is said of one queue has a table of the queue
            yield _key((*prefix, one.name), type_, default, described.get(one.name, ""))  # -OO leaves out docstrings


def _key(path: KeyPath, type_: Any, default: Any, description: str) -> Key:
    members = get_args(type_) if get_origin(type_) is not Literal else ()
    if Stage in members:
        type_ = StageName | None  # a file has no other way to write them
    elif Fraction in members:
        type_ = float | None
    elif Sequence[str] in members:
        type_ = str | list[str]
    units: Mapping[str, float] | None = None
    if path[-1].endswith("_s"):
        units = SECONDS
    elif path[-1].endswith(("_bytes", "bytes_")):
        units = SIZES
    return Key(path, type_, default, description, units, NoneType in get_args(type_))


@cache
def _descriptions(kind: Any) -> dict[str, str]:
    """The section ``Attributes`` of a class's docstring: a text for each name."""
    section = (getdoc(kind) or "").partition("Attributes:\n")[2]
    found: dict[str, str] = {}
    names: list[str] = []
    for line in takewhile(lambda line: not line[:1].strip(), section.splitlines()):
        if line.startswith("    ") and not line.startswith("     "):
            before, _, text = line.strip().partition(": ")
            names = before.split(", ")
            found.update(dict.fromkeys(names, text))
        elif line.strip():
            for name in names:
                found[name] += f" {line.strip()}"
    return {name: _NAMES_OF_TOML.sub(lambda it: it[0].lower(), text.replace("``", "`")) for name, text in found.items()}


def _all_keys() -> dict[KeyPath, Key]:
    found = [
        *_keys_of(NodeTable, ("node",), NodeTable()),
        *_keys_of(NodeSettings, ("node",), NodeSettings()),
        *_keys_of(Quota, ("queues", "*", "quota"), Quota()),
        *_keys_of(Journal, ("queues", "*", "journal"), Journal()),
        *_keys_of(Redelivery, ("queues", "*", "redelivery"), Redelivery()),
        *_keys_of(Forward, ("queues", "*", "forward"), Forward("cloud/orders")),
        *_keys_of(Topic, ("topics", "*"), Topic()),
        *_keys_of(PeerTable, ("peers", "*"), PeerTable()),
        *_keys_of(Route, ("routes", "*"), Route("*", "hub")),
        *_keys_of(BridgeTable, ("bridges", "*"), BridgeTable("broker", "mqtt://localhost", take=["# -> broker"])),
    ]
    order = list(dict.fromkeys([*_ABOUT, *(key.path[:-1] for key in found)]))
    return {key.path: key for key in sorted(found, key=lambda key: order.index(key.path[:-1]))}


IN_CODE: Mapping[KeyPath, Key] = _all_keys()
"""Every field of the settings; those that are no keys of a file are for policies and tests."""

KEYS: Mapping[KeyPath, Key] = {path: key for path, key in IN_CODE.items() if not gone(path)}

SECTIONS: Mapping[KeyPath, str] = {table: _ABOUT.get(table, "") for table in dict.fromkeys(path[:-1] for path in KEYS)}


def key_at(path: KeyPath) -> Key | None:
    """The key that a path with the names of queues, topics and peers leads to; None if there is none."""
    return KEYS.get(generalised(path))


def generalised(path: KeyPath) -> KeyPath:
    """The same path with a star for the name of a queue or peer, or for the number of a route or bridge."""
    return (path[0], "*", *path[2:]) if len(path) > 1 and path[0] in NAMED else path


def written_path(path: KeyPath) -> str:
    """A path as TOML writes a dotted key."""
    return ".".join(part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False) for part in path)
