"""The end of the control socket that serves: its file, its tasks, its handover."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import control_of, make, until
from triack.base.errors import StoreInUse, TriackError
from triack.node.control import control_frames, handover, server
from triack.node.control.control_frames import VERSION, Header, Link, dial, greet
from triack.node.control.handover import Served
from triack.node.control.socket_file import make_socket_path, remove
from triack.node.control.tasks import first_of
from triack.node.files.notes import folder_of, read_note
from triack.node.node import open_at_rest

# A client that says what no client says gets the reason, and the node goes on.

PRODUCE: dict[str, Any] = {"do": "produce", "name": "p", "destination": "orders", "finished": 0, "properties": {}}
PRODUCE |= {"delivery": "TRANSACTIONAL", "until": "ORDERED"}
READ: dict[str, Any] = {"do": "read", "queue": "orders", "redelivery": None, "hand_over_timeout": None, "name": None}
READ |= {"in_order": True}


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Path]:
    async with triack.open("a", data=tmp_path / "a", insecure=True):
        yield control_of(tmp_path / "a")


async def connect(control: Path) -> Link:
    link = await dial(control)
    await greet(link)
    return link


async def call(link: Link, body: bytes = b"", **fields: Any) -> tuple[Header, bytes]:
    await link.send("call", body, n=1, **fields)
    async with asyncio.timeout(PATIENCE_S):
        return await link.receive()


async def read_on(link: Link) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await link.receive()


async def drawn(link: Link, reader: int, most: int, *, about: bool = False) -> tuple[Header, list[bytes]]:
    header, body = await call(link, do="draw", reader=reader, most=most, timeout=None, about=about)
    return header, control_frames.cut(body, header["sizes"])


async def complaint(link: Link) -> str:
    """The complaint of the node, which hangs up then."""
    with pytest.raises(TriackError) as refused:
        await read_on(link)
    with pytest.raises(ConnectionResetError):
        await link.receive()
    await link.close()
    return str(refused.value)


async def test_another_version_is_refused(control: Path) -> None:
    for hello in ({"v": VERSION + 1}, {"do": "call"}):
        link = await dial(control)
        await link.send("hello", **hello)
        said = f"bad-hello: this process speaks version {VERSION}; use the same Triack for both"
        assert await complaint(link) == said


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (PRODUCE | {"delivery": "GOLDEN"}, "bad-frame: produce: KeyError 'GOLDEN'"),
        (PRODUCE | {"until": "EATEN"}, "bad-frame: produce: KeyError 'EATEN'"),
        (PRODUCE | {"finished": -1}, "bad-frame: produce: finished must be a number from 0 on, not int"),
        (PRODUCE | {"properties": ["a"]}, "bad-frame: produce: properties must be an object, not list"),
        ({"do": "take", "first": 1, "sizes": [3, 5]}, "bad-frame: the sizes do not fit the body"),
        ({"do": "take", "first": 2, "sizes": [3, 4]}, "bad-frame: line 2 after line 0"),
    ],
)
async def test_a_producer_that_makes_no_sense_is_refused(control: Path, fields: dict[str, Any], reason: str) -> None:
    """None of its lines enters the node: the same producer begins at line 1."""
    link = await connect(control)
    if fields["do"] == "take":
        fields = fields | {"producer": (await call(link, **PRODUCE))[0]["producer"]}
    assert (await call(link, b"one\ntwo", **fields))[0]["message"] == reason
    assert (await call(link, **PRODUCE))[0]["accepted"] == 0
    await link.close()


async def test_a_receiver_has_as_many_messages_in_hand_as_it_wants(tmp_path: Path) -> None:
    """All others stay available to other readers, as new."""
    async with triack.open("b", data=tmp_path / "b", insecure=True) as node:
        await (await node.send_many("orders", [b"%d" % number for number in range(9)])).ordered(PATIENCE_S)
        link = await connect(control_of(tmp_path / "b"))
        reader = (await call(link, **READ))[0]["reader"]
        header, bodies = await drawn(link, reader, 2)
        assert bodies == [b"0", b"1"]
        await link.send("ack", message=header["message"], count=1)
        other = node.receive("orders")
        got = await other.get_many(3)
        assert [(int(message.body), message.redelivered) for message in got] == [(at, False) for at in (2, 3, 4)]
        assert (await drawn(link, reader, 3))[1] == [b"5", b"6", b"7"]
    await link.close()


async def test_a_receiver_that_dies_has_failed_with_the_message_that_it_had_before_it(tmp_path: Path) -> None:
    """Messages that it had not come to yet come again as they were."""
    async with triack.open("b", data=tmp_path / "b", insecure=True) as node:
        await (await node.send_many("orders", [b"0", b"1", b"2"])).ordered(PATIENCE_S)
        link = await connect(control_of(tmp_path / "b"))
        reader = (await call(link, **READ | {"redelivery": {"first_wait_s": 0}}))[0]["reader"]
        header, _ = await drawn(link, reader, 3)
        await link.send("ack", message=header["message"], count=1)
        await call(link, do="flush")
        await link.close()
        consumer = node.receive("orders")
        got = [await consumer.get(PATIENCE_S) for _ in range(2)]
        assert sorted((message.body, message.failures) for message in got) == [(b"1", 1), (b"2", 0)]


async def test_why_a_node_cannot_be_found_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "b" / "node.json").mkdir(parents=True)
    async with triack.open("b", data=tmp_path / "b", insecure=True) as node:
        await node.send("orders", b"x", until="queued")
    assert "other processes cannot use node b: [Errno 21] Is a directory" in caplog.text


async def test_who_says_nothing_does_not_stay(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HELLO_S", 0.05)
    assert await complaint(await dial(control)) == "bad-hello: nothing was said for 0.05 s"


async def test_one_process_too_many_is_refused_with_the_reason(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 1)
    link = await connect(control)
    assert await complaint(await dial(control)) == "too many other processes use this node"
    await link.send("call", n=1, do="flush")
    assert (await link.receive())[0] == {"op": "done", "n": 1}
    await link.close()


async def test_a_frame_that_holds_nonsense_is_refused_by_name(control: Path) -> None:
    link = await connect(control)
    reader = (await call(link, **READ))[0]["reader"]
    await link.send("call", b"x", n=2, do="send", destination="orders", delivery="TRANSACTIONAL", properties={})
    await link.receive()
    message = (await drawn(link, reader, 1))[0]["message"]
    await link.send("reject", message=message, delay_ms=10**400)
    assert (await complaint(link)).startswith("bad-frame: OverflowError ")


async def test_a_socket_that_was_removed_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As the runtime directory of a user after logout, until there is room for one. Open conversations go on."""
    no_room = [True]

    def refuse() -> Path:
        if no_room:
            raise TriackError("no room for a socket")
        return make_socket_path()

    monkeypatch.setattr(server, "LOOK_S", 0.01)
    caplog.set_level("INFO", "triack")
    async with triack.open("a", data=tmp_path, insecure=True), triack.connect(tmp_path) as before:
        served, control = read_note(tmp_path, Served), control_of(tmp_path)
        monkeypatch.setattr(server, "make_socket_path", refuse)
        remove(control)
        why = f"other processes cannot use node a: {control} is gone, and no room for a socket"
        await until(lambda: why in caplog.messages)
        no_room.clear()
        await until(lambda: read_note(tmp_path, Served) not in (served, None))
        async with triack.connect(tmp_path) as client:
            await client.flush()
        await before.flush()
    assert f"control socket {control} is gone; node a has made another" in caplog.messages


