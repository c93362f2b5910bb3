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
from triack.node.control.control_frames import VERSION, Header, Link, dial, greet
from triack.node.control.handover import Served
from triack.node.control.socket_file import make_socket_path, remove
from triack.node.files.notes import read_note

PRODUCE: dict[str, Any] = {"do": "produce", "name": "p", "destination": "orders", "finished": 0, "properties": {}}
PRODUCE |= {"delivery": "TRANSACTIONAL", "until": "ORDERED"}
READ: dict[str, Any] = {"do": "read", "queue": "orders", "redelivery": None, "hand_over_timeout": None, "name": None}
READ |= {"in_order": True}


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Path]:
    """The control socket of a node."""
    async with triack.open("a", data=tmp_path / "a", insecure=True):
        served = read_note(tmp_path / "a", Served)
        assert served is not None
        yield Path(served.control)


async def connect(control: Path) -> Link:
    """Begin a conversation."""
    link = await dial(control)
    await greet(link)
    return link


async def call(link: Link, body: bytes = b"", **fields: Any) -> tuple[Header, bytes]:
    """The answer to a call."""
    await link.send("call", body, n=1, **fields)
    async with asyncio.timeout(PATIENCE_S):
        return await link.receive()


async def read_on(link: Link) -> None:
    """Read until there is an end."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await link.receive()


async def drawn(link: Link, reader: int, most: int, *, about: bool = False) -> tuple[Header, list[bytes]]:
    """The next messages, at most ``most``."""
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
    """Also one that says nothing of it."""
    for hello in ({"v": VERSION + 1}, {"do": "call"}):
        link = await dial(control)
        await link.send("hello", **hello)
        said = f"bad-hello: this process speaks version {VERSION}; use the same Triack for both"
        assert await complaint(link) == said


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"delivery": "GOLDEN"}, "bad-frame: produce: KeyError 'GOLDEN'"),
        ({"until": "EATEN"}, "bad-frame: produce: KeyError 'EATEN'"),
        ({"finished": -1}, "bad-frame: produce: finished must be a number from 0 on, not int"),
        ({"properties": ["a"]}, "bad-frame: produce: properties must be an object, not list"),
    ],
)
async def test_a_producer_that_makes_no_sense_is_refused(control: Path, fields: dict[str, Any], reason: str) -> None:
    link = await connect(control)
    assert (await call(link, **PRODUCE | fields))[0]["message"] == reason
    assert (await call(link, **PRODUCE))[0]["accepted"] == 0
    await link.close()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"first": 1, "sizes": [3, 5]}, "bad-frame: the sizes do not fit the body"),
        ({"first": 2, "sizes": [3, 4]}, "bad-frame: line 2 after line 0"),
    ],
)
async def test_lines_that_do_not_follow_are_refused(control: Path, fields: dict[str, Any], reason: str) -> None:
    """None of them enters the node: the same producer begins at line 1."""
    link = await connect(control)
    producer = (await call(link, **PRODUCE))[0]["producer"]
    refused, _ = await call(link, b"one\ntwo", do="take", producer=producer, **fields)
    assert refused["message"] == reason
    assert (await call(link, **PRODUCE))[0]["accepted"] == 0
    await link.close()


async def test_a_receiver_has_as_many_messages_in_hand_as_it_wants(tmp_path: Path) -> None:
    """All others stay available to other readers, as new."""
    async with triack.open("b", data=tmp_path / "b", insecure=True) as node:
        await (await node.send_many("orders", [b"%d" % number for number in range(9)])).ordered(PATIENCE_S)
        served = read_note(tmp_path / "b", Served)
        assert served is not None
        link = await connect(Path(served.control))
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
        served = read_note(tmp_path / "b", Served)
        assert served is not None
        link = await connect(Path(served.control))
        reader = (await call(link, **READ | {"redelivery": {"first_wait_s": 0}}))[0]["reader"]
        header, _ = await drawn(link, reader, 3)
        await link.send("ack", message=header["message"], count=1)
        await call(link, do="flush")
        await link.close()
        consumer = node.receive("orders")
        got = [await consumer.get(PATIENCE_S) for _ in range(2)]
        assert sorted((message.body, message.failures) for message in got) == [(b"1", 1), (b"2", 0)]


async def test_a_client_that_does_not_read_holds_no_node_that_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``triack receive | less`` is one: the pager is full, and the process waits for it."""
    monkeypatch.setattr(control_frames, "CLOSE_S", 0.01)
    async with triack.open("b", data=tmp_path / "b", insecure=True) as node:
        await node.send("orders", bytes(4_000_000))
        served = read_note(tmp_path / "b", Served)
        assert served is not None
        link = await connect(Path(served.control))
        reader = (await call(link, **READ))[0]["reader"]
        await link.send("call", n=1, do="draw", reader=reader, most=1, timeout=None, about=False)
        async with asyncio.timeout(PATIENCE_S):
            await node.close()
    await link.close()


async def test_why_a_node_cannot_be_found_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
        link = await connect(Path(served.control))
        reader = (await call(link, **READ))[0]["reader"]
        told = 0
        while told < 1_000:
            told += len((await drawn(link, reader, 1_000, about=True))[0]["about"])
        await link.close()


async def test_a_socket_that_was_removed_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As the runtime directory of a user after logout. Conversations that are open go on."""
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


async def test_one_process_too_many_is_refused_with_the_reason(control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are served go on."""
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 1)
    link = await connect(control)
    assert await complaint(await dial(control)) == "too many other processes use this node"
    await link.send("call", n=1, do="flush")
    assert (await link.receive())[0] == {"op": "done", "n": 1}
    await link.close()


async def test_a_frame_that_holds_nonsense_is_refused_by_name(control: Path) -> None:
    """Where no check names it, Python does."""
    link = await connect(control)
    reader = (await call(link, **READ))[0]["reader"]
    await link.send("call", b"x", n=2, do="send", destination="orders", delivery="TRANSACTIONAL", properties={})
    await link.receive()
    message = (await drawn(link, reader, 1))[0]["message"]
    await link.send("reject", message=message, delay_ms=10**400)
    assert (await complaint(link)).startswith("bad-frame: OverflowError ")


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
    link = await dial(control)
    await link.send("hello", v=VERSION)
    with pytest.raises(ConnectionError):
        await read_on(link)
    await link.close()
    assert caplog.messages == ["control socket: a conversation ended by a bug: RuntimeError('a bug')"]
