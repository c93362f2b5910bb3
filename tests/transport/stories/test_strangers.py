"""A stranger gets no answer and costs little; under load it must prove its address first."""

from collections.abc import Callable
from random import Random

import pytest

from tests.transport.ends import (
    A_ID,
    A_KEY,
    B_KEY,
    FOREIGN_KEY,
    NOW_NS,
    OLD_KEY,
    A,
    Ends,
    dialled,
    load,
    node,
    public,
    refusal,
    take,
)
from tests.transport.snapshots import snapshot
from triack.base.datagram import Channel, Header, Kind, read_header
from triack.base.errors import ProtocolError
from triack.base.peers import Peer
from triack.transport.cookies import COOKIE_LIFE_NS
from triack.transport.handshake_load import CONNECTS_PER_HOST
from triack.transport.noise import CHACHAPOLY_BLAKE2S, KeyPair
from triack.transport.secure import RETRY_PAUSE_NS, SecureChannels

LOW_ORDER = bytes(32)


@pytest.mark.parametrize(
    ("stranger", "reason"),
    [
        (lambda: dialled(FOREIGN_KEY), "untrusted"),
        (lambda: dialled(to=FOREIGN_KEY), "bad-mac"),
        (lambda: dialled(suite=CHACHAPOLY_BLAKE2S), "other-suite"),
        (lambda: dialled(scheme="tcp"), "other-suite"),
        (lambda: dialled(scheme="memory"), "other-suite"),
    ],
    ids=["its key is nobody's", "it calls another", "another suite", "over tcp", "in memory"],
)
def test_who_is_not_exactly_what_was_agreed_gets_silence(stranger: Callable[[], Channel], reason: str) -> None:
    ends = Ends()
    connect = stranger().seal(Kind.CONNECT, 9, 1, b"hello", NOW_NS)
    before = snapshot(ends.b._cookies), snapshot(ends.b_directory)  # noqa: SLF001 - what a stranger may have left
    assert refusal(ends.b, ends.caller, connect) == reason
    assert (snapshot(ends.b._cookies), snapshot(ends.b_directory)) == before  # noqa: SLF001


def test_two_nodes_with_different_psks_do_not_talk() -> None:
    """The initiator notices, in the accept; the responder never gets any data. With the same psk they talk."""
    a_at_b = Peer("a", (public(A_KEY),), psk=b"p" * 32)
    ends = Ends(a_at_b=a_at_b)
    accept, before = ends.shake().accept, snapshot(ends.caller)
    assert refusal(ends.a, ends.caller, accept) == "bad-tag"
    assert snapshot(ends.caller) == before
    Ends(a_at_b=a_at_b, b_at_a=Peer("b", (public(B_KEY),), psk=b"p" * 32)).open()


@pytest.mark.parametrize("keys", [(), (LOW_ORDER,), (b"\1" * 31,), (public(A_KEY),)])
def test_who_has_no_key_that_can_be_called_is_not_dialled(keys: tuple[bytes, ...]) -> None:
    """None at all, one that shares a secret with any key, one of a wrong length, our own."""
    channels = node([A_KEY], [Peer("b", keys)])
    assert not channels.knows("b")
    with pytest.raises(ProtocolError, match="no-key: b"):
        channels.dial("b", "udp")


def test_a_node_does_not_answer_itself() -> None:
    """Nor an older copy of itself, even when its own key stands in its directory."""
    channels = node([A_KEY, OLD_KEY], [Peer("me", (public(OLD_KEY),))])
    clone = node([OLD_KEY], [A]).dial("a", "udp")
    assert refusal(channels, clone, clone.seal(Kind.CONNECT, 9, 1, b"", NOW_NS)) == "own-node"


def test_junk_costs_a_victim_no_shared_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """None before the mac fits, and under load none before the cookie does; one for a key that is nobody's."""
    computed: list[bytes] = []
    exchange = KeyPair.exchange

    def counted(pair: KeyPair, other: bytes) -> bytes:
        computed.append(other)
        return exchange(pair, other)

    ends = Ends()
    connect, untrusted = ends.connect(), dialled(FOREIGN_KEY).seal(Kind.CONNECT, 9, 1, b"", NOW_NS)
    monkeypatch.setattr(KeyPair, "exchange", counted)
    for junk in (b"", bytes(20), connect[:500], connect[:-1] + b"\0", bytes([1, 2]) + Random(1).randbytes(1_198)):
        assert refusal(ends.b, ends.caller, junk)
    assert not computed
    assert refusal(ends.b, ends.caller, untrusted) == "untrusted"
    assert len(computed) == 1
    load(ends)
    computed.clear()
    for _ in range(10):
        assert ends.answer(untrusted).retry
    assert not computed


