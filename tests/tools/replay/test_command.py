"""The command: its options, what it chooses, what it prints."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from rich.console import Console

from tests.machine import PATIENCE_S
from tests.tools.replay.builder import healthy
from tests.tools.replay.faults import faulty
from triack.base.errors import ReplayError
from triack.tools.replay import command as module
from triack.tools.replay import run
from triack.tools.replay.checks.catalogue import CHECKS
from triack.tools.replay.command import command, show
from triack.tools.replay.log.listing import Listed
from triack.tools.replay.log.schema import Timeline, Verdict, Violation
from triack.tools.replay.run import choose, free_processors, reason_of, replay

# ``triack replay``: what a person reads, what a program reads, and how it ends.


def test_json_is_the_last_line(tmp_path: Path) -> None:
    """A pass exits with 0 and ends with one JSON object."""
    healthy().save(tmp_path)
    result = CliRunner().invoke(command, [str(tmp_path), "--engine", "local", "--json"])
    last = json.loads(result.stdout.splitlines()[-1])
    assert result.exit_code == 0
    assert {"seconds", "messages_per_second", "report", "engine"} <= last.keys()
    assert (last["verdict"], last["sent"], last["violations"]) == ("pass", 1510, {})


def test_a_broken_promise_exits_with_1_and_is_shown(tmp_path: Path) -> None:
    faulty("order_ack_too_early").save(tmp_path)
    result = CliRunner().invoke(command, [str(tmp_path), "--engine", "local"])
    assert result.exit_code == 1
    assert "FAIL" in result.stdout
    assert "order_ack_before_commit" in result.stdout
    assert "order ack up to 4, committed up to 0" in " ".join(result.stdout.split())


def test_an_error_exits_with_2(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [str(tmp_path / "nowhere"), "--engine", "local"])
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [f"triack replay: no such directory: {tmp_path / 'nowhere'}"]


@pytest.mark.parametrize("options", [[], ["--follow", "--until-idle", "0"]])
def test_logs_without_a_record_prove_nothing(tmp_path: Path, options: list[str]) -> None:
    """A crash has torn the only line; nothing was lost, as nothing is known."""
    (tmp_path / "a.jsonl").write_text('{"v": 6, "no')
    result = CliRunner().invoke(command, [str(tmp_path), *options])
    assert result.exit_code == 3
    assert "INCOMPLETE  0 records" in result.stdout
    assert "there is no record in these logs" in result.stdout


def test_what_is_missing_or_torn_is_said() -> None:
    """It is no broken promise, but a person must know it; and where the page is, whatever its name looks like."""
    text = shown(Verdict(torn_lines=2, missing=[f"node {'be' * 16}"], report="[red]page.html", records=1234, nodes=1))
    assert text.startswith("INCOMPLETE  1,234 records of 1 node, engine \n")
    assert "2 torn last lines skipped, as a crash leaves them\n" in text
    assert f"no log was given of node {'be' * 16}: what" in text
    assert "report: [red]page.html\n" in text


def test_a_log_that_was_cut_is_no_riddle(tmp_path: Path) -> None:
    """Missing records may be in its end, and are held against nobody; where it ends is said, on the page as well."""
    healthy().save(tmp_path)
    said = "the log of start 2 of node beta ends at record {} without its end record; what is missing after that may be"
    assert "without its end record" not in " ".join(CliRunner().invoke(command, [str(tmp_path)]).stdout.split())
    log = max((tmp_path / "beta").iterdir())
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:30]))
    result = CliRunner().invoke(command, [str(tmp_path), "--report", str(tmp_path / "page.html")])
    said = said.format(len(b"".join(path.read_bytes() for path in (tmp_path / "beta").glob("*-000002-*")).splitlines()))
    assert result.exit_code == 3
    assert said in " ".join(result.stdout.split())
    assert said[1:] in (tmp_path / "page.html").read_text()


def test_only_the_first_findings_are_shown() -> None:
    """The count is exact, the sentence says what was promised, and what a finding does not know it does not say."""
    verdict = Verdict(engine="local")
    findings = [Violation("window", "a" * 32, "5e", number=number, evidence=f"[b]{number}") for number in range(12)]
    verdict.findings = [Violation("lost", origin="b" * 32, stream=1, sequence=5, file="b.jsonl", line=7), *findings]
    verdict.violations = {"lost": 1, "window": 12}
    text = shown(verdict)
    assert f"window 12  {CHECKS['window'].sentence}\n" in text
    assert "  lost: origin bbbbbbbb stream 1 sequence 5, b.jsonl line 7: \n" in text
    assert "  window: node aaaaaaaa, session 5e, number 8: [b]8\n" in text
    assert "[b]9" not in text
    assert "... and 3 more; --report FILE writes all of them\n" in text


def test_nodes_and_queues_have_their_names() -> None:
    """Within the evidence, too; the log that is missing is named by its id as well, because files carry no names."""
    timeline = Timeline(names={"a" * 32: "alpha", "b" * 32: "beta"}, streams={("b" * 32, 1): "orders"})
    found = Violation(
        "lost", "a" * 32, "", "b" * 32, 1, 5, 7, evidence=f"ack that {'b' * 32} and {'c' * 32} did not send"
    )
    verdict = Verdict(findings=[found], violations={"lost": 1}, timeline=timeline, missing=[f"node {'b' * 32}"])
    text = shown(verdict)
    where = "node alpha, origin beta stream 1 sequence 5 to queue orders, number 7"
    assert f"  lost: {where}: ack that beta and cccccccc did not send\n" in text
    assert f"no log was given of node {'b' * 32}, which is called beta: what" in text


@pytest.mark.parametrize("options", [["--until-idle", "1"], ["--checkpoint", "kept"]])
def test_what_does_not_go_together_is_refused(tmp_path: Path, options: list[str]) -> None:
    assert CliRunner().invoke(command, [str(tmp_path), *options]).exit_code == 2


def test_following_ends_with_the_verdict(tmp_path: Path) -> None:
    """The findings while the log grew, and then all of them, with the same exit status."""
    faulty("order_ack_too_early").save(tmp_path)
    result = CliRunner().invoke(command, [str(tmp_path), "--follow", "--until-idle", "0.1"])
    assert result.exit_code == 1
    told, _, verdict = result.stdout.partition("FAIL")
    assert " order_ack_before_commit: node beta, " in told
    assert "order_ack_before_commit" in verdict


def shown(verdict: Verdict) -> str:
    out = StringIO()
    show(verdict, Console(file=out, width=200))
    return out.getvalue()


EVIL = "n\x1b[31m\u202e\u2028\x9b\x07\t"
"""What acts on a terminal instead of being seen."""


def evil(directory: Path) -> None:
    """Logs with that in every name that others may give, and with a broken promise."""
    world = faulty("order_ack_too_early")
    for record in [record for log in world.logs for record in log.records]:
        record.update({name: EVIL for name in ("name", "queue", "peer_name") if name in record})
    world.save(directory / EVIL)
    (directory / f"{EVIL}.jsonl.gz").touch()


@pytest.mark.parametrize("options", [[], ["--json"], ["--follow", "--until-idle", "0"]])
def test_nothing_in_a_log_acts_on_a_terminal(tmp_path: Path, options: list[str]) -> None:
    """Neither names in it, nor those of files; and the report is a page that shows them."""
    evil(tmp_path)
    result = CliRunner().invoke(command, [str(tmp_path), "--report", str(tmp_path / "page.html"), *options])
    assert result.exit_code == 2
    page = (tmp_path / "page.html").read_text()
    violations = (tmp_path / "violations.jsonl").read_text()
    for text in (result.stdout, result.stderr, page, violations):
        assert all(char.isprintable() or char == "\n" for char in text)
    for text in (result.stdout, page):
        assert "u202e" in text
        assert "gz" in text


def test_what_was_read_is_said_and_what_was_not(tmp_path: Path) -> None:
    """Over what was not read nobody is accused, and nothing is a pass; a program learns all names."""
    faulty("order_ack_too_early").save(tmp_path)
    for number in range(12):
        (tmp_path / f"{number:02d}.jsonl.gz").touch()
    result = CliRunner().invoke(command, [str(tmp_path), "--engine", "local"])
    assert result.exit_code == 2
    lines = result.stdout.splitlines()
    assert lines[0].startswith("INCOMPLETE")
    assert "read: 4 files with 2 starts of nodes" in lines
    assert sum(line.startswith("not read: ") for line in lines) == 10
    assert "... and 2 more; --json names all of them" in lines
    assert lines.index("what was not read may explain the following:") < len(lines) - 2
    told = json.loads(CliRunner().invoke(command, [str(tmp_path), "--json"]).stdout)
    assert (told["verdict"], len(told["unread"]), len(told["files"]), told["starts"]) == ("incomplete", 12, 4, 2)


@pytest.mark.parametrize("error", [KeyError("queue"), OSError(28, "No space left on device")])
def test_a_fault_of_the_replay_is_no_broken_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Nor is a system that fails: nothing but a broken promise ends with 1."""

    def fail(*_: object, **__: object) -> Verdict:
        raise error

    monkeypatch.setattr(module, "replay", fail)
    result = CliRunner().invoke(command, [str(tmp_path)])
    assert result.exit_code == 2
    assert str(error) in result.stderr


