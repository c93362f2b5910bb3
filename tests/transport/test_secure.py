"""Two nodes that trust each other talk; datagrams that others send, change or repeat have no effect."""

from itertools import chain
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sure import sure
from tests.transport.ends import (
    A_ADDRESS,
    A_ID,
    A_KEY,
    B_ID,
    B_KEY,
    FOREIGN_KEY,
    NOW_NS,
    OLD_KEY,
    Ends,
    dialled,
    flips,
    load,
    public,
    refusal,
    take,
)
from tests.transport.snapshots import snapshot
from triack.base.datagram import HEADER_BYTES, Channel, Header, Kind, counters_of, read_header
from triack.base.errors import ProtocolError, UsageError
from triack.base.peers import Directory, Peer
from triack.base.units import MS, SECOND
from triack.transport import secure
from triack.transport.cookies import mac, mac_key
from triack.transport.data_keys import REKEY_NS
from triack.transport.noise import AESGCM_SHA256, CHACHAPOLY_BLAKE2S, Aead, Suite
from triack.transport.secure import ATTEMPTS_MAX, CONNECT_BYTES, SecureChannels

TALK = (Kind.DATA, Kind.CHALLENGE, Kind.RESPONSE)
LOW_ORDER = bytes(32)


@pytest.mark.parametrize("suite", [AESGCM_SHA256, CHACHAPOLY_BLAKE2S])
@pytest.mark.parametrize("scheme", ["udp", "tcp", "memory"])
def test_two_nodes_talk(suite: Suite, scheme: str) -> None:
    ends = Ends(suites=(suite, suite), scheme=scheme)
    connect = ends.connect(b"hello")
    answer = ends.answer(connect, sender=f"{scheme}://192.0.2.1:7801")
    caller, answerer = ends.caller, sure(answer.channel)
    assert answer.payload == b"hello"
    assert take(caller, ends.accept(answer, connect, b"welcome")) == b"welcome"
    for kind in TALK:
        for size in (0, 1, 1_164, 65_000):
            assert take(answerer, ends.seal("a", caller, bytes(size), kind)) == bytes(size)
            assert take(caller, ends.seal("b", answerer, bytes(size), kind)) == bytes(size)
    assert (caller.peer, caller.peer_key) == ("b", public(B_KEY))
    assert (answerer.peer, answerer.peer_key) == ("a", public(A_KEY))


def test_nobody_on_the_way_can_read_anything() -> None:
    ends = Ends()
    connect, _, accept = ends.shake(b"plant-a asks for orders", b"plant-b has orders")
    take(ends.caller, accept)
    data = [ends.seal("a", ends.caller, b"12 valves for plant-b") for _ in range(2)]
    seen = b"".join((connect, accept, *data))
    assert not [it for it in (b"plant", b"orders", b"valves", public(A_KEY), public(B_KEY)) if it in seen]
    assert data[0][HEADER_BYTES:] != data[1][HEADER_BYTES:]


@pytest.mark.parametrize("size", [0, 1, 500, 1_050, 1_051, 3_000])
def test_an_accept_is_never_longer_than_its_connect(size: int) -> None:
    """A connect is filled up to 1,200 bytes; a hello that would make the accept longer is refused here."""
    ends = Ends()
    connect = ends.connect(bytes(size))
    assert len(connect) == max(CONNECT_BYTES, size + 150)
    answer, room = ends.answer(connect), len(connect) - 84
    assert answer.payload == bytes(size)
    with pytest.raises(UsageError, match=f"a hello of {room + 1} bytes is longer"):
        ends.accept(answer, connect, bytes(room + 1))
    assert len(ends.accept(ends.answer(connect), connect, bytes(room))) == len(connect)


def test_the_same_chance_makes_the_same_bytes() -> None:
    """All randomness is injected, so that a simulated world repeats itself."""

    def bytes_of_one_talk() -> list[bytes]:
        ends = Ends()
        load(ends)
        first = ends.connect()
        take(ends.caller, ends.answer(first).retry)
        connect, _, accept = ends.shake()
        take(ends.caller, accept)
        return [first, connect, accept, ends.seal("a", ends.caller)]

    assert bytes_of_one_talk() == bytes_of_one_talk()


