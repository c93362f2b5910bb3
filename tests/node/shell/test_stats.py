"""A node counts what it has and what happened to it, under names that stay."""

import asyncio
import dataclasses
import json
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, make, quick, until
from triack.base.survival import Survives
from triack.node.shell.stats import describe_stats, read_stats
from triack.tools.replay.log.files import parse_records


async def test_a_queue_has_depth_bytes_and_age() -> None:
    """Also while readers have it in hand, and after they gave it back."""
    async with make() as node:
        empty = triack.QueueStats(0, 0, None, False, 0, 0, when_full="drop oldest", by_priority=[0] * 8)
        assert node.stats().queues == {"dead-letter": empty}
        for _ in range(3):
            await (await node.send("q", b"x" * 100)).queued(WAIT)
        await asyncio.sleep(0.05)
        queue = node.stats().queues["q"]
        assert (queue.messages, queue.bytes > 300, queue.arrived, queue.left) == (3, True, 3, 0)
        assert queue.oldest_s is not None
        assert 0.05 <= queue.oldest_s < WAIT
        async with node.receive("q", ack="manual") as reader:
            for message in [await reader.get(WAIT) for _ in range(3)]:
                message.ack()
            await node.flush()
        assert node.stats().queues["q"] == triack.QueueStats(
            0, 0, None, is_full=False, arrived=3, left=3, by_priority=[0] * 8
        )


@pytest.mark.slow
@pytest.mark.gate
async def test_what_came_and_what_left_is_counted_from_the_start_of_the_process(tmp_path: Path) -> None:
    """Messages that were there already count in the depth alone."""
    nobody = "udp://127.0.0.1:9"
    async with make("a", tmp_path) as node:
        for destination in ("q", "q", f"{nobody}/q"):
            await (await node.send(destination, b"x")).queued(WAIT)
    async with make("a", tmp_path) as node:
        await (await node.send("q", b"y")).queued(WAIT)
        async with node.receive("q") as reader:
            await reader.get(WAIT)
        await node.flush()
        stats = node.stats()
        queue, [outgoing] = stats.queues["q"], stats.outgoing
        assert (queue.messages, queue.arrived, queue.left) == (2, 1, 1)
        assert (outgoing.messages, outgoing.accepted) == (1, 0)


async def test_links_and_sessions_are_seen_from_both_ends() -> None:
    async with make("b", scheme="udp") as b, make("a", scheme="udp") as a:
        for number in range(20):
            await (await a.send(f"{b.address}/q", b"%d" % number)).ordered(WAIT)
        stats = a.stats()
        link = stats.links[b.address]
        assert (link.is_up, link.sessions, link.suspended) == (True, 1, None)
        assert link.session is not None
        assert (link.session.peer, link.session.node_id, link.session.window) == ("b", b.node_id, 64)
        assert link.session.round_trip_s is not None
        assert 0 < link.session.round_trip_s < 5
        assert stats.sessions == [link.session]
        assert (b.stats().links, [session.peer for session in b.stats().sessions]) == ({}, ["a"])
        sent = triack.OutgoingStats(b.address, "q", triack.TRANSACTIONAL, 0, 0, 0, 20, via=b.address, state="connected")
        assert stats.outgoing == [sent]


async def test_what_waits_and_what_ended_is_counted() -> None:
    """Packets for a place where nobody is; sessions by the reason of their end."""
    async with make("a") as a:
        async with make("b", scheme="udp") as b:
            await (await a.send(f"{b.address}/q", b"x")).ordered(WAIT)
            address = b.address
        await until(lambda: not a.stats().links[address].is_up)
        await (await a.send(f"{address}/q", b"x" * 50)).queued(WAIT)
        stats = a.stats()
        assert (stats.outgoing[0].messages, stats.outgoing[0].packets, stats.outgoing[0].bytes >= 50) == (1, 1, True)
        assert stats.closes == {"peer-closed": 1}
        assert (stats.links[address].session, stats.links[address].sessions) == (None, 1)
        await a.send("memory://nobody/q", b"x")
        await until(lambda: a.stats().drops.get("unreachable", 0) > 0)


async def test_a_link_says_what_its_messages_wait_for() -> None:
    """Trust, a call of the peer, an answer; each in its turn, and nothing once the peer has them."""
    async with (
        triack.open("a", data=None, listen="udp://127.0.0.1:0", settings=quick()) as a,
        triack.open("b", data=None, listen="udp://127.0.0.1:0", settings=quick()) as b,
    ):

        def waits_for() -> str | None:
            return a.stats().links["b"].waits_for

        await a.trust("b", b.key)
        receipt = await a.send("b/q", b"x")
        await until(lambda: waits_for() == "address")
        events = a.events()
        await a.revoke("b")
        await until(lambda: waits_for() == "key")
        assert isinstance(await asyncio.wait_for(anext(events), WAIT), triack.PeerUnknown)
        await a.trust("b", b.key, b.address)
        await until(lambda: waits_for() == "answer")
        await b.trust("a", a.key)
        await receipt.ordered(WAIT)
        assert waits_for() is None


def test_every_name_is_explained() -> None:
    """In the docstring of its class, which the page on operations repeats."""
    for name in ("NodeStats", "QueueStats", "OutgoingStats", "LinkStats", "SessionStats"):
        kind = getattr(triack, name)
        for field in dataclasses.fields(kind):
            assert f"        {field.name}: " in kind.__doc__ or f"    {field.name}: " in kind.__doc__, (
                name,
                field.name,
            )


@pytest.mark.parametrize("survives", ["power loss", "process crash", "nothing"])
async def test_everyone_hears_what_a_store_survives(survives: Survives, tmp_path: Path) -> None:
    """To its owner, in the log of sessions, and to the peers that it tells what it has stored."""
    settings, log = quick(survives=survives), tmp_path / "log"
    async with make("b", tmp_path / "b", "udp", settings=settings, log=log) as b, make("a", tmp_path / "a") as a:
        await a.send(f"{b.address}/q", b"x", until="stored", timeout=WAIT)
        (session,) = a.stats().sessions
        assert (b.stats().survives, session.survives) == (survives, survives)
        (session,) = b.stats().sessions
        assert (a.stats().survives, session.survives) == ("power loss", "power loss")
        stats = b.stats()
        assert describe_stats(stats) == dataclasses.asdict(stats)
        assert read_stats(json.loads(json.dumps(describe_stats(stats)))) == stats
    assert (tmp_path / "b" / "store.db").exists() == (survives != "nothing")
    (segment,) = log.rglob("*.jsonl")
    started = next(iter(parse_records(segment.read_bytes())))
    assert started.get("survives", "power loss") == survives
    async with make("b", tmp_path / "b", settings=settings) as b:
        assert b.queue_lengths().get("q", 0) == (survives != "nothing")


async def test_a_node_without_a_directory_survives_nothing_whatever_its_settings_say() -> None:
    async with make("a") as a:
        assert (a.settings.survives, a.stats().survives) == ("power loss", "nothing")


async def test_what_is_on_the_disk_is_not_left_out_in_silence(tmp_path: Path) -> None:
    async with make("a", tmp_path / "a") as a:
        await a.send("q", b"x")
    with pytest.raises(triack.UsageError, match=r"survives nothing would leave out what is in .*store\.db"):
        await make("a", tmp_path / "a", settings=quick(survives="nothing")).start()
    async with make("a", tmp_path / "a") as a:
        assert a.queue_lengths()["q"] == 1
