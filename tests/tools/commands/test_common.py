"""What commands share: options, logs, completion."""

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from dataclasses import replace
from io import StringIO
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import triack
from tests.certificates import make_certificate
from tests.tools.processes import SECONDS, message_of, start
from tests.tools.processes import triack as call
from tests.tools.replay.builder import close_segments, healthy
from tests.tools.replay.judging import plant
from triack.base.ack_trigger import AckTrigger
from triack.base.errors import AddressError, IdentityError, UsageError
from triack.node.config.config import Sources
from triack.node.config.keys import KEYS
from triack.queues.node_settings import NodeSettings, Topic
from triack.tools.cli import cli
from triack.tools.commands import common, watching
from triack.tools.commands.common import data_option, log_for, name_for, read_pairs, read_peers, read_tls
from triack.tools.commands.completion import completion
from triack.tools.commands.config import config, template
from triack.tools.commands.log import Age, log
from triack.tools.commands.serve import serve
from triack.tools.commands.watching import working
from triack.tools.replay.run import replay


# What the commands share.
@pytest.mark.gate
def test_a_node_is_named_after_its_directory_if_that_can_be_a_name(tmp_path: Path) -> None:
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
    told = {"b": "udp://127.0.0.1:7802", "c": "tcp://[::1]:1"}
    assert read_peers(tuple(f"{name}={address}" for name, address in told.items())) == told
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

    command.main([], standalone_mode=False)
    monkeypatch.setenv("TRIACK_NODE__DATA", "of-variable")
    command.main([], standalone_mode=False)
    command.main(["--data", "of-option"], standalone_mode=False)
    assert asked == [tmp_path / "of-file", tmp_path / "of-variable", Path("of-option")]


@pytest.mark.parametrize("name", ["status", "check", "doctor", "support", "queue list", "send", "trust list"])
def test_each_command_looks_at_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """So no node has to be named twice, and without one the command says how to name it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    command = [*name.split(), *(["b/q"] if name == "send" else [])]
    assert b"Missing option '--data'. Give the directory of the node, or choose" in call(*command).stderr
    monkeypatch.setenv("TRIACK_NODE__DATA", str(tmp_path / "file"))
    done = call(*command)
    assert b"Missing option" not in done.stderr
    assert str(tmp_path / "file").encode() in done.stderr + done.stdout or name == "support"


# ``triack log``.
pytest.importorskip("pyarrow")


@pytest.mark.gate
def test_compact_says_what_it_did_and_where_it_went(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And how far it is; so does prune."""
    monkeypatch.setattr(watching, "PLAIN_S", 0)
    healthy().save(tmp_path / "logs")
    result = CliRunner().invoke(log, ["compact", str(tmp_path / "logs")])
    assert (result.exit_code, result.stderr.startswith("compacting: ")) == (0, True)
    assert result.stdout.startswith("8 segments, 8 of them new or grown: ")
    assert len(list((tmp_path / "logs-compact").rglob("*.parquet"))) == 1
    close_segments(tmp_path / "logs")
    pruned = CliRunner().invoke(log, ["prune", str(tmp_path / "logs"), "--keep", "0s"])
    assert (pruned.exit_code, pruned.stderr.startswith("pruning: ")) == (0, True)


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(log, ["compact", str(tmp_path / "nowhere")])
    said = f"triack log compact: no such directory: {tmp_path / 'nowhere'}\n"
    assert (result.exit_code, result.output) == (2, said)


