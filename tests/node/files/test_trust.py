"""The file with a node's peers: what it says, and how it changes."""

import json
from typing import Any

import pytest

from triack.base.errors import AddressError, IdentityError, UsageError
from triack.base.peers import NO_PSK, Peer
from triack.node.files import keys
from triack.node.files.keys import Identity, KeyKind, encode_key
from triack.node.files.private_files import MemoryFiles
from triack.node.files.trust import TrustFile, decode_trust, encode_trust

KEYS = [Identity.make(lambda _, number=number: bytes([number]) * 32).public[0] for number in range(3)]  # type: ignore[misc]
TEXTS = [encode_key(KeyKind.PUBLIC, key) for key in KEYS]
SECRET = encode_key(KeyKind.SHARED, bytes(range(32)))
B = Peer("b", tuple(KEYS[:2]), ("udp://10.0.0.2:7801", "tcp://[2001:db8::1]:7801"), bytes(range(32)), ("in-*",))


def trust() -> TrustFile:
    return TrustFile(MemoryFiles())


def test_peers_survive_their_text() -> None:
    peers = [
        B,
        Peer("süd"),
        Peer("nobody", may_send=()),
        Peer("hub", addresses=("udp://h:1",), keep_alive_s=2.5),
        Peer("relay", (KEYS[2],), may_relay=("plant-*",), relays_for=("sensor-?", "hub"), sealed_only=True),
        Peer("far", (bytes(31) + b"\7",), seal=True),
    ]
    assert decode_trust(encode_trust(peers), "f") == peers


