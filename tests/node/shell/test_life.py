"""The life of a node, as a table."""

import asyncio

import pytest

import triack
from tests.node.nodes import WAIT, make
from triack.base.transitions import IllegalTransition
from triack.node.shell.life import TRANSITIONS, Life, LifeEvent, LifeState


def life_in(state: LifeState) -> Life:
    """A life that has come to a state in the usual way."""
    to_open = (LifeEvent.START, LifeEvent.STARTED)
    way = {
        LifeState.NEW: (),
        LifeState.STARTING: (LifeEvent.START,),
        LifeState.OPEN: to_open,
        LifeState.CLOSING: (*to_open, LifeEvent.CLOSE),
        LifeState.CLOSED: (*to_open, LifeEvent.CLOSE, LifeEvent.CLOSED),
        LifeState.FAILED: to_open,
    }[state]
    life = Life("n")
    for event in way:
        life.handle(event)
    if state is LifeState.FAILED:
        life.fail(triack.StoreFailed("full"))
    return life


@pytest.mark.parametrize("before", list(LifeState))
@pytest.mark.parametrize("event", list(LifeEvent))
async def test_only_what_the_table_has_can_happen(before: LifeState, event: LifeEvent) -> None:
    """A second start is a mistake of the user, and is reported as one."""
    life = life_in(before)
    if event in TRANSITIONS[before]:
        life.handle(event)
        assert life.state is TRANSITIONS[before][event]
        return
    again = event is LifeEvent.START
    error = pytest.raises(triack.UsageError, match=f"started before, and is {before.value}")
    with error if again else pytest.raises(IllegalTransition):
        life.handle(event)
    assert life.state is before


@pytest.mark.parametrize("state", list(LifeState))
async def test_a_node_works_or_says_why_not(state: LifeState) -> None:
    life = life_in(state)
    if state in (LifeState.OPEN, LifeState.CLOSING):
        life.check_alive()
        return
    with pytest.raises(triack.StoreFailed if state is LifeState.FAILED else triack.NodeClosed):
        life.check_alive()


async def test_a_node_works_in_its_own_event_loop_only() -> None:
    """In another loop, and in a thread without any, its calls might hang: they raise instead."""
    life = life_in(LifeState.OPEN)

    async def check() -> None:
        life.check_alive()

    await check()
    for elsewhere in (life.check_alive, lambda: asyncio.run(check())):
        with pytest.raises(triack.UsageError, match="node n belongs to the event loop in which it was begun"):
            await asyncio.to_thread(elsewhere)


@pytest.mark.parametrize("state", [LifeState.OPEN, LifeState.CLOSING])
async def test_the_first_failure_counts(state: LifeState) -> None:
    life = life_in(state)
    first = triack.StoreFailed("full")
    life.fail(first)
    life.fail(triack.StoreFailed("worse"))
    assert await life.failed() is first
    assert life.state is LifeState.FAILED


@pytest.mark.parametrize("state", [LifeState.NEW, LifeState.CLOSED])
async def test_what_does_not_run_does_not_fail(state: LifeState) -> None:
    life = life_in(state)
    life.fail(triack.StoreFailed("late"))
    assert life.state is state


async def test_a_node_that_is_starting_is_not_started_again() -> None:
    """It would open its store twice."""
    node = make()
    starting = asyncio.create_task(node.start())
    await asyncio.sleep(0)
    with pytest.raises(triack.UsageError, match="is starting"):
        await node.start()
    await asyncio.wait_for(starting, WAIT)
    await node.close()