def prune(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(log, ["prune", *map(str, arguments)])
    return result.exit_code, result.output


@pytest.mark.gate
def test_prune_says_what_it_removed(tmp_path: Path) -> None:
    """And tells programs everything."""
    logs = tmp_path / "logs"
    healthy().save(logs)
    before = len(list(logs.rglob("*.jsonl*")))
    assert prune(logs, "--keep", "0s", "--dry-run")[1].startswith("6 segments would be removed: ")
    assert len(list(logs.rglob("*.jsonl*"))) == before
    told = json.loads(prune(logs, "--keep", "0", "--json")[1])
    assert (len(told["removed"]), told["verdict"]["verdict"], told["refused"]) == (6, "pass", False)
    assert Path(told["summary"]).stat().st_size == told["summary_bytes"]
    assert prune(logs, "--keep", "0s") == (0, "0 segments removed: 0 records, 0 bytes\n")
    assert replay([logs], engine="local").verdict == "pass"


def test_logs_that_break_a_promise_are_not_pruned(tmp_path: Path) -> None:
    plant("handed_twice")[0].save(tmp_path / "logs", number=False)
    code, output = prune(tmp_path / "logs", "--keep", "0s")
    assert code == 1
    assert "the logs break promises, and are the evidence: nothing was removed" in output
    assert prune(tmp_path / "logs", "--keep", "0s", "--accept-broken")[0] == 0
    assert replay([tmp_path / "logs"], engine="local").verdict == "fail"


@pytest.mark.parametrize("age", ["x", "30", "-1d", "3w", "1e9", ""])
def test_an_age_is_a_number_and_a_unit(tmp_path: Path, age: str) -> None:
    code, output = prune(tmp_path, "--keep", age)
    assert (code, "is no age, such as 30d, 12h, 90m or 30s" in output) == (2, age != "30")
    good = {"90m": 5_400, "1.5h": 5_400, "2d": 172_800, "7": 7, "7s": 7}
    assert {it: Age().convert(it, None, None) for it in good} == good


# Completion in a shell: a real bash that reads what was installed.
def install(home: Path, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    assert completion.main(["--install"], standalone_mode=False) == 0


def test_it_is_installed_once_and_what_was_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file beside the settings; fish has a place for it."""
    settings = tmp_path / ".zshrc"
    settings.write_text("alias ll='ls -l'")
    for _ in range(2):
        install(tmp_path, monkeypatch, "zsh")
    script = tmp_path / ".local/share/triack/completion.zsh"
    assert settings.read_text() == f"alias ll='ls -l'\nsource \"{script}\"  # completion of triack\n"
    assert "compdef" in script.read_text()
    install(tmp_path, monkeypatch, "fish")
    assert "complete" in (tmp_path / ".config/fish/completions/triack.fish").read_text()


def test_a_shell_that_nobody_knows_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/ed")
    with pytest.raises(UsageError, match="the shell is ed; say --shell bash, zsh, fish"):
        completion.main([], standalone_mode=False)


@pytest.mark.slow
def test_bash_completes_a_command_and_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, "bash")
    asked = (
        "source ~/.bashrc; COMP_WORDS=(triack rec); COMP_CWORD=1; _triack_completion triack; echo ${COMPREPLY[@]}; "
        "COMPREPLY=(); COMP_WORDS=(triack send --he); COMP_CWORD=2; _triack_completion triack; echo ${COMPREPLY[@]}"
    )
    bash = shutil.which("bash")
    assert bash is not None
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    told = subprocess.run(
        [bash, "--norc", "-c", asked], env={"HOME": str(tmp_path), "PATH": path}, capture_output=True, check=True
    )
    assert told.stdout.decode().split() == ["receive", "--header", "--help"]


# ``triack config`` and ``triack reload``: files are checked, shown, begun and read again.
def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(config, list(map(str, arguments)), standalone_mode=False, catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIACK_CONFIG", raising=False)
    return tmp_path


def test_a_new_file_has_every_key_and_no_mistake(folder: Path) -> None:
    """Whatever the umask: with 002, as of Fedora, the group could write to it."""
    before = os.umask(0o002)
    try:
        assert run("init", "--name", "plant", "--listen", "udp://127.0.0.1:7801").return_value == 0
    finally:
        os.umask(before)
    assert run("check").output == "triack.toml: no mistake found\n"
    text = (folder / "triack.toml").read_text()
    assert all(f"{key.name} = " in text for key in KEYS.values())
    assert tomllib.loads(text) == {"node": {"name": "plant", "data": "plant", "listen": "udp://127.0.0.1:7801"}}


def test_a_new_file_without_its_comment_signs_says_what_is_in_force_without_it(folder: Path) -> None:
    """So each default value in it is one, and a line whose sign is removed changes nothing."""
    keys = re.compile(r"(?:# )?(\[+[a-z].*|\w+ = .*)")
    lines = [found[1] for found in map(keys.fullmatch, template("plant").splitlines()) if found is not None]
    file = folder / "all.toml"
    file.write_text("\n".join(lines))
    found = Sources(file).read().settings
    assert len(Sources(file).read().said) > len(KEYS) - 3
    given = {name: getattr(found, name) for name in ("queue_redelivery", "forwards")}
    wanted = NodeSettings(ack_events=AckTrigger(), **given)
    queue_journal = {"orders": wanted.limits.journal}
    limits = replace(wanted.limits, queue_quota=found.limits.queue_quota, queue_journal=queue_journal)
    topics = {"Games": Topic(quota=wanted.limits.quota)}
    assert found == replace(wanted, limits=limits, topics=topics)


def test_a_variable_names_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "other.toml").write_text("[node]\nnam = 'a'\n")
    monkeypatch.setenv("TRIACK_CONFIG", str(folder / "other.toml"))
    assert run("check").return_value == 1
    assert message_of(call("serve", "--data", folder / "a")).startswith(f"{folder}/other.toml:2: node.nam: ")


def test_no_file_is_overwritten(folder: Path) -> None:
    (folder / "triack.toml").write_text("mine")
    done = call("config", "init", folder / "triack.toml")
    assert (done.returncode, message_of(done)) == (2, f"write {folder}/triack.toml: it exists already")
    assert (folder / "triack.toml").read_text() == "mine"


def test_each_mistake_is_a_line(folder: Path) -> None:
    (folder / "t.toml").write_text("[node]\nnam = 'a'\n[session]\nmax_unacked_packet = 0\n")
    done = call("config", "check", folder / "t.toml")
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        f"triack: {folder}/t.toml:2: node.nam: there is no such key; did you mean name?",
        f'triack: {folder}/t.toml:4: session.max_unacked_packet: must be 1 to 65535 or "auto", not 0',
    ]
    served = call("serve", "--config", folder / "t.toml", "--data", folder / "a")
    assert (served.returncode, served.stderr) == (2, done.stderr)
    assert not (folder / "a").exists()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('listen = "memory://a"', "listen on memory://a: other processes cannot reach memory"),
        ('metrics = "nowhere"', "metrics at nowhere: "),
        ('metrics = "127.0.0.1:0"', "serve metrics: prometheus_client is not installed here: pip install"),
        ('tls_cert = "none.pem"', "read .*none.pem: No such file"),
        ('insecure = true\nlisten = "udp://0.0.0.0:1"', ".*loopback addresses only"),
    ],
)
def test_what_ends_a_served_node_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, why: str) -> None:
    """As ``triack serve`` says it, an extra that is missing included."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    (folder / "t.toml").write_text(f'[node]\nname = "a"\ndata = "a"\n{line}\n')
    told = run("check", "t.toml")
    assert told.return_value == 1
    assert re.match(f"triack: t.toml: {why}", told.stderr)
    with pytest.raises((triack.TriackError, click.ClickException), match=why):
        CliRunner().invoke(serve, ["--config", "t.toml"], standalone_mode=False, catch_exceptions=False)
    assert not (folder / "a").exists()


def test_each_value_is_shown_with_its_source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIACK_ORDER__SEQ_MAX_ACK_DELAY_S", "5")
    (folder / "triack.toml").write_text("[node]\npolicy = 'solace'\n[limits]\nnode_quota_bytes = '2 GiB'\n")
    rows = [json.loads(line) for line in run("show", "--json").output.splitlines()]
    found = {row["setting"]: (row["value"], row["source"]) for row in rows}
    assert found["limits.node_quota_bytes"] == (2 * 2**30, "triack.toml:4")
    assert found["order.seq_max_ack_delay_s"] == (5, "TRIACK_ORDER__SEQ_MAX_ACK_DELAY_S")
    assert found["session.max_unacked_packet"] == (50, "policy solace")
    assert found["session.congestion"] == ("bbr", "default")
    assert '"2 GiB"' in run("show", "--given").output
    assert "congestion" not in run("show", "--given").output


@pytest.mark.slow
def test_a_running_node_takes_up_its_file_by_command_and_by_signal(folder: Path) -> None:
    """It needs no address to listen at, and its options beat the file."""
    file = folder / "triack.toml"
    file.write_text('[node]\nname = "plant"\ndata = "data"\n[session]\nmax_unacked_packet = 9\n')
    process = start("serve", "--config", file, "--window", "8", "--set", "redelivery.first_wait_s=2 s", "-v")
    assert process.stdout.readline() == b"listening nowhere\n"
    file.write_text(file.read_text() + "[limits.quota]\nmessages = 5\n[order]\nseq_max_ack_delay_s = 7\n")
    done = call("reload", "--config", file)
    assert done.stdout.decode() == "in force: limits.quota.messages\nneeds a restart: order.seq_max_ack_delay_s\n"
    file.write_text(file.read_text() + "nothing = 5\n")
    failed = call("reload", "--data", folder / "data")
    assert message_of(failed).startswith(f"{file}:10: order.nothing: there is no such key")
    file.write_text(file.read_text().replace("nothing = 5\n", "").replace("messages = 5", "messages = 6"))
    process.send_signal(signal.SIGHUP)
    told = b""
    while b"in force: limits.quota.messages" not in told.partition(b"not used, the settings before")[2]:
        told += process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS)
    assert process.wait() == 0


def test_a_node_that_is_not_said_is_asked_for(folder: Path) -> None:
    done = call("reload")
    assert (done.returncode, b"--data DIR, or --config FILE" in done.stderr) == (2, True)
    done = call("serve")
    assert (done.returncode, b"the data directory is missing" in done.stderr) == (2, True)


@pytest.mark.slow
def test_a_pipe_in_the_place_of_the_file_holds_up_no_running_node(folder: Path) -> None:
    file = folder / "triack.toml"
    file.write_text('[node]\nname = "plant"\ndata = "data"\n')
    process = start("serve", "--config", file)
    assert process.stdout.readline() == b"listening nowhere\n"
    file.unlink()
    os.mkfifo(file)
    process.send_signal(signal.SIGHUP)
    while b"it is no regular file" not in process.stderr.readline():
        assert process.poll() is None
    assert call("queue", "list", "--data", folder / "data").returncode == 0
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS)
    assert process.wait() == 0


