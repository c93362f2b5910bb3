"""What a node says of itself: stats, troubles, states of its queues."""

import asyncio
import dataclasses
import gc
import json
import re
import socket
import weakref
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import SCHEMES, WAIT, make, quick, until
from tests.queues.relays import line, post
from tests.queues.rollbacks import both_know, roll_back
from tests.queues.world import WORLDS, SimNode, World, numbered, two
from tests.sure import sure
from triack.base.delivery import Delivery
from triack.base.news import LinkDown, LinkUp, NodeEvent, PeerSilent
from triack.base.reasons import Trouble
from triack.base.survival import Survives
from triack.base.units import MS, SECOND
from triack.node.control import codec
from triack.node.files.keys import KeyKind, encode_key
from triack.node.shell.link_events import EventFeed
from triack.node.shell.ping_answer import PingAnswer
from triack.queues.mailboxes.mailbox import Mailbox
from triack.queues.manager.pings import Pong
from triack.queues.node_settings import Limits, NodeSettings, Quota
from triack.session.protocol.settings import SessionSettings
from triack.stats import stream_stats
from triack.stats.queue_states import QueueState
from triack.stats.stream_stats import StreamsStats, gather_streams
from triack.stats.troubles import TroubleStats, find_troubles
from triack.tools.ports import free_port
from triack.tools.replay.log.files import parse_records
from triack.tools.sim.faults import Faults
from triack.transport.noise import KeyPair

# A node counts what it has and what happened to it, under names that stay.


def assert_the_same_over_the_socket(result: codec.Result, found: Any) -> None:
    header, content = result.describe(found, int)
    assert json.loads(content) == json.loads(json.dumps(asdict(found)))
    assert result.read(header, content) == found


async def test_a_queue_has_depth_bytes_and_age() -> None:
    async with make() as node:
        empty = triack.QueueStats(0, 0, None, False, 0, 0, when_full="drop oldest", by_priority=[0] * 8)
        assert node.stats().queues == {"dead-letter": empty}
        for _ in range(3):
            await node.send("q", b"x" * 100, until="queued", timeout=WAIT)
        await asyncio.sleep(0.05)
        queue = node.stats().queues["q"]
        assert (queue.messages, queue.bytes > 300, queue.arrived, queue.left) == (3, True, 3, 0)
        assert 0.05 <= sure(queue.oldest_s) < WAIT
        async with node.receive("q", ack="manual") as reader:
            for message in [await reader.get(WAIT) for _ in range(3)]:
                message.ack()
            await node.flush()
        assert node.stats().queues["q"] == replace(empty, arrived=3, left=3, when_full=queue.when_full)


@pytest.mark.gate
async def test_what_came_and_what_left_is_counted_from_the_start_of_the_process(tmp_path: Path) -> None:
    """Messages that were there already count in the depth alone."""
    nobody = "udp://127.0.0.1:9"
    async with make("a", tmp_path) as node:
        for destination in ("q", "q", f"{nobody}/q"):
            await node.send(destination, b"x", until="queued", timeout=WAIT)
    async with make("a", tmp_path) as node:
        await node.send("q", b"y", until="queued", timeout=WAIT)
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
            await a.send(f"{b.address}/q", b"%d" % number, until="ordered", timeout=WAIT)
        stats = a.stats()
        link, (session,) = stats.links[b.address], stats.sessions
        assert (link.is_up, link.sessions, link.suspended, link.session) == (True, 1, None, session)
        assert (session.peer, session.node_id, session.window) == ("b", b.node_id, 64)
        assert 0 < sure(session.round_trip_s) < 5
        assert (b.stats().links, [session.peer for session in b.stats().sessions]) == ({}, ["a"])
        sent = triack.OutgoingStats(b.address, "q", triack.TRANSACTIONAL, 0, 0, 0, 20, via=b.address, state="connected")
        assert stats.outgoing == [sent]


