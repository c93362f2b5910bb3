"""The configuration of a node: read from its sources, and read again from the same ones.

Arguments beat the environment, which beats the file, which beats the policy, which beats the defaults. A configuration
with any mistake is refused as a whole, and the error lists all of its mistakes.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from triack.base.errors import ConfigError
from triack.base.names import TOPIC_PREFIX
from triack.node.config.bridge_table import BridgeTable
from triack.node.config.building import (
    build_bridges,
    build_node_table,
    build_peers,
    build_routes,
    build_settings,
    find_policy,
)
from triack.node.config.keys import KEYS, NAMED, Key, KeyPath, NodeTable, written_path
from triack.node.config.layers import Layers, Said
from triack.queues.node_settings import Forward, NodeSettings
from triack.queues.routes import Route


class Row(NamedTuple):
    """One setting in force: its key, its path with the names of queues and peers, its value, and who said it."""

    key: Key
    path: KeyPath
    value: Any
    source: str

    @property
    def name(self) -> str:
        """The path, as a dotted key."""
        return written_path(self.path)


@dataclass(frozen=True, slots=True)
class Config:
    """What is in force."""

    node: NodeTable
    peers: Mapping[str, str]
    routes: tuple[Route, ...]
    settings: NodeSettings
    policy: str
    said: Mapping[KeyPath, Said]
    bridges: tuple[BridgeTable, ...] = ()

    def rows(self) -> Iterator[Row]:
        """Every setting in force, without those of optional parts that are not in use."""
        names = {path[:2] for path in self.said if path[0] in NAMED}
        tables = {path[:-1] for path in self.said}
        for key in KEYS.values():
            owners = sorted((name for name in names if name[0] == key.path[0]), key=_place) if "*" in key.path else [()]
            for owner in owners:
                path = (*owner, *key.path[2:]) if owner else key.path
                if self._has(path, tables):
                    yield Row(key, path, self.value(path), self._source(key, path))

    def _has(self, path: KeyPath, tables: set[KeyPath]) -> bool:
        if path[0] == "queues" or (path[0] == "topics" and len(path) > TOPIC_KEY):
            return path[:-1] in tables
        part = self.settings
        for name in path[:-1] if path[0] not in ("node", *NAMED) else ():
            part = getattr(part, name)
            if part is None:
                return False
        return True

    def value(self, path: KeyPath) -> Any:
        """The value in force of a key."""
        if path[0] == "peers":
            return self.peers.get(path[1])
        if path[0] in ("routes", "bridges"):
            return getattr((self.routes if path[0] == "routes" else self.bridges)[int(path[1])], path[2])
        if path[0] in ("queues", "topics"):
            return getattr(self._named(path), path[-1])
        if path[0] == "node":
            return getattr(self.node if hasattr(self.node, path[1]) else self.settings, path[1])
        return attrgetter(".".join(path))(self.settings)

    def _named(self, path: KeyPath) -> object:
        """The settings in force of a queue, or of the topics below a root, or a part of them."""
        settings, name = self.settings, path[1]
        if path[0] == "topics":
            return settings.topic_of(name) if len(path) == TOPIC_KEY else settings.quota_of(f"{TOPIC_PREFIX}{name}")
        if path[2] == "journal":
            return settings.limits.queue_journal.get(name, settings.limits.journal)
        if path[2] == "forward":
            return settings.forwards.get(name) or _NO_FORWARD
        return settings.limits.quota_of(name) if path[2] == "quota" else settings.redelivery_of(name)

    def _source(self, key: Key, path: KeyPath) -> str:
        said = self.said.get(path)
        if said is not None:
            return said.where
        if path[0] in ("queues", "topics") and len(path) > TOPIC_KEY and path[2] != "forward":
            return "redelivery" if path[2] == "redelivery" else f"limits.{path[2]}"
        if self.policy and path[0] not in NAMED and self.value(path) != key.default:
            return f"policy {self.policy.lower()}"
        return "default"


_NO_FORWARD = Forward("-")
"""Of a queue that the node does not pass on: only a table with a mistake asks for it."""
TOPIC_KEY = 3
"""Parts of the path of a key in the table of a root; a key of its quota has one more, as those of queues do."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the settings of a node come from; later ones beat earlier ones."""

    file: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[KeyPath, tuple[object, str]] = field(default_factory=dict)
    assignments: Sequence[tuple[str, str]] = ()

    def read(self) -> Config:
        """Read all of them. Blocks. Raises ConfigError with every mistake, one a line: something cannot be used."""
        layers = Layers()
        if self.file is not None:
            layers.add_file(self.file)
        layers.add_environment(self.environment)
        for text, where in self.assignments:
            layers.add_assignment(text, where)
        layers.add_arguments(self.arguments)
        policy = find_policy(layers)
        node, peers, routes = build_node_table(layers), build_peers(layers), build_routes(layers)
        bridges = build_bridges(layers)
        config = Config(node, peers, routes, build_settings(layers, policy), policy, layers.said, bridges)
        if layers.problems:
            raise ConfigError("\n".join(layers.problems))
        return config


def sources_of(
    file: Path,
    given: Mapping[str, object],
    peers: Mapping[str, str],
    routes: Sequence[Route],
    overrides: Mapping[str, object],
) -> Sources:
    """The sources of ``triack.open(config=)``: the file, the environment of this process, and the arguments."""
    arguments: dict[KeyPath, tuple[object, str]] = {
        tuple(name.split(".")): (value, f"overrides of {name}") for name, value in overrides.items()
    }
    arguments |= {
        ("node", name): (_plain(value), f"argument {name}") for name, value in given.items() if value is not None
    }
    arguments |= {("peers", name, "address"): (address, "argument peers") for name, address in peers.items()}
    arguments |= said_routes(routes, "argument routes")
    return Sources(file, dict(os.environ), arguments)


def said_routes(routes: Sequence[Route], where: str) -> dict[KeyPath, tuple[object, str]]:
    """Routes as values of keys, with the words for their place."""
    return {
        ("routes", str(index), name): (value, where)
        for index, route in enumerate(routes)
        for name, value in asdict(route).items()
    }


def _place(name: KeyPath) -> tuple[int, str]:
    """Where a table of its kind comes: by its number, if it has one."""
    return (int(name[1]) if name[1].isdecimal() else 0), name[1]


def _plain(value: object) -> object:
    if isinstance(value, PurePath):
        return str(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
