"""Lines enter a node once and whole, however often they are offered, and progress is reported in order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

import triack
from tests.machine import PATIENCE_S
from triack.base.errors import ProtocolError
from triack.node.control.intake import Chunk, Failure, Intake, Producer, add_failure
from triack.node.shell.outgoing_message import MessageProperties
from triack.queues.packing import MAX_BODY_BYTES

Told = list[tuple[int, list[Failure]]]
NOWHERE = "udp://127.0.0.1:9/q"


def chunk(first: int, *lines: bytes) -> Chunk:
    """Lines, from a number on."""
    return Chunk(first, list(lines), sum(map(len, lines)))


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[triack.Node]:
    """A node that sends to itself."""
    async with triack.open("a", data=tmp_path / "a", insecure=True) as node:
        yield node


def intake_of(
    node: triack.Node,
    on_finished: Callable[[int, list[Failure]], None] = lambda _last, _failures: None,
    *,
    destination: str = "q",
    delivery: triack.Delivery = triack.TRANSACTIONAL,
    producer: str = "p",
) -> Intake:
    """An intake whose lines count when they are in their queue."""
    until = triack.Stage.RECEIVED if delivery is triack.EXPRESS else triack.Stage.ORDERED
    return Intake(node, destination, delivery, until, properties={}, producer=producer, on_finished=on_finished)


async def length(node: triack.Node, count: int) -> int:
    """How many messages are in the queue, once there are enough."""
    async with asyncio.timeout(PATIENCE_S):
        while node.queue_lengths().get("q", 0) < count:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.005)
    return node.queue_lengths()["q"]


async def test_lines_that_are_offered_again_enter_once(node: triack.Node) -> None:
    """By the same connection or by another one of the same producer; another producer counts for itself."""
    one, two = intake_of(node), intake_of(node)
    await one.accept(chunk(1, b"1", b"2"))
    assert await two.recover(0) == 2
    for intake in (one, two):
        await intake.accept(chunk(1, b"1", b"2"))
    await two.accept(chunk(3, b"3"))
    assert await intake_of(node).recover(0) == 3
    assert await intake_of(node, producer="other").recover(0) == 0
    assert await length(node, 3) == 3


async def test_each_line_has_a_key_of_its_own(node: triack.Node) -> None:
    """The input was given one; another run of the same command enters nothing that is in already."""
    for producer, lines in (("one", [b"1"]), ("two", [b"1", b"2"])):
        properties = MessageProperties(key="run")
        until = triack.Stage.ORDERED
        intake = Intake(
            node,
            "q",
            triack.TRANSACTIONAL,
            until,
            properties=properties,
            producer=producer,
            on_finished=lambda *_: None,
        )
        await intake.accept(chunk(1, *lines))
    assert await length(node, 2) == 2


async def test_lines_after_a_gap_are_refused(node: triack.Node) -> None:
    """Nothing of them enters."""
    intake = intake_of(node)
    await intake.accept(chunk(1, b"1"))
    with pytest.raises(ProtocolError, match=r"^bad-frame: line 3 after line 1$"):
        await intake.accept(chunk(3, b"3"))
    await intake.accept(chunk(2, b"2"))
    assert await length(node, 2) == 2


async def test_what_was_accepted_is_known_to_the_next_process(tmp_path: Path) -> None:
    """With the messages, and told as finished when they are; a producer that has ended is forgotten."""
    told: Told = []
    async with triack.open("a", data=tmp_path, insecure=True) as node:
        await intake_of(node).accept(chunk(1, b"1", b"2"))
    async with triack.open("a", data=tmp_path, insecure=True) as node:
        intake = intake_of(node, lambda last, failures: told.append((last, failures)))
        assert await intake.recover(1) == 2
        following = asyncio.create_task(intake.follow())
        async with asyncio.timeout(PATIENCE_S):
            while not told:  # noqa: ASYNC110 - the other task tells
                await asyncio.sleep(0.005)
        following.cancel()
        assert told == [(2, [])]
        await intake.forget()
        assert await intake_of(node).recover(0) == 0


async def test_progress_is_reported_in_order_with_what_failed(tmp_path: Path, node: triack.Node) -> None:
    """A line that is never stored waits; those of a queue that the node has not fail, as one range."""
    told: asyncio.Queue[tuple[int, list[Failure]]] = asyncio.Queue()
    async with triack.open("b", data=tmp_path / "b", queues=["other"], listen="udp://127.0.0.1:0", insecure=True) as b:
        intake = intake_of(node, lambda *args: told.put_nowait(args), destination=f"{b.address}/q")
        following = asyncio.create_task(intake.follow())
        await intake.accept(chunk(1, b"1", b"2"))
        await intake.accept(chunk(3, b"3"))
        found = [await asyncio.wait_for(told.get(), PATIENCE_S) for _ in range(2)]
        following.cancel()
    assert [last for last, _ in found] == [2, 3]
    assert [failures[0][:2] for _, failures in found] == [(1, 2), (3, 3)]


async def test_express_lines_are_not_remembered(node: triack.Node) -> None:
    """They may be lost, and are not sent twice."""
    intake = intake_of(node, delivery=triack.EXPRESS)
    assert await intake.recover(0) == 0
    await intake.accept(chunk(1, b"1"))
    assert await intake_of(node, delivery=triack.EXPRESS).recover(0) == 0
    await intake.forget()
    assert await length(node, 1) == 1


@pytest.mark.parametrize(
    ("new", "joined"),
    [
        ((4, 5, "a"), [(1, 5, "a")]),
        ((5, 5, "a"), [(1, 3, "a"), (5, 5, "a")]),
        ((4, 5, "b"), [(1, 3, "a"), (4, 5, "b")]),
    ],
)
def test_failures_are_joined_when_they_touch_and_have_one_reason(new: Failure, joined: list[Failure]) -> None:
    failures: list[Failure] = [(1, 3, "a")]
    add_failure(failures, new)
    assert failures == joined
    alone: list[Failure] = []
    add_failure(alone, new)
    assert alone == [new]


async def test_what_was_on_its_way_behind_refused_lines_is_refused_too(node: triack.Node) -> None:
    """It would come before them when they are sent again. Of express lines no number says so."""
    producer = Producer(partial(intake_of, node, delivery=triack.EXPRESS), 0)
    await producer.begin()
    too_large = producer.take(1, [bytes(MAX_BODY_BYTES + 1)])
    outcomes = await asyncio.gather(too_large, producer.take(2, [b"2"]), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [triack.MessageTooLarge] * 2
    await node.flush()
    assert node.queue_lengths().get("q", 0) == 0
    producer.close()


@pytest.mark.slow
@pytest.mark.gate
async def test_a_producer_hears_how_far_its_lines_have_come(node: triack.Node) -> None:
    """When the node has ended, it hears that, and can go elsewhere."""
    producer = Producer(partial(intake_of, node), 0)
    assert await producer.begin() == 0
    await producer.take(1, [b"1", b"2"])
    assert await asyncio.wait_for(producer.progress(), PATIENCE_S) == (2, [])
    assert await producer.forget() == ""
    far = Producer(partial(intake_of, node, destination=NOWHERE), 0)
    await far.begin()
    await far.take(1, [b"1"])
    waiting = asyncio.create_task(far.progress())
    await node.close()
    with pytest.raises(triack.NodeClosed):
        await asyncio.wait_for(waiting, PATIENCE_S)
    producer.close()
    far.close()
