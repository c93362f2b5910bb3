"""Commands on queues, topics, streams and routes."""

import asyncio
import io
import json
import re
import sys
import threading
import time
from dataclasses import fields
from pathlib import Path

import click
import pytest
from prometheus_client import CollectorRegistry, generate_latest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import WAIT, open_sync, quick
from tests.tools.processes import Server, message_of, start, wait_until
from tests.tools.processes import triack as command
from triack.base.errors import UsageError
from triack.metrics import NodeCollector
from triack.tools.commands.route import read_routes
from triack.tools.commands.watching import repeat
from triack.tools.ports import free_port


def lines_of(*arguments: str | Path, text: bytes = b"", code: int = 0) -> list[str]:
    """What a command prints; of one that fails, what it complains about if it prints nothing."""
    finished = command(*arguments, stdin=text)
    assert finished.returncode == code, finished.stderr.decode()
    assert code or not finished.stderr, finished.stderr.decode()
    return (finished.stdout or finished.stderr).decode().splitlines()


# ``triack topic``, on a node that runs inside a program and on a directory at rest.
@pytest.mark.slow
@pytest.mark.parametrize("running", [True, False], ids=["running", "at rest"])
def test_a_durable_subscription_from_its_beginning_to_its_end(tmp_path: Path, *, running: bool) -> None:
    node, at = triack.sync.open("a", data=tmp_path, insecure=True).__enter__(), ("--data", tmp_path)
    if not running:
        node.close()
    every = ("subscribe", "Games.#", "--durable", "audit", "--timeout", "0", *at)
    assert lines_of("topic", *every) == []
    assert lines_of("topic", "publish", "Games.Cricket", *at, text=b"1\n2\n3\n") == ["3 messages published"]
    head, row = (line.split()[:4] for line in lines_of("topic", "list", *at))
    assert head == ["TOPIC", "STRATEGY", "SUBSCRIPTIONS", "MESSAGES"]
    assert row == ["Games", "discard_none", "1", "3"]
    about, _, shown = lines_of("topic", "show", "Games", *at)
    assert about.startswith("Games: discard_none, 3 messages, ")
    assert shown.split()[:5] == ["audit", "Games.#", "durable", "0", "3"]
    assert json.loads(lines_of("topic", "show", "Games", "--json", *at)[0])["subscriptions"][0]["pending"] == 3
    first, *rest = lines_of("topic", *every, "--json")
    told = json.loads(first)
    assert (told["topic"], told["body"], len(rest)) == ("Games.Cricket", "1", 2)
    assert lines_of("topic", "unsubscribe", "audit", *at) == ["subscription audit has ended"]
    assert "there is no such subscription" in lines_of("topic", "unsubscribe", "audit", *at, code=2)[-1]
    if running:
        node.close()
    else:
        assert "no process runs the node" in lines_of("topic", "subscribe", "Games.#", *at, code=2)[-1]
    assert "there is no topic Plays" in lines_of("topic", "show", "Plays", *at, code=2)[-1]


