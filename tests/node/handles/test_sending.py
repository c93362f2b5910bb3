"""What senders hold: policies, routes, many at a time, bodies as streams."""

import asyncio
import io
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import triack
from tests.mission.ends import acks
from tests.node.nodes import SOON, WAIT, bodies, make, quick, until
from triack.base.errors import UsageError
from triack.node.handles.policies import (
    AMPS,
    DEFAULT,
    HORNETQ,
    MSMQ,
    PRESETS,
    SOLACE,
    SOURCES,
    amps,
    hornetq,
    msmq,
    paths,
    solace,
    values,
)
from triack.node.handles.streaming import PIECE_BYTES, Source, Upload, open_source, stored_parts
from triack.node.node import port_of
from triack.node.shell.accepting import TURN_MESSAGES
from triack.queues.node_settings import NodeSettings
from triack.queues.streams.outgoing_stream import ORDINALS_BLOCK

# Presets of other systems: the numbers of their documents, under a fake clock and between nodes that differ.


@pytest.mark.parametrize(
    ("initiator", "acceptor", "packets", "expected"),
    [
        (SOLACE, MSMQ, 16, [(0.0, "count", 16)]),
        (MSMQ, SOLACE, 25, [(0.0, "count", 25)]),
        (MSMQ, SOLACE, 24, [(0.5, "delay", 24)]),
        (AMPS, SOLACE, 49, [(1.0, "delay", 49)]),
        (AMPS, SOLACE, 50, [(0.0, "request", 50)]),
        (HORNETQ, SOLACE, 30, [(1.0, "delay", 30)]),
        (HORNETQ, MSMQ, 30, [(2.0, "delay", 30)]),
    ],
)
def test_who_begins_says_how_and_the_other_bounds_it(
    initiator: NodeSettings, acceptor: NodeSettings, packets: int, expected: list[tuple[float, str, int]]
) -> None:
    """The smaller window counts, and a sender that fills it asks; HornetQ's two seconds halve with a timeout of two."""
    assert acks(initiator, packets, peer=acceptor) == expected


@pytest.mark.parametrize(
    ("make_policy", "name", "least", "most"),
    [
        (solace, "window", 1, 255),
        (solace, "publish_ack_timer_s", 0.02, 60),
        (msmq, "max_unacked_packet", 1, 65_535),
        (msmq, "idle_ack_delay_s", 0, 60),
        (msmq, "ack_timeout_s", 20, 120),
        (msmq, "seq_max_ack_delay_s", 0, 86_400),
        (msmq, "try_connect_interval_s", 0.001, 3_600),
        (hornetq, "confirmation_window_bytes", 1, 2**31 - 1),
        (hornetq, "client_failure_check_period_s", 4, 120),
        (hornetq, "retry_interval_s", 0.001, 3_600),
        (amps, "ack_conflation_s", 0.001, 50),
    ],
)
def test_each_number_has_its_range(make_policy, name: str, least: float, most: float) -> None:  # type: ignore[no-untyped-def]
    for fine in (least, most):
        assert isinstance(make_policy(**{name: fine}), NodeSettings)
    for wrong in (least - 1, most + 1, "5", True, *([] if name == "ack_timeout_s" else [None])):
        with pytest.raises(UsageError, match=f"{make_policy.__name__}: {name} must be between"):
            make_policy(**{name: wrong})


@pytest.mark.parametrize("name", PRESETS)
def test_every_value_that_is_not_the_default_has_a_source(name: str) -> None:
    """And no other has: nobody is quoted for what is ours."""
    own = dict(paths(PRESETS[name]))
    session = replace(DEFAULT.session, store_ack_trigger=triack.AckTrigger())
    default = dict(paths(replace(DEFAULT, session=session, ack_events=triack.AckTrigger()))) | dict(paths(DEFAULT))
    parts = {path for path in own if any(other.startswith(f"{path}.") for other in own)}
    differ = {path for path, value in own.items() if path not in parts and value != default.get(path)}
    sources = set(SOURCES[name])
    assert differ <= sources <= set(own)
    assert [value.setting for value in values(name)] == [
        path for path in own if path in {it.setting for it in values(name)}
    ]


