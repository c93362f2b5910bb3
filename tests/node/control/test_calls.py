"""Calls that no client of ours makes are refused with the reason, and the others go on."""

import asyncio
import errno
import gc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import control_of, make, until
from triack.base.errors import TriackError
from triack.node.control import calls, control_frames, kept, steps
from triack.node.control.control_frames import CALLS_MAX, ERROR_CHARS_MAX, Link, dial, greet
from triack.node.control.kept import On
from triack.node.handles.queue_admin import page_of
from triack.node.handles.verbs import Verbs
from triack.node.shell.engine_handle import EngineHandle
from triack.queues.manager.browse import BrowsedMessage, Position

HOW: dict[str, Any] = {"redelivery": None, "hand_over_timeout": None, "name": None, "in_order": False}
"""How a queue is read: as always."""


PLAIN: dict[str, Any] = {"delivery": "RECOVERABLE", "properties": {}}


@pytest.fixture
async def link(tmp_path: Path) -> AsyncIterator[Link]:
    """A conversation of calls, begun."""
    async with make("a", tmp_path / "a"):
        link = await dial(control_of(tmp_path / "a"))
        welcome = await greet(link)
        assert (welcome["op"], welcome["name"], welcome["passing"]) == ("welcome", "a", False)
        yield link
        await link.close()


async def ask(link: Link, number: int, body: bytes = b"", **fields: Any) -> dict[str, Any]:
    """The answer to a call, without its body."""
    await link.send("call", body, n=number, **fields)
    return (await asyncio.wait_for(link.receive(), PATIENCE_S))[0]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"do": "dance"}, "bad-frame: do is 'dance'"),
        ({"do": "send"}, "bad-frame: send: destination is missing"),
        (
            {"do": "send", "destination": "q", "delivery": "GOLDEN", "properties": {}},
            "bad-frame: send: KeyError 'GOLDEN'",
        ),
        ({"do": "send", "delivery": "EXPRESS", "destination": "q", "properties": 5}, "bad-frame: send: properties"),
        ({"do": "wait", "receipt": [1], "at": None, "stage": "queued", "timeout": 1}, "bad-frame: wait: receipt"),
        ({"do": "read", "queue": "q", **HOW, "redelivery": {"soon": 1}}, "bad-frame: read: TypeError"),
        ({"do": "trust", "name": "b", "key": 5, "addresses": [], "send": None, "psk": None}, "trust: key must be text"),
        ({"do": "wait", "receipt": 5, "at": None, "stage": "queued", "timeout": 1}, "it was forgotten"),
        ({"do": "get", "reader": 5, "timeout": 1}, "this reader is closed"),
        ({"do": "commit", "transaction": 5}, "this transaction has ended"),
    ],
)
async def test_a_call_that_makes_no_sense_is_refused(link: Link, fields: dict[str, Any], reason: str) -> None:
    failed = await ask(link, 7, **fields)
    assert (failed["op"], failed["n"]) == ("failed", 7)
    assert reason in failed["message"]
    assert await ask(link, 8, do="flush") == {"op": "done", "n": 8}


async def test_another_frame_ends_the_conversation(link: Link) -> None:
    await link.send("dance")
    with pytest.raises(TriackError, match="op dance in a conversation of calls"):
        await link.receive()


@pytest.mark.gate
async def test_calls_that_are_cancelled_at_once_leave_room_for_others(link: Link) -> None:
    """Call and cancel arrive together, so none of them begins."""
    for number in range(CALLS_MAX + 1):
        link.post("call", n=number, do="flush")
        link.post("cancel", n=number)
    await link.send("call", n=CALLS_MAX + 1, do="flush")
    async with asyncio.timeout(PATIENCE_S):
        while (await link.receive())[0]["n"] <= CALLS_MAX:
            pass