@pytest.mark.slow
def test_a_reader_that_goes_away_changes_no_verdict(tmp_path: Path) -> None:
    """As ``head`` does; and Python has nothing to say of it."""
    healthy().save(tmp_path)
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-m", "triack", "replay", tmp_path],
        stdout=write,
        stderr=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, b"")


# A replay says what it needs before the work, and what fails in it is said in its own words.


def test_an_engine_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"^no engine 'steam'; there are auto, local and spark$"):
        replay(healthy().save(tmp_path), engine="steam")


def test_without_java_or_pyspark_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Spark engine says what to install, and what works without."""
    logs = healthy().save(tmp_path)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyspark", None)
        with pytest.raises(ReplayError, match=r"^replay on Spark needs PySpark: .* --engine local$"):
            replay(logs, engine="spark")
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ReplayError, match=r"needs Java 17 .* --engine local"):
        replay(logs, engine="spark")


def test_without_jinja_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page needs it; the verdict does not."""
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ReplayError, match=r"^the report needs Jinja, .*: pip install 'triack\[report\]'$"):
        replay(healthy().save(tmp_path / "logs"), engine="local", report=tmp_path / "page.html")
    assert replay(tmp_path / "logs", engine="local").verdict == "pass"


@pytest.mark.slow
def test_a_java_that_does_not_start_is_said_in_its_own_words(tmp_path: Path) -> None:
    """Its chatter stays off the terminal, but for the last line that is a reason."""
    pytest.importorskip("pyspark")
    healthy().save(tmp_path / "logs")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    trace = "Exception in thread main: out of luck\\n\\tat java.Main(Main.java)\\n\\t... 3 more\\n"
    java.write_text(f"#!/bin/sh\nprintf 'chatter\\n{trace}' >&2\nexit 1\n")
    java.chmod(0o755)
    finished = subprocess.run(
        [sys.executable, "-m", "triack", "replay", tmp_path / "logs", "--engine", "spark"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert finished.returncode == 2
    said = "triack replay: Spark did not start: Exception in thread main: out of luck; try --engine local"
    assert finished.stderr.decode().splitlines() == [said]


CALL = "An error occurred while calling o61.load."
WHY = "java.lang.ClassNotFoundException: S3AFileSystem not found"
TRACED = 'Traceback (most recent call last):\n  File "x.py", line 1, in y\n    import triack'
MISSING = "ModuleNotFoundError: No module named 'triack'"
WAITED = f"{CALL}\n: org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat x"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (f"{CALL}\n: {WHY}\n\tat org.apache.hadoop.Load\n", WHY),
        ("[PATH_NOT_FOUND] no such path\n\tat x", "[PATH_NOT_FOUND] no such path"),
        (CALL, CALL),
        (f"[PYTHON_DATA_SOURCE_ERROR] Failed to create it: {TRACED}\n{MISSING}\n SQLSTATE: 38000",
         f"a worker in Python: {MISSING}; PYSPARK_PYTHON names the Python of the workers, which need triack[spark]"),
        (f"{CALL}\n: x: Job aborted\n{TRACED}\nOSError: gone\n\n\tat z", "a worker in Python: OSError: gone"),
        (f"{WAITED}\nCaused by: java.util.concurrent.ExecutionException: {WHY}\n\tat y", WHY),
    ],
    ids=["java", "a name", "nothing more", "no triack", "python", "a cause"],
)  # fmt: skip
def test_the_reason_of_a_failure_is_what_java_said(said: str, reason: str) -> None:
    """Not that a call has failed, which is all that the first line tells."""
    assert reason_of(said) == reason


