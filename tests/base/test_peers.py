"""Whom a node knows: by name, by key, by address."""

import pytest

from triack.base.peers import Directory, Peer

OLD, NEW, FOREIGN = bytes([1]) * 32, bytes([2]) * 32, bytes([3]) * 32
B = Peer("b", (OLD, NEW), ("udp://10.0.0.2:7801", "tcp://b:7801"))
C = Peer("c", (FOREIGN,))


def test_a_peer_is_found_by_whatever_is_known_of_it() -> None:
    """All its keys and all its addresses lead to it."""
    directory = Directory([B, C])
    assert list(directory) == [B, C]
    assert directory.named("b") is B
    assert [directory.with_key(key) for key in (OLD, NEW, FOREIGN)] == [B, B, C]
    assert [directory.at(address) for address in B.addresses] == [B, B]


def test_a_key_is_trusted_for_its_own_peer_alone() -> None:
    """Another peer's key proves nothing, and a key that was taken out proves nothing any more."""
    directory = Directory([B, C])
    assert [directory.trusts("b", key) for key in (OLD, NEW, FOREIGN, bytes(32))] == [True, True, False, False]
    directory.replace([Peer("b", (NEW,))])
    assert [directory.trusts("b", key) for key in (OLD, NEW)] == [False, True]
    assert directory.named("c") is None
    assert directory.with_key(FOREIGN) is None
    assert directory.at(B.addresses[0]) is None


@pytest.mark.parametrize(
    ("patterns", "queue", "may"),
    [
        (("*",), "orders", True),
        (("orders", "in-*"), "in-7", True),
        (("orders",), "Orders", False),
        ((), "orders", False),
    ],
)
def test_what_a_peer_may_send_to(patterns: tuple[str, ...], queue: str, may: bool) -> None:
    """Any of its patterns is enough; without one it may send nowhere."""
    assert Peer("b", may_send=patterns).may_send_to(queue) is may