async def test_a_conversation_that_meets_a_bug_ends_and_says_so(
    control: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def __init__(self, *_: object) -> None:
            raise RuntimeError("a bug")

    monkeypatch.setattr(server, "Calls", Broken)
    link = await dial(control)
    await link.send("hello", v=VERSION)
    with pytest.raises(ConnectionError):
        await read_on(link)
    await link.close()
    assert caplog.messages == ["control socket: a conversation ended by a bug: RuntimeError('a bug')"]


def read_served(data: Path) -> handover.Served | None:
    """Read the note of the node that serves the directory."""
    return read_note(data, handover.Served)


def make_served(data: Path, control: Path) -> handover.Served:
    """What a process says that serves the directory by that socket."""
    return handover.Served(folder=folder_of(data), control=str(control), pid=1, listen="")


async def test_a_process_out_of_sight_is_left_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket is in a ``/tmp`` that only it sees, as services have it; others in there still find it."""
    monkeypatch.setattr(handover, "SOON_S", 0.01)
    served = make_served(tmp_path, tmp_path / "triack-elsewhere" / "control")
    handover.publish(tmp_path, served)
    assert await handover.find(tmp_path) is None
    assert read_served(tmp_path) == served


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"control": "/tmp/triack-x/control", "pid": 1e999, "listen": "", "folder": "1:2"}',
        b'{"control": "/tmp/triack-x\\u0000/control", "pid": 1, "listen": "", "folder": "1:2"}',
        b'{"control": "/tmp/triack-\\ud800/control", "pid": 1, "listen": "", "folder": "1:2"}',
        b'{"control": "/etc/passwd", "pid": 1, "listen": "", "folder": "1:2"}',
        b'{"control": "/tmp/triack-x/control", "pid": 1, "listen": ""}',
        b'{"control": "/tmp/triack-x/control", "pid": 1, "listen": "", "folder": 2}',
    ],
)
async def test_a_file_that_no_node_wrote_names_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """``find`` finds none. A node that starts there replaces the file, and removes nothing that it names."""
    monkeypatch.setattr(handover, "SOON_S", 0.01)
    (tmp_path / handover.Served.FILE).write_bytes(content)
    assert await handover.find(tmp_path) is None
    served = make_served(tmp_path, tmp_path / "triack-new" / "control")
    handover.publish(tmp_path, served)
    assert read_served(tmp_path) == served


async def test_a_copy_is_served_by_nobody(tmp_path: Path) -> None:
    """The node of the original goes on: the node of the copy may neither connect to its socket nor remove it."""
    original, copy = tmp_path / "original", tmp_path / "copy"
    control = make_socket_path()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(control))
    original.mkdir()
    handover.publish(original, make_served(original, control))
    shutil.copytree(original, copy)
    assert read_served(copy) is None
    assert await handover.find(copy) is None
    served = make_served(copy, tmp_path / "triack-copy" / "control")
    handover.publish(copy, served)
    assert read_served(copy) == served
    assert control.exists()
    handover.retract(original, make_served(original, control))
    assert not control.parent.exists()


def test_a_directory_is_the_same_by_another_name(tmp_path: Path) -> None:
    """Renamed while its node runs, or by a link to it."""
    (tmp_path / "old").mkdir()
    served = make_served(tmp_path / "old", tmp_path / "triack-old" / "control")
    handover.publish(tmp_path / "old", served)
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "link").symlink_to("new")
    assert read_served(tmp_path / "new") == read_served(tmp_path / "link") == served


async def test_a_node_begins_behind_one_that_only_looks(tmp_path: Path) -> None:
    """As `triack queue list` does: it says nothing, and is gone at once."""
    async with make("a", tmp_path):
        pass
    looking = await open_at_rest(tmp_path).start()
    asyncio.get_running_loop().call_later(0.2, asyncio.create_task, looking.close())
    async with make("a", tmp_path) as node:
        await node.send("q", b"x", until="stored")
        assert node.queue_lengths()["q"] == 1


async def test_a_directory_that_nobody_speaks_for_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "SOON_S", 0.1)
    async with make("a", tmp_path):
        pass
    async with open_at_rest(tmp_path):
        with pytest.raises(StoreInUse):
            await make("a", tmp_path).start()


async def test_the_first_end_ends_all() -> None:
    ended: list[str] = []

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("for ever")

    async def fail() -> None:
        raise LookupError("at once")

    await first_of(for_ever(), asyncio.sleep(0))
    with pytest.raises(LookupError):
        await first_of(for_ever(), fail())
    assert ended == ["for ever", "for ever"]
