"""Keys change by count and by time during traffic; old keys, forged datagrams and repeated ones open nothing."""

from itertools import count

import pytest

from tests.transport.snapshots import snapshot
from triack.base.datagram import Kind, read_header
from triack.base.errors import ProtocolError, UsageError
from triack.base.units import SECOND
from triack.transport import data_keys
from triack.transport.data_keys import (
    AHEAD_MAX,
    EXPIRY_NS,
    FORGERIES_MAX,
    OVERHEAD_BYTES,
    PREVIOUS_NS,
    REKEY_DATAGRAMS,
    REKEY_NS,
    OpeningKeys,
    SealingKeys,
)
from triack.transport.noise import AESGCM_SHA256, CHACHAPOLY_BLAKE2S, Suite

KEY = bytes(range(32))
START_NS = 5 * SECOND


class Direction:
    """One direction of a connection."""

    def __init__(self, suite: Suite = AESGCM_SHA256) -> None:
        self.sealing = SealingKeys(suite, KEY, START_NS)
        self.opening = OpeningKeys(suite, KEY, START_NS)
        self.counter = count()

    def seal(self, payload: bytes = b"data", now_ns: int = START_NS) -> bytes:
        return self.sealing.seal(Kind.DATA, 7, next(self.counter), [payload], now_ns)[0]

    def open(self, datagram: bytes, now_ns: int = START_NS) -> bytes:
        header = read_header(datagram)
        return self.opening.open(datagram, header.counter, header.epoch, now_ns)

    def refusal(self, datagram: bytes, now_ns: int = START_NS) -> str:
        """Why it is not opened; nothing has changed then."""
        before = snapshot(self.opening)
        with pytest.raises(ProtocolError) as caught:
            self.open(datagram, now_ns)
        assert snapshot(self.opening) == before
        return caught.value.reason


def epoch(datagram: bytes) -> int:
    return read_header(datagram).epoch


def forged(datagram: bytes) -> bytes:
    return datagram[:-1] + bytes([datagram[-1] ^ 1])


@pytest.mark.parametrize("suite", [AESGCM_SHA256, CHACHAPOLY_BLAKE2S])
@pytest.mark.parametrize("payload", [b"", b"x", bytes(1_164), bytes(65_000)])
def test_what_was_sealed_comes_out(suite: Suite, payload: bytes) -> None:
    """It costs 36 bytes, and nothing of it can be read on the way."""
    way = Direction(suite)
    datagram = way.seal(payload)
    assert len(datagram) == len(payload) + OVERHEAD_BYTES == len(payload) + 36
    assert len(payload) < 16 or payload not in datagram
    assert way.open(datagram) == payload
    assert way.refusal(datagram) == "replayed"


def test_both_ciphers_put_the_counter_into_the_nonce_as_noise_does() -> None:
    """The same bytes as the cipher itself makes, under the key of the handshake: section 11.4."""
    for suite in (AESGCM_SHA256, CHACHAPOLY_BLAKE2S):
        datagram = SealingKeys(suite, KEY, 0).seal(Kind.DATA, 7, 0x0102, [b"data"], 0)[0]
        assert datagram[20:] == suite.aead(KEY).encrypt(suite.nonce(0x0102), b"data", datagram[:20])


@pytest.mark.parametrize("again", [5, 4, 0, -1, 2**64 - 1])
def test_no_counter_is_sealed_twice(again: int) -> None:
    """That would give the key away: it is refused, also for a mistake of ours. The last one of all is Noise's own."""
    keys = SealingKeys(AESGCM_SHA256, KEY, 0)
    keys.seal(Kind.DATA, 7, 4, [b"", b""], 0)
    with pytest.raises(UsageError, match="5 was sealed before it"):
        keys.seal(Kind.DATA, 7, again, [b""], 0)


