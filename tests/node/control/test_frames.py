"""The frames of the control socket, and how much of them is taken."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.node.nodes import make
from triack.base.errors import ProtocolError, UsageError
from triack.node.control import control_frames
from triack.node.control.client_messages import EACH_MESSAGES, ClientHolder, frames_of, message_of, name_of
from triack.node.control.control_frames import FRAME_BYTES_MAX, Link, check_frame, cut, dial, number_of, pair
from triack.node.control.intake import Failure, Producer, add_failure
from triack.node.handles.consumer import BATCH_MESSAGES
from triack.node.shell.outgoing_message import MessageProperties
from triack.queues.messages import MAX_BODY_BYTES, USER_PROPERTIES_BYTES, Outgoing
from triack.queues.packing import pack_one

# Bytes that arrive on the control socket are a frame, or are refused by name.


@pytest.fixture
async def ends() -> AsyncIterator[tuple[Link, asyncio.StreamWriter]]:
    near, far = socket.socketpair()
    link = Link(*await asyncio.open_unix_connection(sock=near))
    _, writer = await asyncio.open_unix_connection(sock=far)
    yield link, writer
    writer.close()
    await link.close()


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (b"not JSON\nbody", "bad-frame: the header is not JSON"),
        (b"\xff\n", "bad-frame: the header is not JSON"),
        (b"[" * 100_000, "bad-frame: the header is not JSON"),
        (b'["chunk"]\n', "bad-frame: the header has no op"),
        (b'{"first": 1}\n', "bad-frame: the header has no op"),
        (b'{"op": 1}\n', "bad-frame: the header has no op"),
    ],
)
async def test_what_is_no_frame_is_refused(
    ends: tuple[Link, asyncio.StreamWriter], frame: bytes, complaint: str
) -> None:
    link, writer = ends
    writer.write(len(frame).to_bytes(4, "big") + frame)
    with pytest.raises(ProtocolError) as refused:
        await link.receive()
    assert (str(refused.value), refused.value.reason) == (complaint, "bad-frame")


async def test_the_length_alone_refuses_a_frame(ends: tuple[Link, asyncio.StreamWriter]) -> None:
    """Nothing of it is waited for."""
    link, writer = ends
    writer.write((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match=f"^bad-frame: {FRAME_BYTES_MAX + 1} bytes$"):
        await asyncio.wait_for(link.receive(), PATIENCE_S)


async def test_what_is_too_long_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte too many is enough: the receiver of such a frame would end the connection."""
    monkeypatch.setattr(control_frames, "FRAME_BYTES_MAX", 100)
    one, other = await pair()
    with pytest.raises(UsageError, match=r"^recall: 101 bytes, and the control socket takes 100 at a time$"):
        one.post("call", bytes(73), do="recall")
    one.post("call", bytes(72), do="recall")
    assert await other.receive() == ({"op": "call", "do": "recall"}, bytes(72))
    for link in (one, other):
        await link.close()


async def test_who_stops_waiting_within_a_frame_gets_it_later(ends: tuple[Link, asyncio.StreamWriter]) -> None:
    """As a command that has waited long enough, and is still to hear what was confirmed."""
    link, writer = ends
    frame = b'{"op":"x"}\nbody'
    writer.write(len(frame).to_bytes(4, "big") + frame[:5])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(link.receive(), 0.05)
    writer.write(frame[5:])
    assert await link.receive() == ({"op": "x"}, b"body")


async def test_a_connection_that_ends_within_a_frame_is_lost(ends: tuple[Link, asyncio.StreamWriter]) -> None:
    link, writer = ends
    writer.write((10).to_bytes(4, "big") + b"{")
    writer.close()
    with pytest.raises(ConnectionResetError, match="the connection has ended"):
        await link.receive()


