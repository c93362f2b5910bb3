"""The peers of a node, and their permissions."""

from triack.base.peers import Directory, Peer

KEY, OTHER = b"k" * 32, b"o" * 32


def test_a_peer_is_found_by_all_that_it_has() -> None:
    """Its name, each of its keys and each of its addresses."""
    plant = Peer("plant-b", keys=(KEY, OTHER), addresses=("udp://b:1", "tcp://b:2"))
    directory = Directory([plant, Peer("plant-c")])
    assert [peer.name for peer in directory] == ["plant-b", "plant-c"]
    assert directory.named("plant-b") is directory.with_key(KEY) is directory.with_key(OTHER) is plant
    assert directory.at("udp://b:1") is directory.at("tcp://b:2") is plant
    assert directory.named("nobody") is directory.with_key(b"") is directory.at("udp://c:1") is None


def test_who_is_replaced_is_forgotten() -> None:
    """With keys and addresses; a key that another peer has now is trusted as its alone."""
    directory = Directory([Peer("b", keys=(KEY,), addresses=("udp://b:1",))])
    assert directory.trusts("b", KEY)
    directory.replace([Peer("c", keys=(KEY,))])
    assert not directory.trusts("b", KEY)
    assert directory.trusts("c", KEY)
    assert directory.named("b") is directory.at("udp://b:1") is None


def test_a_peer_relays_nothing_by_default() -> None:
    """Neither by way of this node nor for others; each node of a way by hand must be allowed."""
    stranger = Peer("x")
    assert not stranger.may_relay_to("plant-b")
    assert not stranger.may_bring("plant-a")
    hub = Peer("hub", may_relay=("plant-*",), relays_for=("sensor-?",))
    assert hub.may_relay_to("plant-b")
    assert hub.may_relay_to("plant-b@plant-c")
    assert not hub.may_relay_to("plant-b@elsewhere")
    assert [hub.may_bring(name) for name in ("sensor-1", "sensor-10")] == [True, False]


def test_a_peer_may_send_where_a_pattern_says_so() -> None:
    """Anywhere, unless it says something else; with the case as it is written."""
    assert Peer("b").may_send_to("anything")
    peer = Peer("b", may_send=("orders", "log-*"))
    assert [peer.may_send_to(queue) for queue in ("orders", "log-1", "Orders", "orders2", "x")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert not Peer("b", may_send=()).may_send_to("orders")