def test_there_are_no_others() -> None:
    with pytest.raises(UsageError, match="no policy kafka; there are DEFAULT, MSMQ, SOLACE, HORNETQ, AMPS"):
        values("kafka")
    assert {field.name for field in fields(NodeSettings)} >= {path.split(".")[0] for path, _ in paths(SOLACE)}


# The verbs of a node about its routes, between real nodes: a sensor, a gateway and a cloud.

UDP = "udp://127.0.0.1:0"


class Line(NamedTuple):
    """Three nodes; the sensor listens nowhere."""

    sensor: triack.Node
    gateway: triack.Node
    cloud: triack.Node


@asynccontextmanager
async def line(tmp_path: Path) -> AsyncIterator[Line]:
    """Three nodes that trust their neighbours; the sensor has a default route."""
    routes = [triack.Route("*", via="gateway")]
    async with (
        triack.open("sensor", data=tmp_path / "sensor", routes=routes, settings=quick()) as sensor,
        triack.open("gateway", data=tmp_path / "gateway", listen=UDP, settings=quick()) as gateway,
        triack.open("cloud", data=tmp_path / "cloud", listen=UDP, settings=quick()) as cloud,
    ):
        await sensor.trust("gateway", gateway.key, gateway.address, relays_for=["cloud"])
        await gateway.trust("sensor", sensor.key, may_relay=["cloud"])
        await gateway.trust("cloud", cloud.key, cloud.address, may_relay=["sensor"])
        await cloud.trust("gateway", gateway.key, gateway.address, relays_for=["sensor"])
        yield Line(sensor, gateway, cloud)


@pytest.mark.gate
async def test_a_message_passes_a_relay_with_all_that_it_says(tmp_path: Path) -> None:
    """Its sender, its id, its headers and its time are those of the origin; ``ordered`` means that the cloud has it."""
    async with line(tmp_path) as (sensor, _, cloud), cloud.receive("readings") as readings:
        receipt = await sensor.send("cloud/readings", b"21.5", headers={"unit": "C"}, time_to_be_received=3_600)
        await receipt.ordered(timeout=WAIT)
        message = await readings.get(WAIT)
        assert (message.body, message.id, message.headers) == (b"21.5", receipt.id, {"unit": "C"})
        assert message.sender == "sensor@gateway"
        assert message.receive_by is not None


async def test_routes_change_while_a_node_runs(tmp_path: Path) -> None:
    """Also by another process. What a name means is explained by the rules that apply, the first of which counts."""
    async with line(tmp_path) as (sensor, _, cloud), triack.connect(tmp_path / "sensor") as client:
        assert await client.routes() == sensor.routes() == [triack.Route("*", via="gateway")]
        await sensor.set_routes([])
        with pytest.raises(triack.AddressError, match="unknown peer far"):
            await sensor.send("far/q", b"1")
        assert await sensor.explain_route("far") == []
        named = triack.Route("far", via="gateway", rename="cloud")
        await client.set_routes([named, triack.Route("f*", via="gateway")])
        assert await client.explain_route("far") == [
            "the route for far leads by gateway, which calls it cloud",
            "the route for f* leads by gateway",
        ]
        await sensor.send("far/q", b"1")
        async with cloud.receive("q") as messages:
            assert (await messages.get(WAIT)).body == b"1"
        both = triack.Route("d*", via=["gateway", "cloud"])
        await client.set_routes([named, both])
        assert await client.routes() == sensor.routes() == [named, both]
        assert await client.explain_route("d") == ["the route for d* leads by gateway: gateway comes first"]
        assert (await client.stats()).ways == sensor.stats().ways
        assert sensor.stats().ways == [triack.WayStats("d*", ("gateway", "cloud"), "gateway", "gateway comes first")]
        assert await client.purge_transit("cloud") == 0
        assert (await client.stats()).transit == []


