"""The timer for a deadline that moves."""

from contextvars import copy_context
from typing import Any, cast

from triack.base.units import MS
from triack.node.shell.alarm import TIMERS_MAX, Alarm


class Loop:
    """Its timers, by their times, and the clock."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.made = 0
        self.timers: dict[int, Timer] = {}

    def call_later(self, seconds: float, fire: Any, **_context: Any) -> "Timer":
        self.made += 1
        at_ns = self.now_ns + round(seconds * 1e9)
        self.timers[at_ns] = Timer(self, at_ns, fire)
        return self.timers[at_ns]

    def pass_next(self) -> None:
        """The time of the nearest timer comes."""
        self.now_ns = min(self.timers)
        self.timers.pop(self.now_ns).fire()


class Timer:
    def __init__(self, loop: Loop, at_ns: int, fire: Any) -> None:
        self._loop = loop
        self._at_ns = at_ns
        self.fire = fire

    def cancel(self) -> None:
        del self._loop.timers[self._at_ns]


def test_a_near_deadline_costs_one_timer_and_the_far_one_stays() -> None:
    """The near one has moved away when its time comes: the far one is there already."""
    loop, deadlines = Loop(), [150 * MS, None]
    alarm = Alarm(cast("Any", loop), copy_context(), lambda: loop.now_ns, lambda: deadlines.pop(0))
    for deadline_ns in (100 * MS, 200 * MS, None, 5 * MS, 100 * MS):
        alarm.arm(deadline_ns)
    assert sorted(loop.timers) == [5 * MS, 100 * MS]
    loop.pass_next()
    assert (sorted(loop.timers), loop.made) == ([100 * MS], 2)
    loop.pass_next()
    assert (loop.timers, loop.made, deadlines) == ({}, 2, [])


def test_few_are_armed_together_and_the_nearest_is_one_of_them() -> None:
    loop = Loop()
    alarm = Alarm(cast("Any", loop), copy_context(), lambda: loop.now_ns, lambda: None)
    for near in range(20, 0, -1):
        alarm.arm(near * MS)
        assert min(loop.timers) == near * MS
        assert len(loop.timers) <= TIMERS_MAX
    alarm.end()
    assert loop.timers == {}
