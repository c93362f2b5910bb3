"""Endpoints over UDP and memory: what is in memory, and what wakes a loop."""

import asyncio
import socket
import sys
from collections import Counter
from contextlib import suppress

import pytest

import triack
from tests.machine import PATIENCE_S
from tests.transport.endpoints import Opener, received
from triack.base.errors import TransportError
from triack.base.paths import UDP_SOCKETS, UdpSockets
from triack.base.reasons import DropReason
from triack.transport import connection
from triack.transport.batched import BatchedSocket
from triack.transport.connection import UNSENT_BYTES_MAX, Connection, Waits
from triack.transport.frames import LengthFramer
from triack.transport.memory import MemoryNetwork
from triack.transport.portable import PortableSocket
from triack.transport.resolve import bound
from triack.transport.turns import Received
from triack.transport.udp import UdpEndpoint
from triack.transport.wakeup import Wakeup


async def test_filter() -> None:
    network = MemoryNetwork(lambda data, sender, to: [data, data] if data == b"twice" else [])
    a, b = network.endpoint("a"), network.endpoint("b")
    await a.send([b"never", b"twice"], b.address)
    await a.send([b"x"], "memory://nobody")
    assert await b.receive() == [Received(b"twice", "memory://a")] * 2
    assert a.drops == {"unreachable": 1}


async def test_unnamed_endpoints_and_names_that_are_free_again() -> None:
    network = MemoryNetwork()
    one, two = network.endpoint(), network.endpoint()
    assert one.address != two.address
    await one.close()
    again = network.endpoint(one.address.removeprefix("memory://"))
    await two.send([b"x"], one.address)
    assert await again.receive() == [Received(b"x", two.address)]
    assert MemoryNetwork().endpoint("a").address == MemoryNetwork().endpoint("a").address


# The backlog of a connection to a peer that reads nothing, or little.

BURST = [bytes(65_536)] * 64


async def test_what_waits_has_an_end() -> None:
    waiting = Connection("tcp://127.0.0.1:9", LengthFramer(), host=None)
    refused = [waiting.offer(BURST) for _ in range(5)]
    assert refused[:3] == [0, 0, 0]
    assert refused[-1] == len(BURST)
    assert waiting.unsent_count == UNSENT_BYTES_MAX // (65_536 + 64)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="it is the system that gives up")
@pytest.mark.parametrize("silence_s", [0.0, 0.9])
async def test_who_takes_nothing_is_given_up(opened: Opener, monkeypatch: pytest.MonkeyPatch, silence_s: float) -> None:
    """By the system, after a while without a byte, but not before a session; the receiver is notified as of any end."""
    monkeypatch.setattr(connection, "USER_TIMEOUT_MS", 100)
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        here = await opened("tcp", None, waits=Waits(silence_s=silence_s))
        there = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        begun_s = loop.time()
        for _ in range(4):
            await here.send(BURST, there)
            await asyncio.sleep(0)
        assert await received(here, 1) == [Received(b"", there)]
        assert loop.time() - begun_s >= silence_s


@pytest.mark.parametrize("udp", UDP_SOCKETS)
async def test_an_owner_may_choose_the_sockets(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, udp: UdpSockets
) -> None:
    """For the one that listens, and for those that call; of a system without batches nobody gets them."""
    if udp == "batched" and sys.platform != "linux":
        pytest.skip("only Linux carries datagrams in batches")
    here, there = await opened("udp", "udp://0.0.0.0:0", udp=udp), await opened("udp", None, udp=udp)
    await there.send([b"1", b"22"], here.address.replace("0.0.0.0", "127.0.0.1"))
    assert [data for data, _ in await received(here, 2)] == [b"1", b"22"]
    assert isinstance(here, UdpEndpoint)
    assert isinstance(there, UdpEndpoint)
    socks = [here._listening, *there._outgoing.values()]  # noqa: SLF001
    assert {type(sock) for sock in socks} == {BatchedSocket if udp == "batched" else PortableSocket}
    monkeypatch.setattr("triack.transport.udp.offers_batches", lambda _sock: False)
    if udp == "batched":
        why = "this system has no batches; leave it out"
        with pytest.raises(TransportError, match=why):
            await opened("udp", udp=udp)
        with pytest.raises(TransportError, match=why):
            await triack.open("a", data=None, insecure=True, settings=triack.NodeSettings(udp=udp)).start()


async def waiting_for(wakeup: Wakeup) -> asyncio.Task[None]:
    waiting = asyncio.create_task(wakeup.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    return waiting


async def test_who_waits_goes_on_when_it_is_set() -> None:
    wakeup = Wakeup()
    for _ in range(2):
        waiting = await waiting_for(wakeup)
        wakeup.set()
        wakeup.set()
        async with asyncio.timeout(PATIENCE_S):
            await waiting
            await wakeup.wait()
        wakeup.clear()


@pytest.mark.parametrize("is_set", [False, True])
async def test_a_wait_that_is_cancelled_takes_nothing_away(is_set: bool) -> None:
    wakeup = Wakeup()
    waiting = await waiting_for(wakeup)
    if is_set:
        wakeup.set()
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting
    assert wakeup.is_set is is_set
    wakeup.set()
    async with asyncio.timeout(PATIENCE_S):
        await wakeup.wait()


# The socket on asyncio-dgram; its promises as an endpoint are in ``test_udp.py`` and ``test_endpoint.py``.


class Portable:
    """A socket that receives from itself, and what it has dropped."""

    def __init__(self) -> None:
        self.drops: Counter[DropReason] = Counter()
        self.arrived: asyncio.Queue[bytes] = asyncio.Queue()

    async def open(self) -> PortableSocket:
        sock = bound(socket.SOCK_DGRAM, ("127.0.0.1", 0))
        return await PortableSocket.open(sock, self.drops, lambda read: self.arrived.put_nowait(read[0][0][0]))

    async def get(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            return await self.arrived.get()


async def test_errors_do_not_end_it() -> None:
    """Errors of earlier datagrams are raised when the next is sent: they are counted, and it is sent all the same."""
    of = Portable()
    one = await of.open()
    await one.send([b"a", b"b"], ("255.255.255.255", 9))
    await one.send([b"c"], one.sockname)
    assert await of.get() == b"c"
    assert of.drops[DropReason.SEND_ERROR] > 0
    await one.close()
    await one.send([b"d"], one.sockname)
    assert of.drops[DropReason.CLOSED] == 1


async def test_nobody_waits_for_a_system_that_takes_no_more() -> None:
    """A slow link does not stop a node, nor fill its memory: what finds no room is lost, until there is room."""
    of = Portable()
    one = await of.open()
    drained = one._stream._drained  # noqa: SLF001 - what asyncio says when the system takes no more
    drained.clear()
    await one.send([b"a", b"b"], one.sockname)
    assert of.drops == {"send-overflow": 2}
    drained.set()
    await one.send([b"c"], one.sockname)
    assert await of.get() == b"c"
    await one.close()
