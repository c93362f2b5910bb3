"""Whether the host comes when it is to come: a process, or a machine, that stood still finds that out when it goes on.

An engine that has something to do is called at once, and one that waits is called when its deadline comes. When the
call comes much later, the process was stopped, its machine was suspended, or its event loop was blocked. No timer can
tell that while it lasts, so it is looked at with each reading of the clock.

    BUSY --deadline asked for--> WAITING --any input--> BUSY
"""

from triack.base.units import MS

__all__ = ["WOKE_LATE_NS", "Wakefulness"]

WOKE_LATE_NS = 50 * MS
"""From here on it is told: a third of what replay adds to every limit of time for a busy machine, so that whatever
breaks a limit by standing still has said so, and longer than a loop that has much to do is away."""


class Wakefulness:
    """Knows when the host is to come next.

    Args:
        now_ns: the monotonic clock.
    """

    __slots__ = ("_due_ns", "_seen_ns")

    def __init__(self, now_ns: int) -> None:
        self._seen_ns = now_ns
        self._due_ns: int | None = now_ns

    def handle_time(self, now_ns: int) -> int | None:
        """The host has come.

        Returns:
            Since when it was to come, if it comes late; None if it is in time.
        """
        due_ns, self._due_ns, self._seen_ns = self._due_ns, now_ns, now_ns
        return due_ns if due_ns is not None and now_ns - due_ns >= WOKE_LATE_NS else None

    def handle_wait(self, deadline_ns: int | None) -> None:
        """The host waits until something happens, or until a time; None: for as long as it takes."""
        self._due_ns = None if deadline_ns is None else max(deadline_ns, self._seen_ns)
