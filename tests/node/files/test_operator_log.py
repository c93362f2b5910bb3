"""The log for operators: nothing that is wrong with it may stop a node without a word."""

import io
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from triack.node.files import operator_log
from triack.node.files.operator_log import NAME, PatientHandler, write_within
from triack.testing import World

B = "udp://127.0.0.1:7802"


async def serve(got: list[bytes]) -> None:
    async with triack.open("b", data="b", listen=B, insecure=True) as node:
        reader = node.receive("q")
        while True:
            got.append((await reader.get()).body)


async def send(failures: list[triack.TriackError]) -> None:
    async with triack.open("a", data="a", insecure=True) as node:
        await node.send(f"{B}/q", b"x")
        failures.append(await node.failed())


async def cut_off(world: World, got: list[bytes], failures: list[triack.TriackError]) -> None:
    """A minute in which the node has something to say about its peer, then a good network."""
    a, b = world.machine("a"), world.machine("b")
    world.cut(a, b)
    b.start(serve, got)
    service = a.start(send, failures)
    await world.advance(60)
    world.heal()
    await world.advance(5)
    service.cancel()
    await world.advance(10)


async def test_messages_go_on_when_standard_error_is_closed(triack_world: World) -> None:
    """As under a supervisor that is gone."""
    closed = io.StringIO()
    closed.close()
    logging.getLogger(NAME).addHandler(logging.StreamHandler(closed))
    got: list[bytes] = []
    failures: list[triack.TriackError] = []
    await cut_off(triack_world, got, failures)
    assert (got, failures) == ([b"x"], [])


@pytest.mark.triack(check=False)
async def test_a_log_that_raises_ends_the_node_and_everyone_hears_of_it(triack_world: World) -> None:
    """The application configured something wrong: the error says so, and nothing hangs."""

    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("a handler of the application")

    logging.getLogger(NAME).addHandler(Broken())
    failures: list[triack.TriackError] = []
    await cut_off(triack_world, [], failures)
    assert "RuntimeError: a handler of the application" in str(failures[0])


QUIET = """
import asyncio, triack


async def main():
    settings = triack.NodeSettings(close_timeout_s=0)
    async with triack.open("a", data=None, insecure=True, settings=settings) as node:
        await node.send("tcp://127.0.0.1:9/q", b"x")
        async for event in node.events():
            print(event)
            break


asyncio.run(main())
"""
SEEN = "import logging; logging.basicConfig(format='%(levelname)s %(name)s %(node)s %(message)s')\n"


@pytest.mark.slow
def test_a_library_is_silent_until_the_application_wants_to_hear() -> None:
    """Standard error has only what the node has left behind at its end; the standard ``logging`` has all of it."""
    event = "PeerSilent(address='tcp://127.0.0.1:9', cause='nobody listens at tcp://127.0.0.1:9')\n"
    heard = "WARNING triack a nobody listens at tcp://127.0.0.1:9"
    for program, said in ((QUIET, "triack: node a closes before all has arrived"), (SEEN + QUIET, heard)):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        assert (done.stdout, done.stderr.partition(";")[0]) == (event, said)


SYNC = """
import triack
shop = triack.sync.open("shop", data={data!r}, insecure=True){start}
with shop if {closes} else __import__("contextlib").nullcontext():
    shop.send("udp://127.0.0.1:9/q", b"x", until="queued")
"""
MUTED = "import logging; logging.getLogger('triack').setLevel(logging.ERROR)\n"
LEFT = "stored until it is opened again: 1 message for udp://127.0.0.1:9/q\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "closes", "said"),
    [
        (SYNC, True, f"triack: node shop closes before all has arrived; {LEFT}"),
        (SYNC, False, f"triack: node shop was not closed before the program ended; {LEFT}"),
        (MUTED + SYNC, True, ""),
        (MUTED + SYNC, False, ""),
    ],
)
def test_a_script_that_ends_says_what_it_leaves_behind(program: str, closes: bool, said: str, tmp_path: Path) -> None:
    """Whether it closes its node or not; unless it wants to hear no warnings."""
    text = program.format(data=str(tmp_path / "shop"), closes=closes, start="" if closes else ".start()")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert (done.stdout, done.stderr) == ("", said)


# Whatever others say.

HOSTILE = "a\nERROR triack forged\r\x1b[2J\x9b\u202eb\u2028 %s %(node)s triack-private-abc234"


def test_a_line_is_one_line_without_control_over_anything(caplog: pytest.LogCaptureFixture) -> None:
    """Its text and its parts; a percent sign is a percent sign."""
    operator_log.warning(f"no answer from {HOSTILE}", peer=HOSTILE, count=3)
    (record,) = caplog.records
    for text in (record.getMessage(), record.__dict__["peer"]):
        assert text.isprintable()
        assert text.endswith("b\\u2028 %s %(node)s triack-private-...")
    assert record.__dict__["count"] == 3
    assert record.filename == Path(__file__).name


def test_one_cause_cannot_fill_the_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten lines a second; the next one says what was left out, and another cause has its own ten."""
    now_s = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])

    def flood() -> None:
        operator_log.warning("junk")

    for _ in range(500):
        flood()
    operator_log.warning("something else")
    now_s[0] += 1.0
    flood()
    said = [record.getMessage() for record in caplog.records]
    assert said == ["junk"] * 9 + [
        "junk (for a second no more lines like this one)",
        "something else",
        "junk (and 490 more lines like this one)",
    ]


def test_what_nobody_hears_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Not even a place in the count of lines."""
    for _ in range(100):
        operator_log.debug("unheard")
    assert caplog.records == []


@pytest.mark.parametrize("_", range(2))
def test_no_test_pays_for_the_lines_of_another(_: int, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(500):
        operator_log.warning("junk")
    assert [record.getMessage()[:4] for record in caplog.records] == ["junk"] * 10


def test_lines_that_nobody_reads_are_left_out_and_counted() -> None:
    """The pipe is full: a node must not wait for its reader. When it takes lines again, their number comes first."""
    out, into = os.pipe()
    with os.fdopen(into, "w") as stream:
        handler = PatientHandler(stream)
        while handler.left_out < 3:
            handler.emit(logging.makeLogRecord({"msg": "x" * 3_000}))
        while len(os.read(out, 1 << 16)) == 1 << 16:
            pass
        handler.emit(logging.makeLogRecord({"msg": "again"}))
        assert os.read(out, 1 << 16).decode().splitlines() == [
            "",
            "3 lines of this log left out: nobody read them",
            "again",
        ]
        assert handler.left_out == 0
    os.close(out)


def test_a_full_disk_stops_no_node_and_is_counted() -> None:
    """Nor does a stream that is closed. No traceback is written instead."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        handler = PatientHandler(full)
        for _ in range(2):
            handler.emit(logging.makeLogRecord({"msg": "x"}))
    handler.emit(logging.makeLogRecord({"msg": "closed"}))
    handler.flush()
    assert handler.left_out == 3


def test_a_long_line_is_written_whole() -> None:
    """A pipe takes it in several pieces."""
    out, into = os.pipe()
    with os.fdopen(into, "w") as stream:
        assert write_within(stream, "x" * 20_000)
    assert os.read(out, 1 << 16) == b"x" * 20_000
    os.close(out)
