"""How a command finds the node of a directory: the process that runs it, or the directory itself."""

from contextlib import suppress
from pathlib import Path

import pytest

import triack
from tests.node.nodes import make
from tests.tools.commands.serving import serving
from triack.base.errors import UsageError, WaitTimeout
from triack.node.control.control_frames import Link
from triack.tools.commands import visiting
from triack.tools.commands.visiting import Host, stats_of, visit


async def test_who_runs_the_node_is_asked_and_nobody_needs_to(tmp_path: Path) -> None:
    """Either way the command sees the same queues, and its exit code is the caller's."""
    kinds = list[str]()

    async def work(node: Host) -> int:
        kinds.append(type(node).__name__)
        return len((await stats_of(node)).queues)

    async with make("a", tmp_path) as node:
        await (await node.send("orders", b"x")).stored()
        assert await visit(tmp_path, work) == 2
    assert await visit(tmp_path, work) == 2
    assert kinds == [triack.Client.__name__, triack.Node.__name__]


async def test_where_no_node_is_that_is_said(tmp_path: Path) -> None:
    async def work(_node: Host) -> int:
        raise AssertionError

    with pytest.raises(UsageError, match="there is no node in"):
        await visit(tmp_path, work)


async def test_a_process_that_does_not_answer_is_no_reason_to_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was stopped takes the connection, as its system does that."""
    monkeypatch.setattr(visiting, "ANSWER_S", 0.1)

    async def be_silent(link: Link) -> None:
        with suppress(ConnectionError):
            while True:
                await link.receive()

    async def work(_node: Host) -> int:
        raise AssertionError

    async with serving(tmp_path / "a", be_silent, be_silent):
        with pytest.raises(WaitTimeout, match=r"has not answered for 0\.1 s: it is stopped, or stuck"):
            await visit(tmp_path / "a", work)
