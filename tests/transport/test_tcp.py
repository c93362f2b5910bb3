"""TCP as a carrier of datagrams: connections come and go, are bounded, and end with a report."""

import asyncio
import contextlib
import errno
import gc
import select
import socket
import ssl
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import pytest

from tests.certificates import make_certificate
from tests.machine import PATIENCE_S
from tests.transport.endpoints import Opener, received
from triack.base.errors import UsageError
from triack.base.reasons import DropReason
from triack.transport import tcp
from triack.transport.address import Address
from triack.transport.connection import Waits
from triack.transport.endpoint import Endpoint
from triack.transport.frames import FRAME_BYTES_MAX, LengthFramer, frame
from triack.transport.strangers import STRANGERS_PER_HOST_MAX
from triack.transport.tcp import TcpEndpoint, Tls
from triack.transport.turns import Received

MANY = [number.to_bytes(2, "big") * 30_000 for number in range(200)]
"""More than the system's buffers hold."""


async def test_path_gone(opened: Opener) -> None:
    """The end of a connection is reported once, after what came over it; the next datagram opens a new one."""
    here, there = await opened("tcp", None), await opened("tcp")
    await here.send([b"1"], there.address)
    await received(there, 1)
    await there.close()
    assert await received(here, 1) == [Received(b"", there.address)]
    again = await opened("tcp", there.address)
    await here.send([b"last words"], again.address)
    await here.close()
    words, end = await received(again, 2)
    assert (words.data, end) == (b"last words", Received(b"", words.sender))


async def test_connection_refused(opened: Opener) -> None:
    here, there = await opened("tcp"), await opened("tcp")
    await there.close()
    await here.send([b"1", b"2"], there.address)
    assert await received(here, 1) == [Received(b"", there.address)]
    assert here.drops == {"connect-failed": 2}


