"""A broker of AMQP that makes no sense, or does not answer: the connection ends, with the cause; nothing is taken."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress

import pytest
from pamqp import frame
from pamqp.body import ContentBody
from pamqp.commands import Basic, Channel, Confirm, Connection, Exchange
from pamqp.common import FieldTable, FieldValue
from pamqp.header import ContentHeader

from triack.bridges import BridgeTable
from triack.bridges.amqp_link import AmqpLink, Arrived
from triack.bridges.part import BrokerAway
from triack.node.config.bridge_rules import TakeQueue

ANSWERS: dict[type, frame.FrameTypes] = {
    Connection.StartOk: Connection.Tune(10, 131_072, 20),
    Connection.Open: Connection.OpenOk(),
    Connection.Close: Connection.CloseOk(),
    Channel.Open: Channel.OpenOk(),
    Channel.Close: Channel.CloseOk(),
    Confirm.Select: Confirm.SelectOk(),
    Basic.Qos: Basic.QosOk(),
    Basic.Consume: Basic.ConsumeOk("0"),
    Exchange.Declare: Exchange.DeclareOk(),
}
PROPERTIES: dict[str, FieldValue] = {"capabilities": {"publisher_confirms": True}}
DELIVER = Basic.Deliver("0", 1, False, "", "q")


def sent(*frames: frame.FrameTypes, channel: int = 1) -> bytes:
    return b"".join(frame.marshal(it, channel) for it in frames)


def content(size: int) -> ContentHeader:
    return ContentHeader(0, size, Basic.Properties())


@asynccontextmanager
async def connected_to(
    then: bytes = b"",
    *,
    but: Collection[type] = (),
    properties: FieldTable = PROPERTIES,
    arrived: Callable[[list[Arrived]], None] = lambda _: None,
) -> AsyncIterator[AmqpLink]:
    """A link to a broker that answers all but some frames, and says something when the queue is to be read."""
    serving: list[asyncio.Task[None]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(b"AMQP") + 4)
        writer.write(sent(Connection.Start(server_properties=properties), channel=0))
        while True:
            head = await reader.readexactly(7)
            rest = await reader.readexactly(int.from_bytes(head[3:], "big") + 1)
            _, channel, said = frame.unmarshal(head + rest)
            if type(said) in ANSWERS and type(said) not in but:
                writer.write(sent(ANSWERS[type(said)], channel=channel))
            if isinstance(said, Basic.Consume):
                writer.write(then)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.ensure_future(answer(reader, writer)))
        with suppress(OSError, asyncio.IncompleteReadError):
            await serving[-1]
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    link = AmqpLink(arrived)
    try:
        port = server.sockets[0].getsockname()[1]
        await link.open(BridgeTable("b", amqp=f"amqp://127.0.0.1:{port}", take=["q -> q"]), "b", None, None)
        yield link
    finally:
        await link.leave()
        for task in serving:
            task.cancel()
        server.close()


@pytest.mark.parametrize(
    ("then", "why"),
    [
        (sent(DELIVER, ContentBody(b"a")), "what has no place there: Unexpected frame"),
        (sent(DELIVER, DELIVER), "what has no place there: Unexpected frame"),
        (sent(DELIVER, content(1), ContentBody(b"too much")), "a body of 8 bytes, announced as 1"),
        (sent(DELIVER, content(1), DELIVER), "what has no place there: Unexpected frame"),
        (sent(Basic.Cancel("0", nowait=True)), "has ended the reading of queue 'q'"),
        (sent(Channel.Close(404, "NOT_FOUND", 0, 0)), "NOT_FOUND"),
        (sent(Connection.Close(320, "CONNECTION_FORCED", 0, 0), channel=0), "CONNECTION_FORCED"),
    ],
)
async def test_a_broker_that_makes_no_sense_is_left_with_the_cause(then: bytes, why: str) -> None:
    arrived: list[Arrived] = []
    async with connected_to(then, arrived=arrived.extend) as link, asyncio.timeout(10):
        await link.consume([TakeQueue("q -> q")])
        with pytest.raises(BrokerAway, match=why):
            await link.run()
    assert arrived == []


@pytest.mark.parametrize("properties", [{}, {"capabilities": {}}])
async def test_a_broker_without_publisher_confirms_is_left_with_the_cause(properties: FieldTable) -> None:
    with pytest.raises(BrokerAway, match="does not say that it has publisher confirms"):
        async with connected_to(properties=properties):
            pass


async def test_a_broker_that_does_not_answer_is_left_with_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its heartbeats keep the connection."""
    monkeypatch.setattr("triack.bridges.amqp_link.CONNECT_S", 0.5)
    async with connected_to(but=[Basic.Consume, Exchange.Declare]) as link:
        with pytest.raises(BrokerAway, match=r"not answered for 0\.5 s whether queue 'q' can be read"):
            await link.consume([TakeQueue("q -> q")])
        with pytest.raises(BrokerAway, match=r"not answered for 0\.5 s whether there is an exchange 'e'"):
            await link.check_exchanges(["e"])
