"""The queues that an operator has paused, until the operator resumes them; a restart changes nothing.

Promise: nothing new leaves a paused outgoing stream, and no reader gets a message of a paused queue of this node. Both
accept messages until their quotas are full. When arrivals are paused too, a queue of this node accepts none.

A name is that of a queue of this node, ``peer/queue``, or ``peer/`` for all outgoing streams to a peer.
"""

from collections.abc import Mapping
from struct import Struct
from typing import NamedTuple

from triack.base.commit import OWN_STATE, Commit, kept_under
from triack.base.errors import StoreDamaged

_PREFIX = f"{OWN_STATE}paused:"
_PAUSE = Struct("!Q?")


class Pause(NamedTuple):
    """One pause, by the wall clock. ``arrivals``: whether a queue of this node accepts nothing meanwhile."""

    since_ms: int
    arrivals: bool


class Pauses:
    """The paused queues of one node, by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Pause] = {}

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Restore the pauses from the store. Raises StoreDamaged."""
        for name, value in kept_under(state, _PREFIX):
            if len(value) != _PAUSE.size:
                raise StoreDamaged(f"paused queue {name}: wrong length")
            self.by_name[name] = Pause(*_PAUSE.unpack(value))

    def pause(self, name: str, *, arrivals: bool, now_ms: int, commit: Commit) -> None:
        """Pause a queue with the next commit. If it is paused already, it keeps the time of its pause."""
        before = self.by_name.get(name)
        pause = Pause(now_ms if before is None else before.since_ms, arrivals)
        self.by_name[name] = pause
        commit.state[_PREFIX + name] = _PAUSE.pack(*pause)

    def resume(self, name: str, commit: Commit) -> bool:
        """Resume a queue with the next commit. Returns whether it was paused."""
        if self.by_name.pop(name, None) is None:
            return False
        commit.state[_PREFIX + name] = None
        return True

    def of_queue(self, name: str) -> Pause | None:
        """The pause of a queue of this node."""
        return self.by_name.get(name)

    def of_stream(self, peer: str, queue: str) -> Pause | None:
        """The pause of an outgoing stream: that of its queue, or of all queues of its peer."""
        if not peer:
            return None
        return self.by_name.get(f"{peer}/{queue}") or self.by_name.get(f"{peer}/")
