"""Which streams the engine has use for: those by which open conversations go.

TCP keeps a connection that somebody else has opened only as long as someone vouches for it; other transports have
nothing that could be kept.
"""

from collections import Counter
from dataclasses import dataclass

__all__ = ["DropConnection", "KeepConnection", "Vouching"]


@dataclass(slots=True)
class KeepConnection:
    """There is an open conversation by the stream at that address: it is to be kept, whoever has opened it."""

    address: str


@dataclass(slots=True)
class DropConnection:
    """There is none any more."""

    address: str


class Vouching:
    """Counts the open conversations of each stream, and says when the first is there and when the last has gone."""

    __slots__ = ("_changed", "_open", "_told")

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._told: set[str] = set()
        self._changed: dict[str, None] = {}

    def add(self, path: str) -> None:
        """An open conversation goes by that path now."""
        self._count(path, 1)

    def remove(self, path: str) -> None:
        """It is gone, or goes by another one."""
        self._count(path, -1)

    def _count(self, path: str, change: int) -> None:
        if not path.startswith("tcp:"):
            return
        self._open[path] += change
        if not self._open[path]:
            del self._open[path]
        self._changed[path] = None

    def take(self) -> tuple[list[KeepConnection], list[DropConnection]]:
        """What has changed since the last call; a stream that went and came back has not."""
        if not self._changed:
            return [], []
        changed, self._changed = self._changed, {}
        vouch = [path for path in changed if path in self._open and path not in self._told]
        release = [path for path in changed if path not in self._open and path in self._told]
        self._told.update(vouch)
        self._told.difference_update(release)
        return [KeepConnection(path) for path in vouch], [DropConnection(path) for path in release]
