"""``triack config`` and ``triack reload``: files are checked, shown, begun and read again."""

import json
import os
import re
import signal
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import triack
from tests.tools.processes import SECONDS, message_of, start
from tests.tools.processes import triack as call
from triack.base.ack_trigger import AckTrigger
from triack.node.config.config import Sources
from triack.node.config.keys import KEYS
from triack.queues.node_settings import NodeSettings, Topic
from triack.tools.commands.config import config, template
from triack.tools.commands.serve import serve


def run(*arguments: str | Path) -> Result:
    """The command, in this process."""
    return CliRunner().invoke(config, list(map(str, arguments)), standalone_mode=False, catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRIACK_CONFIG", raising=False)
    return tmp_path


def test_a_new_file_has_every_key_and_no_mistake(folder: Path) -> None:
    assert run("init", "--name", "plant", "--listen", "udp://127.0.0.1:7801").return_value == 0
    assert run("check").output == "triack.toml: no mistake found\n"
    text = (folder / "triack.toml").read_text()
    assert all(f"{key.name} = " in text for key in KEYS.values())
    assert tomllib.loads(text) == {"node": {"name": "plant", "data": "plant", "listen": "udp://127.0.0.1:7801"}}


def test_a_new_file_without_its_comment_signs_says_what_is_in_force_without_it(folder: Path) -> None:
    """So each default value in it is one, and a line whose sign is removed changes nothing."""
    keys = re.compile(r"(?:# )?(\[+[a-z].*|\w+ = .*)")
    lines = [found[1] for found in map(keys.fullmatch, template("plant").splitlines()) if found is not None]
    file = folder / "all.toml"
    file.write_text("\n".join(line for line in lines if "idle_ack_delay_s" not in line))
    found = Sources(file).read().settings
    assert len(Sources(file).read().said) > len(KEYS) - 3
    wanted = NodeSettings(ack_events=AckTrigger(), queue_redelivery=found.queue_redelivery)
    session = replace(wanted.session, ack_trigger=AckTrigger(), store_ack_trigger=AckTrigger())
    queue_journal = {"orders": wanted.limits.journal}
    limits = replace(wanted.limits, queue_quota=found.limits.queue_quota, queue_journal=queue_journal)
    topics = {"Games": Topic(quota=wanted.limits.quota)}
    assert found == replace(wanted, session=session, limits=limits, topics=topics)


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


def test_keys_that_only_contradict_each_other_in_a_node_are_told_too(folder: Path) -> None:
    text = '[node]\nname = "a"\ndata = "a"\ninsecure = true\nlisten = "udp://0.0.0.0:1"\n'
    (folder / "triack.toml").write_text(text)
    assert run("check").return_value == 1
    assert not (folder / "a").exists()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('listen = "memory://a"', "listen on memory://a: other processes cannot reach memory"),
        ('metrics = "nowhere"', "metrics at nowhere: "),
        ('metrics = "127.0.0.1:0"', "serve metrics: prometheus_client is not installed here: pip install"),
        ('tls_cert = "none.pem"', "read .*none.pem: No such file"),
    ],
)
def test_what_would_end_a_node_that_is_served_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, why: str
) -> None:
    """As ``triack serve`` says it, an extra that is missing included."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    (folder / "t.toml").write_text(f'[node]\nname = "a"\ndata = "a"\n{line}\n')
    told = CliRunner().invoke(config, ["check", "t.toml"], standalone_mode=False, catch_exceptions=False)
    assert told.return_value == 1
    assert re.match(f"triack: t.toml: {why}", told.stderr)
    with pytest.raises((triack.TriackError, click.ClickException), match=why):
        CliRunner().invoke(serve, ["--config", "t.toml"], standalone_mode=False, catch_exceptions=False)


def test_each_value_is_shown_with_its_source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIACK_ORDER__MAX_HELD_PACKETS", "5")
    (folder / "triack.toml").write_text("[node]\npolicy = 'solace'\n[limits]\nnode_quota_bytes = '2 GiB'\n")
    rows = [json.loads(line) for line in run("show", "--json").output.splitlines()]
    found = {row["setting"]: (row["value"], row["source"]) for row in rows}
    assert found["limits.node_quota_bytes"] == (2 * 2**30, "triack.toml:4")
    assert found["order.max_held_packets"] == (5, "TRIACK_ORDER__MAX_HELD_PACKETS")
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
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"listening nowhere\n"
    file.write_text(file.read_text() + "[limits.quota]\nmessages = 5\n[order]\nmax_held_packets = 7\n")
    done = call("reload", "--config", file)
    assert done.stdout.decode() == "in force: limits.quota.messages\nneeds a restart: order.max_held_packets\n"
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
    """It says so, goes on, and ends when it is told to."""
    file = folder / "triack.toml"
    file.write_text('[node]\nname = "plant"\ndata = "data"\n')
    process = start("serve", "--config", file)
    assert process.stdout is not None
    assert process.stderr is not None
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


def test_a_new_file_is_one_that_is_read_whatever_the_umask(folder: Path) -> None:
    """With umask 002, as of Fedora, the group could write to it."""
    before = os.umask(0o002)
    try:
        assert run("init").exit_code == 0
    finally:
        os.umask(before)
    assert run("check").output == "triack.toml: no mistake found\n"
