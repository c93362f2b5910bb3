"""Addresses and destinations are read from and written as one canonical text."""

import re
from contextlib import nullcontext

import pytest

from triack.base.errors import AddressError, NotLoopback
from triack.transport.address import Address, Destination, check_loopback


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
    """Texts of the same address give the same address, and its text reads back."""
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
    """The error has the text, and the reason."""
    with pytest.raises(AddressError) as caught:
        Address.parse(text)
    assert repr(text) in str(caught.value)
    assert why in str(caught.value)


def test_port_zero_is_for_listening() -> None:
    """Any free port can be asked for, but not be sent to."""
    assert Address.parse("udp://127.0.0.1:0", listening=True).port == 0


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
        ("tcp://127.0.0.1:1", True),
        ("tcp://[::1]:1", True),
        ("tcp://[fe80::1%eth0]:1", True),
        ("tcp://localhost:1", False),
        ("tcp://plant7:1", False),
        ("tcp://10.example:1", False),
    ],
)
def test_numeric(text: str, expected: bool) -> None:
    """A name is looked up, an IP address is not."""
    assert Address.parse(text).is_numeric is expected


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
    """A queue is at an address, at a named peer, or here."""
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
    """The error has the reason."""
    with pytest.raises(AddressError, match=r"cannot read address") as caught:
        Destination.parse(text)
    assert why in str(caught.value)


@pytest.mark.parametrize("text", ["topic://games", "topic://games/chess", "http://a:1/q"])
def test_a_destination_with_an_unknown_scheme_is_told_the_schemes(text: str) -> None:
    """And nothing of a queue that is missing: a queue would not help."""
    with pytest.raises(
        AddressError, match=r"there is no scheme \w+; it must start with one of udp://, tcp://, memory://"
    ):
        Destination.parse(text)
