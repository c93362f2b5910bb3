"""What the commands share."""

import json
import logging
import os
import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import triack
from tests.certificates import make_certificate
from tests.tools import processes
from triack.base.errors import AddressError, IdentityError
from triack.tools.cli import cli
from triack.tools.commands import common
from triack.tools.commands.common import console_on, data_option, log_for, name_for, read_pairs, read_peers, read_tls


def test_a_node_is_named_after_its_directory_if_that_can_be_a_name(tmp_path: Path) -> None:
    """A bad name that nobody asked for is no error."""
    assert name_for(None, tmp_path / "plant-a") == "plant-a"
    assert name_for(None, tmp_path / "plant a") == "node"
    assert name_for("b", tmp_path / "plant a") == "b"
    (tmp_path / "loop").symlink_to("loop")
    assert name_for(None, tmp_path / "loop") == "loop"
    with pytest.raises(AddressError, match="' ' is not a letter"):
        name_for("plant a", tmp_path / "b")


def test_a_command_records_where_the_node_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without other options, and as long as it can; a start that no log has makes the next replay incomplete."""
    data, log = tmp_path / "a", tmp_path / "log"
    assert log_for(None, data) is None
    with triack.sync.open("a", data=data, log=log, insecure=True):
        pass
    assert (log_for(None, data), log_for(tmp_path / "other", data)) == (log, tmp_path / "other")
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    assert log_for(None, data) is None
    assert caplog.messages == [f"open session log in {log}: permission denied; what is done now is not in it"]
    monkeypatch.undo()
    shutil.rmtree(log)
    assert log_for(None, data) is None


def test_peers_are_names_of_addresses() -> None:
    assert read_peers(("b=udp://127.0.0.1:7802", "c=tcp://[::1]:1")) == {
        "b": "udp://127.0.0.1:7802",
        "c": "tcp://[::1]:1",
    }
    with pytest.raises(AddressError, match="pigeon"):
        read_peers(("b=pigeon://home",))


@pytest.mark.parametrize("command", [("send", "q"), ("receive", "q")])
@pytest.mark.parametrize("seconds", ["nan", "inf", "-1"])
def test_what_is_no_number_of_seconds_is_refused(command: tuple[str, ...], seconds: str, tmp_path: Path) -> None:
    """As a mistake of the command line, and before anything is made."""
    refused = CliRunner().invoke(cli, [*command, "--data", str(tmp_path / "a"), "--timeout", seconds])
    assert refused.exit_code == 2
    assert "'--timeout'" in refused.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", ["b", "=x", ""])
def test_a_pair_has_a_name_and_a_value(wrong: str) -> None:
    assert read_pairs("--header", ("a=1=2", "b=")) == {"a": "1=2", "b": ""}
    with pytest.raises(click.UsageError, match="it must be NAME=VALUE"):
        read_pairs("--header", (wrong,))


def test_what_goes_into_a_pipe_is_not_broken_into_lines(capsys: pytest.CaptureFixture[str]) -> None:
    console_on().print("word " * 100)
    assert capsys.readouterr().out.count("\n") == 1


def test_files_for_tls(tmp_path: Path) -> None:
    """A certificate to be served with, an authority to ask for; what cannot be used is named."""
    both, junk = make_certificate(tmp_path), tmp_path / "junk"
    junk.write_text("no certificate")
    assert read_tls() is None
    served, asked = read_tls(certificate=both), read_tls(authority=both)
    assert served is not None
    assert (served.client, served.server is None) == (None, False)
    assert asked is not None
    assert (asked.server, asked.client is None) == (None, False)
    for wrong in ({"certificate": junk}, {"certificate": both, "key": junk}, {"authority": junk}):
        with pytest.raises(IdentityError, match=f"read {junk}: "):
            read_tls(**wrong)
    with pytest.raises(click.UsageError, match="--tls-key needs --tls-cert"):
        read_tls(key=both)


def test_a_line_of_the_log_says_nothing_twice() -> None:
    """A cause is in its sentence already, and what is empty says nothing."""
    line = {"msg": "trust.json not used: it is torn", "levelname": "ERROR", "name": "triack"}
    parts = {"cause": "it is torn", "drops": {}, "reason": "idle", "node": "a"}
    told = common._Lines().format(logging.makeLogRecord({**line, **parts}))  # noqa: SLF001
    assert told.endswith("trust.json not used: it is torn node=a reason=idle")


def test_a_line_of_json_can_always_be_written() -> None:
    """People read letters of any script, and half of a character, which a label may have, does not stop the command."""
    told = common.json_line({"label": "gr\u00f6\u00dfe \ud800\x9b\u202e\u2028"})
    assert told.encode() == '{"label": "gr\u00f6\u00dfe \\ud800\\u009b\\u202e\\u2028"}'.encode()
    assert json.loads(told) == {"label": "gr\u00f6\u00dfe \ud800\x9b\u202e\u2028"}


@pytest.mark.parametrize("command", [("keygen",), ("trust", "list"), ("receive", "orders"), ("queue", "list")])
def test_an_empty_data_directory_is_not_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """A script whose variable is not set makes no node where it happens to be."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, [*command, "--data", ""])
    assert (done.exit_code, "'--data': it is empty" in done.output) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_the_environment_names_the_directory_of_each_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for ``serve``: an option beats the variable of the key, and that the file."""
    asked: list[Path] = []

    @click.command()
    @data_option
    def command(data: Path) -> None:
        asked.append(data)

    (tmp_path / "triack.toml").write_text('[node]\ndata = "of-file"\n')
    monkeypatch.setenv("TRIACK_CONFIG", str(tmp_path / "triack.toml"))
    monkeypatch.delenv("TRIACK_NODE__DATA", raising=False)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> None:
        CliRunner().invoke(command, arguments, standalone_mode=False, catch_exceptions=False)

    call()
    monkeypatch.setenv("TRIACK_NODE__DATA", "of-variable")
    call()
    call("--data", "of-option")
    assert asked == [tmp_path / "of-file", tmp_path / "of-variable", Path("of-option")]


@pytest.mark.parametrize("name", ["status", "check", "doctor", "support", "queue list", "send", "trust list"])
def test_each_command_looks_at_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """So no node has to be named twice: the mistake that is told is not that the option is missing."""
    monkeypatch.setenv("TRIACK_NODE__DATA", str(tmp_path / "file"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    done = processes.triack(*name.split(), *(["b/q"] if name == "send" else []))
    assert b"Missing option" not in done.stderr
    assert str(tmp_path / "file").encode() in done.stderr + done.stdout or name == "support"
