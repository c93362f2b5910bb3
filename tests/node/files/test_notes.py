"""Files beside the data: notes, logs, and files that are followed."""

import errno
import io
import json
import logging
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from triack.base.errors import StoreError
from triack.node.control.handover import Served
from triack.node.files import operator_log
from triack.node.files.log_file import LogFile, Recorded
from triack.node.files.notes import Note, decode_note, folder_of, read_note, write_note
from triack.node.files.operator_log import NAME, PatientHandler, write_within
from triack.testing import World

# What a directory says of its node to processes that come later.


def make_note(data: Path, log: Path) -> Recorded:
    """What a node says that recorded there."""
    return Recorded(folder=folder_of(data), name="a", log=str(log))


def test_a_note_is_its_owners_alone_and_replaces_another(tmp_path: Path) -> None:
    """Also where a process died while it wrote one."""
    (tmp_path / "log.json.new").write_text("half a no")
    for log in (tmp_path / "1", tmp_path / "2"):
        write_note(tmp_path, make_note(tmp_path, log))
        assert read_note(tmp_path, Recorded) == make_note(tmp_path, log)
    (file,) = tmp_path.iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("log.json", 0o600)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../b"},
        {"name": ""},
        {"log": "logs"},
        {"log": "/logs\0"},
        {"log": "/\ud800"},
        {"log": None},
        {"folder": 12},
        {"name": ["a"]},
    ],
    ids=str,
)
def test_what_no_node_wrote_is_no_note(tmp_path: Path, change: dict[str, object]) -> None:
    """A name that leads out of the folder, a path that depends on where one is, and what is of another kind."""
    written = asdict(make_note(tmp_path, tmp_path))
    assert decode_note(Recorded, json.dumps(written).encode()) is not None
    assert decode_note(Recorded, json.dumps(written | change).encode()) is None


@pytest.mark.parametrize("kind", [Served, Recorded])
@pytest.mark.parametrize("content", [b"", b"[]", b"7", b"{}", b"\xff", b"[" * 100_000], ids=[*"123456"])
def test_what_is_no_note_at_all(kind: type[Note], content: bytes) -> None:
    assert decode_note(kind, content) is None


def test_a_note_that_cannot_be_written_raises(tmp_path: Path) -> None:
    """The caller decides whether that matters."""
    (tmp_path / "log.json.new").mkdir()
    with pytest.raises(OSError, match=os.strerror(21)):
        write_note(tmp_path, make_note(tmp_path, tmp_path))


def test_what_others_may_have_written_is_no_note(tmp_path: Path) -> None:
    """Nor is a link or a pipe, which would be waited for without end. Another one is written in its place."""
    path, note, said = tmp_path / Recorded.FILE, make_note(tmp_path, tmp_path), list[str]()
    assert read_note(tmp_path, Recorded) is None
    for what in ("mode", "link", "pipe"):
        write_note(tmp_path, note)
        assert read_note(tmp_path, Recorded) == note
        if what == "mode":
            path.chmod(0o666)
        else:
            kept = path.rename(tmp_path / "elsewhere")
            path.symlink_to(kept) if what == "link" else os.mkfifo(path, 0o600)
        assert read_note(tmp_path, Recorded, said.append) is None
    assert said == [
        f"note not used: others may write to {path} (mode 0666): chmod go-w it",
        f"note not used: {path} is a symbolic link",
        f"note not used: {path} is no regular file",
    ]


# The files of the session log: segments, renames, and a disk that takes no more.


def test_records_are_in_the_file_at_once(tmp_path: Path) -> None:
    """With the operating system when ``append`` returns; the file is renamed when the log is closed."""
    log = LogFile(tmp_path / "log", "n", 7)
    log.append(b"one\n")
    (open_file,) = (tmp_path / "log").iterdir()
    assert open_file.read_bytes() == b"one\n"
    assert open_file.name.startswith("n-000007-")
    assert open_file.name.endswith("-000001.jsonl.open")
    log.append(b"")
    log.append(b"two\n")
    log.close()
    log.close()
    (closed,) = (tmp_path / "log").iterdir()
    assert closed.read_bytes() == b"one\ntwo\n"
    assert closed.name == open_file.name.removesuffix(".open")