@pytest.mark.slow
def test_a_command_that_waits_for_the_other_node_says_so_and_ends_quietly(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        topics = f"udp://127.0.0.1:{free_port()}/topic:Games.#"
        waiting = start("topic", "subscribe", topics, "--durable", "audit", "--data", server.data)
        said = waiting.stderr.readline().decode()
        assert said.startswith(f"subscribe to {topics}: no answer yet: udp://127.0.0.1:")
        assert "does not answer: nothing came back" in said
        assert said.endswith("; waiting\n")
        waiting.terminate()
        assert waiting.communicate(timeout=PATIENCE_S) == (b"", b"")


@pytest.mark.slow
def test_a_subscription_by_a_relay_without_an_address_says_what_is_missing(tmp_path: Path) -> None:
    key = command("keygen", "--data", tmp_path / "relay").stdout.decode().strip()
    data = tmp_path / "a"
    command("trust", "add", "relay", key, "--data", data)
    with Server(data, "--route", "hub=relay", insecure=False):
        waiting = start("topic", "subscribe", "hub/topic:Games.#", "--durable", "audit", "--data", data)
        assert waiting.stderr.readline().decode() == (
            "subscribe to hub/topic:Games.#: no answer yet, by relay: messages for relay wait, its address is unknown, "
            "and it does not call; triack trust add relay --address URL, or start the node there; waiting\n"
        )
        waiting.terminate()
        waiting.communicate(timeout=PATIENCE_S)


@pytest.mark.slow
def test_a_subscription_to_topics_of_another_node_outlives_the_processes_of_both(tmp_path: Path) -> None:
    """Each is killed while the other has messages for it."""
    with Server(tmp_path / "hub") as hub, Server(tmp_path / "a") as here:
        topics = f"{hub.address}/topic:Games.#"
        every = ("topic", "subscribe", topics, "--durable", "audit", "--data", here.data)
        assert lines_of(*every, "--timeout", "0") == []
        here.kill()
        lines = [str(number) for number in range(200)]
        lines_of("topic", "publish", "Games.Cricket", "--data", hub.data, text="\n".join(lines).encode())
        hub.restart()
        here.start()
        got = lines_of(*every, "--count", "100")
        here.restart()
        got += lines_of(*every, "--count", "100")
        assert list(dict.fromkeys(got)) == lines


# ``triack stream``: why a stream does not move, and when it is sent again, on a running node and at rest.
NOBODY = "udp://127.0.0.1:9/orders"


@pytest.mark.slow
def test_one_command_says_why_a_stream_does_not_move_and_when_it_is_sent(tmp_path: Path) -> None:
    with open_sync("b", tmp_path / "b", listen=True) as b, open_sync("a", tmp_path / "a") as a:
        at = ("--data", tmp_path / "a")
        a.send(f"{b.address}/q", b"x").ordered(WAIT)
        a.send(NOBODY, b"away").queued(WAIT)
        waits, moves = (line.split() for line in lines_of("stream", "list", *at)[1:])
        assert (waits[:4], waits[-3:-1]) == ([NOBODY, "out", "transactional", "0"], ["waiting", "answer"])
        assert moves == [f"{b.address}/q", "out", "transactional", "0", "0", "1", "connected", "-", "-"]
        assert [line.split()[0] for line in lines_of("stream", "list", "--waiting", *at)[1:]] == [NOBODY]
        head, why, when, what, *_ = lines_of("stream", "show", NOBODY, *at)
        assert head == f"{NOBODY}: outgoing transactional stream 2, priority 0, sequence 2"
        assert why == "  waiting: the peer does not answer"
        assert when.startswith("  calls the peer again in ")
        assert what == "  packet 1 is not acknowledged: 1 to send, 0 sent"
        assert "  last order ack: packet 1, " in "\n".join(lines_of("stream", "show", f"{b.address}/q", *at))
        (row,) = (json.loads(line) for line in lines_of("stream", "show", "q", "--json", "--data", tmp_path / "b"))
        assert (row["kind"], row["stream"], row["accepted"], row["acked"]) == ("in", "q", 1, 1)
        (text,) = lines_of("stream", "show", "nowhere", *at, code=2)
        assert text.startswith("triack: no stream leads to or from nowhere")
    head, why, what, *_ = lines_of("stream", "show", NOBODY, *at)
    assert head == f"{NOBODY}: outgoing transactional stream 2, priority 0, sequence 2"
    assert why == "  waiting: no process runs the node"
    assert what == "  packet 1 is not acknowledged: 1 to send, 0 sent"
    lines = lines_of("stream", "show", "q", "--data", tmp_path / "b")
    assert "  accepted up to packet 1; 0 wait for others before them" in lines
    assert "  no session brings packets of it now" in lines


# ``triack route``, and what ``triack queue list`` shows of a relay.
@pytest.mark.slow
def test_a_relay_explains_itself_and_shows_what_waits(tmp_path: Path) -> None:
    """A message for a node that is away waits at the relay, until it is purged."""
    at = ("--data", tmp_path / "hub")
    routes = [triack.Route("plant-*", via="plant"), triack.Route("old", via="plant", rename="plant")]
    listen = "udp://127.0.0.1:0"
    with (
        triack.sync.open("hub", data=tmp_path / "hub", listen=listen, routes=routes, settings=quick()) as hub,
        triack.sync.open(
            "sensor", data=tmp_path / "sensor", routes=[triack.Route("*", via="hub")], settings=quick()
        ) as sensor,
    ):
        hub.trust("sensor", sensor.key, may_relay=["plant-*"])
        sensor.trust("hub", hub.key, hub.address)
        listed = [" ".join(line.split()) for line in lines_of("route", "list", *at)]
        assert listed == ["TO VIA LINK WHICH CALLS IT", "plant-* plant async -", "old plant async plant"]
        old = json.loads(lines_of("route", "list", "--json", *at)[1])
        assert (old["to"], old["via"], old["rename"], old["link"]) == ("old", "plant", "plant", "async")
        assert lines_of("route", "test", "plant-b", "--from", "sensor", *at) == ["the route for plant-* leads by plant"]
        assert lines_of("route", "test", "cloud", "--from", "sensor", *at, code=1)[0].startswith(
            "access-denied: sensor may"
        )
        assert lines_of("route", "test", "cloud", *at, code=1) == ["no peer has the name cloud, and no route is for it"]
        assert "which calls it plant" in lines_of("route", "test", "old", *at)[0]
        sensor.send("plant-b/orders", b"12 valves").stored(WAIT)
        for priority in (1, 1, 7):
            sensor.send("plant-b/orders", b"12 valves", delivery=triack.RECOVERABLE, priority=priority).stored(WAIT)
        [row] = [json.loads(line) for line in lines_of("queue", "list", "--json", *at) if "plant-b" in line]
        assert (row["queue"], row["kind"], row["messages"]) == ("plant-b/orders", "from sensor", 4)
        assert row["by_priority"] == {"0": 1, "1": 2, "7": 1}
        assert json.loads(lines_of("status", "--json", *at)[0])["transit"][0]["came_by"] == "sensor"
        assert lines_of("route", "purge", "plant-b", *at) == ["4 messages removed"]
        assert hub.stats().transit == []


@pytest.mark.slow
def test_a_gateway_whose_cloud_is_away_says_how_much_waits_and_for_how_long_after_a_restart_too(tmp_path: Path) -> None:
    """In status, top, check, the list of queues and the metrics: what it has itself, and what it passes on."""
    at = ("--data", tmp_path / "hub")

    def serve() -> triack.sync.SyncNode:
        route = triack.Route("cloud", via="uplink")
        return triack.sync.open(
            "hub", data=tmp_path / "hub", listen="udp://127.0.0.1:0", routes=[route], settings=quick()
        )

    with triack.sync.open(
        "sensor", data=tmp_path / "sensor", routes=[triack.Route("*", via="hub")], settings=quick()
    ) as sensor:
        with serve() as hub:
            hub.trust("sensor", sensor.key, may_relay=["cloud"])
            uplink = lines_of("keygen", "--data", tmp_path / "uplink")[0]
            hub.trust("uplink", uplink, f"udp://127.0.0.1:{free_port()}")
            sensor.trust("hub", hub.key, hub.address)
            sensor.send("cloud/orders", b"12 valves", delivery=triack.RECOVERABLE).stored(WAIT)
            hub.send("cloud/own", b"3 bolts").queued(WAIT)
            sent = time.monotonic()
        with serve() as hub:
            age_s = time.monotonic() - sent
            rows = {row["queue"]: row for row in map(json.loads, lines_of("queue", "list", "--json", *at))}
            for name in ("cloud/orders", "cloud/own"):
                assert (rows[name]["messages"], rows[name]["oldest_s"] > age_s) == (1, True)
            (told,) = [line.split() for line in lines_of("status", *at) if line.startswith("uplink ")]
            assert (told[3], told[4] != "-") == ("2", True)
            (looked,) = json.loads(lines_of("top", "--once", "--json", *at)[0])["peers"]
            assert (looked["waiting"], looked["oldest_s"] > age_s) == (2, True)
            (checked,) = lines_of("check", "--oldest", f"{age_s},1000", "--no-troubles", *at, code=1)
            assert re.search(r"the oldest message of cloud/(own|orders from sensor) is .* old", checked)
            assert "'outgoing'=2;" in checked
            registry = CollectorRegistry()
            registry.register(NodeCollector(hub))
            page = generate_latest(registry).decode()
            for metric in ("outgoing_oldest_seconds", "transit_oldest_seconds"):
                (value,) = re.findall(rf"^triack_{metric}{{.*}} (.*)$", page, re.MULTILINE)
                assert float(value) > age_s


@pytest.mark.slow
def test_a_route_that_leads_back_is_named(tmp_path: Path) -> None:
    at = ("--data", tmp_path / "hub")
    key = lines_of("keygen", "--data", tmp_path / "sensor")[0]
    lines_of("trust", "add", "sensor", key, "--may-relay", "*", *at)
    with triack.sync.open("hub", data=tmp_path / "hub", routes=[triack.Route("*", via="sensor")]) as hub:
        looped = lines_of("route", "test", "cloud", "--from", "sensor", *at, code=1)
        assert looped == ["route-loop: the route for * leads by sensor, which sent it"]
        hub.set_routes([triack.Route("*", via=["sensor", "other"])])
        assert lines_of("route", "test", "cloud", "--from", "sensor", *at, code=1) == looped
        hub.set_routes([triack.Route("*", via=["other", "sensor"])])
        assert lines_of("route", "test", "cloud", "--from", "sensor", *at)
        assert "*   other, sensor  async  -" in lines_of("route", "list", *at)
        failed = command("route", "test", "cloud", "--from", "nobody", *at)
        assert "the node has no such peer" in message_of(failed)


def test_routes_are_read_as_they_are_written() -> None:
    routes = [triack.Route("plant-*", "hub"), triack.Route("*", "gateway")]
    assert read_routes(("plant-*=hub", "*=gateway")) == routes
    assert read_routes(("cloud=gw1+gw2,seal",)) == [triack.Route("cloud", ["gw1", "gw2"], seal=True)]
    assert read_routes(("plant-*=hub,seal",)) == [triack.Route("plant-*", "hub", seal=True)]
    for value in ("hub", "plant-*=hub,", "plant-*=hub,sealed"):
        with pytest.raises(UsageError, match="write it as TO=VIA"):
            read_routes((value,))


# ``triack status``, on a node that runs inside a program and on a directory at rest.
@pytest.mark.slow
def test_what_runs_says_where_and_with_whom(tmp_path: Path) -> None:
    """A peer that is there, one that is not, and what waits; a directory that nobody runs is looked at, too."""
    nobody = f"udp://127.0.0.1:{free_port()}"
    settings = quick(close_timeout_s=0.0)
    with open_sync("b", listen=True) as b:
        peers = {"b": b.address, "c": nobody}
        with triack.sync.open("a", data=tmp_path, insecure=True, peers=peers, settings=settings) as a:
            a.send("b/orders", b"x").ordered(WAIT)
            a.send_many("c/orders", [b"x", b"y"]).queued(WAIT)
            a.send("here", b"x").ordered(WAIT)
            wait_until(lambda: bool(a.stats().troubles), "c is silent")
            runs, node_id, room, unread, trouble, remedy, head, *peers_told = lines_of("status", "--data", tmp_path)
            most_first = lines_of("status", "--data", tmp_path, "--sort", "waiting")[-2:]
            found = json.loads(lines_of("status", "--data", tmp_path, "--json")[0])
            assert (runs, node_id) == ("a runs, listens nowhere", f"node id {a.node_id}")
    assert room.startswith("room on the disk: ")
    assert unread == "unread: 1, dead letters: 0"
    assert trouble.startswith("trouble: c does not answer: nothing came back (for ")
    assert remedy.startswith("  to do: check that a node runs there")
    assert [line.split()[0] for line in most_first] == ["c", "b"]
    assert head.split() == ["PEER", "LINK", "ADDRESS", "ON", "THE", "WAY", "OLDEST", "WAITS", "FOR"]
    to_b, to_c = (line.split() for line in peers_told)
    assert to_b == ["b", "up", peers["b"], "0", "-", "-"]
    assert (to_c[:4], to_c[-1]) == (["c", "down", "-", "2"], "answer")
    assert (found["running"], found["name"], found["listening"]) == (True, "a", None)
    assert {field.name for field in fields(triack.NodeStats)} <= found.keys()
    assert lines_of("status", "--data", tmp_path, code=3)[:2] == ["no process runs it", node_id]
    assert json.loads(lines_of("status", "--data", tmp_path, "--json", code=3)[0])["running"] is False


@pytest.mark.slow
def test_who_has_what_and_what_has_no_room_is_shown(tmp_path: Path) -> None:
    """At the node that has no room, and at the one that waits for it."""
    full = quick(limits=triack.Limits(queue_quota={"orders": triack.Quota(2)}), messages_per_packet=1)
    with triack.sync.open("b", data=tmp_path / "b", listen="udp://127.0.0.1:0", insecure=True, settings=full) as b:
        peers = {"b": b.address}
        with triack.sync.open("a", data=tmp_path / "a", insecure=True, peers=peers, settings=quick()) as a:
            a.send_many("b/orders", [b"x"] * 2).ordered(WAIT)
            a.send("b/orders", b"x").queued(WAIT)
            held = b.receive("orders", ack="manual", name="packer").get(WAIT)
            wait_until(lambda: a.stats().outgoing[0].held == "queue-full" and bool(b.stats().holds), "it is held")
            assert [(it.peer, it.queue, it.reason) for it in b.stats().holds] == [("a", "orders", "queue-full")]
            waits = lines_of("status", "--data", tmp_path / "a")[-1].split()
            told = lines_of("status", "--data", tmp_path / "b")
            here = [line.split() for line in told[-4:]]
            listed = command("queue", "list", "--data", tmp_path / "a").stdout.decode().splitlines()[-1]
    assert waits[-2:] == ["room:", "queue-full"]
    assert "trouble: queue orders has reached its quota" in told
    assert listed.endswith("room: queue-full")
    assert here[0] == ["NO", "ROOM", "FOR", "TO", "QUEUE", "CLASS", "AS"]
    assert here[1] == ["a", "orders", "transactional", "queue-full"]
    assert here[3][:4] == ["orders", "packer", "-", "1"]
    assert held.body == b"x"


@pytest.mark.slow
def test_what_a_failing_handler_waits_for_is_shown(tmp_path: Path) -> None:
    """With its error, while its message waits in its queue, and no more when it has succeeded."""
    away = threading.Event()
    away.set()

    def store(_message: triack.Message) -> None:
        if away.is_set():
            raise ConnectionError("the database is away")

    with open_sync("a", tmp_path) as a:
        a.handler("orders", redelivery=triack.Redelivery(first_wait_s=0.2, max_wait_s=0.2), name="packer")(store)
        a.send("orders", b"x")
        failing = re.compile("packer .* ConnectionError: the database is away$")
        wait_until(lambda: any(map(failing.search, lines_of("status", "--data", tmp_path))), "it has failed")
        away.clear()
        wait_until(lambda: not a.queue_lengths()["orders"], "it has succeeded")
        assert not [line for line in lines_of("status", "--data", tmp_path) if "packer" in line]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
async def test_once_is_once_and_again_has_an_end(kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe one below the other; on a terminal in its place, on a screen that is left as it was."""
    out, drawn, enough = kind(), list[int](), asyncio.Event()

    async def draw() -> None:
        drawn.append(len(drawn))
        click.echo(f"view {drawn[-1]}")
        if len(drawn) == 3:
            enough.set()

    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", "xterm")
    watching = asyncio.create_task(repeat(draw, 0.001))
    await enough.wait()
    await asyncio.sleep(0.01)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert "view 0" in out.getvalue()
    assert "view 2" in out.getvalue()
    once = out.getvalue()
    await repeat(draw, None)
    assert out.getvalue() == f"{once}view {len(drawn) - 1}\n"
    assert ("\x1b[?1049h" in out.getvalue()) == ("\x1b[?1049l" in out.getvalue()) == (kind is Terminal)
