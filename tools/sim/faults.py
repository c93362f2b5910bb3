"""How bad a network is, and what happens to a datagram on it: one record, and one way to decide.

The simulated network asks it in virtual time; the relay of the demo and the link of ``triack bench`` in real time.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any

from triack.base.checks import check_between
from triack.base.units import MS, SECOND

BITS = 8
HEADER_BYTES = 28
"""Of IP (20) and UDP (8, RFC 768): they need time on a link as well."""

SHARES = ("loss", "burst", "duplicate", "late_duplicate", "reorder", "spike", "corrupt", "truncate")
"""The fields of ``Faults`` that are chances."""
LEAST = {"burst_length": 1, "late_ns": 1, "spike_ns": 2}
"""The least values of other fields that have one above 0: a burst has a datagram, and a delay has a drawn length."""
REORDER_DELAYS = 4
"""Without a given time, datagrams are held back for up to this many times the delay: past most that follow."""


@dataclass(slots=True)
class Faults:
    """How bad a network is. Chances are per datagram; times in nanoseconds. Invalid values are refused.

    Attributes:
        burst: a burst of losses begins; it ends after ``burst_length`` datagrams on average.
        duplicate: arrives twice; ``late_duplicate``: again up to ``late_ns`` later.
        reorder: delayed by up to ``reorder_ns`` more, past others; 0 for four times ``delay_ns``.
        spike: delayed by up to ``spike_ns`` more.
        corrupt: a bit is flipped; ``truncate``: the end is missing.
        delay_ns: one way; ``jitter_ns`` is added at random.
        mtu_bytes: larger datagrams are lost; 0 for no limit.
        rate_bps: bits a second that each path carries, headers of IP and UDP included; 0 for no limit.
        queue_bytes: the longest queue before such a link, on each path; a datagram that comes while it is longer is
            lost; 0 for no limit.
    """

    loss: float = 0.0
    burst: float = 0.0
    burst_length: float = 5.0
    duplicate: float = 0.0
    late_duplicate: float = 0.0
    late_ns: int = 60 * SECOND
    reorder: float = 0.0
    reorder_ns: int = 0
    spike: float = 0.0
    spike_ns: int = 2 * SECOND
    corrupt: float = 0.0
    truncate: float = 0.0
    delay_ns: int = 5 * MS
    jitter_ns: int = 0
    mtu_bytes: int = 0
    rate_bps: int = 0
    queue_bytes: int = 0

    def __setattr__(self, name: str, value: Any) -> None:
        check_between(name, value, LEAST.get(name, 0), 1 if name in SHARES else inf)
        object.__setattr__(self, name, value)


class Fates:
    """Decides the fates of datagrams.

    Loss, copies, delays and damage draw from a random stream each, so that more of one leaves the others unchanged.
    """

    def __init__(self, chance: Callable[[str], Random], header_bytes: int = HEADER_BYTES) -> None:
        self.counts: Counter[str] = Counter()
        self._loss, self._copies = chance("loss"), chance("copies")
        self._delays, self._damage = chance("delays"), chance("damage")
        self._bursting: set[object] = set()
        self._header_bytes = header_bytes
        self._free_ns: dict[object, int] = {}

    def decide(self, faults: Faults, datagram: bytes, path: object = None, now_ns: int = 0) -> list[tuple[int, bytes]]:
        """The copies of a datagram that arrive: each one's delay in nanoseconds, and its bytes."""
        if faults.mtu_bytes and len(datagram) > faults.mtu_bytes:
            self.counts["too-large"] += 1
            return []
        if self._overflows(faults, path, now_ns):
            self.counts["overflowed"] += 1
            return []
        link_ns = self.link_ns(faults, datagram, path, now_ns)
        random, late_ns = self._copies, [0]
        if faults.duplicate and random.random() < faults.duplicate:
            late_ns.append(0)
            self.counts["duplicated"] += 1
        if faults.late_duplicate and random.random() < faults.late_duplicate:
            late_ns.append(random.randrange(faults.late_ns))
            self.counts["duplicated-late"] += 1
        arriving = []
        for extra_ns in late_ns:
            delay_ns = link_ns + extra_ns + self.delay_ns(faults)
            if self.is_lost(faults, path):
                self.counts["lost"] += 1
            else:
                arriving.append((delay_ns, self._damaged(faults, datagram)))
        return arriving

    def link_ns(self, faults: Faults, datagram: bytes, path: object, now_ns: int) -> int:
        """How long until all datagrams before this one, and it, have passed a link with a rate."""
        if not faults.rate_bps:
            return 0
        size_bytes = len(datagram) + self._header_bytes
        free_ns = max(self._free_ns.get(path, 0), now_ns) + size_bytes * BITS * SECOND // faults.rate_bps
        self._free_ns[path] = free_ns
        return free_ns - now_ns

    def _overflows(self, faults: Faults, path: object, now_ns: int) -> bool:
        waits_ns = self._free_ns.get(path, 0) - now_ns if faults.queue_bytes else 0
        return waits_ns * faults.rate_bps > faults.queue_bytes * BITS * SECOND

    def is_lost(self, faults: Faults, path: object = None) -> bool:
        """Whether the next datagram on a path is lost."""
        random = self._loss
        if path in self._bursting:
            if random.random() < 1 / faults.burst_length:
                self._bursting.discard(path)
            return True
        if faults.burst and random.random() < faults.burst:
            self._bursting.add(path)
            return True
        return bool(faults.loss) and random.random() < faults.loss

    def delay_ns(self, faults: Faults) -> int:
        """How long the next datagram needs."""
        random, delay_ns = self._delays, faults.delay_ns
        if faults.jitter_ns:
            delay_ns += random.randrange(faults.jitter_ns)
        if faults.reorder and random.random() < faults.reorder:
            delay_ns += random.randrange(1, (faults.reorder_ns or REORDER_DELAYS * faults.delay_ns) + 2)
        if faults.spike and random.random() < faults.spike:
            delay_ns += random.randrange(1, faults.spike_ns)
            self.counts["spiked"] += 1
        return delay_ns

    def _damaged(self, faults: Faults, datagram: bytes) -> bytes:
        random, whole = self._damage, datagram
        if not datagram:
            return datagram
        if faults.corrupt and random.random() < faults.corrupt:
            at = random.randrange(len(datagram) * 8)
            spoiled = bytearray(datagram)
            spoiled[at // 8] ^= 1 << at % 8
            datagram = bytes(spoiled)
            self.counts["corrupted"] += 1
        if faults.truncate and random.random() < faults.truncate:
            datagram = datagram[: random.randrange(1, len(datagram) + 1)]
            self.counts["truncated"] += 1
        if datagram != whole:
            self.counts["damaged"] += 1
        return datagram
