"""A socket that is bound to all addresses reports which one was called, and answers from there."""

import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from triack.transport import called
from triack.transport.called import Called, answer_from, offers_called
from triack.transport.resolve import SocketAddress, bound

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked")

CALLER = ("127.0.0.1", 9)


@pytest.fixture(params=["0.0.0.0", "::"])
def everywhere(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    sockaddr: SocketAddress = (request.param, 0) if request.param == "0.0.0.0" else ("::", 0, 0, 0)
    with bound(socket.SOCK_DGRAM, sockaddr) as sock:
        sock.setblocking(True)
        assert offers_called(sock)
        yield sock


def test_an_answer_over_ipv6_names_the_interface_of_a_link_local_address_only() -> None:
    """Link-local addresses may be the same on two interfaces; for others the system knows the way."""
    to = ("fe80::9", 7801, 0, 3)
    ((level, kind, said),) = answer_from("fe80::1", socket.AF_INET6, to)
    assert (level, kind) == (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO)
    assert (said[:16], int.from_bytes(said[16:], sys.byteorder)) == (socket.inet_pton(socket.AF_INET6, "fe80::1"), 3)
    ((_, _, said),) = answer_from("2001:db8::1", socket.AF_INET6, to)
    assert int.from_bytes(said[16:], sys.byteorder) == 0


def test_a_socket_with_one_address_is_left_as_it_is() -> None:
    with bound(socket.SOCK_DGRAM, ("127.0.0.1", 0)) as sock:
        assert not offers_called(sock)
        assert answer_from("", sock.family, CALLER) == []


def test_only_an_address_that_the_system_does_not_prefer_is_named() -> None:
    """Then both ends of a session that this node began mean the same path."""
    one, two = map(socket.inet_aton, ("127.0.0.1", "127.0.0.2"))
    calls = [(CALLER, one), (CALLER, two), (("::ffff:127.0.0.1", 9, 0, 0), bytes(10) + b"\xff\xff" + two)]
    assert [Called().text_of(caller, here, 0.0) for caller, here in calls] == ["", "127.0.0.2", "127.0.0.2"]


def test_the_system_is_asked_again_as_interfaces_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """And callers beyond the bound are: the text of a path follows from what it says, not from what was remembered."""
    asked: list[Any] = []
    preferred = "127.0.0.2"

    def prefer(sockaddr: SocketAddress) -> str:
        asked.append(sockaddr)
        return preferred

    monkeypatch.setattr(called, "_preferred", prefer)
    said, here = Called(), socket.inet_aton("127.0.0.2")
    assert said.text_of(CALLER, here, 0.0) == ""
    preferred = "127.0.0.1"
    later = [said.text_of(CALLER, here, called.PREFERRED_SECONDS - early_s) for early_s in (0.1, 0)]
    assert (later, asked) == (["", "127.0.0.2"], [CALLER] * 2)
    monkeypatch.setattr(called, "ROUTES_MAX", 2)
    assert {said.text_of(("127.0.0.1", port), here, 0.0) for port in (1, 2, 3, 1)} == {"127.0.0.2"}
