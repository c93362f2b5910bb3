"""A broker of MQTT that makes no sense, or reads nothing: the connection ends, with the cause."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from triack.bridges import BridgeTable
from triack.bridges.mqtt_link import Connection
from triack.bridges.part import BrokerAway

CONNACK = b"\x20\x03\x00\x00\x00"


@asynccontextmanager
async def connected_to(answer: bytes) -> AsyncIterator[Connection]:
    """A connection to a broker that answers CONNECT with some bytes, and then neither says nor reads anything."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1)
    link = Connection(lambda _: None)
    try:
        port = server.sockets[0].getsockname()[1]
        await link.open(BridgeTable("b", f"mqtt://127.0.0.1:{port}", take=["a -> a"]), "b", None, None)
        yield link
    finally:
        await link.leave()
        ended.set()
        server.close()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what answers there does not speak MQTT"),
        (b"\x90\x04\xff\xff\x00\x01", "what answers there does not speak MQTT"),
        (b"\x20\x03\x00\x87\x00", "the broker refuses: the bridge is not authorised"),
        (b"\x20\x01\x00", "cannot be read: index out of range"),
        (b"\x20\x06\x00\x00\x03\x21\x00\x00", "a CONNACK by which it takes nothing"),
        (CONNACK + CONNACK, "a packet of kind 0x20, which has no place here"),
        (CONNACK + b"\x00\x00", "a packet of kind 0x00, which has no place here"),
        (CONNACK + b"\x30\xff\xff\xff\xff", "a packet has no length"),
        (CONNACK + b"\x36\x06\x00\x01a\x00\x01\x00", "a message without a topic, or of no QoS"),
        (CONNACK + b"\x32\x05\x00\x00\x00\x01\x00", "a message without a topic, or of no QoS"),
        (CONNACK + b"\x32\x06\x00\x01\xff\x00\x01\x00", "can't decode byte 0xff"),
        (CONNACK + b"\x32\x06\x00\x01a\x00\x01\x40", "properties that are cut off"),
        (CONNACK + b"\x32\x08\x00\x01a\x00\x01\x02\x7f\x01", "a property 127, which MQTT has not"),
        (CONNACK + b"\x40\x01\x00", "cannot be read: index out of range"),
        (CONNACK + b"\xe0\x01\x8e", "two bridges have the same client id"),
    ],
)
async def test_a_broker_that_makes_no_sense_is_left_with_the_cause(answer: bytes, why: str) -> None:
    with pytest.raises(BrokerAway, match=why):
        async with connected_to(answer) as link:
            await link.run()


async def test_a_broker_that_reads_nothing_is_left_with_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for it in this process goes, too: it would keep the connection open."""
    monkeypatch.setattr("triack.bridges.mqtt_link.KEEPALIVE_S", 1)
    async with connected_to(CONNACK) as link:
        for _ in range(20):
            link.publish(1, b"\0\1a", b"\0", bytes(1_000_000), 1, retain=False, again=False)
        with pytest.raises(BrokerAway, match=r"has read nothing for 0\.5 s"):
            await link.drain()
        await link.leave()
        assert link._writer is not None  # noqa: SLF001 - no other test can see it
        assert not link._writer.transport.get_write_buffer_size()  # noqa: SLF001 - the same


async def test_a_broker_that_is_silent_is_left_with_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triack.bridges.mqtt_link.KEEPALIVE_S", 1)
    async with connected_to(CONNACK) as link:
        with pytest.raises(BrokerAway, match=r"has been silent for 0\.5 s"):
            await link.run()
