"""Which settings a running node adopts when its file is read again, and which ones need a restart.

As in PostgreSQL, a file with a mistake changes nothing. Of a good file, everything that can change in a running node is
in force immediately, and the rest is named.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import TypeVar

from triack.base.errors import ConfigError, IdentityError, NotLoopback
from triack.node.config.config import Config, Sources
from triack.node.config.keys import KeyPath, written_path
from triack.node.files import operator_log
from triack.node.handles.verbs import Reloaded
from triack.node.shell.engine_handle import EngineHandle

_TABLES = (
    ("queues",),
    ("topics",),
    ("peers",),
    ("routes",),
    ("bridges",),
    ("redelivery",),
    ("limits", "quota"),
    ("limits", "dead_letters"),
    ("limits", "journal"),
)
_KEYS = (
    ("limits", "node_quota_bytes"),
    ("limits", "peer_quota_bytes"),
    ("limits", "disk_reserve_bytes"),
    ("node", "max_redeliveries"),
    ("node", "close_timeout_s"),
)
"""Other keys that the node reads for each message, or once at the end."""
_OF_QUEUES = ("queue_quota", "queue_journal", "queue_redelivery", "forwards")
"""The fields of the settings with what is said of single queues."""

T = TypeVar("T")


class Change:
    """What a file that was read again has changed.

    Attributes:
        config: what will be in force: from the running configuration all that needs a restart, from the file the rest.
        in_force: the keys that have changed in it.
        needs_restart: the keys of the file that a running node cannot adopt.
    """

    def __init__(self, running: Config, fresh: Config) -> None:
        changed = _changed(running, fresh)
        self.in_force = _named(path for path in changed if may_change(path))
        self.needs_restart = _named(path for path in changed if not may_change(path))
        self.config = _mixed(running, fresh)


class Reload:
    """Reads the settings of a running node again."""

    def __init__(self, sources: Sources, running: Config) -> None:
        self.sources = sources
        self.running = running
        # Hears what is in force after each reading, for whatever runs the bridges.
        self.on_change: Callable[[Config], None] = lambda _config: None
        self._turn = asyncio.Lock()

    async def take_up(self, port: EngineHandle) -> Reloaded:
        """Read the settings again, and put in force what can change: all of it, or nothing.

        Raises:
            ConfigError, IdentityError, NotLoopback: something cannot be used; nothing has changed.
            NodeClosed: the node has ended.
        """
        file = self.sources.file
        async with self._turn:
            try:
                # In no thread of the node: the next commit does not wait for it.
                change = await asyncio.to_thread(lambda: Change(self.running, self.sources.read()))
                port.check_alive()
                # The only step that may fail comes first.
                await port.change_addresses(dict(change.config.peers))
            except (ConfigError, IdentityError, NotLoopback) as error:
                operator_log.error(f"{file} not used, the settings before are still in force: {error}", node=port.name)
                raise
            await port.set_routes(change.config.routes)
            port.change_settings(change.config.settings)
            self.running = change.config
            self.on_change(change.config)
        operator_log.info(f"{file} read again, in force: {', '.join(change.in_force) or 'no change'}", node=port.name)
        if change.needs_restart:
            left = ", ".join(change.needs_restart)
            operator_log.warning(f"{file} has changes that need a restart: {left}", node=port.name)
        return Reloaded(change.in_force, change.needs_restart)


def may_change(path: KeyPath) -> bool:
    """Whether a running node adopts another value of a key."""
    return path in _KEYS or any(path[: len(table)] == table for table in _TABLES)


def _changed(running: Config, fresh: Config) -> list[KeyPath]:
    before, after = ({row.path: row.value for row in config.rows()} for config in (running, fresh))
    missing = object()
    return [path for path in {**before, **after} if before.get(path, missing) != after.get(path, missing)]


def _named(paths: Iterable[KeyPath]) -> tuple[str, ...]:
    return tuple(written_path(path) for path in paths)


def _mixed(running: Config, fresh: Config) -> Config:
    limits = _renewed(running.settings.limits, fresh.settings.limits, ("limits",))
    settings = replace(_renewed(running.settings, fresh.settings, ("node",), ()), limits=limits)
    said = {path: it for path, it in running.said.items() if not may_change(path)}
    said |= {path: it for path, it in fresh.said.items() if may_change(path)}
    return Config(running.node, fresh.peers, fresh.routes, settings, running.policy, said, fresh.bridges)


def _renewed(old: T, new: T, *tables: KeyPath) -> T:
    names = [it.name for it in fields(old)]  # type: ignore[arg-type]
    fresh = [it for it in names if it in _OF_QUEUES or any(may_change((*table, it)) for table in tables)]
    return replace(old, **{name: getattr(new, name) for name in fresh})  # type: ignore[type-var]
