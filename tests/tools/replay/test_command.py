"""``triack replay``: what a person reads, what a program reads, and how it ends."""

import json
from io import StringIO
from pathlib import Path

from click.testing import CliRunner
from rich.console import Console

from tests.tools.replay.builder import healthy
from tests.tools.replay.faults import FAULTS, ready
from triack.tools.replay.command import command, show
from triack.tools.replay.schema import CHECKS, Verdict, Violation


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
