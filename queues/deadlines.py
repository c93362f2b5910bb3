"""One deadline for each of many things. The earliest is at the top of a heap; what has none costs nothing.

A heap keeps every deadline that was set; an outdated entry is removed when it comes to the top.
"""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

NEVER_NS = 1 << 62
"""Later than any deadline."""
STALE_MIN = 64
"""A heap with fewer entries is never rebuilt, as that would cost more than it frees. It is checked as seldom."""


class Deadlines(Generic[Key]):
    """When each thing must be served again, by the caller's clock. Ties go by the order of setting.

    ``heap`` is empty when nothing has a deadline. ``soonest_ns``: the earliest one, so that frequent callers need not
    call; ``NEVER_NS`` for none.
    """

    __slots__ = ("_at", "_order", "heap", "soonest_ns")

    def __init__(self) -> None:
        self._at: dict[Key, tuple[int, int, Key]] = {}
        self.heap: list[tuple[int, int, Key]] = []
        self.soonest_ns = NEVER_NS
        self._order = 0

    def __len__(self) -> int:
        return len(self._at)

    def clear(self) -> None:
        """Remove all."""
        self._at.clear()
        self.heap.clear()
        self.soonest_ns, self._order = NEVER_NS, 0

    def of(self, key: Key) -> int | None:
        """The deadline of one thing, or None."""
        found = self._at.get(key)
        return None if found is None else found[0]

    def set(self, key: Key, at_ns: int | None) -> None:
        """Set or move a deadline; None removes it."""
        known = key in self._at
        if at_ns == (self._at[key][0] if known else None):
            return
        was_soonest = known and self._at[key][1] == self.heap[0][1]
        if at_ns is None:
            del self._at[key]
        else:
            self._order += 1
            # ``_order`` is unique, so that keys are never compared.
            entry = self._at[key] = (at_ns, self._order, key)
            (heapreplace if was_soonest else heappush)(self.heap, entry)
            self.soonest_ns = self.heap[0][0]
            was_soonest = was_soonest and self.heap[0] is not entry  # if it is, nothing before it is outdated
            if not self._order % STALE_MIN and len(self.heap) > STALE_MIN + 2 * len(self._at):
                self.heap[:] = self._at.values()
                heapify(self.heap)
        if was_soonest:
            self._settle()

    def _settle(self) -> None:
        """Remove outdated entries from the top."""
        heap, deadlines = self.heap, self._at
        # Equal means identical, as orders are unique. Compiled code makes a new tuple at each access, so ``is`` fails.
        while heap and not (heap[0][2] in deadlines and deadlines[heap[0][2]] == heap[0]):
            heappop(heap)
        self.soonest_ns = heap[0][0] if heap else NEVER_NS

    def earliest(self) -> int | None:
        """The earliest deadline, or None."""
        return self.soonest_ns if self.heap else None

    def poll_due(self, now_ns: int, limit: int | None = None) -> list[Key]:
        """Remove and return everything whose deadline has come, earliest first; no more than ``limit``."""
        due: list[Key] = []
        while self.soonest_ns <= now_ns and len(due) != limit:
            key = heappop(self.heap)[2]
            del self._at[key]
            due.append(key)
            self._settle()
        return due
