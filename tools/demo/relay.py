"""A relay on real sockets that drops, duplicates and reorders datagrams, or whole frames of TCP.

A client sends to the relay instead of its target. The relay gives every client another way to the target, as a NAT
does, and impairs both directions, each by its own seeded chance.

    python -m triack.tools.demo.relay --target udp://127.0.0.1:7802 --listen udp://127.0.0.1:7902 --loss 0.1
"""

import asyncio
import contextlib
import json
import signal
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, replace
from functools import partial
from random import Random
from typing import Any

import click

from triack.base.errors import AddressError, ProtocolError, TransportError
from triack.base.units import MS, SECOND
from triack.tools.sim.faults import Fates, Faults
from triack.transport.address import Address
from triack.transport.frames import LengthFramer, frame
from triack.transport.resolve import SocketAddress, cannot, family_of, lookup, resolve_listening

CLIENTS_MAX = 1_024
BURST_MAX = 64  # datagrams read before other sockets have their turn
READ_BYTES = 65_536
SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
REORDER_NS = 5 * MS
"""A datagram that is held back arrives at most this much later: past a few thousand others."""

Deliver = Callable[[bytes], bool]


@dataclass(slots=True)
class Counters:
    """What happened to the datagrams of one direction."""

    forwarded: int = 0
    dropped: int = 0
    duplicated: int = 0
    reordered: int = 0


def rough(**faults: Any) -> Faults:
    """The faults that a relay adds to a network with a delay. Raises UsageError for an invalid value."""
    return Faults(**{"delay_ns": 0, "reorder_ns": REORDER_NS, **faults})


class Direction:
    """One direction of a bad network."""

    def __init__(self, faults: Faults, seed: str, finest_ns: int = 1) -> None:
        self.counters = Counters()
        self.faults = faults
        self.fates = Fates(lambda concern: Random(f"{seed} {concern}"))
        self.sent = self.sent_bytes = 0
        self.is_cut = False
        self._finest_ns = finest_ns

    def pass_on(self, datagram: bytes, deliver: Deliver) -> None:
        """Deliver the copies of a datagram, now or later."""
        self.sent += 1
        self.sent_bytes += len(datagram)
        arriving = [] if self.is_cut else self.fates.decide(self.faults, datagram, now_ns=time.monotonic_ns())
        if not arriving:
            self.counters.dropped += 1
            return
        self.counters.duplicated += len(arriving) - 1
        for delay_ns, copy in arriving:
            self.counters.reordered += delay_ns > self.faults.delay_ns
            if delay_ns >= self._finest_ns:
                asyncio.get_running_loop().call_later(delay_ns / SECOND, self._deliver, copy, deliver)
            else:
                self._deliver(copy, deliver)

    def _deliver(self, datagram: bytes, deliver: Deliver) -> None:
        if deliver(datagram):
            self.counters.forwarded += 1
        else:
            self.counters.dropped += 1


class Relay:
    """Passes datagrams to :attr:`address` on, in the manner of a bad network."""

    def __init__(
        self,
        *,
        target: str,
        listen: str = "udp://127.0.0.1:0",
        faults: Faults | None = None,
        seed: int = 0,
        finest_ns: int = 1,
    ) -> None:
        self._target = Address.parse(target)
        self._listen = Address.parse(listen, listening=True)
        if self._target.scheme != self._listen.scheme or self._target.scheme == "memory":
            raise AddressError(f"cannot relay from {listen!r} to {target!r}: both must be udp, or both tcp")
        self.to_target, self.to_client = (
            Direction(replace(faults or rough()), f"{seed} {name}", finest_ns) for name in ("to_target", "to_client")
        )
        self._wire: _UdpWire | _TcpWire | None = None
        self.address = str(self._listen)

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        """The counters now, by direction (``to_target``, ``to_client``) and name."""
        return {"to_target": asdict(self.to_target.counters), "to_client": asdict(self.to_client.counters)}

    def cut(self, *, both: bool = True) -> None:
        """Let nothing through any more; with ``both`` unset, block only the way to the client."""
        self.to_client.is_cut = True
        self.to_target.is_cut |= both

    def heal(self) -> None:
        """Let everything through again, except for the faults."""
        self.to_target.is_cut = self.to_client.is_cut = False

    async def start(self) -> None:
        """Listen; from now on :attr:`address` has the real port."""
        kind = _UdpWire if self._listen.scheme == "udp" else _TcpWire
        wire = kind(self._target, self.to_target, self.to_client)
        try:
            port = await wire.start(*(await resolve_listening(self._listen))[:2])
        except OSError as error:
            raise cannot("listen on", self._listen, error) from error
        self._wire = wire
        self.address = str(Address(self._listen.scheme, self._listen.host, port))

    async def close(self) -> None:
        """Close every socket; datagrams that are held back are lost."""
        if self._wire is not None:
            await self._wire.close()