async def test_what_is_no_route_is_refused_at_once(tmp_path: Path) -> None:
    """Names are checked where they are written."""
    for wrong in ({"to": ""}, {"to": "a/b"}, {"to": "a@b"}, {"to": "*", "rename": "c"}, {"to": 5}):
        with pytest.raises(triack.UsageError, match="Route"):
            triack.Route(**{"via": "hub"} | wrong)
    with pytest.raises(triack.AddressError):
        triack.Route("a", via="no name")
    with pytest.raises(triack.UsageError, match="routes must be a list"):
        triack.open("a", data=None, routes="*")  # type: ignore[arg-type]
    async with triack.open("a", data=tmp_path, settings=quick()) as node:
        with pytest.raises(triack.UsageError, match="a route"):
            await node.set_routes(["*"])  # type: ignore[list-item]


@pytest.mark.gate
async def test_a_message_is_sealed_for_its_destination(tmp_path: Path) -> None:
    """Once the ends know each other's keys; its reader sees that, in another process as well."""
    async with line(tmp_path) as (sensor, _, cloud):
        with pytest.raises(triack.UsageError, match="cannot seal messages for it: it has no key of cloud"):
            await sensor.send("cloud/readings", b"21.5", seal=True)
        with pytest.raises(triack.UsageError, match="seal"):
            await sensor.send("cloud/readings", b"21.5", seal="yes")  # type: ignore[arg-type]
        await sensor.set_routes([triack.Route("cloud", via="gateway")])
        await sensor.trust("cloud", cloud.key)
        await cloud.trust("sensor", sensor.key)
        await (await sensor.send("cloud/readings", b"21.5", seal=True)).ordered(timeout=WAIT)
        await (await sensor.send("cloud/readings", b"22.5")).ordered(timeout=WAIT)
        async with cloud.receive("readings") as readings:
            message = await readings.get(WAIT)
            assert (message.body, message.sealed, message.sender) == (b"21.5", True, "sensor@gateway")
            assert not (await readings.get(WAIT)).sealed
        await sensor.trust("cloud", seal=True)
        await (await sensor.send("cloud/readings", b"23.5")).ordered(timeout=WAIT)
        async with triack.connect(tmp_path / "cloud") as client, client.receive("readings") as readings:
            assert (await readings.get(WAIT)).sealed


@pytest.mark.slow
async def test_a_large_body_leaves_sealed_where_all_is_sealed_for_its_destination(tmp_path: Path) -> None:
    """Its parts have a stream of their own: what one message wants is refused, and never sent in the clear."""
    body = bytes(range(250)) * 20_000
    async with line(tmp_path) as (sensor, _gateway, cloud):
        await sensor.set_routes([triack.Route("cloud", via="gateway")])
        await sensor.trust("cloud", cloud.key)
        await cloud.trust("sensor", sensor.key)
        with pytest.raises(triack.UsageError, match="parts are sealed only where the peer or the route says so"):
            await sensor.send_stream("cloud/readings", body, seal=True)
        await sensor.trust("cloud", seal=True)
        await cloud.trust("gateway", sealed_only=True)
        await (await sensor.send_stream("cloud/readings", body, seal=True)).ordered(timeout=WAIT)
        async with cloud.receive("readings") as readings:
            message = await readings.get(WAIT)
            assert (message.size, message.sealed) == (len(body), True)
            assert b"".join([chunk async for chunk in message.stream()]) == body


@pytest.mark.parametrize("delivery", list(triack.Delivery))
async def test_a_list_arrives_whole_and_in_order(delivery: triack.Delivery) -> None:
    """Over many packets, and over the end of a block of ids; each message has the id that its receipt says."""
    many = [b"%d" % number for number in range(ORDINALS_BLOCK + 500)]
    async with make("a") as a, make("b", scheme="udp") as b:
        receipts = await a.send_many(f"{b.address}/q", iter(many), delivery=delivery)
        await receipts.received(WAIT)
        async with b.receive("q") as reader:
            got = [await reader.get(WAIT) for _ in many]
    assert [message.body for message in got] == many
    assert [message.id for message in got] == [receipt.id for receipt in receipts]
    assert len({message.id for message in got}) == len(receipts) == len(many)