def test_each_connect_is_a_handshake_of_its_own() -> None:
    ends = Ends()
    shaken = [ends.shake(b"%d" % number) for number in range(3)]
    assert len({it.connect[HEADER_BYTES : HEADER_BYTES + 32] for it in shaken}) == 3
    take(ends.caller, shaken[2].accept)
    take(ends.caller, shaken[0].accept)
    data = ends.seal("a", ends.caller)
    assert [refusal(ends.b, it.answerer, data) for it in shaken] == ["", "bad-tag", "bad-tag"]
    assert refusal(ends.a, ends.caller, shaken[1].accept) == "unexpected-accept"


def test_a_late_accept_still_opens() -> None:
    ends = Ends()
    accepts = [ends.shake().accept for _ in range(ATTEMPTS_MAX + 1)]
    assert refusal(ends.a, ends.caller, accepts[0]) == "unexpected-accept"
    assert take(ends.caller, accepts[1]) == b"hello yourself"


def test_what_cannot_be_sealed_now_is_our_own_mistake() -> None:
    ends = Ends()
    with pytest.raises(UsageError, match="no accept has been opened"):
        ends.seal("a", ends.caller)
    connect = ends.connect()
    answer = ends.answer(connect)
    with pytest.raises(UsageError, match="the accept has not been sealed"):
        ends.seal("b", sure(answer.channel))
    with pytest.raises(UsageError, match="a connect of that number"):
        ends.caller.seal(Kind.CONNECT, A_ID, read_header(connect).counter, b"", NOW_NS)
    take(ends.caller, ends.accept(answer, connect))
    with pytest.raises(UsageError, match="one connect has one accept"):
        ends.accept(answer, connect)
    ends.seal("a", ends.caller)
    with pytest.raises(UsageError, match="data has been sealed"):
        ends.connect()


def test_data_that_comes_together_is_opened_as_one_by_one() -> None:
    ends = Ends()
    caller, answerer = ends.open()
    sealed = caller.seal_run(B_ID, ends.counter("a"), [b"%d" % number for number in range(6)], NOW_NS)
    sealed[1] = sealed[1][:-1] + bytes([sealed[1][-1] ^ 1])
    sealed[3] = sealed[0]
    sealed[4] = sealed[4][: HEADER_BYTES + 3]
    header, counters = read_header(sealed[0]), counters_of(sealed)
    opened = answerer.open_run(sealed, counters, header, NOW_NS)
    assert (opened.payloads, opened.counters) == ([b"0", b"2", b"5"], [header.counter + step for step in (0, 2, 5)])
    assert [error.reason for error in opened.errors] == ["bad-tag", "replayed", "too-short"]
    again = answerer.open_run(sealed, counters, header, NOW_NS)
    assert [error.reason for error in again.errors] == [refusal(ends.b, answerer, datagram) for datagram in sealed]
    assert again.payloads == []


def every_kind() -> dict[str, tuple[SecureChannels, Channel, bytes]]:
    asked, accepted, opened = Ends(), Ends(), Ends()
    load(asked)
    loaded = asked.connect()
    retry = asked.answer(loaded).retry
    connect, _, accept = accepted.shake()
    caller, answerer = opened.open()
    to_b = {f"{it.name} to b": (opened.b, answerer, opened.seal("a", caller, b"data", it)) for it in TALK}
    to_a = {f"{it.name} to a": (opened.a, caller, opened.seal("b", answerer, b"data", it)) for it in TALK}
    return {
        "CONNECT": (accepted.b, caller, connect),
        "CONNECT under load": (asked.b, caller, loaded),
        "RETRY": (asked.a, asked.caller, retry),
        "ACCEPT": (accepted.a, accepted.caller, accept),
        **to_b,
        **to_a,
    }


