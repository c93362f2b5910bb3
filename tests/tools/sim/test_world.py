"""Virtual time and chance: events in order, streams of chance apart from each other, a trace that tells runs apart."""

import pytest

from triack.tools.sim.world import START_NS, Livelock, World


def test_events_happen_in_order_and_those_of_one_instant_as_planned() -> None:
    """Time jumps from event to event, and ends where it should."""
    world, said = World(1), []
    for delay_ns, name in ((20, "c"), (10, "a"), (10, "b"), (50, "never")):
        world.at(delay_ns, lambda name=name: said.append((world.now_ns - START_NS, name)))  # type: ignore[misc]
    world.run(30)
    assert said == [(10, "a"), (10, "b"), (20, "c")]
    assert world.now_ns == START_NS + 30


def test_a_cancelled_event_does_not_happen_and_takes_no_time() -> None:
    """However many of them there are, and whichever call looks for the next one."""
    world, said = World(1), []
    numbers = [world.at(number, lambda number=number: said.append(number)) for number in range(3_000)]  # type: ignore[misc]
    for number in numbers[:2_999]:
        world.cancel(number)
    assert world.next_event_ns() == START_NS + 2_999
    world.step()
    assert (said, world.events, world.next_event_ns()) == ([2_999], 1, None)


def test_running_ends_when_what_it_waits_for_comes_true() -> None:
    """The clock stays at the event that made it true."""
    world, said = World(1), []
    world.at(10, lambda: said.append(1))
    world.at(20, lambda: said.append(2))
    assert world.run(100, lambda: len(said) == 1)
    assert world.now_ns == START_NS + 10


def test_an_event_in_the_past_happens_now() -> None:
    """Time never goes back."""
    world = World(1)
    world.run(100)
    world.at(-50, lambda: None)
    world.step()
    assert world.now_ns == START_NS + 100


def test_each_concern_has_its_own_chance() -> None:
    """The same seed and name give the same numbers, whatever others drew before."""
    numbers = World(7).chance("network").random()
    busy = World(7)
    busy.chance("disk").random()
    assert busy.chance("network").random() == numbers
    assert World(7).chance("disk").random() != numbers
    assert World(8).chance("network").random() != numbers


@pytest.mark.parametrize("notes", [[("a", b"x"), ("b", b"y")], [("b", b"y"), ("a", b"x")], [("a", b"xb"), ("", b"y")]])
def test_the_trace_tells_what_who_and_in_which_order(notes: list[tuple[str, bytes]]) -> None:
    """Two runs with the same trace did the same."""
    traces = set()
    for _ in range(2):
        world = World(1)
        for who, what in notes:
            world.note(who, what)
        traces.add(world.trace)
    assert len(traces) == 1
    other = World(1)
    other.note("a", b"xb")
    assert other.trace not in traces


def test_a_world_has_a_limited_number_of_events() -> None:
    """Work that goes on without getting anywhere would not end."""
    world = World(1)
    world.events_max = 3

    def again() -> None:
        world.at(0, again)

    again()
    with pytest.raises(Livelock):
        world.run(1)
    assert world.events == 3