async def test_of_a_list_with_a_mistake_nothing_is_accepted() -> None:
    """It is checked before its first message is accepted."""
    async with make() as node:
        with pytest.raises(triack.MessageTooLarge):
            await node.send_many("q", [b"fine", b"x" * (4 * 1024 * 1024 + 1)])
        with pytest.raises(triack.UsageError, match="a body is bytes, not str"):
            await node.send_many("q", [b"fine", "not"])  # type: ignore[list-item]
        with pytest.raises(triack.UsageError, match="a key names one message"):
            await node.send_many("q", [b"fine"], key="k")
        with pytest.raises(triack.UsageError, match="no message property"):
            await node.send_many("q", [b"fine"], colour="red")  # type: ignore[call-arg]
        await node.flush()
        assert node.queue_lengths().get("q", 0) == 0
        receipts = await node.send_many("q", [])
        await receipts.ordered(0)
        assert len(receipts) == 0


async def test_a_list_waits_for_room_as_single_messages_do() -> None:
    """At the quota of a queue it stops, no more than a turn beyond it, and goes on when there is room."""
    limits = triack.Limits(queue_quota={"q": triack.Quota(messages=100)})
    many = [b"%d" % number for number in range(40 * TURN_MESSAGES)]
    async with make(settings=quick(limits=limits)) as node:
        sending = asyncio.create_task(node.send_many("q", many))
        await until(lambda: node.queue_lengths().get("q", 0) >= 100)
        await asyncio.sleep(SOON)
        assert not sending.done()
        assert 100 <= node.queue_lengths()["q"] <= 100 + TURN_MESSAGES
        async with node.receive("q") as reader:
            got: list[bytes] = []
            while len(got) < len(many):
                got += [message.body for message in await reader.get_many(timeout=WAIT)]
                assert node.queue_lengths()["q"] <= 100 + TURN_MESSAGES
        assert got == many
        await (await sending).ordered(WAIT)


async def test_who_is_cancelled_leaves_a_beginning_of_the_list() -> None:
    limits = triack.Limits(queue_quota={"q": triack.Quota(messages=100)})
    many = [b"%d" % number for number in range(10_000)]
    async with make(settings=quick(limits=limits)) as node:
        sending = asyncio.create_task(node.send_many("q", many))
        await until(lambda: node.queue_lengths().get("q", 0) >= 100)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await node.flush()
        there = node.queue_lengths()["q"]
        assert 0 < there < len(many)
        assert await bodies(node, "q", there) == many[:there]


async def test_a_list_stops_at_the_limit_of_what_is_pending() -> None:
    """With the message that goes beyond, as single messages do; the rest follows when that is on the disk."""
    async with make(settings=quick(pending_limit_bytes=10_000)) as node:
        sending = asyncio.create_task(node.send_many("q", [b"x" * 1_000] * 25))
        await asyncio.sleep(0)
        assert port_of(node).outgoing_stream("q", triack.TRANSACTIONAL).submitted == 10
        assert len(await sending) == 25
        assert len(await bodies(node, "q", 25)) == 25


async def test_a_queue_that_refuses_ends_a_list_and_says_how_far_it_came() -> None:
    limits = triack.Limits(queue_quota={"q": triack.Quota(messages=10, when_full="reject")})
    async with make(settings=quick(limits=limits)) as node:
        with pytest.raises(triack.QueueFull) as refused:
            await node.send_many("q", [b"x"] * 10_000)
        await node.flush()
        there = node.queue_lengths()["q"]
        assert TURN_MESSAGES - 1 <= there < 10_000
        assert refused.value.__notes__ == [f"{there} of 10,000 messages were accepted before"]


async def test_each_message_of_a_list_may_have_a_key(tmp_path: Path) -> None:
    """A list that is sent again after a crash adds what is new, and has the receipts of the rest."""
    async with make("a", tmp_path / "a") as node:
        first = await node.send_many("q", [b"1", b"2"], keys=["one", "two"])
        again = await node.send_many("q", [b"2", b"3", b"3"], keys=iter(["two", "three", "three"]), until="ordered")
        assert [receipt.id for receipt in again] == [first[1].id, again[1].id, again[1].id]
        async with node.transaction() as tx:
            await tx.send_many("q", [b"3", b"4"], keys=["three", "four"])
    async with make("a", tmp_path / "a") as node, triack.connect(tmp_path / "a") as client:
        assert await bodies(node, "q", 4) == [b"1", b"2", b"3", b"4"]
        known = await client.send_many("q", [b"1", b"5"], keys=["one", "five"], until="ordered")
        assert (known[0].id, node.queue_lengths()["q"]) == (first[0].id, 1)
        async with client.transaction() as remote:
            await remote.send_many("q", [b"5", b"6"], keys=["five", "six"])
        assert await bodies(node, "q", 2) == [b"5", b"6"]


