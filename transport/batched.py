"""A UDP socket of Linux that carries many datagrams in one system call, both ways.

Datagrams of equal size to one address leave in one ``sendmsg`` with UDP_SEGMENT; one ``recvmsg`` with UDP_GRO brings
datagrams that came together from one address (udp(7)). The bytes on the network are the same. Nothing is queued here:
when the system accepts no more datagrams the sender waits for a moment, and the next sender waits behind it. A datagram
that finds no room then is lost.

A socket that is bound to all addresses reports where each datagram arrived, and sends from a given address
(``called``). If a system offers that but no batches, this class serves such a socket too, with runs of one.
"""

import asyncio
import errno
import socket
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence

from triack.base.checks import DATAGRAM_BASE_BYTES
from triack.base.reasons import DropReason
from triack.transport.called import ANCILLARY_BYTES, Ancillary, called_by
from triack.transport.fragmenting import Fragmenting
from triack.transport.resolve import SocketAddress
from triack.transport.routes import ROUTES_MAX
from triack.transport.wakeup import DONE

Arrived = Callable[[list[tuple[list[bytes], SocketAddress, bytes]]], None]
"""Accepts what one turn of the loop has read. Each element: datagrams that came together, where they came from, and
where they arrived (``called.called_by``)."""

SOL_UDP = 17
"""The level of the two options, from Linux's ``udp.h``; the ``socket`` module has no names for these three."""
UDP_SEGMENT = 103
"""Linux's ``udp.h``, since 4.18: the size of each datagram but the last in the data for ``sendmsg``."""
UDP_GRO = 104
"""Linux's ``udp.h``, since 5.0: ``recvmsg`` may bring several datagrams, and says the size of each but the last."""
SEGMENTS_MAX = 64
"""UDP_MAX_SEGMENTS of the systems that have the fewest."""
RUN_BYTES_MAX = 65_000
"""A run passes through the system as one datagram of at most 65,507 bytes; headers of IPv6 may be longer."""
RECEIVE_BYTES = 64 * 1024
"""Room for any run, and for any datagram."""
ROOM_SECONDS = 0.05
"""How long a sender waits while the system accepts no more datagrams.

A link of 100 Mbit/s sends Linux's buffer of a socket in less. One of 200 kbit/s needs seven seconds, and the rest of
the node must not stand still that long.
"""
READS_MAX = 64
"""Calls to receive in a round of the loop. If nothing gathers datagrams into runs, as in a tunnel, each call brings
one, and a round of the node costs as much as several calls."""
BURST_MAX = 512
"""Datagrams that are enough for a round: as many as the node receives in one burst."""

_SIZE = struct.Struct("@H")  # the value of UDP_SEGMENT
_GRO_SIZE = struct.Struct("@i")  # the value of UDP_GRO
_GRO_BYTES = socket.CMSG_SPACE(_GRO_SIZE.size) if sys.platform != "win32" else 0  # not on Windows
_CUT = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)  # as a number: a flag of Python's is added up for each call
_TOO_LONG = (errno.EINVAL, errno.EMSGSIZE)
"""A datagram of a run is longer than the path carries in one piece. Alone, the system sends it in fragments if it may
(``fragmenting``)."""
AGAIN_SECONDS = 10.0
"""How long a refusal of runs counts: routes, devices and path MTUs change, and another refusal costs one call."""


def offers_batches(sock: socket.socket) -> bool:
    """Ask the system for batches on a UDP socket. Returns False, and changes nothing, if it has none."""
    if sys.platform != "linux":
        return False
    try:
        sock.setsockopt(SOL_UDP, UDP_SEGMENT, 0)  # 0: not by itself, a message says which
        sock.setsockopt(SOL_UDP, UDP_GRO, 1)
    except OSError:
        return False
    return True


