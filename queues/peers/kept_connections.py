"""The transport connections that the engine needs: those that carry open conversations.

TCP keeps a connection that a peer has opened only as long as it carries one; other transports have none to keep.
"""

from collections import Counter
from dataclasses import dataclass


@dataclass(slots=True)
class KeepConnection:
    """The connection at that address carries an open conversation: keep it, whichever end has opened it."""

    address: str


@dataclass(slots=True)
class DropConnection:
    """The connection at that address no longer carries one."""

    address: str


class KeptConnections:
    """Counts the open conversations of each connection, and reports when the first one begins and the last one ends.

    Attributes:
        changed: the connections of which ``take`` may have something to say.
    """

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._told: set[str] = set()
        self.changed: dict[str, None] = {}

    def add(self, path: str) -> None:
        """An open conversation uses that path now."""
        self._count(path, 1)

    def remove(self, path: str) -> None:
        """It is gone, or uses another path."""
        self._count(path, -1)

    def _count(self, path: str, change: int) -> None:
        if not path.startswith("tcp:"):
            return
        self._open[path] += change
        if not self._open[path]:
            del self._open[path]
        self.changed[path] = None

    def take(self) -> tuple[list[KeepConnection], list[DropConnection]]:
        """Changes since the last call, without connections that were dropped and kept again."""
        changed, self.changed = self.changed, {}
        vouch = [path for path in changed if path in self._open and path not in self._told]
        release = [path for path in changed if path not in self._open and path in self._told]
        self._told.update(vouch)
        self._told.difference_update(release)
        return [KeepConnection(path) for path in vouch], [DropConnection(path) for path in release]
