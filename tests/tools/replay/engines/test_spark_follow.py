"""Logs that grow, followed by Structured Streaming: it reports what the batch does, after a restart too."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

from tests.machine import PATIENCE_S
from tests.tools.replay.builder import healthy
from tests.tools.replay.engines.test_follow import REAL_SEED, growing, lines_growing
from tests.tools.replay.faults import rename
from tests.tools.replay.harmless import HARMLESS
from tests.tools.replay.judging import PLANTED, plant
from triack.base.errors import ReplayError
from triack.base.log_lines import LineWriter
from triack.base.session_log import EVENTS
from triack.tools.chaos.drawing import draw
from triack.tools.chaos.run import run_plan
from triack.tools.replay.log.schema import Timeline, Verdict, Violation
from triack.tools.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from triack.tools.replay.engines.spark_follow import Stream

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FOLLOWING = "triack replay: following the logs, Ctrl-C ends it with the verdict"
"""The line for people; the rest is the verdict."""
PARTS = 3
"""In which the logs are written: after the third batch, what is known is in two pieces."""
WORLDS = (*PLANTED, *HARMLESS)[::5]
"""One of five: the local follower sees the findings of each alone, and the batch those of all."""


def all_growing(logs: Path) -> Iterator[object]:
    """Write the logs of planted worlds, part by part, each under ids of its own."""
    writers = []
    for at, name in enumerate(WORLDS, start=1):
        world = HARMLESS[name]() if name in HARMLESS else plant(name)[0]
        if name in HARMLESS:
            world.number()
        records = sum(len(log.records) for log in world.logs)
        writers.append(growing(rename(world, f"{at:04x}"), logs / name, -(-records // PARTS)))
    return zip_longest(*writers)


class Ear:
    """Collects the violations that are reported."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def __call__(self, violation: Violation, timeline: Timeline) -> None:
        assert timeline.names
        self.told.append(violation.identity)

    def listen(self, stream: "Stream") -> None:
        stream.read_all()
        stream.tell(self)
        while stream.fresh:
            stream.read_all()
            stream.tell(self)


def begin(spark: "SparkSession", logs: Path, kept: Path) -> "Stream":
    from triack.tools.replay.engines.spark_follow import Kept, Stream

    return Stream(spark, [logs], Kept(kept, [logs]))


def test_all_is_reported_that_is_found_afterwards(spark: "SparkSession", tmp_path: Path) -> None:
    """Over a restart, whatever is wrong; and the verdict is that of the batch, with all its numbers."""
    logs, kept, ear = tmp_path / "logs", tmp_path / "kept of all", Ear()
    logs.mkdir()
    found = Verdict()
    for _ in all_growing(logs):
        stream = begin(spark, logs, kept)
        ear.listen(stream)
        found = stream.conclude(None)
        stream.stop()
    assert {path.name for path in kept.glob("*/judged/*")} <= {"upto=0", "upto=1", "upto=2"}
    said = replay(logs, engine="local")
    found.engine = "local"
    assert found.findings == said.findings
    assert found == said
    assert len(set(ear.told)) == len(ear.told), "told twice"
    assert set(ear.told) >= {it.identity for it in said.findings}


def test_a_start_that_is_found_late_is_judged_in_its_place(spark: "SparkSession", tmp_path: Path) -> None:
    """All is judged anew then; a segment that is not what it was begins anew, too."""
    healthy().save(tmp_path / "logs")
    late = tmp_path / "late"
    for log in (tmp_path / "logs" / "beta").glob("*-000001-*"):
        late.mkdir(exist_ok=True)
        log.rename(late / log.name)
    stream, ear = begin(spark, tmp_path / "logs", tmp_path / "kept"), Ear()
    try:
        stream.read()
        for log in late.iterdir():
            log.rename(tmp_path / "logs" / "beta" / log.name)
        ear.listen(stream)
        verdict = stream.conclude(None)
        assert (verdict.verdict, ear.told) == ("pass", [])
        assert (verdict.counted["sent"], verdict.differences) == (verdict.sent, [])
        assert verdict.sent > 0
    finally:
        stream.stop()


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """The state that was kept of other logs is dropped, and nothing but that."""
    from triack.tools.replay.engines.spark_follow import Kept

    first, same, other = (Kept(tmp_path / "kept", [tmp_path / name]) for name in ("a", "a", "b"))
    assert first.piece(0) == same.piece(0) != other.piece(0)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letters").write_text("")
    with pytest.raises(ReplayError, match=r"mine is not empty, and no checkpoint"):
        Kept(tmp_path / "mine", [tmp_path])
    assert (tmp_path / "mine" / "letters").exists()


def test_a_batch_is_not_read_that_spark_begins_anew(tmp_path: Path) -> None:
    """It was judged when the process died, and Spark had not noted that: its piece is about to be replaced."""
    from triack.tools.replay.engines.spark_follow import Kept

    kept = Kept(tmp_path / "kept", [tmp_path])
    for batch in (0, 1):
        kept.piece(batch).mkdir(parents=True)
        (kept.piece(batch) / "_SUCCESS").touch()
    assert kept.last() == -1
    commits = Path(kept.stream.removeprefix("file:")) / "commits"
    commits.mkdir(parents=True)
    (commits / "0").touch()
    assert kept.last() == 0