def loaded() -> Ends:
    """Two ends, of which b asks each caller where it is."""
    ends = Ends()
    load(ends)
    return ends


def known() -> Ends:
    """The same, and a has its cookie."""
    ends = loaded()
    take(ends.caller, ends.answer(ends.connect()).retry)
    return ends


def test_a_flood_leaves_nothing_behind() -> None:
    """Junk, connects of strangers, and connects under load from a thousand addresses: not a byte more than before."""
    ends = loaded()
    untrusted = dialled(FOREIGN_KEY).seal(Kind.CONNECT, 9, 1, b"", NOW_NS)
    ends.answer(untrusted)
    before = snapshot(ends.b)
    for port in range(1, 1_000):
        sender = f"udp://203.0.113.{port % 256}:{port}"
        assert len(ends.answer(untrusted, sender=sender).retry) < len(untrusted)
        assert refusal(ends.b, ends.caller, untrusted[:-1] + b"\0") == "bad-mac"
    assert snapshot(ends.b) == before


def test_under_load_a_caller_proves_where_it_is() -> None:
    """One more round trip, and the answer is shorter than what asked for it. Its cookie is of use there alone."""
    ends = loaded()
    answer = ends.answer(ends.connect())
    assert (answer.channel, answer.payload, len(answer.retry)) == (None, b"", 52)
    assert take(ends.caller, answer.retry) == b""
    connect = ends.connect()
    assert ends.answer(connect, sender="udp://192.0.2.66:7801").retry
    assert ends.answer(connect).channel is not None
    ends.open()


def test_a_cookie_is_sent_for_two_minutes() -> None:
    ends = known()
    sent = [ends.connect(now_ns=NOW_NS + COOKIE_LIFE_NS - early_ns)[-32:-16] for early_ns in (1, 0)]
    assert [cookie == bytes(16) for cookie in sent] == [False, True]


def test_a_cookie_of_yesterday_is_replaced() -> None:
    ends, later_ns = known(), NOW_NS + COOKIE_LIFE_NS - 1
    ends.b = SecureChannels([B_KEY], ends.b_directory, entropy=Random(5).randbytes)
    load(ends, later_ns)
    assert take(ends.caller, ends.answer(ends.connect(now_ns=later_ns), later_ns).retry, later_ns) == b""
    assert ends.answer(ends.connect(now_ns=later_ns), later_ns).channel is not None


def test_a_retry_counts_once_and_not_too_often() -> None:
    """Each makes us send a whole connect, so an observer of our connects must not be able to ask again and again."""
    ends = loaded()
    retries = [ends.answer(connect).retry for connect in [ends.connect() for _ in range(3)]]
    assert take(ends.caller, retries[0]) == b""
    assert refusal(ends.a, ends.caller, retries[0], NOW_NS + RETRY_PAUSE_NS) == "replayed"
    assert refusal(ends.a, ends.caller, retries[1], NOW_NS + RETRY_PAUSE_NS - 1) == "replayed"
    assert take(ends.caller, retries[1], NOW_NS + RETRY_PAUSE_NS) == b""


def test_a_retry_is_believed_from_who_saw_the_connect() -> None:
    """Knowing the public key is not enough, nor is a retry to another connect."""
    ends = Ends()
    other = Ends(a_keys=(FOREIGN_KEY,))
    load(other)
    other.caller = dialled(FOREIGN_KEY)
    false = other.answer(other.connect()).retry
    ends.connect()
    assert read_header(false) == Header(Kind.RETRY, A_ID, 1)
    assert refusal(ends.a, ends.caller, false) == "bad-mac"


def test_under_load_each_host_has_its_share() -> None:
    """A host that has proved its address may still connect too often; another host is taken meanwhile."""
    ends = known()
    connect = ends.connect()
    for _ in range(CONNECTS_PER_HOST):
        assert ends.answer(connect).channel is not None
    with pytest.raises(ProtocolError, match="too-many-connects"):
        ends.answer(connect)
    other = dialled()
    address = "udp://192.0.2.9:1"
    retry = ends.answer(other.seal(Kind.CONNECT, 9, 1, b"", NOW_NS), sender=address).retry
    take(other, retry)
    assert ends.answer(other.seal(Kind.CONNECT, 9, 2, b"", NOW_NS), sender=address).channel is not None
