"""Another process changes whom a node trusts, and hears when the node acts by it."""

import asyncio
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, make, quick
from tests.tools.commands.serving import serving
from triack.base.errors import TriackError, WaitTimeout
from triack.node.control import handover
from triack.node.control.control_frames import VERSION, Link
from triack.node.control.handover import reread
from triack.node.files import private_files
from triack.node.files.keys import Identity, KeyKind, encode_key
from triack.node.files.private_files import PrivateFiles
from triack.node.files.trust import TRUST_FILE, TrustFile
from triack.tools.ports import free_port

SOMEBODY = encode_key(KeyKind.PUBLIC, Identity.make(lambda size: bytes([7]) * size).public[0])


@pytest.fixture(autouse=True)
def _never_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is not told sees nothing."""
    monkeypatch.setattr(private_files, "POLL_SECONDS", 3_600.0)


def node(name: str, data: Path, listen: str | None = None) -> triack.Node:
    return triack.open(name, data=data, listen=listen, settings=quick())


async def test_who_is_trusted_no_more_has_no_session_when_it_returns(tmp_path: Path) -> None:
    """Nobody looks at the file in between: the node has ended it by the time it answers."""
    async with node("a", tmp_path / "a") as a, node("b", tmp_path / "b", f"udp://127.0.0.1:{free_port()}") as b:
        await a.trust("b", b.key, b.address)
        await b.trust("a", a.key)
        await (await a.send("b/q", b"hello")).ordered(WAIT)
        assert await reread(tmp_path / "b")  # nothing has changed
        assert (len(b.stats().sessions), b.stats().closes) == (1, {})
        TrustFile(PrivateFiles(tmp_path / "b")).remove("a")
        assert b.stats().closes == {}
        assert await reread(tmp_path / "b")
        assert b.stats().closes == {"revoked": 1}


async def test_a_node_without_keys_has_nothing_to_read(tmp_path: Path) -> None:
    async with make("a", tmp_path / "a") as a:
        assert await reread(tmp_path / "a")
        await (await a.send("q", b"hello")).stored(WAIT)


async def test_a_directory_at_rest_needs_no_word(tmp_path: Path) -> None:
    """The next process begins with what is written down."""
    assert not await reread(tmp_path)


async def test_a_node_that_cannot_use_the_file_says_so(tmp_path: Path) -> None:
    async with node("a", tmp_path / "a") as a:
        await a.trust("b", SOMEBODY, "udp://127.0.0.1:9")
        PrivateFiles(tmp_path / "a").change(TRUST_FILE, lambda _: b"{")
        with pytest.raises(TriackError, match=r"written down, but not in force: .*trust.json"):
            await reread(tmp_path / "a")
        await a.send("b/q", b"still known")


async def test_a_node_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is written all the same, and is in force when the node is well again."""
    monkeypatch.setattr(handover, "REREAD_S", 0.05)
    over = asyncio.Event()

    async def stuck(link: Link) -> None:
        await over.wait()

    async with serving(tmp_path / "a", stuck):
        with pytest.raises(WaitTimeout, match=r"written down, but the node .* has not answered for 0.05 s"):
            await reread(tmp_path / "a")
        over.set()


async def test_a_node_that_has_just_ended_needs_no_word(tmp_path: Path) -> None:
    """It hangs up; the next node of that directory reads the file."""

    async def ending(link: Link) -> None:
        assert (await link.receive())[0] == {"op": "hello", "v": VERSION}

    async with serving(tmp_path / "a", ending):
        assert not await reread(tmp_path / "a")
