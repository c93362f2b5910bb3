"""The process that goes on with a directory when the one that serves it went away."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import make
from tests.tools.processes import SECONDS, Server, start, wait_until
from tests.tools.processes import triack as command
from triack.base.errors import NodeClosed, StoreInUse, TriackError
from triack.node.control import handover, server
from triack.node.control.control_frames import Link, greet
from triack.node.files.access import DEFAULT_SUITE
from triack.node.files.notes import read_note
from triack.tools.commands.succession import Succession


@pytest.fixture
async def succession(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Succession]:
    """A command at a directory."""
    monkeypatch.setattr(handover, "SOON_S", 0.1)

    async with asyncio.timeout(PATIENCE_S), Succession(tmp_path, partial(own_node, tmp_path)) as it:
        yield it


def own_node(data: Path) -> triack.Node:
    """The node that a command opens."""
    return triack.open("own", data=data, insecure=True)


async def name_at(link: Link) -> str:
    """The name of the node at the other end, and no more."""
    welcome = await greet(link)
    await link.close()
    return str(welcome["name"])


async def next_name(succession: Succession) -> str:
    """The name of the node that the command goes on with."""
    return await name_at(await succession.next())


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


async def test_a_node_of_its_own_needs_no_control_socket(
    succession: Succession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where there is no room for one, or the system has none."""

    def refuse() -> Path:
        raise TriackError("no room for a socket")

    monkeypatch.setattr(server, "make_socket_path", refuse)
    assert await name_at(await succession.first()) == "own"


async def test_a_node_of_its_own_that_has_ended_says_why(tmp_path: Path, succession: Succession) -> None:
    await next_name(succession)
    assert succession.own is not None
    await succession.own.close()
    with pytest.raises(NodeClosed):
        await succession.next()


async def test_a_server_that_begins_gets_the_directory_of_a_command(tmp_path: Path, succession: Succession) -> None:
    """Which goes on through it, and waits for it to come back when it went away."""
    link = await succession.first()
    async with make("server", tmp_path):
        with pytest.raises(ConnectionError):
            await link.receive()
        await link.close()
        assert succession.own is not None
        assert await next_name(succession) == "server"
        assert succession.own is None


async def test_servers_do_not_give_way_to_each_other(tmp_path: Path) -> None:
    """At once; nor does a command that serves others."""
    async with Succession(tmp_path, partial(own_node, tmp_path), passing=False) as serving:
        assert await name_at(await serving.first()) == "own"
        with pytest.raises(StoreInUse):
            await make("server", tmp_path).start()


async def test_who_cannot_go_on_elsewhere_keeps_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server waits for it to end, but only for a time."""
    monkeypatch.setattr(handover, "CLAIM_S", 0.2)
    async with Succession(tmp_path, partial(own_node, tmp_path), gives_way=False) as express:
        link = await express.first()
        with pytest.raises(StoreInUse):
            await make("server", tmp_path).start()
        assert await name_at(link) == "own"
        monkeypatch.undo()
        starting = asyncio.create_task(make("server", tmp_path).start())
        await asyncio.sleep(0.2)
    await (await starting).close()


@pytest.mark.slow
def test_commands_go_on_through_a_server_that_begins(tmp_path: Path) -> None:
    """Each line once and in order, before and after: nobody has to end them first."""
    data = tmp_path / "a"
    reading = start("receive", "orders", "--create", "--count", "4", "--data", data, "--insecure")
    wait_until(lambda: read_note(data, handover.Served) is not None, "the directory is in use")
    sending = start("send", "orders", "--data", data, "--insecure", stdin=subprocess.PIPE)

    def pass_on(line: bytes) -> None:
        assert sending.stdin is not None
        assert reading.stdout is not None
        sending.stdin.write(line)
        sending.stdin.flush()
        assert reading.stdout.readline() == line

    pass_on(b"one\n")
    pass_on(b"two\n")
    with Server(data) as server:
        pass_on(b"three\n")
        pass_on(b"four\n")
        sending.communicate(timeout=SECONDS)
        reading.communicate(timeout=SECONDS)
        assert (sending.returncode, reading.returncode, server.stop()) == (0, 0, 0)


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