def runs_of(datagrams: list[bytes], longest_bytes: int) -> Iterator[list[bytes]]:
    """Cut a burst into runs that may leave together, in order: equal sizes, of which the last may be less."""
    if len(datagrams) == 1:
        yield datagrams
        return
    sizes = list(map(len, datagrams))
    start, end = 0, len(datagrams)
    while start < end:
        size_bytes = sizes[start]
        stop = start + 1
        if 0 < size_bytes <= longest_bytes:
            limit = min(end, start + min(SEGMENTS_MAX, RUN_BYTES_MAX // size_bytes))
            while stop < limit and sizes[stop] == size_bytes:
                stop += 1
            if stop < limit and 0 < sizes[stop] < size_bytes:
                stop += 1
        yield datagrams[start:stop]
        start = stop


class BatchedSocket:
    """A socket for which ``offers_batches`` or ``offers_called`` is true."""

    def __init__(
        self, sock: socket.socket, drops: Counter[DropReason], on_arrived: Arrived, *, batches: bool = True
    ) -> None:
        self.sockname: SocketAddress = sock.getsockname()
        self._sock = sock
        self._drops = drops
        self._on_arrived = on_arrived
        self._buffer = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._buffer)
        self._most_bytes = RUN_BYTES_MAX if batches else 0
        # For an address that refused a run: the longest datagram that may share one, and until when that counts.
        self._refusals: dict[SocketAddress, tuple[int, float]] = {}
        self._fragmenting = Fragmenting(sock)
        self._turn = asyncio.Lock()
        self._senders = 0  # that wait for room, or behind another one
        self._room: asyncio.Future[None] | None = None
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._read)

    # ---- sending

    def send(
        self, datagrams: list[bytes], sockaddr: SocketAddress, leaving_from: Sequence[Ancillary] = ()
    ) -> Awaitable[None]:
        """Send each once, in order, from the address that was called; count those that cannot leave.

        Returns ``DONE``, or what waits for room, and then sends the rest.
        """
        is_one = len(datagrams) == 1
        runs = [datagrams] if is_one else list(runs_of(datagrams, self._longest_bytes(sockaddr)))
        is_behind = self._senders > 0
        if not is_behind and self._send_runs(runs, sockaddr, leaving_from):
            return DONE
        self._senders += 1
        return self._send_later(runs, sockaddr, leaving_from, is_behind=is_behind)

    async def _send_later(
        self,
        runs: list[list[bytes]],
        sockaddr: SocketAddress,
        leaving_from: Sequence[Ancillary],
        *,
        is_behind: bool,
    ) -> None:
        """Send what found no room, or comes behind a sender that found none."""
        try:
            async with self._turn:
                has_left = is_behind and self._send_runs(runs, sockaddr, leaving_from)
                while not has_left:
                    if not await self._wait_for_room():
                        self._drops[DropReason.SEND_OVERFLOW] += len(runs.pop(0))
                    has_left = self._send_runs(runs, sockaddr, leaving_from)
        finally:
            self._senders -= 1

    def _send_runs(self, runs: list[list[bytes]], sockaddr: SocketAddress, leaving_from: Sequence[Ancillary]) -> bool:
        """Send runs, and remove from the list what has left. Returns False if its first run finds no room."""
        while runs and not self._is_closed:
            run = runs[0]
            self._fragmenting.choose(len(run[0]))
            try:
                if len(run) > 1:
                    size = _SIZE.pack(len(run[0]))
                    self._sock.sendmsg(run, [(SOL_UDP, UDP_SEGMENT, size), *leaving_from], 0, sockaddr)
                elif leaving_from:
                    self._sock.sendmsg(run, leaving_from, 0, sockaddr)
                else:
                    self._sock.sendto(run[0], sockaddr)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                if len(run) > 1:  # none of it has left: each is tried alone
                    self._handle_refused(error, len(run[0]), sockaddr)
                    runs[:1] = [[datagram] for datagram in run]
                    continue
                self._drops[DropReason.TOO_LARGE if error.errno == errno.EMSGSIZE else DropReason.SEND_ERROR] += 1
            else:
                if self._refusals and len(run) == 1:
                    self._handle_left_alone(len(run[0]), sockaddr)
            del runs[0]
        for run in runs:
            self._drops[DropReason.CLOSED] += len(run)
        return True

    def _longest_bytes(self, sockaddr: SocketAddress) -> int:
        longest_bytes, until = self._refusals.get(sockaddr, (self._most_bytes, 0.0))
        if until and self._loop.time() >= until:
            del self._refusals[sockaddr]
            return self._most_bytes
        return longest_bytes

    def _handle_refused(self, error: OSError, size_bytes: int, sockaddr: SocketAddress) -> None:
        """The device cannot send batches (EIO), or none of such length; other errors are those of any datagram."""
        if error.errno != errno.EIO and error.errno not in _TOO_LONG:
            return
        if len(self._refusals) >= ROUTES_MAX:
            self._refusals.clear()
        longest_bytes = size_bytes - 1 if error.errno in _TOO_LONG else 0
        self._refusals[sockaddr] = longest_bytes, self._loop.time() + AGAIN_SECONDS

    def _handle_left_alone(self, size_bytes: int, sockaddr: SocketAddress) -> None:
        """A datagram has left that may not be cut: if runs of its length were refused, the path has become wider."""
        longest_bytes, _ = self._refusals.get(sockaddr, (0, 0.0))
        if size_bytes > DATAGRAM_BASE_BYTES and 0 < longest_bytes < size_bytes:
            del self._refusals[sockaddr]

    async def _wait_for_room(self) -> bool:
        """Wait until the system accepts more. Returns False after too long, and then immediately until it does."""
        if self._room is not None:
            return False
        room = self._room = self._loop.create_future()
        self._loop.add_writer(self._sock, self._handle_room)
        await asyncio.wait([room], timeout=ROOM_SECONDS)
        return room.done()

    def _handle_room(self) -> None:
        if self._room is not None:
            self._loop.remove_writer(self._sock)
            self._room.set_result(None)
            self._room = None

    # ---- receiving

    def _read(self) -> None:
        """Read datagrams up to a bound, so that other tasks of the loop get their turn."""
        arrived: list[tuple[list[bytes], SocketAddress, bytes]] = []
        self._read_into(arrived)
        if arrived:
            self._on_arrived(arrived)

    def _read_into(self, arrived: list[tuple[list[bytes], SocketAddress, bytes]]) -> None:
        taken = 0
        for _ in range(READS_MAX):
            if taken >= BURST_MAX:
                return
            try:
                size_bytes, ancillary, flags, sockaddr = self._sock.recvmsg_into(
                    [self._buffer], _GRO_BYTES + ANCILLARY_BYTES
                )
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # such as an ICMP answer to something sent earlier
                self._drops[DropReason.RECEIVE_ERROR] += 1
                continue
            if flags & _CUT:  # the end of each datagram is unknown
                self._drops[DropReason.RECEIVE_ERROR] += 1
                continue
            step_bytes, view = size_bytes, self._view[:size_bytes]
            for _, kind, said in ancillary:
                if kind == UDP_GRO:
                    (step_bytes,) = _GRO_SIZE.unpack(said)
            datagrams = [bytes(view)]
            if step_bytes < size_bytes:
                datagrams = [bytes(view[at : at + step_bytes]) for at in range(0, size_bytes, step_bytes)]
            taken += len(datagrams)
            arrived += [(datagrams, sockaddr, called_by(ancillary) if ancillary else b"")]

    async def close(self) -> None:
        """Free the address; a sender that waits for room continues, and counts the rest as dropped."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._sock)
        self._handle_room()
        self._sock.close()