class _UdpWire:
    """One listening socket, and one socket to the target for each client."""

    def __init__(self, target: Address, to_target: Direction, to_client: Direction) -> None:
        self._target = target
        self._target_address: SocketAddress = ()
        self._family = int(socket.AF_INET)
        self._to_target = to_target
        self._to_client = to_client
        self._listener: socket.socket | None = None
        self._upstreams: OrderedDict[SocketAddress, socket.socket] = OrderedDict()

    async def start(self, host: str, port: int) -> int:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._target_address, *_ = await lookup(self._target)
        except OSError as error:
            raise cannot("resolve", self._target, error) from error
        self._family = family_of(self._target_address)
        listener = self._listener = _udp_socket(family)
        try:
            listener.bind((host, port))
        except OSError:
            listener.close()
            raise
        asyncio.get_running_loop().add_reader(listener, self._read_listener, listener)
        bound_port: int = listener.getsockname()[1]
        return bound_port

    def _read_listener(self, listener: socket.socket) -> None:
        for _ in range(BURST_MAX):
            try:
                datagram, client = listener.recvfrom(READ_BYTES)
            except BlockingIOError:
                return
            upstream = self._upstreams.get(client)
            if upstream is None:
                try:
                    upstream = self._open_upstream(listener, client)
                except OSError:  # no file descriptors left, or no way to the target
                    self._to_target.counters.dropped += 1
                    continue
            else:
                self._upstreams.move_to_end(client)
            self._to_target.pass_on(datagram, partial(_send, upstream))

    def _open_upstream(self, listener: socket.socket, client: SocketAddress) -> socket.socket:
        loop = asyncio.get_running_loop()
        if len(self._upstreams) >= CLIENTS_MAX:
            _, oldest = self._upstreams.popitem(last=False)
            loop.remove_reader(oldest)
            oldest.close()
        upstream = _udp_socket(self._family)
        try:
            upstream.connect(self._target_address)
        except OSError:
            upstream.close()
            raise
        self._upstreams[client] = upstream
        loop.add_reader(upstream, self._read_upstream, upstream, partial(_send_to, listener, client))
        return upstream

    def _read_upstream(self, upstream: socket.socket, deliver: Deliver) -> None:
        for _ in range(BURST_MAX):
            try:
                datagram = upstream.recv(READ_BYTES)
            except BlockingIOError:
                return
            except OSError:  # no process listens at the target at present
                continue
            self._to_client.pass_on(datagram, deliver)

    async def close(self) -> None:
        sockets = [*self._upstreams.values(), *([self._listener] if self._listener else [])]
        for sock in sockets:
            asyncio.get_running_loop().remove_reader(sock)
            sock.close()
        self._upstreams.clear()
        self._listener = None


class _TcpWire:
    """A listening socket, and for each accepted connection one to the target; they end together."""

    def __init__(self, target: Address, to_target: Direction, to_client: Direction) -> None:
        self._target = target
        self._to_target = to_target
        self._to_client = to_client
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        self._server = await asyncio.start_server(self._accept, host, port)
        bound_port: int = self._server.sockets[0].getsockname()[1]
        return bound_port

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._links) >= CLIENTS_MAX:
            writer.transport.abort()
            return
        link = asyncio.create_task(self._link(reader, writer))
        self._links.add(link)
        link.add_done_callback(self._links.discard)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection(self._target.host, self._target.port)
        except OSError:  # the client sees its connection close, as it would without the relay
            writer.close()
            return
        try:
            await _run_until_one_ends(
                _pass_frames(reader, up_writer, self._to_target), _pass_frames(up_reader, writer, self._to_client)
            )
        finally:
            up_writer.close()
            writer.close()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)


async def _run_until_one_ends(*ways: Coroutine[object, None, None]) -> None:
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pass_frames(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction) -> None:
    frames = LengthFramer()
    deliver = partial(_write_frame, writer)
    with contextlib.suppress(OSError, ProtocolError):
        while data := await reader.read(READ_BYTES):
            for datagram in frames.feed(data):
                direction.pass_on(datagram, deliver)
            await writer.drain()


def _write_frame(writer: asyncio.StreamWriter, datagram: bytes) -> bool:
    if writer.is_closing():
        return False
    writer.write(frame([datagram]))
    return True


def _udp_socket(family: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setblocking(False)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        with contextlib.suppress(OSError):  # a smaller buffer only loses more
            sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
    return sock


def _send(sock: socket.socket, datagram: bytes) -> bool:
    try:
        sock.send(datagram)
    except OSError:  # full, closed, or no listener: a network would lose it too
        return False
    return True


def _send_to(sock: socket.socket, to: SocketAddress, datagram: bytes) -> bool:
    try:
        sock.sendto(datagram, to)
    except OSError:
        return False
    return True


async def _run(relay: Relay) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await relay.start()
    click.echo(f"relaying {relay.address}")
    await stopping.wait()
    await relay.close()
    click.echo(json.dumps(relay.counters))


_SHARE = click.FloatRange(0, 1)
_COUNT = click.IntRange(min=0)


@click.command()
@click.option("--target", required=True, help="Address to relay to, such as udp://127.0.0.1:7802.")
@click.option("--listen", required=True, help="Address to listen at; port 0 for any free one.")
@click.option("--loss", type=_SHARE, default=0.0, help="Share of datagrams that vanish.")
@click.option("--duplicate", type=_SHARE, default=0.0, help="Share of datagrams that come twice.")
@click.option("--reorder", type=_SHARE, default=0.0, help="Share of datagrams that are held back.")
@click.option("--delay-ms", type=_COUNT, default=0, help="How long each takes more, one way.")
@click.option("--rate-bps", type=_COUNT, default=0, help="Bits a second each way; 0 for no limit.")
@click.option("--queue-bytes", type=_COUNT, default=0, help="What waits for its turn, at most; 0 for no limit.")
@click.option("--mtu-bytes", type=_COUNT, default=0, help="Longer datagrams vanish; 0 for no limit.")
@click.option("--seed", type=int, default=0, help="Repeats the same decisions.")
def main(*, target: str, listen: str, seed: int, delay_ms: int, **faults: float) -> None:
    """Relay datagrams between a client and a target, as a bad network would."""
    try:
        relay = Relay(target=target, listen=listen, faults=rough(delay_ns=delay_ms * MS, **faults), seed=seed)
        asyncio.run(_run(relay))
    except (AddressError, TransportError) as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
