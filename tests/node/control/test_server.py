"""A client that says what no client says gets the reason, and the node goes on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import until
from triack.base.errors import TriackError
from triack.node.control import control_frames, server
from triack.node.control.control_frames import VERSION, Link, dial
from triack.node.control.handover import Served
from triack.node.control.socket_file import make_socket_path, remove
from triack.node.files.notes import read_note

RECEIVE: dict[str, Any] = {"v": VERSION, "do": "receive", "queue": "orders", "most": 1}
SEND = {"v": VERSION, "do": "send", "producer": "p", "destination": "orders", "finished": 0}
SEND |= {"delivery": "TRANSACTIONAL", "until": "ORDERED"}


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Path]:
    """The control socket of a node."""
    async with triack.open("a", data=tmp_path / "a", insecure=True):
        served = read_note(tmp_path / "a", Served)
        assert served is not None
        yield Path(served.control)


async def greet(control: Path, hello: dict[str, Any]) -> Link:
    """Begin a conversation."""
    link = await dial(control)
    await link.send("hello", **hello)
    return link


async def read_on(link: Link) -> None:
    """Read until there is an end."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await link.receive()


async def given(link: Link) -> list[int]:
    """The numbers that are the next messages; none when something else is said."""
    async with asyncio.timeout(PATIENCE_S):
        header, body = await link.receive()
        while header["op"] == "confirmed":
            header, body = await link.receive()
    return [int(one) for one in control_frames.cut(body, header.get("sizes", []))]


async def complaint(link: Link) -> str:
    """What the node says, and that it hangs up then."""
    with pytest.raises(TriackError) as refused:
        await read_on(link)
    with pytest.raises(ConnectionResetError):
        await link.receive()
    await link.close()
    return str(refused.value)


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        ({"v": VERSION + 1}, f"bad-hello: this process speaks version {VERSION}; use the same Triack for both"),
        ({"do": "dance"}, "bad-hello: do is 'dance'"),
        ({"delivery": "GOLDEN"}, "bad-hello: class or stage 'GOLDEN'"),
        ({"until": "EATEN"}, "bad-hello: class or stage 'EATEN'"),
        ({"finished": -1}, "bad-frame: finished is -1"),
        ({"properties": ["a"]}, "bad-hello: properties are ['a']"),
    ],
)
async def test_a_hello_that_makes_no_sense_is_refused(control: Path, hello: dict[str, Any], reason: str) -> None:
    assert await complaint(await greet(control, SEND | hello)) == reason
    link = await greet(control, SEND)
    assert (await link.receive())[0] == {"op": "welcome", "v": VERSION, "passing": False, "accepted": 0}
    await link.close()


@pytest.mark.parametrize(
    ("op", "fields", "reason"),
    [
        ("chunk", {"first": 1, "sizes": [3, 5]}, "bad-frame: the sizes do not fit the body"),
        ("junk", {"first": 1, "sizes": [3, 3]}, "bad-frame: op junk in place of a chunk"),
        ("chunk", {"first": 2, "sizes": [3, 4]}, "bad-frame: line 2 after line 0"),
    ],
)
async def test_lines_that_do_not_follow_are_refused(
    tmp_path: Path, control: Path, op: str, fields: dict[str, Any], reason: str
) -> None:
    """None of them enters the node: the same producer begins at line 1."""
    link = await greet(control, SEND)
    await link.send(op, b"one\ntwo", **fields)
    assert await complaint(link) == reason
    link = await greet(control, SEND)
    assert (await link.receive())[0]["accepted"] == 0
    await link.close()


@pytest.mark.parametrize(("op", "serial"), [("ack", 1), ("nack", 0)])
async def test_an_acknowledgement_of_what_was_not_handed_out_is_refused(control: Path, op: str, serial: int) -> None:
    link = await greet(control, RECEIVE | {"create": True})
    await link.send(op, serial=serial)
    assert await complaint(link) == f"bad-frame: op {op} with serial {serial}"


async def test_a_receiver_has_as_many_messages_in_hand_as_it_wants(tmp_path: Path) -> None:
    """All others are there for whoever comes, as new."""
    async with triack.open("b", data=tmp_path / "b", insecure=True) as node:
        await (await node.send_many("orders", [b"%d" % number for number in range(9)])).ordered(PATIENCE_S)
        served = read_note(tmp_path / "b", Served)
        assert served is not None
        link = await greet(Path(served.control), RECEIVE | {"most": 2})
        assert [await given(link), await given(link)] == [[], [0, 1]]
        await link.send("ack", serial=1, most=1)
        assert (await link.receive())[0]["op"] == "confirmed"
        other = node.receive("orders")
        got = await other.get_many(3)
        assert [(int(message.body), message.redelivered) for message in got] == [(at, False) for at in (2, 3, 4)]
        await link.send("ack", serial=2, most=3)
        assert await given(link) == [5, 6, 7]
    await link.close()