async def test_keys_that_do_not_fit_their_list_are_refused() -> None:
    settings = quick(keys=triack.KeySettings(most=2))
    async with make(settings=settings) as node:
        for keys, why in ((["a"], "1 keys for 2 messages"), ("ab", "must be a list of texts"), (["a", ""], "a key is")):
            with pytest.raises(triack.UsageError, match=why):
                await node.send_many("q", [b"1", b"2"], keys=keys)
        with pytest.raises(triack.UsageError, match="say keys="):
            await node.send_many("q", [b"1", b"2"], key="a")
        with pytest.raises(triack.UsageError, match="express messages are on no disk"):
            await node.send_many("q", [b"1"], keys=["a"], delivery=triack.EXPRESS)
        with pytest.raises(triack.TooManyKeys, match="keeps as many keys as it may"):
            await node.send_many("q", [b"1", b"2", b"3"], keys=["a", "b", "c"])
        assert node.queue_lengths()["q"] == 0
        await node.send_many("q", [b"1", b"2"], keys=["a", "b"])
        await node.send_many("q", [b"1", b"2"], keys=["a", "b"])


@pytest.mark.parametrize("how", ["node", "client"])
async def test_one_message_goes_to_several_destinations_or_to_none(tmp_path: Path, how: str) -> None:
    """A receipt for each, in the order of the destinations, from the node or from another process."""
    sending = make("a", tmp_path / "a", queues=["here"])
    async with make("b", scheme="udp") as b, sending as a, triack.connect(tmp_path / "a") as client:
        sender = a if how == "node" else client
        receipts = await sender.send_to(["here", f"{b.address}/q"], b"x", label="to both", until="stored")
        assert len(receipts) == 2
        for node, queue in ((a, "here"), (b, "q")):
            async with node.receive(queue) as reader:
                message = await reader.get(WAIT)
                assert (message.body, message.label) == (b"x", "to both")
                message.ack()
        with pytest.raises(triack.QueueNotFound):
            await sender.send_to(["here", "nowhere"], b"y")
        with pytest.raises(triack.UsageError, match="there is none in the list"):
            await sender.send_to([], b"y")
        with pytest.raises(triack.UsageError, match="express messages cannot be part"):
            await sender.send_to(["here"], b"y", delivery=triack.EXPRESS)
        with pytest.raises(triack.UsageError, match="send_to sends to several"):
            await sender.send(["here"], b"y")  # type: ignore[arg-type]
        await a.flush()
        assert a.queue_lengths()["here"] == 0


# Sources of large bodies, and what of them is refused; ``tests/api/stories/test_large_bodies.py`` has the stories.

BODY = os.urandom(2 * PIECE_BYTES + 5)
SMALL = triack.LargeBodies(from_bytes=1_000, part_bytes=100_000, ahead_bytes=300_000, most_bytes=10_000_000)


async def opened(source: Any, content_length: int | None = None) -> tuple[Source, bytes]:
    async with await open_source("q", source, content_length) as found:
        return found, await found.read_all("q")


async def pieces() -> AsyncIterator[bytes]:
    yield BODY[:7]
    yield b""
    yield BODY[7:]


class Pipe(io.RawIOBase):
    """A file that cannot say how much is left."""

    def __init__(self) -> None:
        self._left = io.BytesIO(BODY)

    def read(self, size: int = -1) -> bytes:
        return self._left.read(size)

    def seekable(self) -> bool:
        return False