def test_a_run_is_sealed_as_its_datagrams_are_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next key begins in the middle of it, where it would have begun."""
    monkeypatch.setattr(data_keys, "REKEY_DATAGRAMS", 5)
    single, by_run = (SealingKeys(AESGCM_SHA256, KEY, START_NS) for _ in range(2))
    payloads = [b"%d" % number for number in range(13)]
    datagrams = by_run.seal(Kind.DATA, 7, 3, payloads, START_NS)
    assert datagrams == [
        single.seal(Kind.DATA, 7, counter, [payload], START_NS)[0] for counter, payload in enumerate(payloads, 3)
    ]
    assert [epoch(datagram) for datagram in datagrams] == [0] * 5 + [1] * 5 + [2] * 3
    with pytest.raises(UsageError, match="15 was sealed before it"):
        by_run.seal(Kind.DATA, 7, 15, payloads, START_NS)


def test_a_key_seals_for_two_minutes() -> None:
    """Then the next one does, which the other end follows; late datagrams of the one before are opened for a minute."""
    way = Direction()
    late = [way.seal() for _ in range(3)]
    last_ns = START_NS + REKEY_NS - 1
    assert epoch(way.seal(now_ns=last_ns)) == 0
    new = way.seal(now_ns=last_ns + 1)
    assert epoch(new) == 1
    assert way.open(new, last_ns + 1) == b"data"
    assert way.open(late[0], last_ns + 1) == b"data"
    assert way.open(late[1], last_ns + PREVIOUS_NS) == b"data"
    assert way.refusal(late[0], last_ns + PREVIOUS_NS) == "replayed"
    with pytest.raises(ProtocolError, match="key-expired"):
        way.open(late[2], last_ns + 1 + PREVIOUS_NS)
    assert way.opening._previous == b""  # noqa: SLF001 - it is gone, and not only unused
    assert way.open(way.seal(now_ns=last_ns + 2), last_ns + 1 + PREVIOUS_NS) == b"data"


def test_a_key_seals_a_limited_number_of_datagrams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here four in place of 2^20."""
    assert REKEY_DATAGRAMS == 2**20
    monkeypatch.setattr(data_keys, "REKEY_DATAGRAMS", 4)
    way = Direction()
    sealed = [way.seal() for _ in range(10)]
    assert [epoch(datagram) for datagram in sealed] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert [way.open(datagram) for datagram in sealed] == [b"data"] * 10


@pytest.mark.slow
def test_more_datagrams_than_one_key_seals() -> None:
    """At the real limit, without a pause; of what comes before it one of a hundred arrives."""
    way, epochs = Direction(), list[int]()
    for left in reversed(range(REKEY_DATAGRAMS + 1)):
        datagram = way.seal(b"")
        if left < 2 or left % 100 == 0:
            epochs.append(epoch(datagram))
            way.open(datagram)
    assert epochs == [0] * (len(epochs) - 1) + [1]


def test_a_key_opens_for_three_minutes() -> None:
    """Counted from when it was first seen; a newer key is followed even then."""
    way = Direction()
    old = [way.seal() for _ in range(2)]
    assert way.open(old[0], START_NS + EXPIRY_NS - 1) == b"data"
    assert way.refusal(old[1], START_NS + EXPIRY_NS) == "key-expired"
    later_ns = START_NS + 2 * EXPIRY_NS
    assert way.open(way.seal(now_ns=later_ns), later_ns) == b"data"
    with pytest.raises(ProtocolError, match="key-expired"):
        way.open(old[1], later_ns)


def test_the_key_before_expires_when_its_own_time_is_over() -> None:
    """Also when the new one has come but a moment ago."""
    way = Direction()
    late = [way.seal() for _ in range(2)]
    seen_ns = START_NS + EXPIRY_NS - 10
    way.open(way.seal(now_ns=seen_ns), seen_ns)
    assert way.open(late[0], seen_ns + 9) == b"data"
    with pytest.raises(ProtocolError, match="key-expired"):
        way.open(late[1], seen_ns + 10)