def busy(logs: Path, done: Event) -> None:
    """Write the log of a node that has something to say all the time."""
    writer = LineWriter(bytes(16), 1, 0)
    (first,) = [record for record in healthy().alpha.records if record["event"] == "node_started"][:1]
    settings = {name: first[name] for name in EVENTS["node_started"].fields if name in first}
    writer.add("node_started", time.monotonic_ns(), settings)
    until_s = time.monotonic() + PATIENCE_S
    with (logs / "busy-000001-000001.jsonl.open").open("ab", buffering=0) as file:
        while not done.is_set() and time.monotonic() < until_s:
            file.write(writer.take())
            writer.add("dropped", time.monotonic_ns(), {"reason": "unknown-session", "count": 1})
            done.wait(0.01)


def test_who_writes_all_the_time_keeps_nothing_from_being_told(spark: "SparkSession", tmp_path: Path) -> None:
    """There is never a moment when nothing is left to judge; and to end it, nobody waits for one."""
    from triack.tools.replay.engines.spark_follow import follow_spark

    logs, done, stop, told = tmp_path / "logs", Event(), Event(), list[Violation]()
    logs.mkdir()

    def tell(violation: Violation, _: Timeline) -> None:
        assert writer.is_alive()
        told.append(violation)
        stop.set()

    writer = Thread(target=busy, args=(logs, done))
    writer.start()
    try:
        plant("order_ack_too_early")[0].save(logs)
        verdict = follow_spark(spark, [str(logs)], tell, stop=stop)
        assert writer.is_alive()
    finally:
        done.set()
        writer.join()
    assert "order_ack_before_commit" in {it.check for it in told}
    assert verdict.verdict == "fail"


def test_lines_of_real_nodes_go_on_after_a_batch(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They refer to what lines before them say. Each batch counts as large: units with news are joined."""
    from triack.tools.replay.engines import spark_batch

    monkeypatch.setattr(spark_batch, "TASK_BYTES", 1_000)
    logs, ear = tmp_path / "logs", Ear()
    logs.mkdir()
    stream = begin(spark, logs, tmp_path / "kept")
    try:
        for _ in lines_growing(run_plan(draw(REAL_SEED)).logs, logs, 120):
            ear.listen(stream)
        assert (stream.conclude(None).verdict, ear.told) == ("pass", [])
    finally:
        stream.stop()


def leave_as_killed(spark: "SparkSession", logs: Path, kept: Path) -> None:
    """Follow logs, and keep what is left of a process that dies when its first batch is judged.

    Spark waits for the end of the batch then and writes nothing, and has not noted yet that it is done.
    """
    from triack.tools.replay.engines.spark_follow import Kept, Stream

    alive, is_left = kept.with_name("alive"), Event()

    class Dying(Stream):
        def _judge(self, grown: "DataFrame", batch: int) -> None:
            super()._judge(grown, batch)
            if not is_left.is_set():
                shutil.copytree(alive, kept)
                is_left.set()

    stream = Dying(spark, [logs], Kept(alive, [logs]))
    try:
        assert stream.read()
        assert is_left.wait(PATIENCE_S)
    finally:
        stream.stop()
    assert (kept / "1" / "judged" / "upto=0" / "_SUCCESS").exists()
    assert not noted(kept).exists()


def noted(kept: Path) -> Path:
    """What Spark writes when the first batch is done."""
    return kept / "1" / "stream" / "commits" / "0"


def await_batch(process: "subprocess.Popen[Any]", kept: Path) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not noted(kept).exists():
        assert time.monotonic() < until_s, "the first batch was not judged once more"
        assert process.poll() is None, "it has ended"
        time.sleep(0.1)


def test_one_terminal_sees_what_another_writes(spark: "SparkSession", tmp_path: Path) -> None:
    """The directory is empty at first; a process that is killed is followed by one that goes on where it was.

    Ctrl-C, which reaches all processes of the terminal, gives the verdict.
    """
    logs, kept = tmp_path / "logs", tmp_path / "kept"
    logs.mkdir()
    command = [sys.executable, "-m", "triack", "replay", str(logs), "--follow", "--engine", "spark"]
    # It ends, whatever happens here.
    command += ["--checkpoint", str(kept), "--until-idle", str(PATIENCE_S)]
    pieces = growing(plant("order_ack_too_early")[0], logs, 5)
    next(pieces)
    leave_as_killed(spark, logs, kept)
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, start_new_session=True) as process:
        assert process.stdout is not None
        await_batch(process, kept)
        for _ in pieces:
            pass
        line = process.stdout.readline()
        assert "order_ack_before_commit: node beta" in line, line or process.communicate()
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        out, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "FAIL" in out
    assert "engine spark" in out
    assert said.splitlines() == [FOLLOWING]


def test_a_second_interrupt_ends_it_without_a_verdict_or_another_word(tmp_path: Path) -> None:
    """Whatever Spark was asked meanwhile: neither as a failure of Spark nor with a trace of the stack."""
    healthy().save(tmp_path / "logs")
    command = [sys.executable, "-m", "triack", "replay", str(tmp_path / "logs"), "--follow", "--engine", "spark"]
    command += ["--checkpoint", str(tmp_path / "kept"), "--until-idle", str(PATIENCE_S)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, start_new_session=True) as process:
        await_batch(process, tmp_path / "kept")
        os.killpg(process.pid, signal.SIGINT)
        await_taken(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        out, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, said.split("\n")) == (130, "", [FOLLOWING, "", ""])


def await_taken(pid: int) -> None:
    """Until a process has been given its interrupt, and a moment for Python to see it: a second one at once is none."""
    bit, until_s = 1 << (signal.SIGINT - 1), time.monotonic() + PATIENCE_S
    while any(
        int(line.split()[1], 16) & bit
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith(("SigPnd", "ShdPnd"))
    ):
        assert time.monotonic() < until_s, "the interrupt was not taken"
        time.sleep(0.01)
    time.sleep(0.1)