async def test_each_kind_of_source_gives_its_bytes(tmp_path: Path) -> None:
    """With its size before the first of them; a file begins where it is."""
    path = tmp_path / "body"
    path.write_bytes(BODY)
    file = io.BytesIO(b"before" + BODY)
    file.seek(6)
    for source in (BODY, bytearray(BODY), memoryview(BODY), path, str(path), file, Pipe(), pieces(), iter([BODY])):
        found, body = await opened(source)
        assert (found.size, body) == (len(BODY), BODY), source
    for source in (pieces(), iter([BODY]), Pipe()):
        assert (await opened(source, len(BODY)))[1] == BODY
    assert not file.closed


async def test_what_is_no_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(triack.UsageError, match="gives no pieces"):
        await opened(7)
    with pytest.raises(triack.UsageError, match="gives bytes, not str"):
        await opened(["text"])
    with pytest.raises(triack.UsageError, match="gave str"):
        await opened(io.StringIO("text"))
    with pytest.raises(triack.UsageError, match="has 3 bytes, and content_length is 4"):
        await opened(b"123", 4)
    with pytest.raises(triack.UsageError, match="must not be negative"):
        await opened(b"123", -1)
    with pytest.raises(OSError, match="missing"):
        await opened(tmp_path / "missing")


async def test_a_short_body_is_a_message_like_any_other() -> None:
    async with make(settings=quick(large=SMALL)) as node:
        await node.send_stream("q", b"x" * 1_000)
        async with node.receive("q") as reader:
            message = await reader.get()
        assert (message.body, message.size, message.is_large) == (b"x" * 1_000, 1_000, False)
        assert [chunk async for chunk in message.stream()] == [message.body]


async def test_limits_of_the_sender_and_of_its_own_queue() -> None:
    limits = triack.Limits(queue_quota={"q": triack.Quota(size_bytes=50_000)})
    async with make(settings=quick(large=SMALL, limits=limits)) as node:
        with pytest.raises(triack.MessageTooLarge, match=r"large\.most_bytes"):
            await node.send_stream("q", iter([]), content_length=10_000_001)
        with pytest.raises(triack.MessageTooLarge, match="larger than all"):
            await node.send_stream("q", BODY)


async def test_a_file_that_is_saved_is_whole_or_not_there(tmp_path: Path) -> None:
    async with make(settings=quick(large=SMALL)) as node:
        await node.send_stream("q", BODY)
        async with node.receive("q", ack="manual") as reader:
            message = await reader.get()
            assert await message.save(tmp_path / "body") == len(BODY)
            assert (tmp_path / "body").read_bytes() == BODY
            message.ack()
            await node.flush()
            with pytest.raises(triack.BodyLost):
                await message.save(tmp_path / "late")
        assert os.listdir(tmp_path) == ["body"]  # noqa: PTH208


async def test_an_upload_that_is_given_up_twice_ends_once() -> None:
    async with make(settings=quick(large=SMALL)) as node:
        upload = Upload.to(port_of(node), "q", len(BODY), triack.TRANSACTIONAL, {})
        await upload.begin()
        await upload.add(BODY[:200_000])
        upload.give_up()
        upload.give_up()
        assert upload.has_ended
        await node.flush()
        assert not port_of(node).engine.queues.bodies.by_id
        with pytest.raises(triack.BodyLost):
            await anext(stored_parts(port_of(node), bytes(16), 7))


async def test_a_source_that_says_nothing_holds_up_nothing_else(tmp_path: Path) -> None:
    """A path of a pipe is refused. An open pipe is read in a thread of its own: the store takes other messages."""
    os.mkfifo(tmp_path / "pipe")
    out, into = os.pipe()
    async with make("a", data=None) as node:
        with pytest.raises(triack.UsageError, match="pipe is no regular file"):
            await node.send_stream("q", tmp_path / "pipe")
        with os.fdopen(out, "rb") as reading, os.fdopen(into, "wb") as writing:
            sending = asyncio.create_task(node.send_stream("q", reading))
            await asyncio.sleep(0)
            await node.send("q", b"small")
            assert await bodies(node, "q", 1) == [b"small"]
            writing.write(b"large")
            writing.close()
            await sending
        assert await bodies(node, "q", 1) == [b"large"]
