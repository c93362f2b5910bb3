"""Names and numbers to socket addresses, and back as a peer would write them."""

import socket

import pytest

from triack.transport.address import Address
from triack.transport.resolve import address_of, cannot, lookup_numeric, resolve_listening


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
    """A number of the other family is an error, and no reason to ask."""
    assert lookup_numeric(Address("udp", "127.0.0.1", 7), socket.AF_INET) == ("127.0.0.1", 7)
    assert lookup_numeric(Address("udp", "::1", 7), socket.AF_INET6) == ("::1", 7, 0, 0)
    assert lookup_numeric(Address("udp", "127.0.0.1", 7), socket.AF_INET6) == ("::ffff:127.0.0.1", 7, 0, 0)
    assert lookup_numeric(Address("udp", "plant", 7), socket.AF_INET) is None
    assert lookup_numeric(Address("udp", "plant-7", 7), socket.AF_INET) is None
    with pytest.raises(OSError, match="not supported"):
        lookup_numeric(Address("udp", "::1", 7), socket.AF_INET)


@pytest.mark.asyncio
async def test_a_name_with_two_addresses_is_listened_at_with_one() -> None:
    """IPv4 before IPv6."""
    assert await resolve_listening(Address("tcp", "localhost", 7)) == ("127.0.0.1", 7)
    assert await resolve_listening(Address("tcp", "::1", 0)) == ("::1", 0)


def test_an_error_has_operation_address_and_cause() -> None:
    """In the system's words, whoever numbered the error."""
    address = Address("tcp", "plant", 7)
    assert (
        str(cannot("reach", address, OSError(111, "Connect call failed")))
        == "cannot reach tcp://plant:7: connection refused"
    )
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert str(cannot("reach", address, unknown)) == "cannot reach tcp://plant:7: name or service not known"