async def test_a_client_that_does_not_read_holds_no_node_that_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``triack receive | less`` is one: the pager is full, and the process waits for it."""
    monkeypatch.setattr(control_frames, "CLOSE_S", 0.01)
    async with triack.open("b", data=tmp_path / "b", insecure=True) as node:
        await node.send("orders", bytes(4_000_000))
        served = read_note(tmp_path / "b", Served)
        assert served is not None
        link = await greet(Path(served.control), RECEIVE)
        await asyncio.wait_for(link.receive(), PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            await node.close()
    await link.close()


async def test_why_a_node_cannot_be_found_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The node works, and what it had begun is gone."""
    (tmp_path / "b" / "node.json").mkdir(parents=True)
    async with triack.open("b", data=tmp_path / "b", insecure=True) as node:
        await node.send("orders", b"x", until="queued")
    assert "other processes cannot use node b: [Errno 21] Is a directory" in caplog.text


@pytest.mark.slow
async def test_a_process_that_asks_for_properties_gets_frames_all_the_same(tmp_path: Path) -> None:
    """However large the properties of a thousand small messages are: ``triack receive --json`` is one."""
    async with triack.open("b", data=tmp_path / "b", insecure=True) as node:
        await node.send_many("orders", [b"hi"] * 1_000, headers={f"h{at}": "x" * 1_000 for at in range(10)})
        await node.flush()
        served = read_note(tmp_path / "b", Served)
        assert served is not None
        hello = {"v": VERSION, "do": "receive", "queue": "orders", "about": True, "most": 1_000}
        link = await greet(Path(served.control), hello)
        told = 0
        async with asyncio.timeout(PATIENCE_S):
            while told < 1_000:
                header, _ = await link.receive()
                told += len(header.get("about", ()))
        await link.close()


async def test_a_socket_that_was_removed_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As the runtime directory of a user who has logged out. Conversations that are open go on."""
    monkeypatch.setattr(server, "LOOK_S", 0.01)
    caplog.set_level("INFO", "triack")
    async with triack.open("a", data=tmp_path, insecure=True), triack.connect(tmp_path) as before:
        served = read_note(tmp_path, Served)
        assert served is not None
        control = Path(served.control)
        remove(control)
        await until(lambda: read_note(tmp_path, Served) not in (served, None))
        async with triack.connect(tmp_path) as client:
            await client.flush()
        await before.flush()
    assert f"control socket {control} is gone; node a has made another" in caplog.messages


async def test_who_says_nothing_does_not_stay(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HELLO_S", 0.05)
    assert await complaint(await dial(control)) == "bad-hello: nothing was said for 0.05 s"


async def test_too_many_processes_are_told_so(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are served go on."""
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 1)
    link = await greet(control, {"v": VERSION, "do": "call"})
    await link.receive()
    assert await complaint(await dial(control)) == "too many other processes use this node"
    await link.send("call", n=1, do="flush")
    assert (await link.receive())[0] == {"op": "done", "n": 1}
    await link.close()


async def test_a_frame_that_holds_nonsense_is_refused_by_name(control: Path) -> None:
    """Where no check names it, Python does."""
    link = await greet(control, SEND | {"properties": {"delivery": "x"}})
    await link.receive()
    await link.send("chunk", b"x", first=1, sizes=[1])
    assert (await complaint(link)).startswith("bad-frame: TypeError ")


async def test_a_socket_that_cannot_be_made_again_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where the whole runtime directory has gone."""
    no_room = [True]

    def refuse() -> Path:
        if no_room:
            raise TriackError("no room for a socket")
        return make_socket_path()

    monkeypatch.setattr(server, "LOOK_S", 0.01)
    async with triack.open("a", data=tmp_path, insecure=True):
        served = read_note(tmp_path, Served)
        assert served is not None
        monkeypatch.setattr(server, "make_socket_path", refuse)
        remove(Path(served.control))
        why = f"other processes cannot use node a: {served.control} is gone, and no room for a socket"
        await until(lambda: why in caplog.messages)
        no_room.clear()
        await until(lambda: read_note(tmp_path, Served) not in (served, None))


async def test_a_conversation_that_meets_a_bug_ends_and_says_so(
    control: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def __init__(self, *_: object) -> None:
            raise RuntimeError("a bug")

    monkeypatch.setattr(server, "Calls", Broken)
    link = await greet(control, {"v": VERSION, "do": "call"})
    with pytest.raises(ConnectionError):
        await read_on(link)
    await link.close()
    assert caplog.messages == ["control socket: a conversation ended by a bug: RuntimeError('a bug')"]