async def test_what_waits_and_what_ended_is_counted() -> None:
    async with make("a") as a:
        async with make("b", scheme="udp") as b:
            await a.send(f"{b.address}/q", b"x", until="ordered", timeout=WAIT)
            address = b.address
        await until(lambda: not a.stats().links[address].is_up)
        await a.send(f"{address}/q", b"x" * 50, until="queued", timeout=WAIT)
        stats = a.stats()
        link, (outgoing,) = stats.links[address], stats.outgoing
        assert (link.state, link.session, link.sessions, stats.closes) == ("down", None, 1, {"peer-closed": 1})
        assert (outgoing.messages, outgoing.packets, outgoing.bytes >= 50) == (1, 1, True)
        await a.send("memory://nobody/q", b"x")
        await until(lambda: a.stats().drops.get("unreachable", 0) > 0)


async def test_a_link_says_what_its_messages_wait_for() -> None:
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


@pytest.mark.parametrize(
    "kind",
    [
        *(triack.NodeStats, triack.QueueStats, triack.OutgoingStats, triack.LinkStats, triack.SessionStats),
        *(triack.OutgoingStreamStats, triack.IncomingStreamStats, triack.TransitStreamStats, StreamsStats),
    ],
)
def test_every_name_is_explained(kind: Any) -> None:
    """In the docstring of its class, which the page on metrics repeats."""
    assert [it.name for it in dataclasses.fields(kind) if f" {it.name}" not in kind.__doc__] == []


@pytest.mark.parametrize("survives", ["power loss", "process crash", "nothing"])
async def test_everyone_hears_what_a_store_survives(survives: Survives, tmp_path: Path) -> None:
    settings, log = quick(survives=survives), tmp_path / "log"
    async with make("b", tmp_path / "b", "udp", settings=settings, log=log) as b, make("a", tmp_path / "a") as a:
        await a.send(f"{b.address}/q", b"x", until="stored", timeout=WAIT)
        (session,) = a.stats().sessions
        assert (b.stats().survives, session.survives) == (survives, survives)
        (session,) = b.stats().sessions
        assert (a.stats().survives, session.survives) == ("power loss", "power loss")
        stats = b.stats()
        assert_the_same_over_the_socket(codec.STATS, stats)
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


# An operator sees why a stream does not move, and when it is sent again.


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    """SQLite must let go of the simulated disks before Python does."""
    yield
    while WORLDS:
        WORLDS.pop().close()


def streams(node: SimNode, name: str | None = None) -> StreamsStats:
    return gather_streams(node.live, node.world.now_ns, name)


def out(node: SimNode) -> triack.OutgoingStreamStats:
    (stream,) = streams(node).outgoing
    return stream


def test_a_stream_that_was_acknowledged_says_how_far_and_when() -> None:
    world, a, b = two()
    a.send(b, "q", *numbered(0, 3))
    assert world.run(5 * SECOND, lambda: not a.busy)
    world.run(4 * SECOND)
    sent, (taken,) = out(a), streams(b).incoming
    assert (sent.peer, sent.queue, sent.delivery) == (b.name, "q", Delivery.TRANSACTIONAL)
    assert (sent.first, sent.last, sent.to_send, sent.sent, sent.again_s) == (None, None, 0, 0, None)
    assert (sent.acked, sent.acked_times, taken.accepted) == (sent.next_number - 1, 1, sent.next_number - 1)
    assert 4 <= sure(sent.acked_s) < 5.1
    assert (taken.acked, taken.number, taken.sequence) == (sent.acked, sent.number, sent.sequence)
    assert (taken.out_of_order, taken.rejected, taken.refused, taken.held) == (0, 0, 0, None)
    for found in (streams(a), streams(b)):
        assert_the_same_over_the_socket(codec.STREAMS, found)
    assert not sent.is_busy