def test_what_a_file_has_controls_no_terminal(folder: Path) -> None:
    (folder / "triack.toml").write_text('[node]\ndata = "a\\u202eb\\u009b"\n')
    for options in ((), ("--json",)):
        assert all(line.isprintable() for line in run("show", *options).output.splitlines())


# A name for a node, in place of its directory.
@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with two nodes and no contexts."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("plant", "shop"):
        assert CliRunner().invoke(cli, ["keygen", "--data", str(tmp_path / name)]).exit_code == 0
    return tmp_path


def typed(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def key_of(*arguments: str) -> str:
    return typed("keygen", *arguments).output.strip()


def test_commands_use_the_node_of_the_context(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one, the one that was chosen, that of the variable; and an option or another variable comes first."""
    plant, shop = (str(named / name) for name in ("plant", "shop"))
    assert typed("context", "add", "p", "--data", plant).output == f"context p: {plant}, in use\n"
    assert typed("context", "add", "s", "--data", shop).output == f"context s: {shop}\n"
    assert key_of() == key_of("--data", plant)
    assert typed("context", "use", "s").exit_code == 0
    assert key_of() == key_of("--data", shop) != key_of("--data", plant)
    monkeypatch.setenv("TRIACK_CONTEXT", "p")
    assert key_of() == key_of("--data", plant)
    listed = json.loads(typed("context", "list", "--json").output.splitlines()[0])
    assert listed == {"context": "p", "data": plant, "in_use": True}
    monkeypatch.setenv("TRIACK_NODE__DATA", shop)
    assert key_of() == key_of("--data", shop)
    for name in ("TRIACK_NODE__DATA", "TRIACK_CONTEXT"):
        monkeypatch.delenv(name)
    for name in ("s", "p"):
        assert typed("context", "remove", name).exit_code == 0
    assert "--data" in str(typed("keygen").output)
    assert (named / "plant").is_dir()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"nodes": {"p": 7}, "chosen": ""}', b"\xff", b"[" * 100_000])
def test_a_damaged_file_of_contexts_is_named(named: Path, content: bytes) -> None:
    assert typed("context", "add", "p", "--data", str(named / "plant")).exit_code == 0
    (named / "config" / "triack" / "contexts.json").write_bytes(content)
    for arguments in (["keygen"], ["context", "use", "p"], ["context", "list"]):
        assert "contexts.json: it is no file of contexts" in str(typed(*arguments).exception)


def test_a_name_that_is_no_context_says_what_there_is(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert typed("context", "add", "plant", "--data", str(named / "plant")).exit_code == 0
    assert str(typed("context", "use", "plan").exception) == "no context plan; did you mean plant?"
    monkeypatch.setenv("TRIACK_CONTEXT", "other")
    assert str(typed("keygen").exception) == "no context other; there is plant"


# How far long work is.
def test_long_work_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Where there is no terminal, in lines; work that is soon done says nothing."""
    with working("counting") as say:
        say("1 of 2")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(watching, "PLAIN_S", 0)
    with working("counting") as say:
        say("1 of 2")
    assert capsys.readouterr().err == "counting: 1 of 2\n"


def test_on_a_terminal_long_work_has_one_line_that_changes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=(written := StringIO()), force_terminal=True, width=80)
    monkeypatch.setattr(watching, "console_on", lambda **_: console)
    with working("counting") as say:
        say("[1] of 2")
        console.print("a line of its own")
    assert "counting" in written.getvalue()
    assert written.getvalue().endswith("\x1b[2K")  # the line is cleared
