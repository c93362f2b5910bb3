"""The socket on asyncio-dgram; its promises as an endpoint are in ``test_udp.py`` and ``test_endpoint.py``."""

import asyncio
import socket
from collections import Counter

from tests.machine import PATIENCE_S
from triack.base.reasons import DropReason
from triack.transport.portable import PortableSocket
from triack.transport.resolve import SocketAddress, bound


async def test_errors_do_not_end_it() -> None:
    """Errors of earlier datagrams are raised when the next is sent: they are counted, and it is sent all the same."""
    drops: Counter[DropReason] = Counter()
    arrived = asyncio.get_running_loop().create_future()

    def take(datagrams: list[bytes], _sockaddr: SocketAddress, _called: bytes) -> None:
        arrived.set_result(datagrams)

    one = await PortableSocket.open(bound(socket.SOCK_DGRAM, ("127.0.0.1", 0)), drops, take)
    await one.send([b"a", b"b"], ("255.255.255.255", 9))
    await one.send([b"c"], one.sockname)
    async with asyncio.timeout(PATIENCE_S):
        assert await arrived == [b"c"]
    assert drops[DropReason.SEND_ERROR] > 0
    await one.close()
    await one.send([b"d"], one.sockname)
    assert drops[DropReason.CLOSED] == 1


async def test_nobody_waits_for_a_system_that_takes_no_more() -> None:
    """A slow link does not stop a node, nor fill its memory: what finds no room is lost, until there is room."""
    drops: Counter[DropReason] = Counter()
    arrived: asyncio.Queue[bytes] = asyncio.Queue()
    one = await PortableSocket.open(
        bound(socket.SOCK_DGRAM, ("127.0.0.1", 0)), drops, lambda datagrams, *_: arrived.put_nowait(datagrams[0])
    )
    drained = one._stream._drained  # noqa: SLF001 - what asyncio says when the system takes no more
    drained.clear()
    await one.send([b"a", b"b"], one.sockname)
    assert drops == {"send-overflow": 2}
    drained.set()
    await one.send([b"c"], one.sockname)
    async with asyncio.timeout(PATIENCE_S):
        assert await arrived.get() == b"c"
    await one.close()
