"""Addresses and routes."""

import asyncio
import re
import socket
import threading
from contextlib import nullcontext
from functools import partial

import pytest
import pytest_asyncio

from triack.base.errors import AddressError, NotLoopback, ProtocolError
from triack.transport import resolve, routes
from triack.transport.address import Address, Destination, check_loopback
from triack.transport.frames import FRAME_BYTES_MAX, LengthFramer, frame
from triack.transport.resolve import SocketAddress, _Lookups, bound, cannot, lookup, lookup_numeric, mapped
from triack.transport.routes import ROUTES_MAX, Routes

# Addresses and destinations are read from and written as one canonical text.


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("udp://127.0.0.1:7801", "udp://127.0.0.1:7801"),
        ("TCP://Plant-A.Example:1", "tcp://plant-a.example:1"),
        ("udp://[0:0::1]:65535", "udp://[::1]:65535"),
        ("udp://[fe80::1%eth0]:5", "udp://[fe80::1%eth0]:5"),
        ("memory://a.b_c-$1", "memory://a.b_c-$1"),
    ],
)
def test_address_is_canonical(text: str, canonical: str) -> None:
    assert str(Address.parse(text)) == canonical
    assert Address.parse(canonical) == Address.parse(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("http://a:1", "udp://"),
        ("127.0.0.1:7801", "udp://"),
        ("udp://a", "port is missing"),
        ("udp://a:", "port is missing"),
        ("udp://[::1]", "port is missing"),
        ("udp://a:65536", "1 to 65535"),
        ("udp://a:-1", "1 to 65535"),
        ("udp://a:٣", "1 to 65535"),
        ("udp://a:0", "only for listening"),
        ("udp://:1", "host is missing"),
        ("udp://[]:1", "host is missing"),
        ("udp://::1:1", "brackets"),
        ("udp://[::g]:1", "::g"),
        ("udp://256.0.0.1:1", "256"),
        ("udp://a b:1", "not a host name"),
        ("udp://a/b:1", "not a host name"),
        ("udp://-a:1", "not a host name"),
        ("udp://" + "a." * 127 + "a:1", "not a host name"),
        ("memory://", "empty"),
        ("memory://a/b", "'/'"),
    ],
)
def test_bad_address_says_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(AddressError) as caught:
        Address.parse(text)
    assert repr(text) in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("udp://127.3.2.1:1", True),
        ("udp://[::1]:1", True),
        ("udp://[::ffff:127.0.0.1]:1", True),
        ("tcp://LOCALHOST:1", True),
        ("memory://a", True),
        ("udp://0.0.0.0:1", False),
        ("udp://[::]:1", False),
        ("udp://localhost.example:1", False),
        ("udp://192.168.0.1:1", False),
    ],
)
def test_loopback(text: str, expected: bool) -> None:
    """Only addresses that never leave the machine are loopback."""
    address = Address.parse(text)
    assert address.is_loopback is expected
    with nullcontext() if expected else pytest.raises(NotLoopback, match=f"send to {re.escape(str(address))}: without"):
        check_loopback("send to", address)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("udp://h:1/orders", Destination("orders", Address("udp", "h", 1))),
        ("memory://a/orders", Destination("orders", Address("memory", "a"))),
        ("plant-b/orders", Destination("orders", peer="plant-b")),
        ("plant-b@hub/orders", Destination("orders", peer="plant-b@hub")),
        ("bücher.neu", Destination("bücher.neu")),
    ],
)
def test_destination(text: str, expected: Destination) -> None:
    assert Destination.parse(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("/orders", "empty"),
        ("plant-b/", "empty"),
        ("plant-b@/q", "empty"),
        ("@hub/q", "empty"),
        ("a/b/c", "'/'"),
        ("udp://h:1", "queue is missing"),
        ("udp://h:1/", "empty"),
        ("udp://h:1/a/b", "1/a"),
        ("udp://h/orders", "port is missing"),
        ("plant-b/.hidden", "start with '.'"),
        ("or ders", "' '"),
        ("q" * 125, "124 bytes"),
        ("ü" * 63, "124 bytes"),
    ],
)
def test_bad_destination_says_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(AddressError, match=r"cannot read address") as caught:
        Destination.parse(text)
    assert why in str(caught.value)


@pytest.mark.parametrize("text", ["topic://games", "topic://games/chess", "http://a:1/q"])
def test_a_destination_with_an_unknown_scheme_is_told_the_schemes(text: str) -> None:
    """And nothing of a queue that is missing: a queue would not help."""
    told = r"there is no scheme \w+; it must start with one of udp://, tcp://, memory://"
    with pytest.raises(AddressError, match=told):
        Destination.parse(text)


# Names and numbers become socket addresses, and back the text that a peer would write.