def test_a_stream_without_an_order_ack_says_its_tier_and_when_it_goes_out_again() -> None:
    world = World(2, Faults(delay_ns=5 * MS))
    a, b = (world.node(name, NodeSettings(session=SessionSettings(cleanup_interval_s=10_000.0))) for name in "ab")
    b.live.inbox.order_acks.send = lambda route, now_ns: None  # type: ignore[method-assign]
    a.send(b, "q", b"x")
    world.run(10 * SECOND)
    waits = out(a)
    assert (waits.state, waits.waits_for, waits.tier, waits.attempts, waits.resends) == (
        "connected", "order-ack", "1-3", 0, 0,
    )  # fmt: skip
    assert (waits.first, waits.last, waits.to_send, waits.sent, waits.acked) == (1, 1, 0, 1, None)
    assert 19 < sure(waits.again_s) < 21
    world.run(1_000 * SECOND)
    later = out(a)
    assert (later.tier, later.attempts, later.resends) == ("7-9", 6, 6)
    del b.live.inbox.order_acks.send
    assert world.run(3_600 * SECOND, lambda: not a.busy)
    assert (out(a).acked, out(a).attempts, out(a).resends) == (1, 0, 6)


@pytest.mark.gate
def test_a_peer_that_is_away_is_called_again_at_a_time_that_is_told() -> None:
    world, a, b = two(3)
    a.send(b, "q", b"1")
    assert world.run(5 * SECOND, lambda: not a.busy)
    world.cut(a, b)
    a.send(b, "q", b"2")
    world.run(120 * SECOND)
    waits = out(a)
    assert (waits.state, waits.waits_for, waits.acked) == ("waiting", "answer", 1)
    assert sure(waits.again_s) <= 3
    assert sure(waits.stalled_s) > 100


def test_a_full_queue_holds_its_stream_and_both_ends_say_so() -> None:
    world, a, b = two(4, b=NodeSettings(limits=Limits(quota=Quota(messages=2))))
    for number in range(20):
        a.send(b, "q", b"%d" % number)
        world.run(SECOND)
    waits, (held,) = out(a), streams(b).incoming
    assert (waits.state, waits.waits_for, held.held) == ("held", "room: queue-full", "queue-full")
    assert 0 < sure(waits.again_s) <= 60
    assert held.rejected > 0
    for _ in range(30):
        b.read_all("q")
        world.run(SECOND)
    assert not a.busy
    assert (out(a).state, streams(b).incoming[0].rejected) == ("connected", 0)


def test_an_operator_s_pause_is_told_and_no_time() -> None:
    world, a, b = two(5)
    a.live.pause(f"{b.name}/", arrivals=False, now_ns=world.now_ns)
    a.send(b, "q", b"1")
    world.run(SECOND)
    assert (out(a).state, out(a).waits_for, out(a).again_s, out(a).to_send) == ("paused", "resume", None, 1)


def test_a_relay_tells_of_what_passes() -> None:
    net = line("arb")
    post(net["a"], "b", b"1")
    assert net.world.run(5 * SECOND, lambda: net.is_done("a"))
    (passes,) = streams(net["r"]).transit
    assert (passes.name, passes.came_by, passes.via, passes.first, passes.acked) == ("b/q", "a", "b", None, 1)
    assert [it.via for it in streams(net["b"]).incoming] == ["r"]
    net.world.cut(net["r"], net["b"])
    post(net["a"], "b", b"2")
    net.world.run(60 * SECOND)
    (passes,) = streams(net["r"]).transit
    assert (passes.state, passes.waits_for, passes.first, passes.last) == ("waiting", "answer", 2, 2)
    assert (out(net["a"]).waits_for, out(net["a"]).relay_has) == ("relay", 2)


def test_what_waits_is_listed_first_and_further_streams_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    world, a, b = two(7)
    for number in range(4):
        a.send(b, f"q{number}", b"x")
    assert world.run(5 * SECOND, lambda: not a.busy)
    world.cut(a, b)
    a.send(b, "q3", b"y")
    monkeypatch.setattr(stream_stats, "STREAMS_MAX", 2)
    listed = streams(a)
    assert (listed.outgoing[0].queue, len(listed.outgoing), listed.left_out) == ("q3", 2, 2)
    assert [it.queue for it in streams(a, f"{b.name}/q0").outgoing] == ["q0"]
    assert [it.queue for it in streams(b, "q1").incoming] == ["q1"]