def on_broken_spark(monkeypatch: pytest.MonkeyPatch, logs: Path, stop: Callable[[], None], *, cut: bool) -> Verdict:
    """Replay on a Spark that cannot be stopped; a Ctrl-C may cut off what it does before that."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from triack.tools.replay.engines import spark_engine, spark_session

    def replaying(*_: object) -> None:
        try:
            if cut:
                raise KeyboardInterrupt
        finally:
            stop()

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(spark_session, "open_spark", lambda master: SimpleNamespace(stop=stop))
    monkeypatch.setattr(spark_engine, "replay_spark", replaying)
    return replay(healthy().save(logs), engine="spark")


def test_a_java_that_dies_is_a_failure_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then neither the replay nor a request to stop Spark gets an answer; that is no broken promise."""

    def refused() -> None:
        socket.create_connection(("127.0.0.1", 9))

    with pytest.raises(ReplayError, match=r"^Spark failed: .*Connection refused; --engine local needs no Spark$"):
        on_broken_spark(monkeypatch, tmp_path, refused, cut=False)


def test_what_fails_behind_a_ctrl_c_is_no_failure_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call that it cut off leaves a connection on which nothing can be cleared up."""

    def unanswered() -> None:
        raise ConnectionError("the answer is empty")

    with pytest.raises(KeyboardInterrupt):
        on_broken_spark(monkeypatch, tmp_path, unanswered, cut=True)


def test_logs_are_judged_here_if_they_are_small_or_there_is_no_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without being asked, and the verdict says so. A job of each night does not end as its logs have grown."""
    healthy().save(tmp_path)
    assert replay(str(tmp_path)).engine == "local"
    monkeypatch.setattr(run, "choose", lambda _: ("spark", "spark: it is done first"))
    monkeypatch.setattr(run, "missing_of_spark", lambda: "replay on Spark needs PySpark")
    verdict = replay(tmp_path)
    assert (verdict.engine, verdict.chosen) == ("local", "local: replay on Spark needs PySpark")


def test_spark_is_for_what_outweighs_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processors that others use are not free."""
    small, large = [Listed("a", 70_000)] * 1_080, [Listed("a", 64 << 20)] * 16
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    takes = "75,600,000 bytes in 1,080 files, of which local takes about 12 s, spark 17 s on 8 free processors"
    assert choose(small) == ("local", f"local: {takes}")
    assert choose(large)[0] == "spark"
    monkeypatch.setattr(os, "getloadavg", lambda: (7.6, 0.0, 0.0))
    assert (free_processors(), choose(large)[0]) == (1, "local")
