"""Virtual time: a clock, the planned events, randomness by concern, and the trace that two runs of one seed share.

Nothing here knows of nodes. Time is integer nanoseconds and moves from event to event; events of one instant happen in
the order in which they were planned. Every concern (the network, a disk, the workload) draws from another random
stream, so that more draws in one shift none of the others.
"""

import hashlib
import sys
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from random import Random

START_NS = 1_000_000_000
WALL_NS = 1_700_000_000_000_000_000
CANCELLED_MAX = 1_000


class Livelock(Exception):
    """More events than any run should need: something runs without progress."""


class World:
    """One simulated world."""

    def __init__(self, seed: int, start_ns: int = START_NS) -> None:
        self.seed = seed
        self.now_ns = start_ns
        self.events = 0
        self.events_max = sys.maxsize
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._planned = 0
        self._cancelled: set[int] = set()
        self._hash = hashlib.blake2b(digest_size=16)

    def chance(self, concern: str) -> Random:
        """The random stream of a concern; the same seed and name give the same stream."""
        return Random(hashlib.blake2b(f"{self.seed}/{concern}".encode(), digest_size=16).digest())

    def at(self, delay_ns: int, action: Callable[[], None]) -> int:
        """Plan an event, ``delay_ns`` from now. Returns its number, for ``cancel``."""
        self._planned += 1
        heappush(self._heap, (self.now_ns + max(0, delay_ns), self._planned, action))
        return self._planned

    def cancel(self, number: int) -> None:
        """Cancel a planned event: time does not pass for it, either."""
        self._cancelled.add(number)
        if len(self._cancelled) > max(CANCELLED_MAX, len(self._heap) // 2):
            self._heap = [event for event in self._heap if event[1] not in self._cancelled]
            heapify(self._heap)
            self._cancelled.clear()

    def next_event_ns(self) -> int | None:
        """When the next event happens, or None if none is planned."""
        while self._cancelled and self._heap and self._heap[0][1] in self._cancelled:
            self._cancelled.remove(heappop(self._heap)[1])
        return self._heap[0][0] if self._heap else None

    def step(self) -> None:
        """Run the next event; there must be one. Raises Livelock when there were too many."""
        self.next_event_ns()
        self._happen()

    def _happen(self) -> None:
        if self.events >= self.events_max:
            raise Livelock
        at_ns, _, action = heappop(self._heap)
        self.now_ns = max(self.now_ns, at_ns)
        self.events += 1
        action()

    def run(self, for_ns: int, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass. Returns whether ``until``, asked after every event, became true."""
        end_ns = self.now_ns + for_ns
        while (at_ns := self.next_event_ns()) is not None and at_ns <= end_ns:
            self._happen()
            if until is not None and until():
                return True
        self.now_ns = end_ns
        return until is not None and until()

    def note(self, who: str, what: bytes) -> None:
        """Add an action at this moment to the trace."""
        self._hash.update(b"%d %b %d\n%b" % (self.now_ns, who.encode(), len(what), what))

    @property
    def trace(self) -> str:
        """32 hex digits over everything noted so far, in its order."""
        return self._hash.hexdigest()