def test_a_restart_forgets_acks_and_keeps_what_waits() -> None:
    world, a, b = two(8)
    a.send(b, "q", b"1")
    assert world.run(5 * SECOND, lambda: not a.busy)
    world.cut(a, b)
    a.send(b, "q", b"2")
    world.run(SECOND)
    a.restart()
    assert (out(a).first, out(a).next_number, out(a).acked) == (2, 3, None)
    b.restart()
    (taken,) = streams(b).incoming
    assert (taken.accepted, taken.acked, taken.via) == (1, None, None)


async def test_streams_of_an_unknown_name_are_no_empty_answer() -> None:
    async with make() as node:
        with pytest.raises(triack.QueueNotFound):
            node.streams("nowhere")
        with pytest.raises(triack.UsageError):
            node.streams(7)  # type: ignore[arg-type]
        assert node.streams("dead-letter") == StreamsStats()


async def test_each_subscription_shows_what_is_pending_for_it() -> None:
    async with make() as node, node.subscribe("Games.#", durable="audit"), node.subscribe("Games.#", name="me") as it:
        await node.publish("Games.Cricket", b"x")
        await node.flush()
        message = await it.get(10)
        found = node.stats()
        games = found.topics["Games"]
        assert (games.strategy, games.messages, games.arrived, games.waiting) == ("discard_none", 1, 1, 0)
        shown = {one.name: (one.durable, one.pending, one.in_hand, one.readers) for one in games.subscriptions}
        assert shown == {"audit": (True, 1, 0, 1), "$1": (False, 1, 1, 1)}
        assert "topic:Games" not in found.queues | node.queue_lengths()
        assert_the_same_over_the_socket(codec.STATS, found)
        assert message.topic == "Games.Cricket"


async def test_subscriptions_that_have_read_everything_cost_no_look_at_their_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []

    def look(one: Mailbox) -> int:
        looked.append(one.name)
        return 0

    monkeypatch.setattr(Mailbox, "oldest_ms", property(look))
    async with make() as node, AsyncExitStack() as readers:
        for _ in range(20):
            await readers.enter_async_context(node.subscribe("Games.Chess"))
        busy = await readers.enter_async_context(node.subscribe("Games.Cricket"))
        await node.publish("Games.Cricket", b"x")
        message = await busy.get(10)
        assert message.body == b"x"
        assert [one.pending for one in node.stats().topics["Games"].subscriptions] == [0] * 20 + [1]
    assert [name for name in looked if "/" in name] == ["topic:Games.Cricket/$21"]


# The commonest mistakes of a first day, made on purpose: each is a row with a remedy, an event and a line.

ROOT = Path(__file__).parents[2]


def node(name: str, **more: Any) -> triack.Node:
    more.setdefault("settings", quick())
    return triack.open(name, data=None, listen="udp://127.0.0.1:0", **more)


def rows(of: triack.Node, trouble: Trouble) -> list[TroubleStats]:
    return [it for it in of.stats().troubles if it.trouble == trouble]


async def event_of(events: triack.Events, kind: type[NodeEvent]) -> Any:
    async with asyncio.timeout(WAIT):
        return await anext(event async for event in events if isinstance(event, kind))


@pytest.mark.gate
async def test_trust_on_one_side_only_is_seen_at_the_other(caplog: pytest.LogCaptureFixture) -> None:
    async with node("a") as a, node("b") as b:
        events = b.events()
        await a.trust("b", b.key, b.address)
        receipt = await a.send("b/q", b"x")
        refused = await event_of(events, triack.CallRefused)
        assert (refused.host, refused.trouble) == ("127.0.0.1", "untrusted")
        [row] = rows(b, Trouble.UNTRUSTED)
        assert (row.about, a.key in row.cause, row.remedy) == ("127.0.0.1", True, refused.remedy)
        assert [record.getMessage() for record in caplog.records if a.key in record.getMessage()] == [
            f"{refused.cause}; {refused.remedy}"
        ]
        await until(lambda: rows(a, Trouble.NO_ANSWER))
        await until(lambda: rows(b, Trouble.UNTRUSTED)[0].times > 1)
        await b.trust("a", a.key)
        await receipt.ordered(WAIT)
        assert a.stats().troubles == b.stats().troubles == []


