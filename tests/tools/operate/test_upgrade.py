"""Stores of other versions: what the releases have written is read, and of all others is said what to do."""

import tarfile
from pathlib import Path

import pytest

import triack
from tests.house import ROOT
from tests.node.nodes import WAIT
from tests.tools.processes import triack as command

VERSION_13, VERSION_14 = (ROOT / "tests" / "store" / f"version-{version}.tar.xz" for version in (13, 14))
"""The directory of a node that each has written: two queues, a topic with a durable subscription, and a message on its
way to a peer. Version 14 is the first with a promise."""
VERSION_AT = 60
"""Where the version is in a database (https://sqlite.org/fileformat.html, section 1.3)."""


def unpacked(kept: Path, folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    with tarfile.open(kept) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return unpacked(VERSION_14, tmp_path / "plant")


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
    assert b"store version 14, which this Triack reads: nothing to do" in done.stdout


def test_a_store_of_before_the_first_release_is_refused(tmp_path: Path) -> None:
    is_said_what_to_do(unpacked(VERSION_13, tmp_path / "plant"), 13, b"triack receive QUEUE --data")


@pytest.mark.parametrize(("version", "said"), [(12, b"triack receive QUEUE --data"), (15, b"A newer Triack")])
def test_of_another_version_is_said_what_to_do(kept: Path, version: int, said: bytes) -> None:
    store = kept / "store.db"
    content = bytearray(store.read_bytes())
    content[VERSION_AT : VERSION_AT + 4] = version.to_bytes(4)
    store.write_bytes(content)
    is_said_what_to_do(kept, version, said)


def is_said_what_to_do(kept: Path, version: int, said: bytes) -> None:
    """Nothing in the directory is changed, by the command and by a node that is refused."""
    store = kept / "store.db"
    content = store.read_bytes()
    done = command("upgrade", "--data", kept)
    assert done.returncode == 1
    assert said in done.stdout
    refused = command("queue", "list", "--data", kept)
    assert refused.returncode == 1
    assert f"store version {version}, this Triack reads 14; `triack upgrade --data`".encode() in refused.stderr
    assert store.read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"x" * 200])
def test_what_is_no_store_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "store.db").write_bytes(content)
    done = command("upgrade", "--data", tmp_path)
    assert done.returncode == 1
    assert b"store.db: it is no store of a node, or an empty one" in done.stderr
