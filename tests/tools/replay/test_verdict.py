"""The numbers of the verdict, the files, the report and the command line; on the local engine, which is quick."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.tools.replay.builder import BETA, PER_PACKET, World, healthy, place
from tests.tools.replay.faults import FAULTS, HARMLESS, ready
from triack.base.errors import ReplayError
from triack.tools.replay.command import command
from triack.tools.replay.run import replay
from triack.tools.replay.schema import Verdict

TX = "transactional"


def verdict_of(world: World, directory: Path) -> Verdict:
    return replay(world.save(directory), engine="local")


def test_a_healthy_record_passes_with_its_numbers(tmp_path: Path) -> None:
    """Crashes, a failed session and a removal are counted, and every message that was sent arrived."""
    verdict = verdict_of(healthy(), tmp_path)
    assert verdict.verdict == "pass"
    # 8 + 2 + 1 + 1 + 2 + 40 transactional packets and 48 recoverable ones; the removed one counts nowhere.
    assert verdict.sent == verdict.delivered == PER_PACKET * (54 + 48)
    assert (verdict.lost, verdict.pending, verdict.duplicates_delivered, verdict.out_of_order) == (0, 0, 0, 0)
    assert (verdict.duplicates_on_wire, verdict.resends, verdict.sessions_closed, verdict.nodes) == (1, 3, 2, 2)


def test_lost_messages_fail_the_verdict(tmp_path: Path) -> None:
    """One forgotten packet costs its ten messages."""
    world = ready()
    FAULTS["lost_transactional"](world)
    verdict = verdict_of(world, tmp_path)
    assert (verdict.verdict, verdict.sent, verdict.delivered, verdict.lost) == ("fail", 20, 10, 10)


def test_messages_that_wait_are_pending(tmp_path: Path) -> None:
    """What is queued and neither delivered nor forgotten is pending, to the message, sent or not."""
    world = ready()
    world.send(TX, world.queue(TX, 3)[:2])
    world.commit(TX, range(1, 2))
    world.alpha.one("queued")["count"] = 27
    verdict = verdict_of(world, tmp_path)
    assert (verdict.sent, verdict.delivered, verdict.pending) == (27, 10, 17)


def test_recovered_ranges_count_only_what_is_new(tmp_path: Path) -> None:
    """A restart repeats what still waits; only packets that no record had before are added."""
    world = ready()
    world.queue(TX, 4)
    world.alpha.start()
    world.queued(TX, 3, 6, recovered=True)
    world.alpha.start()
    world.queued(TX, 5, 6, recovered=True)
    assert verdict_of(world, tmp_path).sent == 6 * PER_PACKET


def test_a_commit_whose_record_was_lost_is_delivered(tmp_path: Path) -> None:
    """What the recovered position covers is on disk, although no record says committed."""
    world = ready()
    world.send(TX, world.queue(TX, 2))
    world.beta.start()
    world.beta.write("position_recovered", **place(TX), number=2, cls=TX)
    world.order_ack(2)
    verdict = verdict_of(world, tmp_path)
    assert (verdict.verdict, verdict.delivered, verdict.lost) == ("pass", 20, 0)


def test_recovered_ranges_without_a_record_are_delivered(tmp_path: Path) -> None:
    """What beta's duplicate filter knew at the start is delivered, each message once, whatever a record adds."""
    verdict = verdict_of(HARMLESS["recovered_ranges"](), tmp_path)
    assert (verdict.verdict, verdict.sent, verdict.delivered, verdict.pending) == ("pass", 40, 40, 0)


def test_a_torn_last_line_is_skipped(tmp_path: Path) -> None:
    """A crash in the middle of a write loses that record and nothing else."""
    directories = healthy().save(tmp_path)
    with (tmp_path / "beta" / "beta-000002-000002.jsonl.open").open("a") as file:
        file.write('{"v": 1, "event": "pack')
    verdict = replay(directories, engine="local")
    assert (verdict.verdict, verdict.torn_lines) == ("pass", 1)


def test_a_damaged_line_names_its_file_and_number(tmp_path: Path) -> None:
    """Damage in the middle ends the replay: a verdict over half a record would prove nothing."""
    directories = healthy().save(tmp_path)
    damage(tmp_path / "alpha" / "alpha-000001-000001.jsonl", 3, '{"v": 1, "ev\n')
    with pytest.raises(ReplayError, match=r"alpha-000001-000001\.jsonl line 3 is damaged"):
        replay(directories, engine="local")


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    """A log of a later schema is not guessed at."""
    world = healthy()
    world.beta.records[5]["v"] = 2
    with pytest.raises(ReplayError, match="has schema version 2"):
        verdict_of(world, tmp_path)


def test_a_missing_field_names_its_line(tmp_path: Path) -> None:
    """A record that lacks what its event must have is damage."""
    world = healthy()
    del world.alpha.one("packet_sent")["packet"]
    with pytest.raises(ReplayError, match=r"line \d+ is damaged: event 'packet_sent'"):
        verdict_of(world, tmp_path)