def a_key() -> str:
    return encode_key(KeyKind.PUBLIC, KeyPair.of(b"k" * 32).public)


@pytest.mark.parametrize(
    ("at_a", "at_b", "trusted", "seen_by", "trouble"),
    [
        ({"suite": "25519_ChaChaPoly_BLAKE2s"}, {}, {}, "b", Trouble.OTHER_SUITE),
        ({"insecure": True}, {}, None, "b", Trouble.ONE_WITHOUT_KEYS),
        ({}, {"insecure": True}, {"key": a_key()}, "b", Trouble.ONE_WITHOUT_KEYS),
        ({}, {}, {"key": a_key()}, "b", Trouble.WRONG_KEY),
        ({}, {}, {"psk": encode_key(KeyKind.SHARED, b"s" * 32)}, "a", Trouble.OTHER_PSK),
    ],
    ids=["another suite", "the caller has no keys", "the other has no keys", "the wrong key", "a secret on one side"],
)
async def test_settings_that_do_not_fit_are_seen(
    at_a: dict[str, Any], at_b: dict[str, Any], trusted: dict[str, str] | None, seen_by: str, trouble: Trouble
) -> None:
    """Where the call arrives, but for a secret that only one side has."""
    async with node("a", **at_a) as a, node("b", **at_b) as b:
        if trusted is not None:
            await a.trust("b", trusted.get("key") or b.key, b.address, psk=trusted.get("psk"))
        if not {"insecure"} & {*at_a, *at_b}:
            await b.trust("a", a.key)
        await a.send(f"{b.address if trusted is None else 'b'}/q", b"x")
        await until(lambda: rows(a if seen_by == "a" else b, trouble))


async def test_a_code_that_is_over_is_seen_where_it_was_made() -> None:
    async with node("a") as a, node("b") as b:
        invitation = await b.invite()
        invitation.withdraw()
        with pytest.raises(triack.EnrolmentFailed):
            await a.enrol(invitation.code, b.address, timeout=0.5)
        assert [row.about for row in rows(b, Trouble.CODE_EXPIRED)] == ["127.0.0.1"]


@pytest.mark.gate
async def test_addresses_that_lead_nowhere_have_rows_with_the_cause() -> None:
    async with node("a", insecure=True) as a:
        closed = f"tcp://127.0.0.1:{free_port()}"
        await a.send(f"{closed}/q", b"x")
        await until(lambda: rows(a, Trouble.NO_ANSWER))
        [row] = rows(a, Trouble.NO_ANSWER)
        assert (row.about, "no process listens" in row.cause, row.since_s is not None) == (closed, True, True)
    async with node("a") as a, node("b") as b:
        events = a.events()
        await a.trust("b", b.key)
        await a.trust("c", a_key(), "udp://nosuch.invalid:7801")
        for peer in ("b", "c"):
            await a.send(f"{peer}/q", b"x")
        await until(lambda: rows(a, Trouble.NO_ADDRESS) and rows(a, Trouble.UNRESOLVED))
        assert "nosuch.invalid" in rows(a, Trouble.UNRESOLVED)[0].cause
        assert (
            await event_of(events, triack.PeerUnknown)
        ).cause == "this node knows no address of b, which does not call"
        await a.revoke("b")
        await until(lambda: rows(a, Trouble.NO_KEY))


def test_a_peer_to_which_nothing_is_sent_is_named_as_the_operator_names_it() -> None:
    """Its store is an older copy; the row has no link that would have its name."""
    world, a, b = two()
    roll_back(world, a, b)
    a.send(b, "q", b"new")
    both_know(world, a, b)
    (row,) = find_troubles(b.live, world.now_ns)
    assert (row.trouble, row.about) == (Trouble.SUSPENDED, "a")