@pytest.mark.parametrize("which", every_kind())
def test_a_flipped_bit_anywhere_changes_nothing(which: str) -> None:
    channels, channel, datagram = every_kind()[which]
    before = snapshot(channels), snapshot(channel)
    for damaged in flips(datagram):
        assert refusal(channels, channel, damaged)
    for length in range(len(datagram)):
        assert refusal(channels, channel, datagram[:length])
    assert refusal(channels, channel, datagram + b"\0")
    assert (snapshot(channels), snapshot(channel)) == before
    assert not refusal(channels, channel, datagram)


def test_everything_that_was_said_is_dropped_when_it_comes_again() -> None:
    """Whole conversations, at once and an hour later; what a repeated connect gets is of no use to who repeats it."""
    ends = Ends()
    load(ends)
    retry = ends.answer(ends.connect()).retry
    take(ends.caller, retry)
    connect, answerer, accept = ends.shake()
    take(ends.caller, accept)
    to_b = [ends.seal("a", ends.caller, kind=kind) for kind in TALK * 3]
    to_a = [ends.seal("b", answerer, kind=kind) for kind in TALK * 3]
    for one, two in zip(to_b, to_a, strict=True):
        take(answerer, one)
        take(ends.caller, two)
    before = snapshot(ends.caller), snapshot(answerer)
    for now_ns in (NOW_NS, NOW_NS + 3_600 * SECOND):
        assert all(refusal(ends.a, ends.caller, datagram, now_ns) for datagram in (retry, accept, *to_a))
        assert all(refusal(ends.b, answerer, datagram, now_ns) for datagram in to_b)
    assert (snapshot(ends.caller), snapshot(answerer)) == before
    again = ends.answer(connect, NOW_NS + 3_600 * SECOND)
    ends.accept(again, connect)
    assert {refusal(ends.b, sure(again.channel), datagram) for datagram in to_b} == {"bad-tag"}


def test_what_comes_back_to_its_sender_is_dropped() -> None:
    """A mirror is no peer."""
    ends = Ends()
    connect, answerer, accept = ends.shake()
    assert refusal(ends.a, ends.caller, connect) == "bad-mac"
    assert refusal(ends.b, answerer, accept) == "unexpected-accept"
    take(ends.caller, accept)
    for kind in TALK:
        assert refusal(ends.a, ends.caller, ends.seal("a", ends.caller, kind=kind)) == "bad-tag"
        assert refusal(ends.b, answerer, ends.seal("b", answerer, kind=kind)) == "bad-tag"


def test_one_conversations_datagrams_mean_nothing_in_another() -> None:
    one, two = Ends(), Ends()
    two.a._entropy, two.b._entropy = Random(8).randbytes, Random(9).randbytes  # noqa: SLF001 - other chance
    two.caller = two.a.dial("b", "udp")
    of_one, of_two = one.shake(), two.shake()
    assert refusal(one.a, one.caller, of_two.accept) == "bad-tag"
    take(one.caller, of_one.accept)
    take(two.caller, of_two.accept)
    assert refusal(two.b, of_two.answerer, one.seal("a", one.caller)) == "bad-tag"


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (Header(Kind.ACCEPT, A_ID, 1, epoch=1), "bad-header"),
        (Header(Kind.ACCEPT, A_ID, 2), "unexpected-accept"),
        (Header(Kind.RETRY, A_ID, 1), "bad-mac"),
        (Header(Kind.DATA, A_ID, 1), "not-open"),
    ],
)
def test_who_knows_our_key_cannot_change_an_accepts_header(header: Header, reason: str) -> None:
    """Any holder of our public key can make the mac; the epoch must be 0 still, and the counter that of a connect."""
    ends = Ends()
    said = header.encode() + ends.shake().accept[HEADER_BYTES:-16]
    assert refusal(ends.a, ends.caller, said + mac(mac_key(b"triack mac1", public(A_KEY)), said)) == reason


