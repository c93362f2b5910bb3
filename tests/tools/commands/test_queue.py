"""``triack queue``, on a node that runs inside a program and on a directory at rest."""

import json
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, open_sync, quick
from tests.tools.processes import message_of
from tests.tools.processes import triack as command
from triack.node.node import port_of
from triack.queues.messages import Outgoing
from triack.tools.commands.queue import _rows

NOBODY = "udp://127.0.0.1:9/orders"


def run(*arguments: str | Path) -> list[str]:
    finished = command("queue", *arguments)
    assert (finished.returncode, finished.stderr) == (0, b""), finished.stderr.decode()
    return finished.stdout.decode().splitlines()


At = tuple[bool, tuple[str | Path, ...]]


@pytest.fixture(params=[True, False], ids=["running", "at rest"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[At]:
    """Whether the node of a filled directory runs, and the option that names it."""
    node = fill(tmp_path)
    if not request.param:
        node.close()
    yield request.param, ("--data", tmp_path)
    if request.param:
        node.close()


def fill(data: Path) -> triack.sync.SyncNode:
    """An open node with two dead letters, one message that waits, and one on its way."""
    settings = quick(max_redeliveries=0, close_timeout_s=0.0)
    node = triack.sync.open("a", data=data, insecure=True, settings=settings).__enter__()
    for body in (b"12 valves", b"\xff" * 100):
        node.send("orders", body)
        with node.receive("orders", ack="manual") as reader:
            reader.get(WAIT).reject()
    node.send("orders", b"7 pumps")
    node.send(NOBODY, b"away")
    node.flush()
    return node


@pytest.mark.slow
def test_dead_letters_are_looked_at_sent_again_and_removed(filled: At, tmp_path: Path) -> None:
    running, at = filled
    listed = {words[0]: [*words[1:3], words[-1]] for words in map(str.split, run("list", *at)[1:])}
    assert listed == {
        "dead-letter": ["in", "2", "-"],
        "orders": ["in", "1", "-"],
        NOBODY: ["out", "1", "answer" if running else "start"],
    }
    assert {json.loads(line)["queue"] for line in run("list", "--json", *at)} == set(listed)
    first, second = run("browse", "dead-letter", *at)
    assert "attempts 1  max-redeliveries orders" in first
    assert first.endswith('"12 valves"')
    assert second.endswith("... 100 bytes")
    head, *reasons = run("show", "dead-letter", *at)
    assert head.startswith("dead-letter: 2 waiting, 109 bytes, the oldest for ")
    assert [line.split() for line in reasons[1:]] == [["max-redeliveries", "orders", "2", "0"]]
    assert json.loads(run("show", NOBODY, "--json", *at)[0])["waiting"] == 1
    run("export", "dead-letter", "--to", tmp_path / "letters.jsonl", *at)
    assert (tmp_path / "letters.jsonl").stat().st_mode & 0o777 == 0o600
    letters = [json.loads(line) for line in (tmp_path / "letters.jsonl").read_text().splitlines()]
    assert [letter.get("body") for letter in letters] == ["12 valves", None]
    assert [json.loads(line) for line in run("browse", "dead-letter", "--json", "--count", "1", *at)] == letters[:1]
    assert run("requeue", "--id", letters[0]["id"], *at) == ["1 message sent again"]
    assert run("move", "dead-letter", "later", "--all", *at) == ["1 message moved"]
    assert run("purge", NOBODY, "--all", *at) == ["1 message removed"]
    assert [json.loads(line)["properties"]["dead_reason"] for line in run("export", "dead-letter", *at)] == ["purged"]
    assert [line.rsplit("  ", 1)[1] for line in run("browse", "orders", *at)] == ['"7 pumps"', '"12 valves"']


@pytest.mark.slow
def test_what_a_reader_has_is_shown_and_taken_back(tmp_path: Path) -> None:
    node = fill(tmp_path)
    late = node.receive("orders", ack="manual", name="packer").get(WAIT)
    at = ("--data", tmp_path)
    head, _, holder = run("show", "orders", *at)
    assert head.startswith("orders: 0 waiting, 0 bytes, the oldest for ")
    assert head.endswith("1 in the hands of readers")
    assert holder.split()[:3] == ["packer", "-", "1"]
    assert json.loads(run("show", "orders", "--json", *at)[0])["holders"][0]["name"] == "packer"
    assert " ".join(run("list", *at)[0].split()) == "QUEUE MESSAGES IN HAND BYTES OLDEST STATE WAITS FOR"
    assert run("release", "orders", *at) == ["1 message taken back"]
    assert run("show", "orders", *at)[0].startswith("orders: 1 waiting, 7 bytes, the oldest for ")
    with pytest.raises(triack.HandOverEnded):
        late.ack()
    node.close()


@pytest.mark.slow
def test_a_queue_is_paused_and_resumed(filled: At) -> None:
    _, at = filled
    assert run("pause", "orders", "--arrivals", *at) == ["orders is paused"]
    assert run("pause", NOBODY, *at) == [f"{NOBODY} is paused"]
    waits = [line.split("  ")[-1].strip() for line in run("list", *at) if line.startswith(("orders", NOBODY))]
    assert all(it.startswith("resume, paused for ") for it in waits), waits
    assert run("resume", NOBODY, *at) == [f"{NOBODY} is resumed"]
    assert run("resume", NOBODY, *at) == [f"{NOBODY} was not paused"]
    assert run("pause", "ordres", *at) == ["ordres is paused; it is a new queue, did you mean orders?"]
    assert run("quota", "topic:Games", "--messages", "5", *at) == [
        "topic:Games: its quota is set by an operator; it is a new queue"
    ]


@pytest.mark.slow
def test_the_quota_of_a_queue_is_set_shown_and_left_to_the_settings_again(filled: At) -> None:
    """Only what is named changes. A system queue has its limits elsewhere."""
    running, at = filled
    by_settings = "orders: at most 10,000,000 messages and 1.0 GiB, then hold; as the settings say"
    if not running:
        by_settings = "orders: as the settings say; no process runs the node, so they are not known here"
    assert run("quota", "orders", *at) == [by_settings]
    was_set = "orders: at most 5 messages and 1.0 GiB, then hold; set by an operator"
    assert run("quota", "orders", "--messages", "5", *at) == [was_set]
    assert run("quota", "orders", "--when-full", "reject", *at) == [was_set.replace("hold", "reject")]
    assert run("show", "orders", *at)[1] == was_set.replace("hold", "reject").removeprefix("orders: ")
    assert json.loads(run("show", "orders", "--json", *at)[0])["max_messages"] == 5
    assert run("quota", "orders", "--reset", *at) == [by_settings]
    refused = command("queue", "quota", "dead-letter", "--messages", "5", *at)
    assert refused.returncode == 2
    assert b"its limits are those of limits.dead_letters" in refused.stderr


@pytest.mark.slow
def test_mistakes_are_named(tmp_path: Path) -> None:
    """What does not exist, and what was not said; nothing is made by asking."""
    fill(tmp_path / "a").close()
    at, store = ("--data", tmp_path / "a"), tmp_path / "a" / "store.db"
    for code, what, arguments in (
        (2, "did you mean orders", ("browse", "ordres", *at)),
        (2, "say which messages", ("purge", "orders", *at)),
        (2, "1 of 1 message not found there", ("purge", "orders", "--id", "x", *at)),
        (2, f"requeue would send them to {NOBODY}", ("move", NOBODY, "elsewhere", "--all", *at)),
        (2, "does not exist", ("list", "--data", tmp_path / "typo")),
        (1, f"{store}: File exists", ("export", "orders", "--to", store, *at)),
    ):
        finished = command("queue", *arguments)
        assert finished.returncode == code
        assert what in message_of(finished)
    assert not (tmp_path / "typo").exists()


@pytest.mark.slow
def test_a_label_that_no_encoding_has_stops_nobody(tmp_path: Path) -> None:
    """Nor does one that acts on a terminal: it is shown as JSON writes it, and its message can be read."""
    label = "\ud800\x9b31m\u202e\u2028"
    with triack.sync.open("a", data=tmp_path, insecure=True, settings=quick()) as node:
        node.send("orders", b"x", label=label).ordered(WAIT)
        for command_line in (("queue", "browse", "orders"), ("queue", "export", "orders"), ("receive", "orders")):
            more = () if "export" in command_line else ("--count", "1", "--json")
            done = command(*command_line, *more, "--data", tmp_path)
            assert json.loads(done.stdout)["properties"] == {"label": label}, done.stderr.decode()
            assert done.stdout.decode().removesuffix("\n").isprintable()


@pytest.mark.slow
def test_queues_are_made_before_their_first_messages(tmp_path: Path) -> None:
    """In the running node, and at rest; a second time does nothing, and a wrong name makes none."""
    with triack.sync.open("a", data=tmp_path, insecure=True, settings=quick()) as node:
        assert run("create", "x", "y", "--data", tmp_path) == ["queue x made", "queue y made"]
        assert set(node.queue_lengths()) >= {"x", "y"}
    assert run("create", "x", "z", "--data", tmp_path) == ["queue x was there already", "queue z made"]
    assert "z" in {line.split()[0] for line in run("list", "--data", tmp_path)}
    assert command("queue", "create", "a/b", "--data", tmp_path).returncode == 2
    with (
        triack.sync.open("a", data=tmp_path, insecure=True, queues=["x"], settings=quick()),
        pytest.raises(AssertionError, match="queue w does not exist"),
    ):
        run("create", "w", "--data", tmp_path)


@pytest.mark.slow
def test_messages_are_chosen_by_reason_and_age(tmp_path: Path) -> None:
    """What is old, or dead for one reason, is seen, sent again or removed; the rest stays."""
    at = ("--data", tmp_path)
    with closing(fill(tmp_path)):
        assert len(run("browse", "dead-letter", "--reason", "max-redeliveries", *at)) == 2
        assert run("browse", "dead-letter", "--reason", "purged", *at) == []
        assert run("browse", "dead-letter", "--older", "3600", *at) == []
        assert len(run("export", "dead-letter", "--older", "0", *at)) == 2
        assert run("purge", "orders", "--older", "3600", *at) == ["0 messages removed"]
        assert run("requeue", "--reason", "purged", *at) == ["0 messages sent again"]
        assert run("requeue", "--reason", "max-redeliveries", "--older", "0", *at) == ["2 messages sent again"]
        both = command("queue", "purge", "orders", "--all", "--older", "0", *at)
        assert (both.returncode, b"say which messages" in both.stderr) == (2, True)


@pytest.mark.slow
def test_letters_that_may_have_arrived_are_named_and_left(tmp_path: Path) -> None:
    """Its time ends after a restart: it may have been sent before."""
    at = ("--data", tmp_path)
    with open_sync("a", tmp_path) as node:
        node.send(NOBODY, b"12 valves", time_to_reach_queue=1)
    with open_sync("a", tmp_path) as node:
        while node.queue_lengths().get("dead-letter") != 1:
            time.sleep(0.01)
    [line] = run("browse", "dead-letter", *at)
    assert f"reach-queue-timeout {NOBODY}  may have arrived" in line
    assert run("show", "dead-letter", *at)[-1].split() == ["reach-queue-timeout", NOBODY, "1", "1"]
    left = "1 message left: they may have arrived (--maybe-delivered takes them, too)"
    assert run("requeue", "--all", *at) == ["0 messages sent again", left]
    assert run("requeue", "--all", "--maybe-delivered", *at) == ["1 message sent again"]


@pytest.mark.slow
def test_the_list_is_sorted_and_filtered(tmp_path: Path) -> None:
    with triack.sync.open("a", data=tmp_path, insecure=True, settings=quick()) as node:
        node.send("one", b"x" * 99).queued(WAIT)
        node.send_many("three", [b""] * 3).queued(WAIT)
        node.create_queue("none")

        def listed(*options: str) -> list[str]:
            return [line.split()[0] for line in run("list", *options, "--data", tmp_path)[1:]]

        assert [listed("--sort", it)[0] for it in ("messages", "bytes", "oldest")] == ["three", "one", "one"]
        assert set(listed("--waiting")) == {"one", "three"}
        assert listed("--older", "3600") == []


def test_nothing_that_destroys_is_suggested(tmp_path: Path) -> None:
    """A mistyped command must not become one by a careless yes."""
    for typed in ("pause", "purg", "purges"):
        done = command("queue", typed, "x", "--data", tmp_path)
        assert (done.returncode, b"purge" in done.stderr.replace(typed.encode(), b"")) == (2, False)
    assert b"did you mean browse?" in command("queue", "browes").stderr
    assert b"remove" not in command("trust", "remov").stderr.replace(b"command remov;", b"")


@pytest.mark.gate
@pytest.mark.parametrize("running", [False, True])
def test_messages_are_sent_with_priorities_and_counted_by_them(tmp_path: Path, *, running: bool) -> None:
    """From the command line, with the node or through it; a class without priorities says so before it reads a line."""
    at = ("--data", tmp_path, "--insecure")
    with triack.sync.open("a", data=tmp_path, insecure=True) if running else nullcontext():
        for priority, lines in (("7", b"urgent\n"), ("0", b"1\n2\n")):
            options = ("--class", "recoverable", "--priority", priority)
            assert command("send", "orders", *options, *at, stdin=lines).returncode == 0
        refused = command("send", "orders", "--priority", "7", *at, stdin=b"x\n")
        assert (refused.returncode, b"have priority 0, not 7" in refused.stderr) == (2, True)
        shown = command("queue", "show", "orders", "--data", tmp_path).stdout.decode().splitlines()
        assert [line.split() for line in shown[1:]] == [["PRIORITY", "WAITING"], ["7", "1"], ["0", "2"]]
        as_json = json.loads(command("queue", "show", "orders", "--json", "--data", tmp_path).stdout)
        assert as_json["by_priority"] == {"7": 1, "0": 2}
        browsed = command("queue", "browse", "orders", "--json", "--data", tmp_path).stdout.splitlines()
        assert [json.loads(line)["priority"] for line in browsed] == [7, 0, 0]


@pytest.mark.slow
async def test_the_letters_of_a_relay_say_what_they_are(tmp_path: Path) -> None:
    async with triack.open("r", data=tmp_path, insecure=True, settings=quick()) as node:
        engine = port_of(node).engine  # as a relay writes them
        for ordinal, part in enumerate(({}, {"dead_part": 4_000}), 1):
            why = {"dead_reason": "purged", "dead_destination": "b/q", "dead_unread": 1, **part}
            engine.queues.put_dead_letter(Outgoing(bytes(9), why), bytes(16), ordinal, engine.jobs.turn(0))
        await node.flush()
    one, other = run("browse", "dead-letter", "--data", tmp_path)
    assert one.endswith("purged b/q  sealed, 9 bytes")
    assert other.endswith("purged b/q  9 bytes, part of a message of 4000")


def test_streams_to_one_destination_share_a_row_unless_some_are_in_another_state(tmp_path: Path) -> None:
    sent = triack.OutgoingStats("hub", "q", triack.TRANSACTIONAL, 3, 1, 9, 3, state="connected", waits_for="order-ack")
    with triack.sync.open("a", data=tmp_path, insecure=True) as node:
        stats = node.stats()
    out = [
        replace(sent, messages=0, bytes=0, state="inactive", waits_for=None, priority=1),
        sent,
        replace(sent, delivery=triack.RECOVERABLE, waits_for="store-ack", priority=5),
        replace(sent, delivery=triack.RECOVERABLE, state="held", waits_for="room: queue-full", priority=7),
    ]
    rows = [it for it in _rows(replace(stats, outgoing=out)) if it["kind"] == "out"]
    assert [(it["messages"], it["by_priority"], it["state"], it["waits_for"]) for it in rows] == [
        (6, {0: 3, 5: 3}, "connected", "order-ack, store-ack"),
        (3, {7: 3}, "held", "room: queue-full"),
    ]