@pytest.mark.gate
def test_keys_of_a_long_list_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow check is not repeated for all of them when one changes."""
    checked: list[object] = []

    class Counting:
        exchange = staticmethod(checked.append)

    content = encode_trust(Peer(f"p{number}", (number.to_bytes(32, "big"),)) for number in range(1_000, 6_000))
    monkeypatch.setattr(keys, "_ANY_PRIVATE_KEY", Counting)
    for _ in range(2):
        assert len(decode_trust(content, "f")) == 5_000
        assert len(checked) == 5_000


def test_what_is_added_comes_behind_what_was_there() -> None:
    """The key to call by and the address to try first stay the first; nothing is there twice."""
    file = trust()
    assert file.load() == []
    file.add("b", keys=[KEYS[0]], addresses=["UDP://10.0.0.2:7801"], may_send=["in-*"], psk=bytes(range(32)))
    file.add("b", keys=KEYS[:2], addresses=["tcp://[2001:DB8:0::1]:7801"])
    file.add("c", keys=[KEYS[2]])
    assert file.load() == [B, Peer("c", (KEYS[2],))]


@pytest.mark.parametrize(
    ("said", "then"),
    [
        ({"keep_alive_s": 25}, {"keep_alive_s": 0}),
        ({"seal": True, "sealed_only": True}, {"seal": False}),
        ({"may_relay": ("plant-*",), "relays_for": ("sensor",)}, {"may_relay": ()}),
        ({"may_subscribe": ("Games.#", "#")}, {"may_subscribe": ()}),
    ],
    ids=" ".join,
)
def test_what_is_said_of_a_peer_stays_until_something_else_is_said(said: dict[str, Any], then: dict[str, Any]) -> None:
    """A new peer has no rights."""
    file = trust()
    assert file.add("b", keys=[KEYS[0]]) == Peer("b", (KEYS[0],))
    for change, wanted in ((said, said), ({"addresses": ["udp://b:1"]}, said), (then, said | then)):
        file.add("b", **change)
        assert {name: getattr(file.load()[0], name) for name in wanted} == wanted


def test_what_is_taken_away() -> None:
    file = trust()
    file.add("b", keys=KEYS[:2], addresses=["udp://b:1", "udp://b:2"])
    file.remove("b", keys=[KEYS[0]], addresses=["udp://B:1"])
    assert file.load() == [Peer("b", (KEYS[1],), ("udp://b:2",))]
    for wrong in ({"keys": [KEYS[0]]}, {"addresses": ["udp://b:1"]}):
        with pytest.raises(UsageError, match="it has no such"):
            file.remove("b", **wrong)
    file.remove("b")
    assert file.load() == []
    with pytest.raises(UsageError, match="no such peer"):
        file.remove("b")


@pytest.mark.parametrize(
    ("name", "change", "error", "why"),
    [
        ("a/b", {}, AddressError, "'/'"),
        ("b", {"addresses": ["udp://b"]}, AddressError, "port"),
        ("b", {"may_send": ["q"]}, UsageError, "neither a key nor an address"),
        ("b", {"addresses": ["udp://b:1"], "may_send": [""]}, UsageError, "no pattern"),
        ("b", {"keys": [KEYS[0]], "own": [KEYS[0]]}, UsageError, "own key"),
        ("b", {"keys": [KEYS[2]]}, UsageError, r"peers.b.keys\[0\]: it is c's, too"),
        ("b", {"addresses": ["udp://c:1"]}, UsageError, r"peers.b.addresses\[0\]: it is c's, too"),
        ("b", {"keys": [KEYS[0]], "may_subscribe": ["Games.#.x"]}, AddressError, "Games"),
        ("b", {"keys": [KEYS[0]], "relays_for": [""]}, UsageError, "no pattern of nodes"),
    ],
)
def test_what_cannot_be_added(name: str, change: dict[str, Any], error: type[Exception], why: str) -> None:
    file = trust()
    file.add("c", keys=[KEYS[2]], addresses=["udp://c:1"])
    with pytest.raises(error, match=why):
        file.add(name, **change)
    assert [peer.name for peer in file.load()] == ["c"]


def whole(**peer: Any) -> str:
    return json.dumps({"version": 1, "peers": {"b": peer}})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1, column 1"),
        ('{\n  "version": 1,\n  "peers": {,}\n}', "line 3, column 13"),
        ("[]", "it must be an object"),
        ("{}", "version: it must be 1, which this Triack reads"),
        ('{"version": 2, "peers": {}}', "version: it must be 1, which this Triack reads"),
        ('{"version": 1, "peers": {"b": {}, "b": {}}}', "'b' is there twice"),
        ('{"version": 1, "pears": {}}', "there is no field 'pears'"),
        ('{"version": 1, "peers": {"a/b": {}}}', "peers.a/b: name 'a/b'"),
        (whole(key="x"), "peers.b: there is no field 'key'"),
        (whole(keys="x"), "peers.b.keys: it must be a list"),
        (whole(keys=[1]), "peers.b.keys[0]: it must be text"),
        (whole(keys=[TEXTS[0], TEXTS[1][:-1]]), "peers.b.keys[1]: after triack-public-"),
        (whole(keys=[SECRET]), "peers.b.keys[0]: a public key is wanted, and this is a shared one"),
        (whole(psk=TEXTS[0]), "peers.b.psk: a shared key is wanted"),
        (whole(addresses=["udp://b"]), "peers.b.addresses[0]: cannot read address 'udp://b': the port is missing"),
        (whole(addresses=[SECRET]), "peers.b.addresses[0]: cannot read address"),
        (whole(may_send=["a\nb"]), "peers.b.may_send[0]"),
        (whole(keep_alive_s="25"), "peers.b.keep_alive_s: keep_alive_s must be 0, for no keep-alives, or 1 to"),
        (whole(keep_alive_s=0.5), "peers.b.keep_alive_s"),
        (whole(keep_alive_s=True), "peers.b.keep_alive_s"),
        (whole(sealed_only="yes"), "peers.b.sealed_only: it must be true or false"),
        (json.dumps({"version": 1, "peers": {"b": {"keys": TEXTS[:1]}, "c": {"keys": TEXTS[:1]}}}), "it is b's, too"),
        ("[" * 100_000, "nested"),
    ],
)
def test_a_damaged_file_is_named_with_its_place(text: str, why: str) -> None:
    """Nobody is trusted or distrusted by accident; and no secret is repeated, wherever it was put."""
    with pytest.raises(IdentityError) as caught:
        decode_trust(text.encode(), "the file")
    assert str(caught.value).startswith("read the file")
    assert why in str(caught.value)
    assert SECRET[20:] not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_file_of_other_bytes() -> None:
    with pytest.raises(IdentityError, match="byte 1: not UTF-8"):
        decode_trust(b'"\xff"', "f")


def test_who_has_enrolled_is_a_new_peer_or_the_same_one_again() -> None:
    """By the operator's name, else by the name that its key has, else by its own."""
    file = trust()
    assert file.enrol("b", KEYS[0], ["udp://B:1"], may_send=["in-*"]) == Peer(
        "b", (KEYS[0],), ("udp://b:1",), NO_PSK, ("in-*",)
    )
    assert file.enrol("x", KEYS[0], ["udp://b:2"]).name == "b"
    assert file.enrol("x", KEYS[1], [], name="c") == Peer("c", (KEYS[1],))
    assert [(peer.name, peer.addresses) for peer in file.load()] == [("b", ("udp://b:1", "udp://b:2")), ("c", ())]


@pytest.mark.parametrize(
    ("change", "why"),
    {
        "the name of another": ({"claimed": "b"}, "a peer of that name"),
        "the operator's name for another": ({"name": "b"}, "a peer of that name"),
        "a peer without keys": ({"claimed": "c"}, "a peer of that name"),
        "another name for a known key": ({"key": KEYS[0], "name": "x"}, "it is b's, too"),
        "the address of another": ({"addresses": ["udp://b:1"]}, "it is b's, too"),
        "the node itself": ({"own": [KEYS[1]]}, "own key"),
    }.values(),
)
def test_an_enrolment_gives_no_peer_another_key(change: dict[str, Any], why: str) -> None:
    file = trust()
    file.add("b", keys=[KEYS[0]], addresses=["udp://b:1"])
    file.add("c", addresses=["udp://c:1"])
    before = file.load()
    with pytest.raises(UsageError, match=why):
        file.enrol(**{"claimed": "new", "key": KEYS[1], "addresses": [], **change})
    assert file.load() == before
