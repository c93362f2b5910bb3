"""All endpoints keep the same promises, on real sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from triack.base.errors import AddressError, TransportError
from triack.base.reasons import DropReason
from triack.transport.endpoint import Endpoint, Received, open_endpoint
from triack.transport.frames import FRAME_BYTES_MAX
from triack.transport.memory import MemoryNetwork

LISTEN = {"udp": "udp://127.0.0.1:0", "tcp": "tcp://127.0.0.1:0", "memory": None}
SCHEMES = list(LISTEN)
TIMEOUT_SECONDS = 5

Opener = Callable[..., Awaitable[Endpoint]]


@pytest_asyncio.fixture
async def opened() -> AsyncIterator[Opener]:
    """Open endpoints that are closed after the test."""
    endpoints: list[Endpoint] = []

    async def open_one(scheme: str, listen: str | None = "any") -> Endpoint:
        endpoints.append(await open_endpoint(scheme, LISTEN[scheme] if listen == "any" else listen))
        return endpoints[-1]

    yield open_one
    for endpoint in endpoints:
        await endpoint.close()


async def received(endpoint: Endpoint, count: int) -> list[Received]:
    """Receive exactly ``count`` elements."""
    found: list[Received] = []
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while len(found) < count:
            found += await endpoint.receive()
    assert len(found) == count
    return found


async def dropped(endpoint: Endpoint, reason: DropReason) -> int:
    """Wait until a drop is counted under ``reason``."""
    for _ in range(1_000 * TIMEOUT_SECONDS):
        if endpoint.drops[reason]:
            break
        await asyncio.sleep(0.001)
    return endpoint.drops[reason]


@pytest.mark.asyncio
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_bursts_go_both_ways(opened: Opener, scheme: str) -> None:
    """A burst arrives, and can be answered by the sender's address."""
    here, there = await opened(scheme), await opened(scheme)
    burst = [b"%d" % number * 50 for number in range(100)]
    await here.send(burst, there.address)
    arrived = await received(there, len(burst))
    assert [data for data, _ in arrived] == burst
    await there.send(burst[::-1], arrived[0].sender)
    assert [data for data, _ in await received(here, len(burst))] == burst[::-1]
    assert not here.drops
    assert not there.drops


@pytest.mark.asyncio
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_largest_datagram(opened: Opener, scheme: str) -> None:
    """The largest datagram arrives; a larger one is dropped by name."""
    here, there = await opened(scheme), await opened(scheme)
    await here.send([bytes(here.max_datagram_bytes + 1), b"x" * here.max_datagram_bytes], there.address)
    assert [data for data, _ in await received(there, 1)] == [b"x" * here.max_datagram_bytes]
    assert here.drops == {"too-large": 1}


@pytest.mark.asyncio
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_close_wakes_the_receiver(opened: Opener, scheme: str) -> None:
    """Who waits for datagrams is told, and so is who asks later; sending is a counted drop."""
    endpoint = await opened(scheme)
    waiting = asyncio.create_task(endpoint.receive())
    await asyncio.sleep(0)
    await endpoint.close()
    for receiving in (waiting, endpoint.receive()):
        with pytest.raises(TransportError, match="closed"):
            await receiving
    await endpoint.send([b"x"], "memory://b" if scheme == "memory" else f"{scheme}://127.0.0.1:9")
    assert endpoint.drops == {"closed": 1}
    await endpoint.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_address_in_use(opened: Opener, scheme: str) -> None:
    """The error has the address, the operation and the cause."""
    address = (await opened(scheme)).address
    with pytest.raises(TransportError) as caught:
        await open_endpoint(scheme, address)
    assert str(caught.value) == f"cannot listen on {address}: address already in use"


@pytest.mark.asyncio
@pytest.mark.parametrize(("scheme", "listen"), [("udp", "tcp://127.0.0.1:0"), ("smtp", None), ("udp", "udp://x")])
async def test_what_cannot_be_opened(scheme: str, listen: str | None) -> None:
    """Misuse is told before anything is opened."""
    with pytest.raises(AddressError):
        await open_endpoint(scheme, listen)


