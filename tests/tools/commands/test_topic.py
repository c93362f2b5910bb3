"""``triack topic``, on a node that runs inside a program and on a directory at rest."""

import json
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.tools.processes import Server, start, wait_until
from tests.tools.processes import triack as command
from triack.tools.ports import free_port
from triack.tools.replay.run import replay


def run(*arguments: str | Path, text: bytes = b"", code: int = 0) -> list[str]:
    """The lines that a command writes."""
    finished = command("topic", *arguments, stdin=text)
    assert finished.returncode == code, finished.stderr.decode()
    return (finished.stdout if not code else finished.stderr).decode().splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("running", [True, False], ids=["running", "at rest"])
def test_a_durable_subscription_from_its_beginning_to_its_end(tmp_path: Path, *, running: bool) -> None:
    node, at = triack.sync.open("a", data=tmp_path, insecure=True).__enter__(), ("--data", tmp_path)
    if not running:
        node.close()
    every = ("subscribe", "Games.#", "--durable", "audit", "--timeout", "0", *at)
    assert run(*every) == []
    assert run("publish", "Games.Cricket", *at, text=b"1\n2\n3\n") == ["3 messages published"]
    head, row = map(str.split, run("list", *at))
    assert dict(zip(head[:4], row[:4], strict=True)) == {
        "TOPIC": "Games",
        "STRATEGY": "discard_none",
        "SUBSCRIPTIONS": "1",
        "MESSAGES": "3",
    }
    about, _, shown = run("show", "Games", *at)
    assert about.startswith("Games: discard_none, 3 messages, ")
    assert shown.split()[:5] == ["audit", "Games.#", "durable", "0", "3"]
    assert json.loads(run("show", "Games", "--json", *at)[0])["subscriptions"][0]["pending"] == 3
    first, *rest = run(*every, "--json")
    told = json.loads(first)
    assert (told["topic"], told["body"], len(rest)) == ("Games.Cricket", "1", 2)
    assert run("unsubscribe", "audit", *at) == ["subscription audit has ended"]
    assert "there is no such subscription" in run("unsubscribe", "audit", *at, code=2)[-1]
    if running:
        node.close()
    else:
        assert "no process runs the node" in run("subscribe", "Games.#", *at, code=2)[-1]
    assert "there is no topic Plays" in run("show", "Plays", *at, code=2)[-1]


@pytest.mark.slow
def test_a_command_that_waits_for_the_other_node_says_so_and_ends_quietly(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        topics = f"udp://127.0.0.1:{free_port()}/topic:Games.#"
        waiting = start("topic", "subscribe", topics, "--durable", "audit", "--data", server.data)
        assert waiting.stderr is not None
        assert waiting.stderr.readline().decode() == f"subscribe to {topics}: no answer yet; waiting\n"
        waiting.terminate()
        assert waiting.communicate(timeout=PATIENCE_S) == (b"", b"")


class Machines:
    """A hub with topics and four subscribers, in processes of their own, with keys; each with its session log."""

    def __init__(self, home: Path, *options: str) -> None:
        names = ("one", "two", "three", "four")
        keys = {name: command("keygen", "--data", home / name).stdout.decode().strip() for name in ("hub", *names)}
        for name in names:
            grant = ("--may-subscribe", "Games.#")
            assert not command("trust", "add", name, keys[name], *grant, "--data", home / "hub").returncode
        self.logs = home / "logs"
        self.logs.mkdir()
        (home / "hub.toml").write_text("\n".join(options))
        self.hub = Server(home / "hub", "--log", self.logs, "--config", home / "hub.toml", insecure=False)
        for name in names:
            where = ("--address", self.hub.address, "--data", home / name)
            assert not command("trust", "add", "hub", keys["hub"], *where).returncode
        self.subscribers = {name: Server(home / name, "--log", self.logs, insecure=False) for name in names}

    def shown(self) -> dict[str, dict[str, object]]:
        """The subscriptions at the hub, by the nodes to which they belong."""
        (line,) = run("show", "Games", "--json", "--data", self.hub.data)
        return {one["peer"]: one for one in json.loads(line)["subscriptions"]}

    def subscribed(self, name: str, *arguments: str) -> tuple[str | Path, ...]:
        """The command that reads a subscription of a node."""
        return ("subscribe", "hub/topic:Games.#", *arguments, "--data", self.subscribers[name].data)

    def publish(self, first: int, end: int) -> None:
        """Publish numbered lines at the hub."""
        lines = b"".join(b"%d\n" % number for number in range(first, end))
        run("publish", "Games.Cricket", "--data", self.hub.data, text=lines)

    def stop(self) -> None:
        """End all of them."""
        for server in (self.hub, *self.subscribers.values()):
            server.stop()


@pytest.mark.slow
def test_four_nodes_subscribe_and_one_is_away_and_one_stalls_and_all_of_it_is_proved(tmp_path: Path) -> None:
    """Both ends of the durable subscription are killed. A record that is taken out says who missed what."""
    it = Machines(tmp_path, "[topics.Games]", "max_unacked = 10")
    assert run(*it.subscribed("one", "--durable", "audit", "--timeout", "0")) == []
    it.subscribers["one"].kill()
    assert run(*it.subscribed("four", "--durable", "stalled", "--max-unacked", "10", "--timeout", "0")) == []
    readers = {name: start("topic", *it.subscribed(name, "--count", "300")) for name in ("two", "three")}
    wait_until(lambda: {"two", "three"} <= it.shown().keys(), "two live subscriptions")
    it.publish(0, 100)
    it.hub.restart()
    # What is not durable ends with the hub, and begins anew; it gets what comes from then on.
    wait_until(lambda: {"two", "three"} <= it.shown().keys(), "two live subscriptions again")
    it.publish(100, 400)
    it.subscribers["one"].start()
    got = run(*it.subscribed("one", "--durable", "audit", "--count", "200"))
    it.subscribers["one"].restart()
    it.hub.restart()
    got += run(*it.subscribed("one", "--durable", "audit", "--count", "200"))
    assert list(dict.fromkeys(got)) == [str(number) for number in range(400)]
    for reader in readers.values():
        lines = reader.communicate(timeout=PATIENCE_S)[0].decode().split()
        assert lines == sorted(set(lines), key=int)
        assert lines[-1] in ("299", "399")
    stalled = it.shown()["four"]
    assert (stalled["pending"], stalled["waits_for"]) == (380, "room: queue-full"), "ten wait there, ten are on the way"
    assert stalled["on_the_way"] == 10
    it.stop()
    assert replay(it.logs, engine="local").verdict == "pass"
    lie_about(it.logs, "passed_on")
    told = [(found.check, found.subscription) for found in replay(it.logs, engine="local").findings]
    assert any(check in ("topic_lost", "topic_twice") and "/" in name for check, name in told)


def lie_about(logs: Path, event: str) -> None:
    """Take a record of that kind out of the first log that has one."""
    for file in sorted(logs.rglob("*.jsonl*")):
        lines = file.read_bytes().splitlines(keepends=True)
        for at, line in enumerate(lines):
            if f'"{event}"'.encode() in line:
                file.write_bytes(b"".join([*lines[:at], *lines[at + 1 :]]))
                return
    raise AssertionError(f"no log has {event}")