def test_epochs_that_were_lost_are_skipped() -> None:
    """Up to 64; one that is further on is as good as forged. The last key before the new one still opens."""
    way = Direction()
    sealed = [way.seal(now_ns=START_NS + number * REKEY_NS) for number in range(AHEAD_MAX + 2)]
    at_ns = START_NS + (AHEAD_MAX + 2) * REKEY_NS
    assert way.refusal(sealed[AHEAD_MAX + 1]) == "bad-tag"
    assert way.open(sealed[AHEAD_MAX], at_ns) == b"data"
    assert way.open(sealed[AHEAD_MAX - 1], at_ns) == b"data"
    assert way.open(sealed[AHEAD_MAX + 1], at_ns) == b"data"
    assert way.refusal(sealed[AHEAD_MAX - 2], at_ns) == "key-expired"


def test_a_forged_epoch_moves_nothing() -> None:
    """A key is followed when its tag is good, and not before; the keys that were tried are made once."""
    way, other = Direction(), SealingKeys(AESGCM_SHA256, bytes(32), START_NS)
    ages = [(number, START_NS + number * REKEY_NS) for number in range(AHEAD_MAX + 1)]
    false = [other.seal(Kind.DATA, 7, number, [b""], at_ns)[0] for number, at_ns in ages]
    assert [way.refusal(datagram) for datagram in false] == ["bad-tag"] * (AHEAD_MAX + 1)
    made = list(way.opening._ahead)  # noqa: SLF001 - what a forgery may cost is the question
    assert way.refusal(false[AHEAD_MAX]) == "bad-tag"
    assert all(one is two for one, two in zip(made, way.opening._ahead, strict=True))  # noqa: SLF001
    assert way.open(way.seal()) == b"data"


def test_epochs_go_on_beyond_their_sixteen_bits() -> None:
    """The number on the wire begins again at 0; keys never do."""
    way = Direction()
    way.sealing._epoch = way.opening._epoch = 2**16 - 2  # noqa: SLF001 - 91 days later
    times_ns = [START_NS + number * REKEY_NS for number in range(5)]
    sealed = [way.seal(now_ns=now_ns) for now_ns in times_ns]
    assert [epoch(datagram) for datagram in sealed] == [2**16 - 2, 2**16 - 1, 0, 1, 2]
    for number, now_ns in ((0, times_ns[0]), (1, times_ns[1]), (3, times_ns[3]), (2, times_ns[3]), (4, times_ns[4])):
        assert way.open(sealed[number], now_ns) == b"data"
    late = Direction()
    late.sealing._epoch = 2**16 - 2  # noqa: SLF001 - the same number, another key
    assert way.refusal(late.seal(), times_ns[4]) == "replayed"
    late.counter = count(9)
    assert way.refusal(late.seal(), times_ns[4]) == "key-expired"


def test_as_many_forgeries_as_a_key_can_bear_end_it() -> None:
    """2^20 of them; then not even the true peer is believed."""
    way = Direction()
    true = [way.seal() for _ in range(3)]
    assert way.refusal(forged(true[0])) == "bad-tag"
    assert FORGERIES_MAX == 2**20
    way.opening._forgeries = FORGERIES_MAX - 2  # noqa: SLF001 - a million of them, and the next is counted
    assert way.refusal(forged(true[0])) == "bad-tag"
    assert way.open(true[0]) == b"data"
    with pytest.raises(ProtocolError, match="too-many-forgeries"):
        way.open(forged(true[1]))
    assert [way.refusal(datagram) for datagram in (*true[1:], forged(true[2]))] == ["too-many-forgeries"] * 3


def test_stubs_are_no_forgeries() -> None:
    """Their length shows it."""
    way = Direction()
    assert way.refusal(way.seal(b"")[:-1]) == "too-short"
    assert way.opening._forgeries == 0  # noqa: SLF001 - it is what ends a connection
