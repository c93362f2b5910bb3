"""Who does what, when: what rooms register, and what is run of it."""

import gc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from triack.base.commit import StoreContent
from triack.queues.clock_jumps import ClockJumps
from triack.queues.deadlines import Deadlines
from triack.queues.mailboxes.local_commit import LocalTurn
from triack.queues.manager.engine import Engine
from triack.queues.schedule import ALWAYS, Phase, Restore, Schedule
from triack.tools.chaos.run import run_seed
from triack.tools.chaos.topics import TOPICS_FROM
from triack.tools.chaos.topologies import RELAYED_FROM


class Told(list[str]):
    """What was run, in order."""

    def note(self, what: str, *, returns: bool = False) -> Callable[[object], bool]:
        def run(_turn: object) -> bool:
            self.append(what)
            return returns

        return run


def test_phases_are_run_in_their_order_and_rooms_in_that_in_which_they_were_registered() -> None:
    schedule, told = Schedule(), Told()
    schedule.step(Phase.ADD, told.note("adds"))
    schedule.step(Phase.END, told.note("ends"))
    schedule.step(Phase.ADD, told.note("adds later"))
    schedule.step(Phase.BEGIN, told.note("begins"))
    assert not schedule.run(Phase.END, LocalTurn(), Phase.ADD)
    assert told == ["ends", "adds", "adds later"]


def test_a_step_is_run_while_one_of_its_containers_holds_something_and_says_what_follows() -> None:
    schedule, told, some, more = Schedule(), Told(), list[int](), dict[int, None]()
    schedule.step(Phase.GIVE, told.note("gives", returns=True), some, more)
    assert not schedule.run(Phase.GIVE, LocalTurn())
    more[1] = None
    assert schedule.run(Phase.GIVE, LocalTurn())
    some.append(1)
    assert schedule.run(Phase.GIVE, LocalTurn())
    assert told == ["gives", "gives"], "once each time, whatever holds something"


def test_a_timer_is_run_when_one_of_its_clocks_is_due_or_something_waits() -> None:
    schedule, told, near, far, stirred = Schedule(), Told(), Deadlines[int](), Deadlines[int](), list[int]()
    schedule.timer(told.note("looks"), near, far, needs=(stirred,))
    schedule.deadline(lambda: 30, stirred)
    assert schedule.soonest() is None
    far.set(1, 50)
    schedule.handle_timer(LocalTurn(49))
    assert (schedule.soonest(), told) == (50, [])
    schedule.handle_timer(LocalTurn(50))
    assert told == ["looks"]
    stirred.append(1)
    near.set(1, 40)
    assert schedule.soonest() == 30
    schedule.handle_timer(LocalTurn(0))
    assert told == ["looks", "looks"]


def test_after_a_failure_only_what_was_kept_is_run_and_what_has_happened_is_told() -> None:
    schedule, told, kept, other = Schedule(), Told(), Deadlines[int](), Deadlines[int]()
    schedule.timer(told.note("kept"), kept)
    schedule.timer(told.note("other"), other)
    schedule.deadline(lambda: 1)
    schedule.step(Phase.PACK, told.note("packs"))
    schedule.step(Phase.NOTE, told.note("notes"))
    kept.set(1, 7)
    other.set(1, 5)
    schedule.handle_failure(kept)
    assert schedule.soonest() == 7
    schedule.handle_timer(LocalTurn(9))
    schedule.run(Phase.END, LocalTurn(9), Phase.WATCH)
    assert told == ["kept", "notes"]


def test_rooms_are_restored_step_by_step() -> None:
    schedule, told = Schedule(), list[Restore]()

    def note(when: Restore, *_given: object) -> None:
        told.append(when)

    for when in reversed(Restore):
        schedule.restore(when, partial(note, when))
    schedule.handle_restored(StoreContent(bytes(16), 1), LocalTurn(), ClockJumps(None))
    assert told == list(Restore)


@pytest.mark.gate
@pytest.mark.parametrize("seed", [7_000, RELAYED_FROM + 7_000, TOPICS_FROM + 7_000])
def test_a_container_that_a_room_has_registered_is_never_replaced(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the schedule would look at the one before, and the room would wait until something else happens."""
    engines: list[Engine] = []
    make = Engine.__init__

    def note(self: Engine, *args: Any, **more: Any) -> None:
        make(self, *args, **more)
        engines.append(self)

    monkeypatch.setattr(Engine, "__init__", note)
    run_seed(seed)
    looked_at = {id(one) for engine in engines for one in _registered(engine._schedule)}  # noqa: SLF001
    held = {id(one) for owner in gc.get_objects() if not isinstance(owner, tuple) for one in gc.get_referents(owner)}
    assert len(looked_at) > 60
    assert looked_at <= held


def _registered(schedule: Schedule) -> Iterator[object]:
    """Yield what a schedule looks at; it holds each in a tuple, those with deadlines also in a list."""
    for steps in schedule._steps:  # noqa: SLF001
        yield from (one for step in steps for one in step.needs if step.needs is not ALWAYS)
    yield from (one for timer in schedule._timers for one in timer.needs)  # noqa: SLF001
    yield from (one for deadline in schedule._deadlines for one in deadline.needs)  # noqa: SLF001
    yield from (source.needs for source in schedule.fetches.sources)