@pytest.mark.asyncio
@pytest.mark.parametrize("scheme", ["udp", "tcp"])
async def test_name_that_does_not_exist(opened: Opener, scheme: str) -> None:
    """It cannot be listened at; and the reason is the resolver's."""
    with pytest.raises(TransportError, match="cannot listen on"):
        await opened(scheme, f"{scheme}://no-such-host.invalid:0")


@pytest.mark.asyncio
@pytest.mark.parametrize("scheme", ["udp", "tcp"])
async def test_foreign_address(opened: Opener, scheme: str) -> None:
    """Sending to another kind of endpoint is the caller's mistake."""
    endpoint = await opened(scheme)
    with pytest.raises(AddressError, match="cannot send to"):
        await endpoint.send([b"x"], "memory://a")


@pytest.mark.asyncio
@pytest.mark.parametrize("scheme", ["udp", "tcp"])
async def test_host_name(opened: Opener, scheme: str) -> None:
    """A name is looked up once; what was sent meanwhile is not lost."""
    here, there = await opened(scheme), await opened(scheme)
    to = there.address.replace("127.0.0.1", "localhost")
    await here.send([b"1"], to)
    await here.send([b"2"], to)
    assert [data for data, _ in await received(there, 2)] == [b"1", b"2"]
    await here.send([b"3"], to)
    assert [data for data, _ in await received(there, 1)] == [b"3"]


@pytest.mark.asyncio
async def test_udp_unresolved(opened: Opener) -> None:
    """Datagrams to a name that does not exist are counted."""
    endpoint = await opened("udp")
    await endpoint.send([b"1", b"2"], "udp://no-such-host.invalid:1")
    assert await dropped(endpoint, DropReason.UNRESOLVED) == 2


@pytest.mark.asyncio
async def test_udp_survives_refusal(opened: Opener) -> None:
    """Neither nobody at home nor a forbidden address ends the endpoint."""
    here, there, gone = await opened("udp"), await opened("udp"), await opened("udp")
    await gone.close()
    for address in (gone.address, "udp://255.255.255.255:9", "udp://[::1]:9"):
        await here.send([b"x"] * 3, address)
    await here.send([b"y"], there.address)
    assert await received(there, 1) == [Received(b"y", here.address)]
    assert here.drops[DropReason.WRONG_FAMILY] == 3
    assert here.drops[DropReason.SEND_ERROR] > 0


@pytest.mark.asyncio
async def test_tcp_path_gone(opened: Opener) -> None:
    """The end of a connection is reported once, after what came over it."""
    here, there = await opened("tcp", None), await opened("tcp")
    await here.send([b"last words"], there.address)
    await here.close()
    words, end = await received(there, 2)
    assert words.data == b"last words"
    assert end == Received(b"", words.sender)


@pytest.mark.asyncio
async def test_tcp_connects_again(opened: Opener) -> None:
    """After the path is gone, the next datagram opens a new one."""
    here, there = await opened("tcp", None), await opened("tcp")
    await here.send([b"1"], there.address)
    await received(there, 1)
    await there.close()
    assert await received(here, 1) == [Received(b"", there.address)]
    again = await opened("tcp", there.address)
    await here.send([b"2"], again.address)
    assert [data for data, _ in await received(again, 1)] == [b"2"]


@pytest.mark.asyncio
async def test_tcp_connection_refused(opened: Opener) -> None:
    """An address where nobody listens is a path that is gone."""
    here, there = await opened("tcp"), await opened("tcp")
    await there.close()
    await here.send([b"1", b"2"], there.address)
    assert await received(here, 1) == [Received(b"", there.address)]
    assert here.drops == {"connect-failed": 2}


