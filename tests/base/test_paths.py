"""A path is the address of a peer, and the one of this machine that it called if that matters."""

from triack.base.paths import address_in, called_in, path_of


def test_a_path_has_both_addresses() -> None:
    path = path_of("udp://192.0.2.9:7801", "198.51.100.7")
    assert (address_in(path), called_in(path)) == ("udp://192.0.2.9:7801", "198.51.100.7")


def test_a_path_from_wherever_the_system_chooses_is_an_address() -> None:
    assert path_of("udp://[fe80::1%2]:7801", "") == "udp://[fe80::1%2]:7801"
    assert address_in("udp://[fe80::1%2]:7801") == "udp://[fe80::1%2]:7801"
    assert called_in("udp://[fe80::1%2]:7801") == ""