@pytest.mark.parametrize(
    ("sockaddr", "text"),
    [
        (("10.0.0.1", 7), "udp://10.0.0.1:7"),
        (("::ffff:10.0.0.1", 7, 0, 0), "udp://10.0.0.1:7"),
        (("2001:db8::1", 7, 0, 0), "udp://[2001:db8::1]:7"),
        (("fe80::1", 7, 0, 3), "udp://[fe80::1%3]:7"),
        (("fe80::1%eth0", 7, 0, 3), "udp://[fe80::1%eth0]:7"),
    ],
)
def test_a_socket_address_reads_as_its_peer_would_write_it(sockaddr: tuple[object, ...], text: str) -> None:
    """An IPv4 peer on a socket for both families is an IPv4 peer; a link-local one keeps its scope."""
    assert resolve.address_of("udp", sockaddr) == text


def test_numbers_need_no_resolver_and_names_do() -> None:
    found = [lookup_numeric(Address("udp", host, 7)) for host in ("127.0.0.1", "::1", "plant", "plant-7")]
    assert found == [("127.0.0.1", 7), ("::1", 7, 0, 0), None, None]
    with pytest.raises(OSError, match="not known"):
        lookup_numeric(Address("udp", "fe80::1%nowhere", 7))


@pytest.mark.parametrize(
    ("sockaddr", "family", "loopback", "for_all"),
    [
        (("127.0.0.1", 7), socket.AF_INET, True, False),
        (("127.8.8.8", 7), socket.AF_INET, True, False),
        (("10.0.0.1", 7), socket.AF_INET, False, False),
        (("0.0.0.0", 7), socket.AF_INET, False, True),
        (("::1", 7, 0, 0), socket.AF_INET6, True, False),
        (("::", 7, 0, 0), socket.AF_INET6, False, True),
        (("fe80::1%eth0", 7, 0, 3), socket.AF_INET6, False, False),
        (mapped(("127.0.0.1", 7)), socket.AF_INET6, True, False),
        (mapped(("10.0.0.1", 7)), socket.AF_INET6, False, False),
    ],
)
def test_what_a_socket_address_is(sockaddr: tuple[object, ...], family: int, loopback: bool, for_all: bool) -> None:
    assert (resolve.family_of(sockaddr), resolve.is_loopback(sockaddr), resolve.is_for_all(sockaddr)) == (
        family,
        loopback,
        for_all,
    )


async def test_a_name_with_two_addresses_is_listened_at_with_one() -> None:
    assert await resolve.resolve_listening(Address("tcp", "localhost", 7)) == ("127.0.0.1", 7)
    assert await resolve.resolve_listening(Address("tcp", "::1", 0)) == ("::1", 0, 0, 0)


async def test_all_addresses_of_a_name_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [("::1", 7, 0, 0), ("127.0.0.1", 7), ("::1", 7, 0, 0), *(("2001:db8::1", port, 0, 0) for port in range(20))]

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", sockaddr) for sockaddr in found])
    addresses = await lookup(Address("udp", "plant", 7))
    assert addresses[:2] == [("127.0.0.1", 7), ("::1", 7, 0, 0)]
    assert len(addresses) == resolve.ADDRESSES_MAX


async def test_names_without_an_answer_hold_up_no_other_name_and_no_thread_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name server is silent: so many look-ups wait that the event loop has no thread for any of them."""
    asked, silent = threading.Semaphore(0), threading.Event()

    def look(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        if host != "good.lan":
            asked.release()
            silent.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(0, 0, 0, "", ("127.0.0.1", 7))]

    monkeypatch.setattr(socket, "getaddrinfo", look)
    waiting = [asyncio.create_task(lookup(Address("udp", f"p{number}.example", 7))) for number in range(40)]
    assert await lookup(Address("udp", "good.lan", 7)) == [("127.0.0.1", 7)]
    await asyncio.to_thread(lambda: [asked.acquire() for _ in waiting])
    threads = [it for it in threading.enumerate() if it.name == "triack-lookup"]
    assert (len(threads) >= len(waiting), {it.daemon for it in threads}) == (True, {True})
    waiting.pop().cancel()  # its caller has gone, and its thread finds nobody
    silent.set()
    assert {str(it) for it in await asyncio.gather(*waiting, return_exceptions=True)} == {
        "[Errno -3] Temporary failure in name resolution"
    }


async def test_threads_of_look_ups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "LOOKUPS_MAX", 2)
    lookups, go = _Lookups(), threading.Event()
    asked: list[int] = []

    def look(number: int) -> list[int]:
        asked.append(number)
        go.wait()
        return [number]

    waiting = [asyncio.create_task(lookups.ask(partial(look, number))) for number in range(5)]
    while len(asked) < 2:  # noqa: ASYNC110 - other threads fill it
        await asyncio.sleep(0)
    waiting[3].cancel()
    await asyncio.sleep(0)
    go.set()
    assert await asyncio.gather(*waiting[:3], waiting[4]) == [[0], [1], [2], [4]]
    assert sorted(asked) == [0, 1, 2, 4]


async def test_a_name_that_no_network_has_is_not_known() -> None:
    """Python refuses to ask for it."""
    with pytest.raises(socket.gaierror, match="Name or service not known"):
        await lookup(Address("udp", "x" * 70, 7))


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_a_socket_for_all_ipv6_addresses_takes_ipv4(kind: socket.SocketKind) -> None:
    for host, only in (("::", 0), ("::1", 1)):
        with bound(kind, (host, 0, 0, 0)) as sock:
            assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == only


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OSError(111, "Connect call failed"), "connection refused"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "name or service not known"),
    ],
)
def test_an_error_has_operation_address_and_cause(error: OSError, cause: str) -> None:
    """In the system's words, whichever part of it numbered the error."""
    assert str(cannot("reach", Address("tcp", "plant", 7), error)) == f"cannot reach tcp://plant:7: {cause}"


