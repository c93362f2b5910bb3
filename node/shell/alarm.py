"""The timer of an event loop, for a deadline that moves with nearly every event."""

import asyncio
from collections.abc import Callable
from contextvars import Context

from triack.base.units import SECOND

LONGEST_SLEEP_NS = 60 * SECOND
"""A timer of the event loop does not count the time that the machine was suspended, and would be late by that. So
deadlines that are farther away are checked once a minute."""
TIMERS_MAX = 4
"""Timers that are armed together: one for each kind of wait, as for an acknowledgement, a loss and a keep-alive."""


class Alarm:
    """Calls ``look`` at a deadline, or earlier; that returns the next one.

    Most deadlines only move away, and a near one returns with the next message. So no timer is cancelled: one that
    fires in time is left, a nearer deadline arms one more, and the later ones serve the deadlines that follow.
    """

    __slots__ = ("_context", "_look", "_loop", "_now_ns", "_timers")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        context: Context,
        now_ns: Callable[[], int],
        look: Callable[[], int | None],
    ) -> None:
        self._loop = loop
        self._context = context
        self._now_ns = now_ns
        self._look = look
        self._timers: list[tuple[int, asyncio.TimerHandle]] = []  # the nearest last

    def arm(self, deadline_ns: int | None) -> None:
        """Look at that time at the latest."""
        timers = self._timers
        if deadline_ns is None or (timers and timers[-1][0] <= deadline_ns):
            return
        if len(timers) >= TIMERS_MAX:
            timers.pop()[1].cancel()
        now_ns = self._now_ns()
        wait_ns = min(max(0, deadline_ns - now_ns), LONGEST_SLEEP_NS)
        timer = self._loop.call_later(wait_ns / SECOND, self._fire, context=self._context)
        timers.append((now_ns + wait_ns, timer))

    def _fire(self) -> None:
        self._timers.pop()
        self.arm(self._look())

    def end(self) -> None:
        """Cancel all timers."""
        for _, timer in self._timers:
            timer.cancel()
        self._timers.clear()
