"""The public names, and what they promise."""

import ast
import asyncio
import dataclasses
import importlib
import inspect
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.node.nodes import SCHEMES, SOON, WAIT, bodies, make, quick
from triack import policies, sync
from triack.node.handles import policies as node_policies
from triack.queues.streams import outbox

FOUR_MIB = 4 * 1024 * 1024
LAST = {triack.EXPRESS: "received", triack.RECOVERABLE: "onward", triack.TRANSACTIONAL: "ordered"}


@pytest.fixture(params=SCHEMES)
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[triack.Node, triack.Node]]:
    """A sender that does not listen, and a receiver, both with data."""
    async with make("b", tmp_path / "b", request.param) as b, make("a", tmp_path / "a") as a:
        yield a, b


@pytest.fixture
async def alone() -> AsyncIterator[triack.Node]:
    """A node without data, with a peer by name that is not there."""
    peers = {"plant-b": "udp://127.0.0.1:9"}
    async with make(peers=peers, settings=quick(close_timeout_s=0.05)) as node:
        yield node


def test_everything_public_is_there_and_documented() -> None:
    """``__all__`` is true, every class has a docstring, every error is a TriackError."""
    for name in triack.__all__:
        member = getattr(triack, name)
        if inspect.isclass(member):
            assert member.__doc__, name
            if issubclass(member, BaseException):
                assert issubclass(member, triack.TriackError)
    assert issubclass(triack.UsageError, ValueError)
    assert issubclass(triack.WaitTimeout, TimeoutError)
    assert set(dir(triack)) >= set(triack.__all__)


SETTINGS = {
    triack.AckTrigger: {"threshold"},
    triack.Blocking: {"stage_of"},
    triack.KeySettings: set(),
    triack.Limits: {"quota_of"},
    triack.NodeSettings: {"quota_of", "redelivery_of", "topic_of"},
    triack.OrderSettings: set(),
    triack.Quota: set(),
    triack.Reconnect: set(),
    triack.Redelivery: set(),
    triack.Topic: set(),
    triack.SessionSettings: {"largest_window", "longest_silence_s", "store_trigger"},
}


def test_durations_are_seconds_and_settings_show_nothing_else() -> None:
    """No name of a public class is about nanoseconds; settings have their fields, and what is said of them here."""
    for name in triack.__all__:
        shown = {member for member in dir(getattr(triack, name)) if not member.startswith("_")}
        assert not [member for member in shown if member.endswith(("_ns", "_us", "_ms"))], name
    for settings, answers in SETTINGS.items():
        shown = {member for member in dir(settings) if not member.startswith("_")}
        assert shown == {field.name for field in dataclasses.fields(settings)} | answers, settings


def test_type_checkers_and_programs_see_the_same() -> None:
    """Names that are loaded when they are first used are those that the imports for type checkers list."""
    (block,) = (
        node
        for node in ast.parse(inspect.getsource(triack)).body
        if isinstance(node, ast.If) and not node.orelse and isinstance(node.test, ast.Name)
    )
    imports = [statement for statement in block.body if isinstance(statement, ast.ImportFrom)]
    assert len(imports) > 20
    for statement in imports:
        home = importlib.import_module(str(statement.module))
        names = [name.name for name in statement.names]
        for name in names:
            assert name == "*" or getattr(triack, name) is getattr(home, name)


def test_a_name_that_is_not_there_is_an_attribute_error_with_the_nearest() -> None:
    """As it is for a module whose names are all there from the start."""
    with pytest.raises(AttributeError, match="module 'triack' has no attribute 'Nodes'") as caught:
        triack.Nodes  # type: ignore[attr-defined]  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("Nodes", triack)


@pytest.mark.parametrize("delivery", list(triack.Delivery))
async def test_send_and_receive(pair: tuple[triack.Node, triack.Node], delivery: triack.Delivery) -> None:
    """A thousand messages, all stages of the last; in order if the class says so."""
    a, b = pair
    destination = f"{b.address}/orders"
    receipts = [await a.send(destination, b"%d" % number, delivery=delivery) for number in range(1_000)]
    got = await bodies(b, "orders", 1_000)
    wanted = [b"%d" % number for number in range(1_000)]
    assert (got if delivery is triack.TRANSACTIONAL else sorted(got)) == (
        wanted if delivery is triack.TRANSACTIONAL else sorted(wanted)
    )
    receipt = receipts[-1]
    for stage in triack.Stage:
        if stage <= triack.Stage[LAST[delivery].upper()]:
            await receipt.reached(stage, WAIT)
            await getattr(receipt, stage.name.lower())(WAIT)
        else:
            with pytest.raises(triack.UsageError, match=f"{delivery.label} messages have no such stage"):
                await receipt.reached(stage, WAIT)


async def test_a_message_keeps_what_the_sender_set(pair: tuple[triack.Node, triack.Node]) -> None:
    """Body, properties and a permanently unique id; absent ones are None."""
    a, b = pair
    label = "Grüße \U0001f600 \x00 \ud800"
    await a.send(f"{b.address}/q", b"1", correlation_id="c-1", reply_to="plant-a/replies", label=label)
    await a.send(f"{b.address}/q", bytearray(b"2"))  # type: ignore[arg-type]
    await a.send(f"{b.address}/q", memoryview(b"3"))  # type: ignore[arg-type]
    consumer = b.receive("q", ack="manual")
    first, second, third = [await consumer.get(WAIT) for _ in range(3)]
    assert (first.correlation_id, first.reply_to, first.label) == ("c-1", "plant-a/replies", label)
    assert (second.correlation_id, second.reply_to, second.label) == (None, None, None)
    assert [type(message.body) for message in (first, second, third)] == [bytes] * 3
    assert (second.body, third.body, first.queue, first.failures, first.redelivered) == (b"2", b"3", "q", 0, False)
    assert len({message.id for message in (first, second, third)}) == 3
    assert first.id.startswith(f"{a.node_id}-")
    assert abs(first.sent_at - time.time()) < 60
    assert "body" not in repr(first) or len(repr(first)) < 1_000