@pytest.mark.asyncio
async def test_tcp_frame_too_large(opened: Opener) -> None:
    """Who announces a frame that is too large is cut off."""
    endpoint = await opened("tcp")
    host, port = endpoint.address.removeprefix("tcp://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    assert await reader.read(1) == b""
    writer.close()
    assert [data for data, _ in await received(endpoint, 1)] == [b""]
    assert endpoint.drops == {"frame-too-large": 1}


@pytest.mark.asyncio
async def test_tcp_slow_frame(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who begins a frame and does not end it is cut off in time."""
    monkeypatch.setattr("triack.transport.tcp.FIRST_FRAME_TIMEOUT_SECONDS", 0.01)
    endpoint = await opened("tcp")
    host, port = endpoint.address.removeprefix("tcp://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"\0")
    assert [data for data, _ in await received(endpoint, 1)] == [b""]
    assert endpoint.drops == {"frame-timeout": 1}
    writer.close()


@pytest.mark.asyncio
async def test_tcp_too_many_connections(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the cap a connection is refused, and those within it go on."""
    monkeypatch.setattr("triack.transport.tcp.ACCEPTED_MAX", 1)
    there, first, second = await opened("tcp"), await opened("tcp"), await opened("tcp")
    await first.send([b"1"], there.address)
    assert [data for data, _ in await received(there, 1)] == [b"1"]
    await second.send([b"2"], there.address)
    assert await received(second, 1) == [Received(b"", there.address)]
    await first.send([b"3"], there.address)
    assert [data for data, _ in await received(there, 1)] == [b"3"]
    assert there.drops == {"too-many-connections": 1}


@pytest.mark.asyncio
async def test_tcp_peer_that_does_not_read(opened: Opener) -> None:
    """What a peer does not read is kept up to a cap; beyond it, drops are counted and close does not hang."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = await opened("tcp", None)
        datagrams = [bytes(65_536)] * 64
        for _ in range(8):
            await endpoint.send(datagrams, f"tcp://127.0.0.1:{silent.getsockname()[1]}")
            await asyncio.sleep(0.001)
        assert endpoint.drops[DropReason.SEND_OVERFLOW] >= 100


@pytest.mark.asyncio
async def test_tcp_slow_reader_gets_everything(opened: Opener) -> None:
    """More than the system's buffers hold arrives whole and in order."""
    here, there = await opened("tcp"), await opened("tcp")
    datagrams = [number.to_bytes(2, "big") * 30_000 for number in range(200)]
    await here.send(datagrams, there.address)
    assert [data for data, _ in await received(there, 200)] == datagrams
    assert not here.drops


@pytest.mark.asyncio
async def test_memory_filter() -> None:
    """The network's hook may drop, repeat and change what passes."""
    network = MemoryNetwork(lambda data, sender, to: [data, data] if data == b"twice" else [])
    a, b = network.endpoint("a"), network.endpoint("b")
    await a.send([b"never", b"twice"], b.address)
    await a.send([b"x"], "memory://nobody")
    assert await b.receive() == [Received(b"twice", "memory://a")] * 2
    assert a.drops == {"unreachable": 1}


@pytest.mark.asyncio
async def test_ipv6(opened: Opener) -> None:
    """IPv6 addresses work, brackets and all."""
    here, there = await opened("udp", "udp://[::1]:0"), await opened("udp", "udp://[::1]:0")
    await here.send([b"x"], there.address)
    assert await received(there, 1) == [Received(b"x", here.address)]


@pytest.mark.asyncio
async def test_both_families_on_one_socket(opened: Opener) -> None:
    """A socket for all addresses answers an IPv4 peer by its IPv4 address."""
    here, there = await opened("udp"), await opened("udp", "udp://[::]:0")
    await here.send([b"x"], there.address.replace("[::]", "127.0.0.1"))
    assert await received(there, 1) == [Received(b"x", here.address)]
    await there.send([b"y"], here.address)
    assert [data for data, _ in await received(here, 1)] == [b"y"]