def test_a_record_that_begins_a_segment_begins_a_file(tmp_path: Path) -> None:
    """The first one, too, but only one; the segments put together are all records, in order."""
    log = LogFile(tmp_path, "n", 1)
    records = [(b'{"v":6,"n":%d}\n' if number % 3 == 0 else b'{"n":%d}\n') % number for number in range(20)]
    for record in records:
        log.append(record)
    assert len(list(tmp_path.glob("*.open"))) == 1
    log.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 7
    assert all(file.suffix == ".jsonl" and file.read_bytes().endswith(b"\n") for file in files)
    assert b"".join(file.read_bytes() for file in files) == b"".join(records)


def test_two_logs_never_write_one_file(tmp_path: Path) -> None:
    """Files of an earlier life are not touched, whatever their number."""
    first = LogFile(tmp_path, "n", 1)
    first.append(b"first\n")
    second = LogFile(tmp_path, "n", 1)
    second.append(b"second\n")
    first.close()
    second.close()
    assert sorted(file.read_bytes() for file in tmp_path.iterdir()) == [b"first\n", b"second\n"]


def test_a_disk_that_takes_no_more_ends_the_recording_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages go on: ``append`` and ``close`` do not raise, and nothing is left open."""
    log = LogFile(tmp_path, "n", 1)
    log.append(b"before\n")

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    log.append(b"lost\n")
    monkeypatch.undo()
    log.append(b"later\n")
    log.close()
    (file,) = tmp_path.iterdir()
    assert file.read_bytes() == b"before\n"


def test_a_short_write_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may take less than it is given."""
    write = os.write
    log = LogFile(tmp_path, "n", 1)
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data[:3])))
    log.append(b"0123456789\n")
    monkeypatch.undo()
    log.close()
    assert next(tmp_path.iterdir()).read_bytes() == b"0123456789\n"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("in the way")
    with pytest.raises(StoreError, match="log"):
        LogFile(tmp_path / "log", "n", 1)


@pytest.mark.parametrize(("times", "records"), [(1, b"on\n"), (2, b"on\n"), (2, b'{"v":6}\n')])
def test_a_folder_that_is_gone_ends_the_recording_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, times: int, records: bytes
) -> None:
    """Somebody tidied up under the running node: its next segment, or its end, says so once and makes no new folder."""
    log = LogFile(tmp_path / "log", "n", 1)
    log.append(b"begun\n")
    for file in (tmp_path / "log").iterdir():
        file.unlink()
    (tmp_path / "log").rmdir()
    for _ in range(times):
        log.append(records)
    log.close()
    assert caplog.messages == [f"recording in {tmp_path / 'log'} stopped: No such file or directory"]
    assert not (tmp_path / "log").exists()


@pytest.mark.skipif(os.name != "posix", reason="other systems have no modes of files")
def test_its_folder_is_its_owners_alone(tmp_path: Path) -> None:
    """And those above it that are made with it; one that is there stays as it is."""
    before = os.umask(0o022)
    try:
        LogFile(tmp_path / "a" / "b", "n", 1).close()
        (tmp_path / "shared").mkdir(mode=0o755)
        LogFile(tmp_path / "shared", "n", 1).close()
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b", "shared")]
    assert modes == [0o700, 0o700, 0o755]


# The log for operators: nothing that is wrong with it may stop a node without a word.

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
    event = "PeerSilent(address='tcp://127.0.0.1:9', cause='no process listens at tcp://127.0.0.1:9')\n"
    heard = "WARNING triack a no process listens at tcp://127.0.0.1:9"
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
            "3 lines of this log left out, as no process read them",
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
