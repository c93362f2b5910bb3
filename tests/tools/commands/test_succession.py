"""Who goes on with a directory when the process that serves it went away."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import make
from tests.tools.processes import triack as command
from triack.base.errors import NodeClosed, TriackError
from triack.node.access import DEFAULT_SUITE
from triack.node.control import handover, server
from triack.node.control.frames import VERSION
from triack.tools.commands.succession import Succession


@pytest.fixture
async def succession(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Succession]:
    """A command at a directory."""
    monkeypatch.setattr(handover, "SOON_S", 0.1)

    def open_node() -> triack.Node:
        handover.PASSING.set(True)
        return triack.open("own", data=tmp_path, insecure=True)

    async with asyncio.timeout(PATIENCE_S), Succession(tmp_path, open_node) as it:
        yield it


async def next_name(succession: Succession) -> str:
    """The name of the node that the command goes on with."""
    link = await succession.next()
    await link.send("hello", v=VERSION, do="call")
    welcome, _ = await link.receive()
    await link.close()
    return str(welcome["name"])


async def test_after_another_command_it_opens_the_directory(tmp_path: Path, succession: Succession) -> None:
    """Once, however often the connection is lost."""
    succession.handle_welcome({"passing": True})
    assert [await next_name(succession) for _ in range(2)] == ["own", "own"]


async def test_a_directory_that_is_still_in_use_is_waited_for(
    tmp_path: Path, succession: Succession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that went away closes its store last."""
    monkeypatch.setattr(server, "publish", lambda _data, _served: None)
    async with make("other", tmp_path):
        finding = asyncio.create_task(next_name(succession))
        await asyncio.sleep(0.3)
        assert not finding.done()
    monkeypatch.undo()
    assert await finding == "own"


async def test_a_server_that_is_started_again_gets_its_directory(tmp_path: Path, succession: Succession) -> None:
    """However long that takes."""
    succession.handle_welcome({"passing": False})
    finding = asyncio.create_task(next_name(succession))
    await asyncio.sleep(0.3)
    async with make("server", tmp_path):
        assert await finding == "server"


async def test_a_node_of_its_own_that_cannot_be_reached_is_an_error(
    tmp_path: Path, succession: Succession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Path:
        raise TriackError("no room for a socket")

    monkeypatch.setattr(server, "make_socket_path", refuse)
    with pytest.raises(TriackError, match="its node has no control socket"):
        await succession.next()


async def test_a_node_of_its_own_that_has_ended_says_why(tmp_path: Path, succession: Succession) -> None:
    await next_name(succession)
    assert succession._own is not None  # noqa: SLF001
    await succession._own.close()  # noqa: SLF001
    with pytest.raises(NodeClosed):
        await succession.next()


@pytest.mark.slow
def test_settings_that_are_another_process_s_are_named(tmp_path: Path) -> None:
    """Both commands; what holds for the messages is no setting of a node, and a key is no reason to say no."""
    given = ("--log", tmp_path / "log", "--name", "b", "--suite", DEFAULT_SUITE, "--insecure")
    told = f"--log and --name and --suite without effect: another process serves {tmp_path}, with settings of its own"
    with triack.sync.open("a", data=tmp_path, insecure=True):
        sent = command("send", "orders", "--label", "l", "--data", tmp_path, *given, stdin=b"x\n")
        received = command("receive", "orders", "--count", "1", "--data", tmp_path, *given)
        quiet = command("send", "orders", "--data", tmp_path, "--insecure", stdin=b"x\n")
    assert (sent.returncode, received.returncode, received.stdout) == (0, 0, b"x\n")
    assert told in sent.stderr.decode()
    assert told in received.stderr.decode()
    assert quiet.stderr == b""
    assert not (tmp_path / "log").exists()
