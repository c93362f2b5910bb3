"""The clocks of a node, and whether the time of day was set between two starts.

A node reads the system's time of day once, when it starts, and then counts by the monotonic clock. Each commit records
both clocks, so the next start knows how much time has passed: exactly, if the machine was not restarted; otherwise by
the time of day, if that was set at both times. If neither is known it assumes the least that is possible, so that
nothing ends too early.
"""

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from triack.base.printable import counted
from triack.base.units import MS, SECOND

BOOT_BYTES = 16
"""Length of the id of one start of a machine: a UUID on Linux."""
UNSET_BEFORE_NS = 1_577_836_800 * SECOND
"""2020-01-01, before the first version of Triack. A clock that was never set shows an earlier time: 1970, or the date
of its system."""
WALL_NS_MAX = 4_102_444_800 * SECOND
"""2100-01-01: the session log has room for times of sixteen more years."""
NOTICED_NS = SECOND
"""Normal corrections of a clock are smaller, and a start is quicker."""

UNSET_BEFORE_MS = UNSET_BEFORE_NS // MS
"""In milliseconds, for the times in messages."""

_STRUCT = Struct(f"<{BOOT_BYTES}sqqq")


class WallClock(NamedTuple):
    """The time of day, read once at a node's start, so that setting the clock ends no message's life."""

    offset_ns: int

    def ms(self, now_ns: int) -> int:
        """The time of day at a moment of the monotonic clock, in milliseconds since 1970."""
        return (now_ns + self.offset_ns) // MS

    def ns(self, wall_ms: int) -> int:
        """The moment of the monotonic clock at which it is that time of day."""
        return wall_ms * MS - self.offset_ns

    def deadline_ns(self, wall_ms: int | None) -> int | None:
        """The same; None for no such time."""
        return None if wall_ms is None else wall_ms * MS - self.offset_ns


class ClockReading(NamedTuple):
    """The clocks at one moment.

    Attributes:
        boot: the start of the machine, ``BOOT_BYTES`` bytes; zeros when the system does not tell.
        node_ns: the node's time of day; the system's may have been set since the node's start.
    """

    boot: bytes
    uptime_ns: int
    system_ns: int
    node_ns: int

    @property
    def is_set(self) -> bool:
        """Whether the system's time of day may be right."""
        return self.system_ns >= UNSET_BEFORE_NS

    def pack(self) -> bytes:
        """As bytes, for the store."""
        return _STRUCT.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> "ClockReading | None":
        """Read the result of ``pack``; None for empty bytes. Raises ValueError for anything else."""
        try:
            return cls(*_STRUCT.unpack(data)) if data else None
        except StructError as cause:
            raise ValueError(f"the time of the last commit has {len(data)} bytes") from cause


class ClockJump(NamedTuple):
    """The time of day was set since the last start.

    Attributes:
        by_ms: forward, or back when below 0.
        last_ms: the node's clock at the last commit before.
    """

    by_ms: int
    last_ms: int


def sane_wall_ns(wall_ns: int) -> int:
    """The time of day as a node uses it: from 1970 to 2099, as some records have no room for others."""
    return wall_ns if 0 <= wall_ns <= WALL_NS_MAX else min(max(0, wall_ns), WALL_NS_MAX)


def in_words(length_ms: int) -> str:
    """A length of time for people, in the largest unit of which it has two."""
    for unit_ms, unit in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute")):
        if length_ms >= 2 * unit_ms:
            return counted(length_ms // unit_ms, unit)
    return counted(length_ms // 1_000, "second")


def find_jump(last: ClockReading | None, now: ClockReading) -> ClockJump | None:
    """How the time of day was set between a commit of an earlier start and this start, or None."""
    if last is None:
        return None
    by_ns = now.node_ns - last.node_ns - _passed_ns(last, now)
    return ClockJump(by_ns // MS, last.node_ns // MS) if abs(by_ns) > NOTICED_NS else None


def _passed_ns(last: ClockReading, now: ClockReading) -> int:
    """The time that has passed; if unknown, the least that is possible."""
    knows_boots = any(last.boot) and any(now.boot)
    if knows_boots and last.boot == now.boot and 0 <= last.uptime_ns <= now.uptime_ns:
        return now.uptime_ns - last.uptime_ns
    passed_ns = now.system_ns - last.system_ns
    if passed_ns >= 0 and last.is_set and now.is_set:
        return passed_ns
    return max(0, now.uptime_ns) if knows_boots and last.boot != now.boot else 0