async def test_a_paused_queue_has_a_row_until_it_is_resumed() -> None:
    """Somebody else may have paused it, months ago."""
    async with node("a") as a:
        await a.send("orders", b"x")
        await a.pause("orders")
        [row] = rows(a, Trouble.QUEUE_PAUSED)
        assert (row.about, row.remedy.startswith("triack queue resume orders")) == ("orders", True)
        assert row.since_s is not None
        await a.resume("orders")
        assert not rows(a, Trouble.QUEUE_PAUSED)


def test_each_trouble_is_on_the_page_on_troubles() -> None:
    """With its sentence and its remedy, as the code has them: ``make docs`` writes the table."""
    page = (ROOT / "docs" / "troubles.md").read_text()
    told = re.findall(r"^\| `([a-z-]+)` \| (.*) \| (.*) \|$", page.partition("| trouble |")[2], re.MULTILINE)
    assert {name for name, _, _ in told} >= set(Trouble)


@pytest.mark.parametrize("trouble", Trouble)
def test_each_trouble_says_what_it_is_about(trouble: Trouble) -> None:
    said = trouble.say("HERE", "DETAIL") + trouble.advise("HERE")
    assert ("{" in said, "HERE" in said or trouble is Trouble.STORE_LOW) == (False, True)


NOBODY = "udp://127.0.0.1:9"


def outgoing(node: triack.Node) -> tuple[str, str | None]:
    (it,) = node.stats().outgoing
    return it.state, it.waits_for


async def test_an_outgoing_queue_is_connected_or_says_what_it_waits_for(tmp_path: Path) -> None:
    async with make("a", tmp_path / "a") as a:
        async with make("b", scheme="udp") as b:
            await a.send(f"{b.address}/q", b"x", until="ordered", timeout=WAIT)
            assert outgoing(a) == ("connected", None)
            address = b.address
        await until(lambda: outgoing(a) == ("inactive", None))
        await a.send(f"{address}/q", b"x", until="queued", timeout=WAIT)
        await until(lambda: outgoing(a) == ("waiting", "answer"))
        await a.pause(f"{address}/")
        assert outgoing(a) == ("paused", "resume")
        await a.resume(f"{address}/")
        await until(lambda: outgoing(a) == ("waiting", "answer"))


async def test_a_full_destination_holds_the_queue_and_its_own_is_full() -> None:
    """Both ends have rows of that, until it is read."""
    limits = triack.Limits(queue_quota={"q": triack.Quota(1)})
    async with make("b", scheme="udp", settings=quick(limits=limits)) as b, make("a") as a:
        await a.send(f"{b.address}/q", b"1", until="ordered", timeout=WAIT)
        await a.send(f"{b.address}/q", b"2")
        await until(lambda: outgoing(a) == ("held", "room: queue-full"))
        await until(lambda: rows(a, Trouble.HELD_THERE))
        assert ([row.about for row in rows(b, Trouble.QUEUE_FULL)], rows(b, Trouble.HELD_HERE)) == (["q"], [])
        states = [b.stats().queues["q"]]
        await b.pause("q")
        states.append(b.stats().queues["q"])
        assert [(it.state, it.waits_for) for it in states] == [("full", "readers"), ("paused", "resume")]
        await b.resume("q")
        async with b.receive("q") as reader:
            for _ in range(2):
                await reader.get(WAIT)
        await until(lambda: a.stats().troubles == b.stats().troubles == [])


@pytest.mark.parametrize("state", list(QueueState))
def test_every_word_is_on_the_page_for_operators(state: QueueState) -> None:
    assert re.search(rf"^\| `{state.value}` \|", (ROOT / "docs" / "waiting.md").read_text(), re.MULTILINE)