async def test_frame_too_large(opened: Opener) -> None:
    endpoint = await opened("tcp")
    reader, writer = await connected(endpoint)
    writer.write((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
    assert await reader.read(1) == b""
    writer.close()
    assert [data for data, _ in await received(endpoint, 1)] == [b""]
    assert endpoint.drops == {"frame-too-large": 1}


async def test_slow_frame(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that begins a frame and does not end it is cut off in time, even if a session has vouched for it."""
    monkeypatch.setattr(tcp, "FRAME_TIMEOUT_SECONDS", 0.05)
    there = await opened("tcp")
    reader, writer = await connected(there)
    sender = await vouched(there, writer)
    writer.write(b"\0")
    assert await received(there, 1) == [Received(b"", sender)]
    assert await reader.read() == b""
    assert there.drops == {"frame-timeout": 1}
    writer.close()


# An accepted connection must be vouched for.


async def connected(endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection of a peer that may be no node."""
    address = Address.parse(endpoint.address)
    return await asyncio.open_connection(address.host, address.port)


async def vouched(endpoint: Endpoint, writer: asyncio.StreamWriter) -> str:
    """The address of a peer, for which a session vouches as soon as it has said something."""
    writer.write(frame([b"whole"]))
    ((_, sender),) = await received(endpoint, 1)
    endpoint.vouch(sender)
    return sender


def close(*connections: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    for _, writer in connections:
        writer.close()


async def echo(here: Endpoint, there: Endpoint, host: str) -> None:
    """A datagram arrives at the host's port of the other endpoint, and is answered."""
    await here.send([b"x"], f"tcp://{host}:{Address.parse(there.address).port}")
    ((data, sender),) = await received(there, 1)
    await there.send([b"y"], sender)
    assert (data, [data for data, _ in await received(here, 1)]) == (b"x", [b"y"])


async def ended(reader: asyncio.StreamReader, seconds: float = PATIENCE_S) -> bool:
    """Whether the other side ends the connection by then."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            with suppress(ConnectionError):
                while await reader.read(1):
                    pass
            return True
    return False


async def test_a_stranger_has_its_time(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it sends meanwhile; and a peer that has lost its last session is a stranger again."""
    there = await opened("tcp")
    known = await connected(there)
    sender = await vouched(there, known[1])
    monkeypatch.setattr(tcp, "VOUCH_TIMEOUT_SECONDS", 0.1)
    silent, talking = await connected(there), await connected(there)
    there.vouch("tcp://192.0.2.1:9")
    while not await ended(talking[0], 0.02):
        talking[1].write(frame([b"junk"]))
    assert await ended(silent[0])
    assert not await ended(known[0], 0.2)
    assert there.drops[DropReason.NOT_VOUCHED] == 2
    there.release(sender)
    assert await ended(known[0])
    there.release(sender)
    assert there.drops[DropReason.NOT_VOUCHED] == 3
    close(silent, talking, known)


async def test_no_connection_ends_before_its_session_would(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for a session, and one that waits for the rest of a datagram, as long as sessions may."""
    for name in ("VOUCH_TIMEOUT_SECONDS", "FRAME_TIMEOUT_SECONDS"):
        monkeypatch.setattr(tcp, name, 0.05)
    patient = await opened("tcp", waits=Waits(connect_s=3_600, silence_s=3_600))
    hasty = await opened("tcp")
    stranger, known = await connected(patient), await connected(patient)
    await vouched(patient, known[1])
    known[1].write(frame([b"second"])[:-1])
    others = [await connected(hasty) for _ in range(3)]
    for reader, _ in others:
        assert await ended(reader)
    assert not patient.drops
    for (_, writer), rest in ((known, b"d"), (stranger, frame([b"third"]))):
        writer.write(rest)
    assert {data for data, _ in await received(patient, 2)} == {b"second", b"third"}
    close(stranger, known, *others)


async def test_a_way_that_leads_nowhere_is_given_up(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forwarder takes all, and passes on nothing: without a session the connection ends, and a new one is tried."""
    monkeypatch.setattr(tcp, "VOUCH_TIMEOUT_SECONDS", 0.1)
    here, there = await opened("tcp", None), await opened("tcp")
    for _ in range(2):
        await here.send([b"anyone?"], there.address)
        ((_, sender),) = await received(there, 1)
        there.vouch(sender)  # it is not this side that ends it
        assert await received(here, 1) == [Received(b"", there.address)]
        assert await received(there, 1) == [Received(b"", sender)]
    monkeypatch.setattr(tcp, "VOUCH_TIMEOUT_SECONDS", PATIENCE_S)
    await here.send([b"hello"], there.address)
    assert [data for data, _ in await received(there, 1)] == [b"hello"]
    here.vouch(there.address)
    monkeypatch.setattr(tcp, "VOUCH_TIMEOUT_SECONDS", 0.1)
    here.release(there.address)
    assert await received(here, 1) == [Received(b"", there.address)]
    assert here.drops == {"not-vouched": 3}


@pytest.mark.gate
async def test_strangers_do_not_lock_anyone_out(opened: Opener) -> None:
    """1,024 connections with a frame of junk each: a newcomer is served at once, and those we know stay."""
    there, known, newcomer = await opened("tcp"), await opened("tcp", None), await opened("tcp", None)
    await known.send([b"known"], there.address)
    ((_, sender),) = await received(there, 1)
    there.vouch(sender)
    strangers = []
    for _ in range(1_024):
        strangers.append(await connected(there))
        strangers[-1][1].write(frame([b"junk"]))
    await newcomer.send([b"here I am"], there.address)
    async with asyncio.timeout(PATIENCE_S):
        while not (came := [it for it in await there.receive() if it.data == b"here I am"]):
            pass
    await there.send([b"welcome"], came[0].sender)
    assert [data for data, _ in await received(newcomer, 1)] == [b"welcome"]
    await there.send([b"still here"], sender)
    assert [data for data, _ in await received(known, 1)] == [b"still here"]
    assert there.drops[DropReason.TOO_MANY_CONNECTIONS] == 1_025 - STRANGERS_PER_HOST_MAX
    close(*strangers)


async def test_without_file_descriptors_a_stranger_goes(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    real, exhausted = socket.socket.accept, iter([False, True])

    def accept(sock: socket.socket) -> tuple[socket.socket, tuple[str, int]]:
        if any(select.select([sock], [], [], 0)) and next(exhausted, False):
            raise OSError(errno.EMFILE, "Too many open files")
        return real(sock)

    monkeypatch.setattr(socket.socket, "accept", accept)
    there = await opened("tcp")
    first = await connected(there)
    second = await connected(there)
    assert await ended(first[0])
    second[1].write(frame([b"x"]))
    assert [data for data, _ in await received(there, 2)] == [b"", b"x"]
    assert there.drops == {"too-many-connections": 1}
    close(first, second)


async def test_who_knocks_while_it_closes_is_left_by_nobody(opened: Opener, recwarn: pytest.WarningsRecorder) -> None:
    """An accepted connection is closed, and not left to the garbage collector; nothing is said on the terminal."""
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    for turns in range(8):
        there = await opened("tcp")
        _, before = await connected(there)
        before.write(frame([b"x"]))
        assert [data for data, _ in await received(there, 1)] == [b"x"]  # it waits for the next one
        knocking = socket.create_connection(("127.0.0.1", Address.parse(there.address).port))
        for _ in range(turns):
            await asyncio.sleep(0)
        await there.close()
        for one in (knocking, before):
            one.close()
    gc.collect()
    assert (said, [it for it in recwarn if it.category is ResourceWarning]) == ([], [])


def found_at_both() -> Callable[..., list[Any]]:
    """The resolver of a machine on which ``localhost`` has addresses of both families."""
    real = socket.getaddrinfo

    def both(host: str, *more: Any, **options: Any) -> list[Any]:
        hosts = ("127.0.0.1", "::1") if host == "localhost" else (host,)
        return [found for host in hosts for found in real(host, *more, **options)]

    return both


async def test_both_families(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", found_at_both())
    here = await opened("tcp", None)
    for listen, called in (
        ("tcp://[::1]:0", "localhost"),
        ("tcp://127.0.0.1:0", "localhost"),
        ("tcp://[::]:0", "127.0.0.1"),
        ("tcp://[::]:0", "[::1]"),
    ):
        await echo(here, await opened("tcp", listen), called)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python has no tasks that begin at once")
async def test_where_tasks_begin_at_once(opened: Opener) -> None:
    """The way in which asyncio tries several addresses of a name does not end there: another one is taken."""
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined,unused-ignore]
    here = await opened("tcp", None)
    for called in ("127.0.0.1", "localhost"):
        await echo(here, await opened("tcp"), called)


async def test_an_address_that_says_nothing_does_not_hold_up_the_next_one(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name has two; at the first one, whose queue of waiting connections is full, the system drops each call."""
    there = await opened("tcp", "tcp://[::1]:0")
    port = Address.parse(there.address).port
    monkeypatch.setattr(socket, "getaddrinfo", found_at_both())
    with contextlib.ExitStack() as held:
        silent = held.enter_context(socket.create_server(("127.0.0.1", port), backlog=0))
        for _ in range(3):
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(silent.getsockname())
        here = await opened("tcp", None)
        await here.send([b"x"], f"tcp://localhost:{port}")
        assert (await received(there, 1))[0].data == b"x"


async def test_where_no_address_takes_a_connection_the_first_says_why(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [("127.0.0.1", 9), ("192.0.2.1", 9, 0, 0)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", place) for place in places])
    here = await opened("tcp", None)
    said: list[str] = []
    here.on_trouble = lambda _to, why: said.append(why)
    await here.send([b"x"], "tcp://localhost:9")
    assert await received(here, 1) == [Received(b"", "tcp://localhost:9")]
    assert said == ["no process listens at tcp://localhost:9"]


async def test_without_keys_nothing_leaves_the_machine(opened: Opener) -> None:
    """Not even the question where a name is."""
    here = await opened("tcp", None)
    for host in ("192.0.2.1", "[2001:db8::1]", "plant.example"):
        await here.send([b"x"], f"tcp://{host}:9")
    assert here.drops == {"not-loopback": 3}


async def test_tls_hides_what_is_sent(opened: Opener, tls: Tls) -> None:
    there, here = await opened("tcp", tls=tls), await opened("tcp", None, tls=tls)
    await here.send(MANY, there.address)
    arrived = await received(there, len(MANY))
    assert [data for data, _ in arrived] == MANY
    await there.send([b"back"], arrived[0].sender)
    assert [data for data, _ in await received(here, 1)] == [b"back"]


async def test_who_has_no_tls_or_the_wrong_one_is_not_served(
    opened: Opener, tls: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not trust the certificate, one that speaks plainly, and one that only connects."""
    monkeypatch.setattr(tcp, "VOUCH_TIMEOUT_SECONDS", 0.2)
    there = await opened("tcp", tls=tls)
    told: list[str] = []
    distrusting = await opened("tcp", None, tls=Tls(client=ssl.create_default_context()))
    distrusting.on_trouble = lambda _address, cause: told.append(cause)
    await distrusting.send([b"secret"], there.address)
    assert await received(distrusting, 1) == [Received(b"", there.address)]
    assert distrusting.drops == {"connect-failed": 1}
    assert told == [f"cannot connect to {there.address}: its certificate was not accepted: self-signed certificate"]
    plain, silent = await connected(there), await connected(there)
    plain[1].write(frame([b"junk"]))
    assert await ended(plain[0])
    assert await ended(silent[0])
    assert {data for data, _ in await received(there, 3)} == {b""}
    assert there.drops[DropReason.NOT_VOUCHED] >= 1
    close(plain, silent)


def test_what_is_no_context_or_one_for_the_other_end_is_refused() -> None:
    """Before the first connection, which it would fail, with an error of TLS."""
    wrong: Any = "certificate.pem"
    with pytest.raises(UsageError, match=r"^Tls: server must be a SSLContext, not 'certificate"):
        Tls(wrong)
    with pytest.raises(UsageError, match=r"^Tls: client must be a context for a client, and this one is for"):
        Tls(client=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    file = make_certificate(tmp_path_factory.mktemp("tls"))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(file)
    return Tls(server, ssl.create_default_context(cafile=file))


async def test_peer_that_does_not_read(opened: Opener) -> None:
    """Datagrams that a peer does not read are kept up to a cap, then counted as drops; close does not hang."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = await opened("tcp", None)
        datagrams = [bytes(65_536)] * 64
        for _ in range(8):
            await endpoint.send(datagrams, f"tcp://127.0.0.1:{silent.getsockname()[1]}")
            await asyncio.sleep(0.001)
        assert endpoint.drops[DropReason.SEND_OVERFLOW] >= 100


async def test_slow_reader_gets_everything(opened: Opener) -> None:
    here, there = await opened("tcp"), await opened("tcp")
    await here.send(MANY, there.address)
    assert [data for data, _ in await received(there, len(MANY))] == MANY
    assert not here.drops


class Lines(LengthFramer):
    """Another framing: a datagram is a line."""

    max_datagram_bytes = 10

    def __init__(self) -> None:
        super().__init__()
        self._rest = b""

    def frame(self, datagrams: Iterable[bytes]) -> bytes:
        return b"".join(datagram + b"\n" for datagram in datagrams)

    def feed(self, data: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines


async def test_the_framer_of_an_endpoint_says_how_datagrams_stand_in_its_streams() -> None:
    """Both ways, for each connection by itself; the framer's longest datagram is that of the endpoint."""
    place = Address.parse("tcp://127.0.0.1:0", listening=True)
    endpoint = await TcpEndpoint.open(place, loopback_only=True, tls=Tls(), framer=Lines)
    connections = [await connected(endpoint) for _ in range(2)]
    try:
        for number, (_, writer) in enumerate(connections):
            writer.write(b"hello %d\nhal" % number)
        senders = dict(await received(endpoint, 2))
        assert sorted(senders) == [b"hello 0", b"hello 1"]
        for number, (reader, _) in enumerate(connections):
            await endpoint.send([b"answer %d" % number, bytes(11)], senders[b"hello %d" % number])
            assert await reader.readline() == b"answer %d\n" % number
        assert endpoint.drops == {"too-large": 2}
    finally:
        close(*connections)
        await endpoint.close()
