"""The two applications of a run: the one that sends, and the one that checks the arrivals.

They are the same for every system: the differences are behind ``Outlet`` and ``Inlet``.
"""

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from math import floor, log10
from typing import Any, Self

from triack.tools.bench.work import RING, Work, index_of, make_ring, stamp_of, stamped

Facts = dict[str, Any]

BUCKETS_PER_DECADE = 20
EARLY_S = 0.000_3
"""A sleep ends late by about this much; other tasks of the loop get the rest of the wait."""
NS = 1_000_000_000


class SystemEnd:
    """An end of a system. Made inside the event loop; ``async with`` opens and closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        return

    def facts(self) -> Facts:
        """The facts about this end so far."""
        return {}


class Outlet(SystemEnd, ABC):
    """Where a system accepts messages."""

    batch = 256

    @abstractmethod
    async def put(self, bodies: Sequence[bytes]) -> None:
        """Hand messages over; waits when too much is in flight."""

    async def settle(self) -> None:
        """Wait until everything put so far has come as far as the system can tell: at once, or when it was put."""


class Inlet(SystemEnd, ABC):
    """Where a system hands messages out."""

    def found(self) -> Facts:
        """The facts that the sender needs: addresses, keys."""
        return {}

    @abstractmethod
    async def run(self, sink: "Sink") -> None:
        """Hand everything that arrives to ``sink``, until cancelled."""

    async def run_all(self, sinks: Sequence["Sink"]) -> None:
        """Hand everything that arrives to each of ``sinks``, until cancelled: where each message has many readers."""
        raise NotImplementedError


class Source:
    """The sending application."""

    def __init__(self, work: Work, outlet: Outlet) -> None:
        self._work = work
        self._outlet = outlet
        self._ring = make_ring(work.size)
        self._limit = work.messages
        self._end_ns = 0
        self.sent = 0
        self.first_ns = 0

    def progress(self) -> Facts:
        """How far it is."""
        return {"sent": self.sent}

    async def run(self) -> None:
        """Send everything, and wait until it has arrived if the work says so."""
        self.first_ns = time.monotonic_ns()
        self._end_ns = self.first_ns + round(self._work.seconds * NS)
        send = {"stream": self._stream, "paced": self._paced, "single": self._single}[self._work.mode]
        if self._work.complete:
            await send()
            await self._outlet.settle()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._work.seconds or None):
                await send()

    @property
    def _left(self) -> int:
        if self._limit is not None:
            return self._limit - self.sent
        return RING if time.monotonic_ns() < self._end_ns else 0

    def _next(self, count: int) -> list[bytes]:
        at = self.sent % RING
        return self._ring[at : at + count]

    async def _stream(self) -> None:
        put, batch = self._outlet.put, self._outlet.batch
        while left := self._left:
            bodies = self._next(min(batch, left))
            await put(bodies)
            self.sent += len(bodies)

    async def _paced(self) -> None:
        step_ns = NS // self._work.rate
        while self._left:
            due_ns = self.first_ns + self.sent * step_ns
            early_s = (due_ns - time.monotonic_ns()) / NS
            if early_s > EARLY_S:
                await asyncio.sleep(early_s - EARLY_S)
            while time.monotonic_ns() < due_ns:  # noqa: ASYNC110 - a clock notifies no task
                await asyncio.sleep(0)
            (body,) = self._next(1)
            await self._outlet.put([stamped(body, time.monotonic_ns())])
            self.sent += 1

    async def _single(self) -> None:
        while self._left:
            await self._outlet.put(self._next(1))
            await self._outlet.settle()
            self.sent += 1


class Sink:
    """The receiving application: every message is compared with the one that must come next."""

    def __init__(self, work: Work, ring: list[bytes] | None = None) -> None:
        self._stamped = work.mode == "paced"
        self._ring = make_ring(work.size) if ring is None else ring
        self._at = 0
        self._latencies_ns: list[int] = []
        self.delivered = self.missing = self.late = self.corrupt = 0
        self.began_ns = self.last_ns = 0

    def take(self, bodies: Sequence[bytes]) -> None:
        """Check messages in the order in which they came."""
        count, at = len(bodies), self._at
        if self._stamped:
            self._take_stamped(bodies)
        elif count <= RING and self._ring[at : at + count] == bodies:
            self._at = (at + count) % RING
            self.delivered += count
        else:
            for body in bodies:
                self._look(body)
        self.last_ns = time.monotonic_ns()
        self.began_ns = self.began_ns or self.last_ns

    def _take_stamped(self, bodies: Sequence[bytes]) -> None:
        now_ns = time.monotonic_ns()
        for body in bodies:
            self._latencies_ns.append(now_ns - stamp_of(body))
            self._look(stamped(body, 0))

    def _look(self, body: bytes) -> None:
        index = index_of(body)
        if index >= RING or body != self._ring[index]:
            self.corrupt += 1
            return
        ahead = (index - self._at) % RING
        if ahead > RING // 2:
            self.late += 1
            return
        self.missing += ahead
        self.delivered += 1
        self._at = (index + 1) % RING

    def progress(self) -> Facts:
        """The results so far."""
        names = ("delivered", "missing", "late", "corrupt", "began_ns", "last_ns")
        return {name: getattr(self, name) for name in names}

    def latencies(self) -> Facts:
        """Milliseconds from the call that sent to the one that delivered, where they were measured.

        Returns ``p50_ms``, ``p99_ms``, ``longest_ms`` and ``histogram``: (lower edge in ms, how many).
        """
        found = sorted(self._latencies_ns)
        if not found:
            return {}
        counts = Counter(floor(log10(max(value, 1)) * BUCKETS_PER_DECADE) for value in found)
        return {
            "p50_ms": found[len(found) // 2] / 1e6,
            "p99_ms": found[min(len(found) - 1, len(found) * 99 // 100)] / 1e6,
            "longest_ms": found[-1] / 1e6,
            "histogram": [(10 ** (at / BUCKETS_PER_DECADE) / 1e6, counts[at]) for at in sorted(counts)],
        }


class Fan:
    """The receiving application of messages for several readers, each of which must get all of them."""

    def __init__(self, work: Work) -> None:
        ring = make_ring(work.size)  # one for all: a ring for each does not fit into the processor's cache
        self.sinks = [Sink(work, ring) for _ in range(work.readers)]

    def progress(self) -> Facts:
        """The results so far: what the slowest has got, and all that is wrong with any."""
        each = [sink.progress() for sink in self.sinks]
        wrong = {name: sum(it[name] for it in each) for name in ("missing", "late", "corrupt")}
        began_ns = min((it["began_ns"] for it in each if it["began_ns"]), default=0)
        delivered, last_ns = min(it["delivered"] for it in each), max(it["last_ns"] for it in each)
        return {"delivered": delivered, **wrong, "began_ns": began_ns, "last_ns": last_ns}
