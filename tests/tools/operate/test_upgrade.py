"""Stores of other versions: what the releases have written is read, and of all others is said what to do."""

import tarfile
from pathlib import Path

import pytest

import triack
from tests.house import ROOT
from tests.node.nodes import WAIT
from tests.tools.processes import triack as command

VERSION_13 = ROOT / "tests" / "store" / "version-13.tar.xz"
"""The directory of a node that the first version with a promise has written: two queues, a topic with a durable
subscription, and a message on its way to a peer."""
VERSION_AT = 60
"""Where the version is in a database (https://sqlite.org/fileformat.html, section 1.3)."""


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    folder = tmp_path / "plant"
    folder.mkdir(mode=0o700)
    with tarfile.open(VERSION_13) as archive:
        archive.extractall(folder, filter="data")
    return folder


async def test_what_the_first_version_has_kept_is_there(kept: Path) -> None:
    async with triack.open("plant", data=kept) as node:
        async with node.receive("orders") as orders:
            message = await orders.get()
            assert (message.body, message.label) == (b"second", "two")
        async with node.receive("alarms") as alarms:
            assert (await alarms.get()).body == b"hot"
        async with node.subscribe("news.#", durable="audit") as audit:
            assert (await audit.get()).body == b"news"
        (outgoing,) = node.stats().outgoing
        assert (outgoing.peer, outgoing.queue, outgoing.messages) == ("away", "work", 1)
        await (await node.send("orders", b"third")).ordered(WAIT)


def test_a_store_of_this_version_needs_nothing(kept: Path) -> None:
    done = command("upgrade", "--data", kept)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"store version 13, which this Triack reads: nothing to do" in done.stdout


@pytest.mark.parametrize(("version", "said"), [(12, b"triack receive QUEUE --data"), (14, b"A newer Triack")])
def test_of_another_version_is_said_what_to_do(kept: Path, version: int, said: bytes) -> None:
    """Nothing in the directory is changed, by the command and by a node that is refused."""
    store = kept / "store.db"
    content = bytearray(store.read_bytes())
    content[VERSION_AT : VERSION_AT + 4] = version.to_bytes(4)
    store.write_bytes(content)
    done = command("upgrade", "--data", kept)
    assert done.returncode == 1
    assert said in done.stdout
    refused = command("queue", "list", "--data", kept)
    assert refused.returncode == 1
    assert f"store version {version}, this Triack reads 13; `triack upgrade --data`".encode() in refused.stderr
    assert store.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"x" * 200])
def test_what_is_no_store_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "store.db").write_bytes(content)
    done = command("upgrade", "--data", tmp_path)
    assert done.returncode == 1
    assert b"store.db: it is no store of a node, or an empty one" in done.stderr