async def test_an_end_that_does_not_read_holds_nobody_who_closes(
    ends: tuple[Link, asyncio.StreamWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped, or writes into a pager that nobody leafs through."""
    monkeypatch.setattr(control_frames, "CLOSE_S", 0.01)
    link, _ = ends
    link.post("more", bytes(FRAME_BYTES_MAX - 100))
    await asyncio.wait_for(link.close(), PATIENCE_S)


@pytest.mark.parametrize("value", [-1, 1.0, True, "1", None])
def test_a_number_is_one(value: object) -> None:
    with pytest.raises(ProtocolError) as refused:
        number_of({"op": "ack", "serial": value}, "serial")
    assert str(refused.value) == f"bad-frame: serial is {value!r}"


@pytest.mark.parametrize("sizes", [[3, 4], [3], [7, -1], [True, 5], ["6"], 6, None])
def test_a_body_is_cut_into_pieces_that_fill_it(sizes: Any) -> None:
    assert cut(b"onetwo", [3, 0, 3]) == [b"one", b"", b"two"]
    with pytest.raises(ProtocolError, match=r"^bad-frame: the sizes do not fit the body$"):
        cut(b"onetwo", sizes)


async def test_who_comes_while_too_many_wait_is_connected_when_there_is_room(tmp_path: Path) -> None:
    """The process has not come to accept the others yet."""
    path = tmp_path / "control"
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as early:
        listening.bind(str(path))
        listening.listen(0)
        early.connect(str(path))
        dialling = asyncio.create_task(dial(path))
        await asyncio.sleep(0)
        assert not dialling.done()
        listening.accept()[0].close()
        link = await asyncio.wait_for(dialling, PATIENCE_S)
        with listening.accept()[0] as far:
            await link.send("hello")
            assert far.recv(100)[4:] == b'{"op":"hello"}\n'
        await link.close()


# Lines enter a node once and whole, however often they are offered, and progress is reported in order.


Begin = Callable[..., Coroutine[Any, Any, tuple[Producer, int]]]


@pytest.fixture
async def begun() -> AsyncIterator[Begin]:
    """Begins a producer whose lines count when they are in their queue. Gives it, and the last line that is safe."""
    producers: list[Producer] = []

    async def begin(
        node: triack.Node,
        destination: str = "q",
        delivery: triack.Delivery = triack.TRANSACTIONAL,
        *,
        name: str = "p",
        finished: int = 0,
        **properties: Any,
    ) -> tuple[Producer, int]:
        until = triack.Stage.RECEIVED if delivery is triack.EXPRESS else triack.Stage.ORDERED
        properties_of: MessageProperties = properties  # type: ignore[assignment]
        one = Producer(node, destination, delivery, until, properties=properties_of, name=name, finished=finished)
        producers.append(one)
        return one, await one.begin()

    yield begin
    for one in producers:
        one.close()


async def test_lines_that_are_offered_again_enter_once(node: triack.Node, begun: Begin) -> None:
    """By the same connection or by another one of the same producer; another producer counts for itself."""
    one, _ = await begun(node)
    await one.take(1, [b"1", b"2"])
    two, known = await begun(node)
    assert known == 2
    for producer in (one, two):
        await producer.take(1, [b"1", b"2"])
    await two.take(3, [b"3"])
    assert [(await begun(node, name=name))[1] for name in ("p", "other")] == [3, 0]
    await node.flush()
    assert node.queue_lengths()["q"] == 3


async def test_each_line_has_a_key_of_its_own(node: triack.Node, begun: Begin) -> None:
    """The input was given one; another run of the same command enters nothing that is in already."""
    for name, lines in (("one", [b"1"]), ("two", [b"1", b"2"])):
        producer, _ = await begun(node, name=name, key="run")
        await producer.take(1, lines)
    await node.flush()
    assert node.queue_lengths()["q"] == 2


async def test_what_was_accepted_is_known_to_the_next_process(tmp_path: Path, begun: Begin) -> None:
    """With the messages, and told as finished when they are; a producer that has ended is forgotten."""
    async with triack.open("a", data=tmp_path, insecure=True) as node:
        await (await begun(node))[0].take(1, [b"1", b"2"])
    async with triack.open("a", data=tmp_path, insecure=True) as node:
        producer, known = await begun(node, finished=1)
        assert known == 2
        assert await asyncio.wait_for(producer.progress(), PATIENCE_S) == (2, [])
        await producer.forget()
        assert (await begun(node))[1] == 0


@pytest.mark.slow
async def test_lines_of_an_earlier_life_are_decided_when_they_have_arrived(tmp_path: Path, begun: Begin) -> None:
    """By the numbers of their packets, as their receipts are gone; lines that come later do not count."""
    async with make("b", tmp_path / "b", "udp") as b:
        to, address = f"{b.address}/q", b.address
    async with make("a", tmp_path / "a") as node:
        await (await begun(node, to))[0].take(1, [b"old"])
    async with make("a", tmp_path / "a") as node:
        producer, known = await begun(node, to)
        assert known == 1
        waiting = asyncio.create_task(producer.progress())
        await node.send(to, b"new", until="queued")
        assert not waiting.done()
        async with triack.open("b", data=tmp_path / "b", listen=address, insecure=True):
            assert await asyncio.wait_for(waiting, PATIENCE_S) == (1, [])


async def test_progress_is_reported_in_order_with_what_failed(tmp_path: Path, node: triack.Node, begun: Begin) -> None:
    """A line that is never stored waits; those of a queue that the node has not fail, as one range."""
    async with triack.open("b", data=tmp_path / "b", queues=["other"], listen="udp://127.0.0.1:0", insecure=True) as b:
        producer, _ = await begun(node, f"{b.address}/q")
        for first, lines in ((1, [b"1", b"2"]), (3, [b"3"])):
            await producer.take(first, lines)
            last, failures = await asyncio.wait_for(producer.progress(), PATIENCE_S)
            assert (last, failures[0][:2]) == (first + len(lines) - 1, (first, last))


async def test_express_lines_are_not_remembered(node: triack.Node, begun: Begin) -> None:
    """They may be lost, and are not sent twice."""
    producer, known = await begun(node, "q", triack.EXPRESS)
    await producer.take(1, [b"1"])
    assert [known, (await begun(node, "q", triack.EXPRESS))[1]] == [0, 0]
    await producer.forget()
    await node.flush()
    assert node.queue_lengths()["q"] == 1


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


async def test_what_was_on_its_way_behind_refused_lines_is_refused_too(node: triack.Node, begun: Begin) -> None:
    """It would come before them when they are sent again. Of express lines no number says so."""
    producer, _ = await begun(node, "q", triack.EXPRESS)
    too_large = producer.take(1, [bytes(MAX_BODY_BYTES + 1)])
    outcomes = await asyncio.gather(too_large, producer.take(2, [b"2"]), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [triack.MessageTooLarge] * 2
    await node.flush()
    assert node.queue_lengths().get("q", 0) == 0


class Teller:
    """A client that remembers what it told the node."""

    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, Any]]] = []

    async def call(self, do: str, body: bytes = b"", **fields: Any) -> Any:
        raise AssertionError((do, body, fields))

    def post(self, op: str, *, epoch: int | None = None, **fields: Any) -> None:
        self.said.append((op, fields))

    async def connected(self, end: float | None = None, *, patient: bool = False) -> int:
        raise AssertionError((end, patient))

    async def lost(self, epoch: int) -> None:
        raise AssertionError(epoch)


def test_bodies_share_a_frame_up_to_its_limits() -> None:
    """A body of the largest size has one to itself, and a batch fills one; no bodies are one empty frame."""
    large = b"x" * MAX_BODY_BYTES
    frames = frames_of("q", [b"1", large, b"22", b""], ["a", "b", "c", "d"])
    assert [frame["bodies"] for frame in frames] == [[b"1"], [large], [b"22", b""]]
    assert [frame["keys"] for frame in frames] == [["a"], ["b"], ["c", "d"]]
    assert [len(frame["bodies"]) for frame in frames_of("q", [b"x"] * (BATCH_MESSAGES + 1))] == [BATCH_MESSAGES, 1]
    labels: list[MessageProperties] = [{"label": "x" * USER_PROPERTIES_BYTES}] * (EACH_MESSAGES + 1)
    frames = frames_of("q", [b"x" * (MAX_BODY_BYTES // EACH_MESSAGES)] * (EACH_MESSAGES + 1), each=labels)
    assert [len(frame["each"]) for frame in frames] == [EACH_MESSAGES, 1]
    check_frame("send_many", b"".join(frames[0]["bodies"]), each=frames[0]["each"], sizes=[4] * EACH_MESSAGES)
    assert frames_of("q", []) == [{"bodies": []}]
    with pytest.raises(triack.UsageError, match=r"^send to q: 1 keys for 2 messages$"):
        frames_of("q", [b"1", b"2"], ["a"])
    with pytest.raises(triack.UsageError, match="a body is bytes"):
        frames_of("q", [b"x", "text"])  # type: ignore[list-item]


def test_the_fate_of_a_message_is_sent_once() -> None:
    client = Teller()
    header = {"origin": "ab" * 16, "queue": "q", "redelivered": True, "failures": 2, "sender": "shop"}
    header |= {"topic": "", "sealed": False, "large": False}
    packed = pack_one(Outgoing(b"12 valves", {"label": "l"}), 7, 1_000)
    message = message_of(header, packed, ClientHolder(client, None, 3).settle, client)
    message.reject(failed=False, delay=1.5)
    message.ack()
    assert client.said == [("reject", {"message": 3, "failed": False, "delay_ms": 1_500, "dead": False})]


def test_wrong_types_are_refused_before_anything_is_sent() -> None:
    assert name_of("q", triack.EXPRESS) == "EXPRESS"
    wrong = ((5, triack.EXPRESS, "a destination is text"), ("q", "EXPRESS", "a class is a triack.Delivery"))
    for destination, delivery, told in wrong:
        with pytest.raises(triack.UsageError, match=told):
            name_of(destination, delivery)  # type: ignore[arg-type]


# How a message is described to another process.