PLANT = "udp://plant:7"
ONE, TWO, THREE = ("10.0.0.1", 7), ("2001:db8::2", 7, 0, 0), ("10.0.0.3", 7)


class Names:
    """A resolver, a clock, and the routes that use them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: list[SocketAddress] | OSError = [ONE, TWO]
        self.asked = 0
        self.ended: list[tuple[str, OSError | None]] = []
        self.routes = Routes("udp", lambda to, problem: self.ended.append((to, problem)))
        self._now = asyncio.get_running_loop().time()
        monkeypatch.setattr(routes, "lookup", self._lookup)
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self._now)

    async def _lookup(self, address: Address) -> list[SocketAddress]:
        self.asked += 1
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer

    async def after(self, seconds: float) -> SocketAddress | None:
        """Where a datagram goes that is sent after a while, and one behind it, when lookups have ended."""
        self._now += seconds
        self.routes.find(PLANT)
        await asyncio.gather(*self.routes.tasks)
        return self.routes.find(PLANT)


@pytest_asyncio.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


async def test_numbers_are_known_at_once(names: Names) -> None:
    assert names.routes.find("udp://10.0.0.1:7") == ONE
    assert names.routes.find("udp://[2001:db8::2]:7") == TWO
    assert (names.asked, names.ended) == (0, [])
    with pytest.raises(AddressError, match="no udp address"):
        names.routes.find("tcp://10.0.0.1:7")


async def test_a_name_is_looked_up_once_however_many_ask(names: Names) -> None:
    assert [names.routes.find(PLANT) for _ in range(3)] == [None] * 3
    assert await names.after(0) == ONE
    assert (names.asked, names.ended) == (1, [(PLANT, None)])


async def test_who_does_not_answer_gives_way_to_the_next(names: Names) -> None:
    assert [await names.after(wait_s) for wait_s in (0, 0.5, 0.6, 0.9, 0.2)] == [ONE, ONE, TWO, TWO, ONE]
    assert names.asked == 1


async def test_who_was_heard_is_kept(names: Names) -> None:
    assert await names.after(0) == ONE
    assert names.routes.name_of(ONE) == "udp://10.0.0.1:7"
    assert [await names.after(wait_s) for wait_s in (*[5] * 11, 10)] == [ONE] * 12
    assert names.asked == 2
    assert await names.after(1.1) == TWO


async def test_a_host_that_moved_is_followed(names: Names) -> None:
    """Within a minute; a resolver that fails meanwhile changes nothing."""
    assert await names.after(0) == ONE
    names.routes.name_of(ONE)
    names.answer = OSError(-3, "Temporary failure in name resolution")
    assert await names.after(61) == ONE
    names.answer = [THREE]
    assert [await names.after(30), await names.after(31)] == [ONE, THREE]


async def test_a_name_that_does_not_exist_is_reported_and_may_come_to_exist(names: Names) -> None:
    problem = names.answer = OSError(-2, "Name or service not known")
    assert names.routes.find(PLANT) is None
    await asyncio.gather(*names.routes.tasks)
    assert names.ended == [(PLANT, problem)]
    names.answer = [THREE]
    assert await names.after(0) == THREE


@pytest.mark.gate
async def test_nobody_can_make_it_remember_without_end(names: Names) -> None:
    for port in range(1, 3 * ROUTES_MAX):
        names.routes.name_of(("10.0.0.1", port))
        names.routes.find(f"udp://10.0.0.1:{port}")
    tables = [value for value in vars(names.routes).values() if isinstance(value, dict)]
    assert len(tables) == 3
    assert max(len(table) for table in tables) <= ROUTES_MAX


DATAGRAMS = [b"one", b"", b"three" * 100, bytes(FRAME_BYTES_MAX)]


@pytest.mark.parametrize("piece_bytes", [1, 3, 4, 5, 1000, 10**6])
def test_any_pieces(piece_bytes: int) -> None:
    """The pieces in which a stream arrives do not matter; even one byte of a length begins a frame."""
    stream, frames, found = frame(DATAGRAMS), LengthFramer(), []
    for start in range(0, len(stream), piece_bytes):
        found += frames.feed(stream[start : start + piece_bytes])
    assert (found, frames.is_partial) == (DATAGRAMS, False)
    assert (frames.feed(b"\0"), frames.is_partial) == ([], True)


def test_too_large() -> None:
    """The length alone is enough to refuse a frame."""
    with pytest.raises(ProtocolError, match="frame-too-large"):
        LengthFramer().feed((FRAME_BYTES_MAX + 1).to_bytes(4, "big"))