@pytest.mark.slow
@pytest.mark.parametrize("delivery", list(triack.Delivery))
async def test_the_largest_message(pair: tuple[triack.Node, triack.Node], delivery: triack.Delivery) -> None:
    """4 MiB arrive; one byte more is refused with both sizes, by ``send`` and ``send_nowait``; an empty one is fine."""
    a, b = pair
    body = bytes(range(256)) * (FOUR_MIB // 256)
    await a.send(f"{b.address}/q", body, delivery=delivery, label="\U0001f600" * 500)
    await a.send(f"{b.address}/q", b"", delivery=delivery)
    got = await bodies(b, "q", 2)
    assert sorted(got) == [b"", body]
    with pytest.raises(triack.MessageTooLarge, match=r"4194305.*4194304"):
        await a.send(f"{b.address}/q", body + b"x", delivery=delivery)
    with pytest.raises(triack.MessageTooLarge):
        a.send_nowait(f"{b.address}/q", body + b"x", delivery=delivery)


@pytest.mark.parametrize(
    "destination", ["", "a b", "udp://127.0.0.1:1", "http://x/q", "udp://127.0.0.1:1/", "x/y/z", "/q"]
)
async def test_a_destination_that_cannot_be_read(alone: triack.Node, destination: str) -> None:
    with pytest.raises(triack.AddressError):
        await alone.send(destination, b"x")


@pytest.mark.parametrize(
    "properties",
    [
        *({"colour": "red"}, {"label": 5}, {"priority": 5}, {"headers": "a=b"}, {"headers": {"a": 5}}),
        *({"time_to_reach_queue": time} for time in (0, -1, "5", True, float("nan"), float("inf"))),
        *({"time_to_be_received": 1e300}, {"receive_by_ms": 5}),
    ],
)
async def test_a_property_that_is_none_is_named(alone: triack.Node, properties: dict[str, Any]) -> None:
    with pytest.raises(triack.UsageError, match=next(iter(properties))):
        await alone.send("q", b"x", **properties)
    await (await alone.send("q", b"x")).queued(WAIT)


@pytest.mark.parametrize("label", ["x" * 20_000, "é" * 5_000, "\U0001f600" * 2_048])
async def test_properties_over_the_limit_are_refused(alone: triack.Node, label: str) -> None:
    """The limit is in bytes."""
    with pytest.raises(triack.MessageTooLarge, match="properties"):
        await alone.send("q", b"x", label=label)


async def test_fixed_queues_are_all_there_is() -> None:
    """Here and from afar, also by our own address; the error says which there are."""
    async with make(scheme="udp", queues=["orders"]) as node:
        for call in (lambda: node.receive("order"), lambda: node.send_nowait("order", b"x")):
            with pytest.raises(triack.QueueNotFound, match="orders"):
                call()
        with pytest.raises(triack.QueueNotFound):
            await node.send(f"{node.address}/order", b"x")
        await (await node.send(f"{node.address}/orders", b"x")).ordered(WAIT)
        assert node.queue_lengths() == {"dead-letter": 0, "orders": 1}


async def test_a_node_that_dials_itself_by_another_name_gets_an_error() -> None:
    async with make(scheme="udp") as node:
        receipt = await node.send(f"{node.address.replace('127.0.0.1', 'localhost')}/q", b"x")
        with pytest.raises(triack.DeliveryFailed, match="own-address"):
            await receipt.ordered(WAIT)
        assert await bodies(node, "dead-letter", 1) == [b"x"]


def flood(node: triack.Node, destination: str, delivery: triack.Delivery) -> int:
    """Send without ever waiting until there is no room; returns how many were accepted."""
    for accepted in range(1_000):
        try:
            node.send_nowait(destination, b"x" * 1_000, delivery=delivery)
        except triack.WouldBlock as error:
            if "full" in str(error):
                return accepted
            raise
    return 1_000


async def test_a_full_outgoing_queue_waits_or_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """``send`` waits until there is room again, ``send_nowait`` raises WouldBlock and accepts nothing."""
    monkeypatch.setattr(outbox, "EXPRESS_LIMIT_BYTES", 10_000)
    settings = quick()
    async with make("b", scheme="memory") as late:
        address = late.address
    async with make("a", settings=settings) as a:
        accepted = flood(a, f"{address}/q", triack.EXPRESS)
        assert 5 <= accepted <= 12
        sending = asyncio.create_task(a.send(f"{address}/q", b"last", delivery=triack.EXPRESS))
        await asyncio.sleep(SOON)
        assert not sending.done()
        async with make("b", scheme="memory") as b:
            await asyncio.wait_for(sending, WAIT)
            assert len(await bodies(b, "q", accepted + 1)) == accepted + 1


def test_everything_public_of_sync_is_there_and_documented() -> None:
    """The module is there with ``import triack`` alone; what its calls give can be named in annotations."""
    assert triack.sync is sync
    assert set(sync.__all__) == {"connect", "open"} | {name for name in dir(sync) if name.startswith("Sync")}
    for name in sync.__all__:
        assert inspect.getdoc(getattr(sync, name)), name


def test_it_gives_all_that_there_is() -> None:
    assert triack.policies is policies
    assert policies.__all__ == node_policies.__all__
    for name in policies.__all__:
        assert getattr(policies, name) is getattr(node_policies, name)
