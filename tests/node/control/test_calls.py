"""Calls that no client of ours makes are refused with the reason, and the others go on."""

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.machine import PATIENCE_S
from tests.node.nodes import make
from triack.base.errors import TriackError
from triack.node.control import calls, frames
from triack.node.control.frames import CALLS_MAX, ERROR_CHARS_MAX, VERSION, Link, dial
from triack.node.control.handover import Served
from triack.node.notes import read_note


@pytest.fixture
async def link(tmp_path: Path) -> AsyncIterator[Link]:
    """A conversation of calls, begun."""
    async with make("a", tmp_path / "a"):
        served = read_note(tmp_path / "a", Served)
        assert served is not None
        link = await dial(Path(served.control))
        await link.send("hello", v=VERSION, do="call")
        welcome, _ = await link.receive()
        assert (welcome["op"], welcome["name"]) == ("welcome", "a")
        yield link
        await link.close()


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
        ({"do": "read", "queue": "q", "redelivery": {"soon": 1}}, "bad-frame: read: TypeError"),
        ({"do": "trust", "name": "b", "key": 5, "addresses": [], "send": None, "psk": None}, "trust: key must be text"),
        ({"do": "wait", "receipt": 5, "at": None, "stage": "queued", "timeout": 1}, "it was forgotten"),
        ({"do": "get", "reader": 5, "timeout": 1}, "this reader is closed"),
        ({"do": "commit", "transaction": 5}, "this transaction has ended"),
    ],
)
async def test_a_call_that_makes_no_sense_is_refused(link: Link, fields: dict[str, Any], reason: str) -> None:
    await link.send("call", n=7, **fields)
    failed, _ = await link.receive()
    assert (failed["op"], failed["n"]) == ("failed", 7)
    assert reason in failed["message"]
    await link.send("call", n=8, do="flush")
    assert (await link.receive())[0] == {"op": "done", "n": 8}


async def test_another_frame_ends_the_conversation(link: Link) -> None:
    await link.send("dance")
    with pytest.raises(TriackError, match="op dance in a conversation of calls"):
        await link.receive()


async def test_calls_that_are_cancelled_at_once_leave_room_for_others(link: Link) -> None:
    """Call and cancel arrive together, so none of them begins."""
    for number in range(CALLS_MAX + 1):
        link.post("call", n=number, do="flush")
        link.post("cancel", n=number)
    await link.send("call", n=CALLS_MAX + 1, do="flush")
    async with asyncio.timeout(PATIENCE_S):
        while (await link.receive())[0]["n"] <= CALLS_MAX:
            pass


async def test_receipts_are_bounded(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is forgotten, and that is said."""
    monkeypatch.setattr(calls, "RECEIPTS_MAX", 2)
    receipts = []
    for number in range(3):
        await link.send("call", b"x", n=number, do="send", destination="q", delivery="RECOVERABLE", properties={})
        receipts.append((await link.receive())[0]["receipt"])
    answers = []
    for receipt in receipts:
        await link.send("call", n=9, do="wait", receipt=receipt, at=None, stage="stored", timeout=PATIENCE_S)
        answers.append((await link.receive())[0]["op"])
    assert answers == ["failed", "done", "done"]


async def test_a_process_without_descriptors_says_so(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever for a call that the system has refused something."""

    async def refused(*_: object) -> calls.Answer:
        raise OSError(errno.EMFILE, "Too many open files", "some file")

    monkeypatch.setitem(calls._VERBS, "flush", refused)  # noqa: SLF001 - as in a process that has none
    await link.send("call", n=1, do="flush")
    failed, _ = await asyncio.wait_for(link.receive(), PATIENCE_S)
    assert failed == {"op": "failed", "n": 1, "error": "TriackError", "message": "flush: Too many open files"}


async def test_an_answer_that_is_too_long_is_said_to_be(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody loses the connection by it, nor waits for ever."""
    monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 200)
    for number in range(20):
        await link.send("call", n=number, do="read", queue=f"orders-{number}", redelivery=None)
        await link.receive()
    await link.send("call", n=1, do="queue_lengths")
    failed, _ = await asyncio.wait_for(link.receive(), PATIENCE_S)
    assert (failed["op"], failed["error"]) == ("failed", "UsageError")
    assert "bytes, and the control socket takes 200 at a time" in failed["message"]
    await link.send("call", n=2, do="flush")
    assert (await link.receive())[0] == {"op": "done", "n": 2}


async def test_an_error_repeats_no_more_than_anybody_reads(link: Link) -> None:
    """In an argument as long as a frame, each letter may take six."""
    await link.send("call", n=1, do="browse", queue="\u00e9" * 1_000_000, after=[])
    failed, _ = await asyncio.wait_for(link.receive(), PATIENCE_S)
    assert (failed["op"], len(failed["message"])) == ("failed", ERROR_CHARS_MAX)