async def test_both_ends_hear_of_a_link() -> None:
    async with make("b", scheme="udp") as b:
        at_b = b.events()
        async with make("a", scheme="udp") as a:
            at_a = a.events()
            await a.send(f"{b.address}/q", b"x", until="ordered", timeout=WAIT)
            assert await anext(at_a) == LinkUp(b.address, "b", b.node_id)
            assert await anext(at_b) == LinkUp(a.address, "a", a.node_id)
        assert await asyncio.wait_for(anext(at_b), WAIT) == LinkDown(a.address, "a", a.node_id, "peer-closed")
        assert [event async for event in at_a] == [LinkDown(b.address, "b", b.node_id, "drained")]


@pytest.mark.parametrize(
    ("address", "cause"),
    [
        ("udp://localhost:1", "cannot resolve localhost: "),
        ("tcp://localhost:1", "cannot resolve localhost: "),
        ("tcp://127.0.0.1:9", "no process listens at tcp://127.0.0.1:9"),
        ("memory://nobody", "no process listens at memory://nobody"),
        ("udp://127.0.0.1:9", "no answer from udp://127.0.0.1:9"),
    ],
)
async def test_the_cause_of_silence_is_said_soon_and_once(
    address: str, cause: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the program and to the log; a name that cannot be resolved is no mere silence."""

    def fail(host: str, *more: Any, **options: Any) -> list[Any]:
        if host == "localhost":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *more, **options)

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", fail)
    async with make("a", settings=quick(close_timeout_s=0.05)) as a:
        events = a.events()
        await a.send(f"{address}/q", b"x")
        event = await asyncio.wait_for(anext(events), PATIENCE_S)
        assert isinstance(event, PeerSilent)
        assert (event.address, event.cause[: len(cause)]) == (address, cause)
        await asyncio.sleep(0.3)
    assert [event async for event in events] == []
    said, closing = [record.getMessage() for record in caplog.records]
    assert (said, "lost" in closing) == (f"{event.cause}; trying on", True)


async def test_a_reader_that_is_gone_costs_nothing() -> None:
    feed = EventFeed()
    reader = weakref.ref(feed.read())
    gc.collect()
    assert reader() is None


async def test_events_end_with_the_node() -> None:
    node = make()
    with pytest.raises(triack.NodeClosed):
        node.events()
    async with node:
        waiting = asyncio.ensure_future(anext(node.events(), None))
        await asyncio.sleep(0)
    assert await waiting is None
    assert [event async for event in node.events()] == []


def test_it_is_told_in_seconds() -> None:
    pong = Pong("udp://h:1", 2_000_000, 1_000_000, -500.0, 1_400)
    assert PingAnswer.of(pong) == PingAnswer("udp://h:1", 0.002, 0.001, -0.5, 1_400)


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_peer_answers_over_every_transport(scheme: str) -> None:
    async with make("b", scheme=scheme) as b, make("a", scheme=scheme) as a:
        first = await a.ping(b.address, timeout=WAIT)
        again = await a.ping(b.address, timeout=WAIT)
        assert (first.handshake_s is not None, again.handshake_s) == (True, None)
        assert first.round_trip_s > 0
        assert abs(first.clock_ahead_s) <= first.round_trip_s + 0.002
        assert await asyncio.gather(*(a.ping(b.address, timeout=WAIT) for _ in range(3)))


@pytest.mark.parametrize(
    ("peer", "timeout_s", "error", "why"),
    [
        ("udp://127.0.0.1:9", 0.1, triack.WaitTimeout, r"^ping udp://127.0.0.1:9: no .* within 0.1 s$"),
        ("nobody", WAIT, triack.AddressError, "unknown peer nobody"),
        (None, WAIT, triack.UsageError, None),
        ("udp://127.0.0.1:9", -1, triack.UsageError, None),
    ],
    ids=["silence", "unknown", "itself", "no time"],
)
async def test_silence_and_mistakes_are_told_apart(
    peer: str | None, timeout_s: float, error: type[Exception], why: str | None
) -> None:
    async with make("a", scheme="tcp") as a:
        with pytest.raises(error, match=why):
            await a.ping(peer or a.address, timeout=timeout_s)
