"""Names and numbers become socket addresses, and back the text that a peer would write."""

import asyncio
import socket
import threading
from functools import partial

import pytest

from triack.transport import resolve
from triack.transport.address import Address
from triack.transport.resolve import (
    ADDRESSES_MAX,
    _Lookups,
    address_of,
    bound,
    cannot,
    family_of,
    is_for_all,
    is_loopback,
    lookup,
    lookup_numeric,
    mapped,
    resolve_listening,
)


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
    assert address_of("udp", sockaddr) == text


def test_numbers_need_no_resolver_and_names_do() -> None:
    """Of both families."""
    assert lookup_numeric(Address("udp", "127.0.0.1", 7)) == ("127.0.0.1", 7)
    assert lookup_numeric(Address("udp", "::1", 7)) == ("::1", 7, 0, 0)
    assert lookup_numeric(Address("udp", "plant", 7)) is None
    assert lookup_numeric(Address("udp", "plant-7", 7)) is None
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
    assert (family_of(sockaddr), is_loopback(sockaddr), is_for_all(sockaddr)) == (family, loopback, for_all)


async def test_a_name_with_two_addresses_is_listened_at_with_one() -> None:
    """IPv4 before IPv6."""
    assert await resolve_listening(Address("tcp", "localhost", 7)) == ("127.0.0.1", 7)
    assert await resolve_listening(Address("tcp", "::1", 0)) == ("::1", 0, 0, 0)


async def test_all_addresses_of_a_name_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, where nodes listen first; and not without end."""
    found = [("::1", 7, 0, 0), ("127.0.0.1", 7), ("::1", 7, 0, 0), *(("2001:db8::1", port, 0, 0) for port in range(20))]

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", sockaddr) for sockaddr in found])
    addresses = await lookup(Address("udp", "plant", 7))
    assert addresses[:2] == [("127.0.0.1", 7), ("::1", 7, 0, 0)]
    assert len(addresses) == ADDRESSES_MAX


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
    """The others wait for one of them; those whose callers have gone are left out."""
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
    """And one for a single address does not claim to."""
    for host, only in (("::", 0), ("::1", 1)):
        with bound(kind, (host, 0, 0, 0)) as sock:
            assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == only


def test_an_error_has_operation_address_and_cause() -> None:
    """In the system's words, whichever part of it numbered the error."""
    address = Address("tcp", "plant", 7)
    assert (
        str(cannot("reach", address, OSError(111, "Connect call failed")))
        == "cannot reach tcp://plant:7: connection refused"
    )
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert str(cannot("reach", address, unknown)) == "cannot reach tcp://plant:7: name or service not known"
