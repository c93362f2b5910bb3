"""A UDP socket on asyncio-dgram, for every system and event loop: one system call for each datagram."""

import asyncio
import contextlib
import errno
import socket
from collections import Counter
from collections.abc import Sequence

import asyncio_dgram

from triack.base.reasons import DropReason
from triack.transport.batched import ROOM_SECONDS, Arrived
from triack.transport.called import Ancillary
from triack.transport.fragmenting import Fragmenting
from triack.transport.resolve import SocketAddress

RECEIVE_BYTES = 64 * 1024
"""Room for any datagram. asyncio makes a buffer for each one. Its default size, 256 KiB, is so large that the C library
of Linux gets it from the system, and returns it, each time: two page faults for each datagram."""
STALE_ERRORS_MAX = 64
"""Errors of earlier datagrams to skip before one is sent; more do not pile up between two sendings."""


class PortableSocket:
    """One of asyncio-dgram's sockets. Make it with :meth:`open`."""

    def __init__(
        self,
        stream: asyncio_dgram.aio.DatagramServer,
        sock: socket.socket,
        drops: Counter[DropReason],
        on_arrived: Arrived,
    ) -> None:
        self.sockname: SocketAddress = stream.sockname
        self._stream = stream
        self._fragmenting = Fragmenting(sock)
        # Whether all datagrams have left; asyncio keeps those that the system does not accept.
        self._drained = stream._drained  # noqa: SLF001 - it shows no other way
        self._drops = drops
        self._on_arrived = on_arrived
        self._pumping = asyncio.create_task(self._pump())

    @classmethod
    async def open(cls, sock: socket.socket, drops: Counter[DropReason], on_arrived: Arrived) -> "PortableSocket":
        """Take over a bound socket."""
        stream = await asyncio_dgram.from_socket(sock)
        assert isinstance(stream, asyncio_dgram.aio.DatagramServer)  # the other kind has one peer only
        with contextlib.suppress(AttributeError):  # the transports of other event loops have no such limit
            # asyncio-dgram shows no other way to its transport.
            stream._transport.max_size = RECEIVE_BYTES  # type: ignore[attr-defined]  # noqa: SLF001
        return cls(stream, sock, drops, on_arrived)

    async def send(
        self, datagrams: list[bytes], sockaddr: SocketAddress, leaving_from: Sequence[Ancillary] = ()
    ) -> None:
        """Send each once, in order; count those that cannot leave. The system chooses the local address."""
        assert not leaving_from  # no caller knows another address
        for datagram in datagrams:
            await self._send_one(datagram, sockaddr)

    async def _send_one(self, datagram: bytes, sockaddr: SocketAddress) -> None:
        # asyncio-dgram raises the errors of earlier datagrams before it sends this one: try again after each.
        for _ in range(STALE_ERRORS_MAX):
            if not self._drained.is_set():  # other senders have waited for that
                self._drops[DropReason.SEND_OVERFLOW] += 1
                return
            self._fragmenting.choose(len(datagram))
            try:
                async with asyncio.timeout(ROOM_SECONDS):
                    await self._stream.send(datagram, sockaddr)
            except TimeoutError:
                return  # it leaves when there is room
            except asyncio_dgram.TransportClosed:
                self._drops[DropReason.CLOSED] += 1
            except OSError as error:
                self._drops[DropReason.TOO_LARGE if error.errno == errno.EMSGSIZE else DropReason.SEND_ERROR] += 1
                continue
            return

    async def _pump(self) -> None:
        """Pass on the datagrams that asyncio-dgram queues without a bound."""
        while True:
            try:
                data, sockaddr = await self._stream.recv()
            except asyncio_dgram.TransportClosed:
                return
            except OSError:  # such as an ICMP answer to something sent earlier
                self._drops[DropReason.RECEIVE_ERROR] += 1
                continue
            assert isinstance(sockaddr, tuple)  # a str only for AF_UNIX
            self._on_arrived([([data], sockaddr, b"")])

    async def close(self) -> None:
        """Free the address."""
        self._stream.close()
        self._pumping.cancel()
        await asyncio.wait([self._pumping])
