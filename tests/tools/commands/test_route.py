"""``triack route``, and what ``triack queue list`` shows of a relay."""

import json
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, quick
from tests.tools.processes import message_of
from tests.tools.processes import triack as command
from triack.base.errors import UsageError
from triack.tools.commands.route import read_routes


def run(*arguments: str | Path, code: int = 0) -> list[str]:
    """The lines that a command writes."""
    finished = command(*arguments)
    assert (finished.returncode, finished.stderr) == (code, b""), finished.stderr.decode()
    return finished.stdout.decode().splitlines()


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
        assert [line.split() for line in run("route", "list", *at)] == [
            ["TO", "VIA", "LINK", "WHICH", "CALLS", "IT"],
            ["plant-*", "plant", "async", "-"],
            ["old", "plant", "async", "plant"],
        ]  # fmt: skip
        old = json.loads(run("route", "list", "--json", *at)[1])
        assert (old["to"], old["via"], old["rename"], old["link"]) == ("old", "plant", "plant", "async")
        assert run("route", "test", "plant-b", "--from", "sensor", *at) == ["the route for plant-* leads by plant"]
        assert run("route", "test", "cloud", "--from", "sensor", *at, code=1)[0].startswith("access-denied: sensor may")
        assert run("route", "test", "cloud", *at, code=1) == ["no peer has the name cloud, and no route is for it"]
        assert "which calls it plant" in run("route", "test", "old", *at)[0]
        sensor.send("plant-b/orders", b"12 valves", delivery=triack.RECOVERABLE).stored(WAIT)
        row = next(json.loads(line) for line in run("queue", "list", "--json", *at) if "plant-b" in line)
        assert (row["queue"], row["kind"], row["messages"]) == ("plant-b/orders", "from sensor", 1)
        assert json.loads(run("status", "--json", *at)[0])["transit"][0]["came_by"] == "sensor"
        [told] = [line.split() for line in run("status", *at) if line.startswith("plant ")]
        assert told[3] == "1"  # on the way
        [looked] = [it for it in json.loads(run("top", "--once", "--json", *at)[0])["peers"] if it["peer"] == "plant"]
        assert looked["waiting"] == 1
        [checked] = run("check", "--oldest", "0,1000", *at, code=1)
        assert "the oldest message of plant-b/orders from sensor is" in checked
        assert "'outgoing'=1;" in checked
        assert run("route", "purge", "plant-b", *at) == ["1 message removed"]
        assert hub.stats().transit == []


@pytest.mark.slow
def test_a_route_that_leads_back_is_named(tmp_path: Path) -> None:
    at = ("--data", tmp_path / "hub")
    key = run("keygen", "--data", tmp_path / "sensor")[0]
    run("trust", "add", "sensor", key, "--may-relay", "*", *at)
    with triack.sync.open("hub", data=tmp_path / "hub", routes=[triack.Route("*", via="sensor")]):
        looped = run("route", "test", "cloud", "--from", "sensor", *at, code=1)
        assert looped == ["route-loop: the route for * leads by sensor, which sent it"]
        failed = command("route", "test", "cloud", "--from", "nobody", *at)
        assert "the node has no such peer" in message_of(failed)


def test_routes_are_read_as_they_are_written() -> None:
    assert read_routes(("plant-*=hub", "*=gateway")) == [
        triack.Route("plant-*", via="hub"),
        triack.Route("*", "gateway"),
    ]
    assert read_routes(("plant-*=hub,seal",)) == [triack.Route("plant-*", "hub", seal=True)]
    for value in ("hub", "plant-*=hub,", "plant-*=hub,sealed"):
        with pytest.raises(UsageError, match="write it as TO=VIA"):
            read_routes((value,))