@pytest.mark.parametrize("header", [Header(Kind.CONNECT, A_ID ^ 1, 1), Header(Kind.CONNECT, A_ID, 2)])
def test_who_knows_our_key_cannot_change_a_connects_header(header: Header) -> None:
    """It is in the prologue, so that the first tag is wrong then, as with another suite."""
    ends = Ends()
    said = header.encode() + ends.connect()[HEADER_BYTES:-16]
    assert refusal(ends.b, ends.caller, said + mac(mac_key(b"triack mac1", public(B_KEY)), said)) == "other-suite"


@given(st.binary(max_size=1_400), st.sampled_from(Kind), st.integers(0, 2), st.booleans())
def test_any_bytes_are_dropped_by_name(rest: bytes, kind: Kind, counter: int, opened: bool) -> None:
    ends = Ends()
    if opened:
        ends.open()
    else:
        ends.connect()
    datagram = Header(kind, A_ID, counter).encode() + rest
    assert refusal(ends.a, ends.caller, datagram)
    assert refusal(ends.b, ends.caller, datagram)


def opens_after(ends: Ends, tries: int) -> int:
    """How many connects it takes until one is answered; the conversation is open then."""
    for number in range(1, tries + 1):
        try:
            _, answerer, accept = ends.shake()
        except ProtocolError:
            continue
        take(ends.caller, accept)
        assert take(answerer, ends.seal("a", ends.caller)) == b"data"
        return number
    return 0


NEW, OLD = public(A_KEY), public(OLD_KEY)


CHANGES: dict[str, tuple[dict[str, Any], int]] = {
    "new": ({"a_keys": (A_KEY, OLD_KEY)}, 1),
    "mine not known yet": ({"a_keys": (A_KEY, OLD_KEY), "a_at_b": Peer("a", (OLD,))}, 2),
    "both known": ({"a_keys": (A_KEY, OLD_KEY), "a_at_b": Peer("a", (NEW, OLD))}, 1),
    "his still answers": ({"b_keys": (B_KEY, OLD_KEY), "b_at_a": Peer("b", (OLD,))}, 1),
    "his not in use": ({"b_keys": (OLD_KEY,), "b_at_a": Peer("b", (public(B_KEY), OLD))}, 2),
    "useless": ({"b_keys": (B_KEY,), "b_at_a": Peer("b", (LOW_ORDER, public(B_KEY)))}, 1),
    "both behind": (
        {"a_keys": (A_KEY, OLD_KEY), "a_at_b": Peer("a", (OLD,)), "b_keys": (FOREIGN_KEY,)}
        | {"b_at_a": Peer("b", (public(B_KEY), public(FOREIGN_KEY)))},
        4,
    ),
}


@pytest.mark.parametrize(("ends", "tries"), CHANGES.values(), ids=CHANGES)
def test_while_keys_change_the_two_find_each_other(ends: dict[str, Any], tries: int) -> None:
    """The newest is tried first, and the next one after each unanswered connect."""
    found = Ends(**ends)
    assert opens_after(found, 8) == tries
    assert found.caller.peer == "b"
    assert found.caller.peer_key in {public(key) for key in (B_KEY, OLD_KEY, FOREIGN_KEY)}


def test_who_has_answered_is_called_with_the_same_keys_again() -> None:
    ends = Ends(b_keys=(OLD_KEY,), b_at_a=Peer("b", (public(B_KEY), OLD)))
    connects = [ends.connect() for _ in range(2)]
    assert refusal(ends.b, ends.caller, connects[0]) == "bad-mac"
    load(ends, to=OLD_KEY)
    take(ends.caller, ends.answer(connects[1]).retry)
    take(ends.caller, ends.shake().accept)
    assert ends.caller.peer_key == OLD
    for _ in range(3):
        assert ends.answer(ends.connect()).channel is not None


