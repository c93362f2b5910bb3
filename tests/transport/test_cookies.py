"""A cookie is recognised for its address, for two to four minutes, and nothing is kept for it."""

from random import Random

import pytest

from tests.transport.snapshots import snapshot
from triack.base.units import SECOND
from triack.transport.cookies import COOKIE_LIFE_NS, MAC_BYTES, Cookies, mac, mac_fits, mac_key

ADDRESS = "udp://192.0.2.1:7801"


def shown(cookies: Cookies, now_ns: int = 0) -> bytes:
    """The proof that a holder of the cookie gives with some data."""
    return mac(cookies.make(ADDRESS, now_ns), b"data")


def test_a_cookie_is_known_again() -> None:
    """At the address it was made for, with the data it was shown with; and only by the node that made it."""
    cookies, other = Cookies(Random(1).randbytes), Cookies(Random(2).randbytes)
    proof = shown(cookies)
    assert cookies.fits(ADDRESS, b"data", proof, 0)
    assert not cookies.fits("udp://192.0.2.1:7802", b"data", proof, 0)
    assert not cookies.fits(ADDRESS, b"date", proof, 0)
    assert not other.fits(ADDRESS, b"data", proof, 0)
    assert not cookies.fits(ADDRESS, b"data", bytes(MAC_BYTES), 0)


@pytest.mark.parametrize("made_ns", [0, COOKIE_LIFE_NS - 1])
def test_a_cookie_lives_at_least_as_long_as_it_is_sent(made_ns: int) -> None:
    """However old its secret was; not much longer, and not again."""
    cookies = Cookies(Random(1).randbytes)
    shown(cookies)
    proof = shown(cookies, made_ns)
    for age_ns in (0, COOKIE_LIFE_NS // 2, COOKIE_LIFE_NS):
        assert cookies.fits(ADDRESS, b"data", proof, made_ns + age_ns)
    assert not cookies.fits(ADDRESS, b"data", proof, made_ns + 2 * COOKIE_LIFE_NS)


def test_a_long_silence_ends_every_cookie() -> None:
    """The secret does not change without requests: the old one does not become the previous one an hour later."""
    cookies = Cookies(Random(1).randbytes)
    proof = shown(cookies)
    assert not cookies.fits(ADDRESS, b"data", proof, 3_600 * SECOND)


def test_nothing_is_kept_for_an_address() -> None:
    """A thousand of them leave a node as one does."""
    cookies = Cookies(Random(1).randbytes)
    shown(cookies)
    before = snapshot(cookies)
    for port in range(1_000):
        cookies.make(f"udp://192.0.2.1:{port}", 1)
        assert not cookies.fits(f"udp://192.0.2.1:{port}", b"data", bytes(MAC_BYTES), 1)
    assert snapshot(cookies) == before


def test_macs_tell_keys_purposes_and_data_apart() -> None:
    """One of each, and the same again for the same."""
    keys = [mac_key(label, public) for label in (b"one", b"two") for public in (bytes(32), b"\1" * 32)]
    macs = [mac(key, data) for key in keys for data in (b"", b"data")]
    assert len(set(macs)) == 8
    assert all(len(one) == MAC_BYTES for one in macs)
    assert mac_fits(keys[0], b"data", macs[1])
    assert not mac_fits(keys[1], b"data", macs[1])
