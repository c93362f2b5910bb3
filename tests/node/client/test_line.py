"""The line of a client: its table of moves, and what calls do in each state."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import SOON, WAIT, make, until
from tests.tools.commands.serving import serving
from triack.base.transitions import IllegalTransition, next_state
from triack.node.client.client import Client
from triack.node.client.line import TRANSITIONS, Line, LineEvent, LineState
from triack.node.control.control_frames import VERSION, Link


def test_every_state_has_its_row_and_can_be_left_or_is_the_end() -> None:
    assert set(TRANSITIONS) == set(LineState)
    assert {state for row in TRANSITIONS.values() for state in row.values()} == set(LineState)
    for state in LineState:
        assert LineEvent.CLOSE in TRANSITIONS[state]
    with pytest.raises(IllegalTransition):
        next_state(TRANSITIONS, LineState.CLOSED, LineEvent.CONNECTED)


def line_of(client: Client) -> Line:
    """The line of a client, whose state no user sees."""
    return client._line  # noqa: SLF001 - to wait for what would else be a race


@asynccontextmanager
async def lost(data: Path, **how: Any) -> AsyncIterator[Client]:
    """A client whose node has ended."""
    async with make("a", data):
        client = await triack.connect(data, **how).start()
    await until(lambda: line_of(client).state is not LineState.OPEN)
    yield client
    await client.close()


async def test_calls_wait_for_the_next_process_and_fail_when_it_is_away_for_too_long(tmp_path: Path) -> None:
    """When it is back after that, they work again."""
    async with lost(tmp_path, patience=SOON) as client:
        waiting = asyncio.create_task(client.stats())
        with pytest.raises(triack.NodeClosed, match=r"the node of .* has been away for 0\.2 s"):
            await waiting
        with pytest.raises(triack.NodeClosed, match="has been away"):
            await client.send("q", b"x")
        async with make("a", tmp_path) as node:
            await until(lambda: line_of(client).state is LineState.OPEN)
            await client.send("q", b"x", until="ordered")
            assert node.queue_lengths()["q"] == 1


async def test_a_transaction_is_lost_however_long_its_node_is_away(tmp_path: Path) -> None:
    """That it may be run again is true in any case."""
    async with make("a", tmp_path):
        client = await triack.connect(tmp_path, patience=0).start()
        tx = client.transaction()
        await tx.send("q", b"x")
    await until(lambda: line_of(client).state is LineState.AWAY)
    with pytest.raises(triack.TransactionLost):
        await tx.commit()
    with pytest.raises(triack.NodeClosed):
        await client.transaction().send("q", b"x")
    await client.close()


async def test_without_patience_calls_fail_at_once(tmp_path: Path) -> None:
    async with lost(tmp_path, patience=0) as client:
        with pytest.raises(triack.NodeClosed, match="has ended"):
            await client.flush()


async def test_a_wait_ends_with_its_own_time_or_with_the_client(tmp_path: Path) -> None:
    """Whichever comes first: no reader waits beyond its timeout because the node is away."""
    async with lost(tmp_path, patience=None) as client:
        with pytest.raises(triack.WaitTimeout):
            await client.receive("q").get(SOON)
        waiting = asyncio.create_task(client.receive("q").get())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(triack.NodeClosed, match="the client is closed"):
            await waiting


async def test_another_node_in_its_place_is_not_used(tmp_path: Path) -> None:
    """It knows nothing of what was sent to the first one."""
    async with lost(tmp_path / "a", patience=None) as client:
        waiting = asyncio.create_task(client.stats())
        (tmp_path / "a").rename(tmp_path / "old")
        async with make("a", tmp_path / "a"):
            with pytest.raises(triack.NodeClosed, match="another node serves it now"):
                await waiting
            with pytest.raises(triack.NodeClosed, match="another node serves it now"):
                await client.flush()


async def test_a_process_of_another_version_ends_the_wait(tmp_path: Path) -> None:
    async def complain(link: Link) -> None:
        await link.receive()
        await link.send("welcome", v=VERSION + 1)

    async with lost(tmp_path / "a", patience=None) as client:
        (tmp_path / "a").rename(tmp_path / "old")
        async with serving(tmp_path / "a", complain):
            with pytest.raises(triack.ProtocolError, match=f"speaks version {VERSION + 1}"):
                await client.stats()


async def test_a_start_may_wait_for_a_process_to_begin_with(tmp_path: Path) -> None:
    starting = asyncio.create_task(triack.connect(tmp_path, start_timeout=WAIT).start())
    await asyncio.sleep(SOON)
    async with make("a", tmp_path) as node:
        client = await starting
        assert client.node_id == node.node_id
        await client.close()


@pytest.mark.parametrize("name", ["patience", "start_timeout"])
def test_times_are_numbers(tmp_path: Path, name: str) -> None:
    with pytest.raises(triack.UsageError, match=f"connect: {name}"):
        triack.connect(tmp_path, **{name: -1})


async def test_a_line_that_was_not_begun_says_so() -> None:
    line = Line("the node of x", None, 0)
    await line.close(0)
    with pytest.raises(triack.NodeClosed, match="the client was not started"):
        await line.opened()
    assert (line.epoch, line.reconnects) == (None, False)
