"""Detects late calls of the host: a process or a machine that stood still notices that when it continues.

The host calls a busy engine without delay, and a waiting one at its deadline. If the call comes much later, the process
was stopped, its machine was suspended, or its event loop was blocked. No timer can show that while it lasts, so each
reading of the clock is checked.

    BUSY --deadline asked for--> WAITING --any input--> BUSY
"""

from triack.base.units import MS

WOKE_LATE_NS = 50 * MS
"""Delay from which it is recorded: a third of what replay adds to every time limit for a busy machine, so that a pause
that breaks a limit is on record, and longer than the pauses of a busy loop."""


class Wakefulness:
    """Knows when the next call of the host is due."""

    __slots__ = ("_due_ns", "_seen_ns")

    def __init__(self, now_ns: int) -> None:
        self._seen_ns = now_ns
        self._due_ns: int | None = now_ns

    def handle_time(self, now_ns: int) -> int | None:
        """The host has called. Returns when the call was due, if it is late; None if it is in time."""
        due_ns, self._due_ns, self._seen_ns = self._due_ns, now_ns, now_ns
        return due_ns if due_ns is not None and now_ns - due_ns >= WOKE_LATE_NS else None

    def handle_wait(self, deadline_ns: int | None) -> None:
        """The host waits for an input, or until a deadline; None: without one."""
        self._due_ns = None if deadline_ns is None else max(deadline_ns, self._seen_ns)
