"""How a command finds the node of a directory: the process that runs it, or the directory itself."""

import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, make, quick
from tests.tools.commands.serving import serving
from triack.base.errors import StoreError, UsageError, WaitTimeout
from triack.node.control.control_frames import Link
from triack.node.files.access import DEFAULT_SUITE
from triack.tools.commands import visiting
from triack.tools.commands.visiting import Host, calling, stats_of, visit


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


@pytest.mark.slow
def test_a_read_only_file_system_is_looked_at(tmp_path: Path) -> None:
    """In a copy, which has no keys and is gone afterwards; nothing else works there."""
    data = tmp_path / "a"
    with triack.sync.open("a", data=data, settings=quick()) as node:
        node.send("orders", b"x").ordered(WAIT)
    before = set(Path(tempfile.gettempdir()).glob("triack-look-*"))
    script = f"""
mount -t tmpfs none {tmp_path}/ro && cp -a {data} {tmp_path}/ro && mount -o remount,ro {tmp_path}/ro || exit 77
{sys.executable} -m triack status --data {tmp_path}/ro/a; echo $?
{sys.executable} -m triack queue list --data {tmp_path}/ro/a; echo $?
{sys.executable} -m triack queue purge orders --all --data {tmp_path}/ro/a; echo $?
"""
    (tmp_path / "ro").mkdir()
    unshare = ["unshare", "-rm", "sh", "-c", script]
    done = subprocess.run(unshare, capture_output=True, text=True, timeout=WAIT, check=False)
    if done.returncode in (1, 77):
        pytest.skip("this machine lets nobody mount in a namespace")
    lines = done.stdout.splitlines()
    assert (lines[0], "unread: 1, dead letters: 0" in lines, lines[4]) == ("no process runs it", True, "3")
    assert [line.split()[:3] for line in lines if line.startswith("orders")] == [["orders", "in", "1"]]
    assert (lines[-1], "not writable" in done.stderr) == ("1", True)
    assert set(Path(tempfile.gettempdir()).glob("triack-look-*")) == before


async def test_a_copy_has_the_store_and_no_keys(tmp_path: Path) -> None:
    async with make("a", tmp_path / "a") as node:
        await (await node.send("orders", b"x")).stored()
    (tmp_path / "copy").mkdir()
    visiting._copy_store(tmp_path / "a", tmp_path / "copy")  # noqa: SLF001 - only a read-only file system calls it
    assert {path.name for path in (tmp_path / "copy").iterdir()} <= {"store.db", "store.db-wal"}
    with pytest.raises(StoreError, match=r"copy the store of .*, which cannot be written"):
        visiting._copy_store(tmp_path / "a", tmp_path / "nowhere")  # noqa: SLF001


async def test_a_command_that_calls_peers_uses_the_running_node_or_opens_one(tmp_path: Path) -> None:
    async with make("a", tmp_path), calling(tmp_path, {}, DEFAULT_SUITE) as node:
        assert type(node) is triack.Client
    async with make("b", tmp_path / "b"):
        pass
    async with calling(tmp_path / "b", {}, DEFAULT_SUITE) as node:
        assert (type(node), node.name) == (triack.Node, "b")
    (tmp_path / "c").mkdir()
    with pytest.raises(UsageError, match="there is no node in"):
        await calling(tmp_path / "c", {}, DEFAULT_SUITE).__aenter__()
    assert list((tmp_path / "c").iterdir()) == []