async def test_a_process_without_descriptors_says_so(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system refuses something during a call, the call fails: its caller does not hang."""

    async def refused(_node: Verbs) -> None:
        raise OSError(errno.EMFILE, "Too many open files", "some file")

    monkeypatch.setattr(Verbs, "flush", refused)
    failed = await ask(link, 1, do="flush")
    assert failed == {"op": "failed", "n": 1, "error": "TriackError", "message": "flush: Too many open files"}


async def test_an_answer_that_is_too_long_is_said_to_be(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call fails: the connection stays open, and the caller does not hang."""
    monkeypatch.setattr(control_frames, "FRAME_BYTES_MAX", 200)
    for number in range(20):
        await ask(link, number, do="read", queue=f"orders-{number}", **HOW)
    failed = await ask(link, 1, do="queue_lengths")
    assert (failed["op"], failed["error"]) == ("failed", "UsageError")
    assert "bytes, and the control socket takes 200 at a time" in failed["message"]
    assert await ask(link, 2, do="flush") == {"op": "done", "n": 2}


@pytest.mark.gate
async def test_an_error_repeats_no_more_than_anybody_reads(link: Link) -> None:
    """In an argument as long as a frame, each letter may take six."""
    failed = await ask(link, 1, do="browse", queue="\u00e9" * 1_000_000, after=[])
    assert (failed["op"], len(failed["message"])) == ("failed", ERROR_CHARS_MAX)


@pytest.mark.gate
async def test_nothing_is_looked_up_for_who_does_not_read(
    tmp_path: Path, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three hundred pages of a mebibyte are asked for. When the caller reads again, it gets them all."""
    looked: list[str] = []

    async def counted(port: EngineHandle, queue: str, after: Position) -> list[BrowsedMessage]:
        looked.append(queue)
        return await page_of(port, queue, after)

    monkeypatch.setattr(steps, "page_of", counted)
    async with triack.connect(tmp_path / "a") as other:
        await other.send("big", bytes(1024 * 1024))
        for number in range(300):
            link.post("call", n=number, do="browse", queue="big", after=[])
        await until(lambda: looked)
        for _ in range(100):
            await other.flush()
        assert len(looked) < 10
    async with asyncio.timeout(PATIENCE_S):
        answers = [(await link.receive())[0]["n"] for _ in range(300)]
    assert answers == list(range(300))


@pytest.mark.gate
async def test_who_begins_much_and_hangs_up_is_no_line_of_the_log(
    tmp_path: Path, link: Link, caplog: pytest.LogCaptureFixture
) -> None:
    """It has not read one answer."""
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
    async with triack.connect(tmp_path / "a") as other:
        for number in range(5_000):
            link.post("call", n=number, do="begin", name=None)
        await other.flush()
        link.abort()
        for _ in range(100):
            await other.flush()
    gc.collect()
    assert (complaints, caplog.messages) == ([], [])


async def test_two_calls_cannot_have_one_number(link: Link) -> None:
    """Neither while the first is carried out, nor while its transaction is open, which it is a step of."""
    reader = (await ask(link, 7, do="read", queue="q", **HOW))["reader"]
    for _ in range(2):
        link.post("call", n=7, do="get", reader=reader, timeout=None)
    with pytest.raises(TriackError, match=r"^bad-frame: call 7: another call has that number$"):
        await link.receive()


def lower(monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    """Let a connection have fewer objects of a kind."""
    monkeypatch.setattr(calls if limit == "WATCHES_MAX" else steps, limit, most)


@pytest.mark.parametrize(
    ("limit", "call", "complaint"),
    [
        ("READERS_MAX", {"do": "read", "queue": "q", **HOW}, "receive from q: this connection has 2 readers"),
        ("TRANSACTIONS_MAX", {"do": "begin", "name": None}, "begin a transaction: this connection has 2 open ones"),
        ("WATCHES_MAX", {"do": "events"}, "follow events: this connection has 2 of them"),
    ],
)
async def test_what_a_connection_holds_has_a_limit(
    link: Link, monkeypatch: pytest.MonkeyPatch, limit: str, call: dict[str, Any], complaint: str
) -> None:
    lower(monkeypatch, limit, 2)
    answers = [await ask(link, number, **call) for number in range(3)]
    assert [answer["op"] for answer in answers] == ["done", "done", "failed"]
    assert answers[2]["message"] == f"{complaint}; end some, or use another connection"


async def test_messages_in_hand_have_a_limit(tmp_path: Path, link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "HELD_MAX", 1)
    async with triack.connect(tmp_path / "a") as other:
        await other.send_many("q", [b"1", b"2"])
        await other.flush()
    reader = (await ask(link, 1, do="read", queue="q", **HOW))["reader"]
    ops = [await ask(link, number, do="get", reader=reader, timeout=PATIENCE_S) for number in (2, 3)]
    assert [it["op"] for it in ops] == ["done", "failed"]
    link.post("ack", message=ops[0]["message"])
    assert (await ask(link, 4, do="get", reader=reader, timeout=PATIENCE_S))["op"] == "done"


@pytest.mark.gate
async def test_what_came_for_who_does_not_read_goes_back(
    tmp_path: Path, link: Link, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Eight readers wait for a message each; when they come, nobody reads the answers, and the connection ends."""
    monkeypatch.setattr(calls, "UNSENT_BYTES_MAX", 3 * 1024 * 1024)
    async with triack.connect(tmp_path / "a") as other:
        for number in range(8):
            reader = (await ask(link, number, do="read", queue=f"q{number}", **HOW))["reader"]
            await link.send("call", n=100 + number, do="get", reader=reader, timeout=None)
        await other.flush()
        for number in range(8):
            await other.send(f"q{number}", bytes(1024 * 1024))
        cut_off = "control socket: a process is cut off: 3 MiB of answers wait, and it does not read them"
        await until(lambda: cut_off in caplog.messages)
        for number in range(8):
            async with other.receive(f"q{number}") as reader_of_other:
                assert len((await reader_of_other.get(PATIENCE_S)).body) == 1024 * 1024


async def test_a_message_that_came_for_a_wait_that_has_ended_is_taken_first(tmp_path: Path, link: Link) -> None:
    """The wait ends as its answer is on its way: the next call gets that message, and not the one behind it."""
    async with triack.connect(tmp_path / "a") as other:
        reader = (await ask(link, 1, do="read", queue="q", **HOW))["reader"]
        await link.send("call", n=2, do="get", reader=reader, timeout=None)
        await other.send_many("q", [b"1", b"2"], until="ordered")
        assert (await link.receive())[1].endswith(b"1")
        link.post("cancel", n=2)
        await link.send("call", n=3, do="get", reader=reader, timeout=None)
        header, body = await link.receive()
        assert body.endswith(b"1")
        link.post("ack", message=header["message"])
        await link.send("call", n=4, do="get", reader=reader, timeout=None)
        assert (await link.receive())[1].endswith(b"2")
        link.post("cancel", n=3)  # of a message that is done
        assert (await ask(link, 5, do="get", reader=reader, timeout=0))["op"] == "failed"


UPLOAD: dict[str, Any] = {"destination": "q", "delivery": "TRANSACTIONAL", "size": 5_000_000, "properties": {}}


@pytest.mark.parametrize(
    "call",
    [{"do": "read", "queue": "q", **HOW}, {"do": "begin", "name": None}, {"do": "events"}, {"do": "upload", **UPLOAD}],
    ids=lambda call: str(call["do"]),
)
async def test_what_came_for_a_call_that_had_ended_is_not_kept(
    link: Link, monkeypatch: pytest.MonkeyPatch, call: dict[str, Any]
) -> None:
    """Its caller does not know the number, and could not end it."""
    for limit in ("READERS_MAX", "TRANSACTIONS_MAX", "WATCHES_MAX", "UPLOADS_MAX"):
        lower(monkeypatch, limit, 1)
    for number in range(3):
        assert (await ask(link, number, **call))["op"] == "done"
        link.post("cancel", n=number)


async def test_an_invitation_that_came_for_a_call_that_had_ended_is_withdrawn(tmp_path: Path) -> None:
    """Nobody knows its code. Those that are over are forgotten, too."""
    async with triack.open("a", data=tmp_path, listen="udp://127.0.0.1:0"):
        link = await dial(control_of(tmp_path))
        await greet(link)
        for number in range(40):  # a node has 16 open ones
            assert (await ask(link, number, do="invite", name="b", send=None))["op"] == "done"
            link.post("cancel", n=number)
        await link.close()


async def test_what_has_ended_leaves_nothing_behind(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a connection has had and has ended, in any of its tables; what has limits of its own is below them."""
    numbers = iter(range(10**6))

    async def say(do: str, **fields: Any) -> dict[str, Any]:
        answer = await ask(link, next(numbers), do=do, **fields)
        assert answer["op"] == "done", answer
        return answer

    monkeypatch.setattr(kept, "RECEIPTS_MAX", 3)
    monkeypatch.setattr(calls, "CALLS_MAX", 3)
    for _ in range(9):
        for op in ("ack", "reject"):
            reader = (await say("read", queue="q", **{**HOW, "in_order": True}))["reader"]
            for _ in range(2):
                await link.send("call", b"x", n=next(numbers), do="send", destination="q", **PLAIN)
                await link.receive()
            message = (await say("get", reader=reader, timeout=PATIENCE_S))["message"]
            await say("get", reader=reader, timeout=PATIENCE_S)  # not settled
            link.post(op, message=message)
            await say("close", reader=reader)
        for end in ({"do": "commit"}, {"do": "rollback", "failed": False, "delay": None, "dead": False}):
            transaction = (await say("begin", name=None))["transaction"]
            await say("tx_receive", transaction=transaction, queue="q", timeout=PATIENCE_S)
            await say(**end, transaction=transaction)
        upload = (await say("upload", **UPLOAD))["upload"]
        await say("upload_give_up", upload=upload)
        watch = (await say("events"))["watch"]
        link.post("unwatch", watch=watch, forget=True)
    await say("flush")
    gc.collect()
    (of_link,) = (it for it in gc.get_objects() if isinstance(it, calls.Calls))
    its = vars(of_link) | vars(vars(of_link)["_kept"])
    sizes = {name: len(it) for name, it in its.items() if isinstance(it, dict | list | set)}
    assert sizes.pop("_by") == len(On)
    sizes |= {on.name: len(it) for on, it in its["_by"].items()}
    assert {name: size for name, size in sizes.items() if size > 3} == {}
    assert {name for name, size in sizes.items() if size} <= {"RECEIPT", "UPLOAD", "_answered", "_tasks"}


async def test_a_connection_with_much_under_way_is_not_read(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until some of it has ended: what comes behind is carried out then."""
    monkeypatch.setattr(calls, "CALLS_BYTES_MAX", 1_000)
    reader = (await ask(link, 1, do="read", queue="q", **HOW))["reader"]
    link.post("call", bytes(1_000), n=2, do="get", reader=reader, timeout=0.2)
    link.post("call", n=3, do="flush")
    async with asyncio.timeout(PATIENCE_S):
        assert [(await link.receive())[0]["n"] for _ in range(2)] == [2, 3]


async def test_a_call_that_meets_a_bug_ends_its_connection_and_says_so(
    link: Link, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_node: Verbs) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Verbs, "flush", fail)
    await link.send("call", n=1, do="flush")
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(link.receive(), PATIENCE_S)
    assert caplog.messages == ["control socket: a call ended by a bug: RuntimeError('a bug')"]
