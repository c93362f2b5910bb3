"""``triack replay``: what a person reads, what a program reads, and how it ends."""

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from tests.machine import PATIENCE_S
from tests.tools.replay.builder import healthy
from tests.tools.replay.faults import FAULTS, ready
from triack.tools.replay import command as module
from triack.tools.replay.checks.catalogue import CHECKS
from triack.tools.replay.command import command, show
from triack.tools.replay.log.schema import Timeline, Verdict, Violation


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
    """Anything that cannot be read is one clear line on stderr."""
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
    world = ready()
    FAULTS["order_ack_too_early"](world)
    world.save(tmp_path)
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
    world = ready()
    FAULTS["order_ack_too_early"](world)
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
    world = ready()
    FAULTS["order_ack_too_early"](world)
    world.save(tmp_path)
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


def test_a_fault_of_the_replay_is_no_broken_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a system that fails: nothing but a broken promise ends with 1."""
    for error in (KeyError("queue"), OSError(28, "No space left on device")):

        def fail(*_: object, error: Exception = error, **__: object) -> Verdict:
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
