"""All endpoints keep the same promises, on real sockets, and UDP on both kinds of socket."""

import asyncio

import pytest

from tests.transport.endpoints import Opener, received
from triack.base.errors import AddressError, TransportError
from triack.transport.opening import open_endpoint

pytestmark = pytest.mark.usefixtures("socket_kind")

EACH = pytest.mark.parametrize("scheme", ["udp", "tcp", "memory"])
SOCKETS = pytest.mark.parametrize("scheme", ["udp", "tcp"])


@EACH
async def test_bursts_go_both_ways(opened: Opener, scheme: str) -> None:
    here, there = await opened(scheme), await opened(scheme)
    burst = [b"%d" % number * 50 for number in range(100)]
    await here.send(burst, there.address)
    arrived = await received(there, len(burst))
    assert [data for data, _ in arrived] == burst
    await there.send(burst[::-1], arrived[0].sender)
    assert [data for data, _ in await received(here, len(burst))] == burst[::-1]
    assert (here.drops, there.drops) == ({}, {})


@EACH
async def test_largest_datagram(opened: Opener, scheme: str) -> None:
    here, there = await opened(scheme), await opened(scheme)
    await here.send([bytes(here.max_datagram_bytes + 1), b"x" * here.max_datagram_bytes], there.address)
    assert [data for data, _ in await received(there, 1)] == [b"x" * here.max_datagram_bytes]
    assert here.drops == {"too-large": 1}


@EACH
async def test_close_wakes_the_receiver(opened: Opener, scheme: str) -> None:
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


@EACH
async def test_address_in_use(opened: Opener, scheme: str) -> None:
    address = (await opened(scheme)).address
    with pytest.raises(TransportError, match=f"^cannot listen on {address}: address already in use$"):
        await open_endpoint(scheme, address)


@pytest.mark.parametrize(("scheme", "listen"), [("udp", "tcp://127.0.0.1:0"), ("smtp", None), ("udp", "udp://x")])
async def test_what_cannot_be_opened(scheme: str, listen: str | None) -> None:
    with pytest.raises(AddressError):
        await open_endpoint(scheme, listen)


@SOCKETS
async def test_name_that_does_not_exist(opened: Opener, scheme: str) -> None:
    """It cannot be listened at, and the reason is the resolver's; another kind of address is the caller's mistake."""
    with pytest.raises(TransportError, match="cannot listen on"):
        await opened(scheme, f"{scheme}://no-such-host.invalid:0")
    with pytest.raises(AddressError, match="cannot send to"):
        await (await opened(scheme)).send([b"x"], "memory://a")


@SOCKETS
async def test_host_name(opened: Opener, scheme: str) -> None:
    here, there = await opened(scheme), await opened(scheme)
    to = there.address.replace("127.0.0.1", "localhost")
    for burst in ([b"1", b"2"], [b"3"]):
        for datagram in burst:
            await here.send([datagram], to)
        assert [data for data, _ in await received(there, len(burst))] == burst