def test_a_node_may_get_new_keys_while_it_runs() -> None:
    ends = Ends(b_at_a=Peer("b", (public(FOREIGN_KEY), public(B_KEY))))
    ends.connect()
    connect, answerer, accept = ends.shake()
    take(ends.caller, accept)
    ends.b.use_keys([FOREIGN_KEY])
    assert take(answerer, ends.seal("a", ends.caller)) == b"data"
    assert refusal(ends.b, ends.caller, connect) == "bad-mac"
    ends.caller = ends.a.dial("b", "udp")
    assert ends.answer(ends.connect()).channel is not None


BOOK: set[tuple[bytes, bytes]] = set()


class Spy:
    """A cipher that keeps a book of what it sealed with."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._aead: Aead = AESGCM_SHA256.aead(key)
        self.decrypt = self._aead.decrypt

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        assert (self._key, nonce) not in BOOK or nonce[4:] == b"\xff" * 8
        BOOK.add((self._key, nonce))
        return self._aead.encrypt(nonce, data, associated_data)


SPIED = AESGCM_SHA256._replace(aead=Spy)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_over_a_bad_network_all_comes_once_and_no_nonce_twice(random: Random) -> None:
    BOOK.clear()
    ends = Ends(suites=(SPIED, SPIED))
    ends.a._entropy = ends.b._entropy = random.randbytes  # noqa: SLF001 - each example has its own chance
    ends.caller = ends.a.dial("b", "udp")
    channels = dict(zip("ab", ends.open(), strict=True))
    sent: dict[str, list[tuple[bytes, bytes]]] = {"a": [], "b": []}
    opened: dict[str, list[bytes]] = {"a": [], "b": []}
    now_ns = NOW_NS
    for number in range(200):
        end = random.choice("ab")
        now_ns += random.choice((0, 1, 100 * MS, SECOND, REKEY_NS))
        if random.random() < 0.5:
            payload = b"%d" % number
            sent[end].append((payload, ends.seal(end, channels[end], payload, random.choice(TALK), now_ns)))
            continue
        if not sent[end]:
            continue
        payload, datagram = random.choice(sent[end][-40:])
        if random.random() < 0.3:
            datagram = next(iter(flips(datagram[:-1]))) + datagram[-1:]
        receiver = "b" if end == "a" else "a"
        try:
            opened[receiver].append(take(channels[receiver], datagram, now_ns))
        except ProtocolError:
            continue
        assert opened[receiver][-1] == payload
    for end, receiver in ("ab", "ba"):
        assert len(opened[receiver]) == len(set(opened[receiver]))
        assert set(opened[receiver]) <= {payload for payload, _ in sent[end]}


def test_no_secret_is_shown() -> None:
    ends = Ends()
    caller, answerer = ends.open()
    texts = [repr(thing) for thing in (ends.a, caller, answerer, ends.a._own, ends.caller)]  # noqa: SLF001
    for damaged in chain(flips(Ends().connect()[:40]), flips(ends.seal("a", caller)[:40])):
        try:
            take(answerer, damaged)
        except ProtocolError as error:
            texts.append(str(error))
    assert not any(secret.hex() in text or repr(secret) in text for text in texts for secret in (A_KEY, B_KEY))


def test_a_hello_that_does_not_fit_its_connect_is_refused() -> None:
    """Only a peer that we trust could send one."""
    ends = Ends()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secure, "_pad", lambda _hello: b"\xff\xff" + bytes(1_050))
        connect = ends.connect()
    with pytest.raises(ProtocolError, match="bad-hello: 65535 bytes in a connect that has 1050"):
        ends.answer(connect)


def test_a_directory_is_asked_each_time() -> None:
    """A peer that is added later is known to channels that were made before."""
    directory = Directory()
    channels = SecureChannels([B_KEY], directory, entropy=Random(1).randbytes)
    connect = dialled().seal(Kind.CONNECT, 9, 1, b"hello", NOW_NS)
    with pytest.raises(ProtocolError, match="untrusted"):
        channels.answer(connect, read_header(connect), A_ADDRESS, NOW_NS)
    directory.replace([Peer("a", (public(A_KEY),))])
    assert channels.answer(connect, read_header(connect), A_ADDRESS, NOW_NS).payload == b"hello"