@pytest.mark.parametrize(("name", "said"), [("empty", "no session log"), ("nowhere", "no such directory")])
def test_no_logs_is_an_error(tmp_path: Path, name: str, said: str) -> None:
    """Nothing to read is no pass."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReplayError, match=said):
        replay([tmp_path / name], engine="local")


def test_no_path_is_an_error() -> None:
    """A library user may have found nothing to give."""
    with pytest.raises(ReplayError, match=r"^no directory with session logs was given$"):
        replay([], engine="local")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"v": 1, "event": "node_started", "node": 7}', "field 'node' is missing or of the wrong type"),
        ('{"v": 1, "ev', "Invalid control character at: line 1 column 13 (char 12)"),
    ],
)
def test_a_first_line_that_does_not_fit_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """It says where the segment belongs, so both engines look at it before they start."""
    directories = healthy().save(tmp_path)
    file = tmp_path / "alpha" / "alpha-000001-000001.jsonl"
    damage(file, 1, f"{text}\n")
    with pytest.raises(ReplayError) as refused:
        replay(directories, engine="local")
    assert str(refused.value) == f"{file} line 1 is damaged: {reason}"


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Here it is a directory that is called like a log."""
    directories = healthy().save(tmp_path)
    (tmp_path / "alpha" / "alpha-000009-000001.jsonl").mkdir()
    with pytest.raises(ReplayError) as refused:
        replay(directories, engine="local")
    assert str(refused.value) == f"cannot read {tmp_path}/alpha/alpha-000009-000001.jsonl: Is a directory"


def test_an_engine_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """And those that do exist."""
    with pytest.raises(ReplayError, match=r"^no engine 'steam'; there are spark and local$"):
        replay(healthy().save(tmp_path), engine="steam")


def test_a_peer_without_log_is_named(tmp_path: Path) -> None:
    """With one side only, the verdict says whose log is missing."""
    healthy().save(tmp_path)
    assert replay([tmp_path / "alpha"], engine="local").peers_without_log == [BETA]


def test_without_java_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Spark engine without Java says what to install, and what works without."""
    pytest.importorskip("pyspark")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ReplayError, match=r"needs Java 17 .* --engine local"):
        replay(healthy().save(tmp_path))


def test_without_pyspark_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Spark engine without PySpark says what to install, and what works without."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ReplayError, match=r"^replay on Spark needs PySpark: .* --engine local$"):
        replay(healthy().save(tmp_path))


def test_without_matplotlib_no_report_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said before the work, not after it."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ReplayError, match=r"^the report needs matplotlib: pip install 'triack\[replay\]'$"):
        replay([tmp_path / "nowhere"], engine="local", report=tmp_path / "page.html")


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
        [sys.executable, "-m", "triack", "replay", tmp_path / "logs"],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 2
    said = "triack replay: Spark did not start: Exception in thread main: out of luck; try --engine local"
    assert finished.stderr.decode().splitlines() == [said]


def test_a_java_that_dies_is_a_failure_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nobody answers, neither the replay nor who wants to stop Spark; that is no broken promise."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from triack.tools.replay import spark_engine

    class Dead:
        def stop(self) -> None:
            socket.create_connection(("127.0.0.1", 9))

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(spark_engine, "open_spark", lambda master, size_bytes: Dead())
    monkeypatch.setattr(spark_engine, "replay_spark", lambda spark, logs, timeline: spark.stop())
    with pytest.raises(ReplayError, match=r"^Spark failed: .*Connection refused; --engine local needs no Spark$"):
        replay(healthy().save(tmp_path))


def test_json_is_the_last_line(tmp_path: Path) -> None:
    """A pass exits with 0 and ends with one JSON object."""
    healthy().save(tmp_path)
    result = CliRunner().invoke(command, [str(tmp_path), "--engine", "local", "--json"])
    last = json.loads(result.stdout.splitlines()[-1])
    assert result.exit_code == 0
    assert {"seconds", "messages_per_second", "report", "engine"} <= last.keys()
    assert (last["verdict"], last["sent"], last["violations"]) == ("pass", 1020, {})


def test_a_broken_promise_exits_with_1_and_is_shown(tmp_path: Path) -> None:
    """A person reads which promise was broken, where, and the evidence."""
    world = ready()
    FAULTS["order_ack_too_early"](world)
    world.save(tmp_path)
    result = CliRunner().invoke(command, [str(tmp_path), "--engine", "local"])
    assert result.exit_code == 1
    assert "FAIL" in result.stdout
    assert "order_ack_before_commit" in result.stdout
    assert "order ack up to 4, committed up to 0" in " ".join(result.stdout.split())


def test_an_error_exits_with_2(tmp_path: Path) -> None:
    """What cannot be read is one clear line on stderr."""
    result = CliRunner().invoke(command, [str(tmp_path / "nowhere"), "--engine", "local"])
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [f"triack replay: no such directory: {tmp_path / 'nowhere'}"]


def test_the_report_is_one_page_with_its_data_beside(tmp_path: Path) -> None:
    """The page needs nothing else, and shows the violations without letting their text be markup."""
    pytest.importorskip("matplotlib")
    world = ready()
    FAULTS["window_exceeded"](world)
    for record in (*world.alpha.records, *world.beta.records):
        record.update({"session": "<script>"} if "session" in record else {})
    page = tmp_path / "out" / "report.html"
    verdict = replay(world.save(tmp_path / "logs"), engine="local", report=page)
    text = page.read_text()
    assert verdict.report == str(page)
    assert "FAIL" in text
    assert text.count("<svg") == 5
    assert "<script" not in text
    assert "src=" not in text
    assert "number 65" in text
    assert len((page.parent / "violations.jsonl").read_text().splitlines()) == len(verdict.findings)


def test_a_report_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Its directory's name is taken by a file."""
    pytest.importorskip("matplotlib")
    (tmp_path / "out").write_text("")
    with pytest.raises(ReplayError) as refused:
        replay(healthy().save(tmp_path / "logs"), engine="local", report=tmp_path / "out" / "page.html")
    assert str(refused.value) == f"cannot write the report {tmp_path}/out/page.html: File exists"


def damage(file: Path, line: int, text: str) -> None:
    lines = file.read_text().splitlines(keepends=True)
    lines[line - 1] = text
    file.write_text("".join(lines))
