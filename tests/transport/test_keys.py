"""Keys of data, warm channels, and processes that fork."""

import os
import warnings
from itertools import count
from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sure import sure
from tests.transport.ends import A_KEY, NOW_NS, B, Ends, flips, node, take
from tests.transport.snapshots import snapshot
from triack.base.datagram import Channel, Channels, Header, Kind, read_header
from triack.base.errors import ProtocolError, UsageError
from triack.base.units import SECOND
from triack.transport import data_keys, warm_channels
from triack.transport.data_keys import (
    AHEAD_MAX,
    EXPIRY_NS,
    FORGERIES_MAX,
    OVERHEAD_BYTES,
    PREVIOUS_NS,
    REKEY_NS,
    OpeningKeys,
    SealingKeys,
)
from triack.transport.insecure import InsecureChannel, InsecureChannels
from triack.transport.noise import AESGCM_SHA256, CHACHAPOLY_BLAKE2S, Aead, Suite
from triack.transport.replay_window import WINDOW, ReplayWindow
from triack.transport.warm_channels import WARM_MAX, WarmChannels

# Keys change by count and by time during traffic; old keys, forged datagrams and repeated ones open nothing.

KEY = bytes(range(32))
START_NS = 5 * SECOND


class Direction:
    def __init__(self, suite: Suite = AESGCM_SHA256) -> None:
        self.sealing = SealingKeys(suite, KEY, START_NS)
        self.opening = OpeningKeys(suite, KEY, START_NS)
        self.counter = count()

    def seal(self, payload: bytes = b"data", now_ns: int = START_NS) -> bytes:
        return self.sealing.seal(Kind.DATA, 7, next(self.counter), [payload], now_ns)[0]

    def open(self, datagram: bytes, now_ns: int = START_NS) -> bytes:
        header = read_header(datagram)
        opened = self.opening.open([datagram], [header.counter], header.epoch, now_ns)
        if opened.errors:
            raise opened.errors[0]
        return opened.payloads[0]

    def refusal(self, datagram: bytes, now_ns: int = START_NS) -> str:
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
    monkeypatch.setattr(data_keys, "REKEY_DATAGRAMS", 5)
    single, by_run = (SealingKeys(AESGCM_SHA256, KEY, START_NS) for _ in range(2))
    payloads = [b"%d" % number for number in range(13)]
    datagrams = by_run.seal(Kind.DATA, 7, 3, payloads, START_NS)
    assert datagrams == [single.seal(Kind.DATA, 7, at, [it], START_NS)[0] for at, it in enumerate(payloads, 3)]
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
    way = Direction()
    assert way.refusal(way.seal(b"")[:-1]) == "too-short"
    assert way.opening._forgeries == 0  # noqa: SLF001 - it is what ends a connection


# Of many channels only a few have ciphers, which makes no visible difference.

ALIVE: WeakSet["Counted"] = WeakSet()
"""Ciphers."""


class Counted:
    """A cipher that is counted as long as it lives."""

    def __init__(self, key: bytes) -> None:
        aead: Aead = AESGCM_SHA256.aead(key)
        self.encrypt, self.decrypt = aead.encrypt, aead.decrypt
        ALIVE.add(self)


@pytest.mark.gate
def test_many_connections_have_few_ciphers() -> None:
    suite = AESGCM_SHA256._replace(aead=Counted)
    ends, pairs, now_ns = Ends(suites=(suite, suite)), list[tuple[Channel, Channel]](), NOW_NS
    for _ in range(2 * WARM_MAX):
        now_ns += SECOND  # nobody takes all of these connects at once
        ends.caller = ends.a.dial("b", "udp")
        _, answerer, accept = ends.shake(now_ns=now_ns)
        assert take(ends.caller, accept, now_ns) == b"hello yourself"
        pairs.append((ends.caller, answerer))
    for _ in range(3):
        for caller, answerer in pairs:
            assert take(answerer, ends.seal("a", caller, now_ns=now_ns), now_ns) == b"data"
            assert take(caller, ends.seal("b", answerer, now_ns=now_ns), now_ns) == b"data"
        assert len(ALIVE) <= 2 * 2 * WARM_MAX  # both ends are here, and a channel has two


def test_a_channel_that_talks_keeps_its_ciphers() -> None:
    made: list[bytes] = []

    def make(key: bytes) -> Aead:
        made.append(key)
        return AESGCM_SHA256.aead(key)

    suite = AESGCM_SHA256._replace(aead=make)
    ends = Ends(suites=(suite, suite))
    caller, answerer = ends.open()
    take(answerer, ends.seal("a", caller))
    so_far = len(made)
    for _ in range(100):
        assert take(answerer, ends.seal("a", caller)) == b"data"
    assert len(made) == so_far


def test_a_channel_that_is_gone_takes_no_place() -> None:
    class Gone:
        def cool(self) -> None:
            raise AssertionError

    class Cooled:
        is_warm = True

        def cool(self) -> None:
            self.is_warm = False

    warm, there = WarmChannels(), [Cooled() for _ in range(WARM_MAX)]
    assert warm.admit(Gone())
    assert all(map(warm.admit, there))
    assert all(one.is_warm for one in there)
    assert warm.admit(Cooled())
    assert [one.is_warm for one in there] == [False] + [True] * (WARM_MAX - 1)


# A forked child can do nothing with its parent's sessions.


def fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it warns of threads; these children only seal and write
        return os.fork()


def in_child(*channels: tuple[Channel, Kind]) -> list[str]:
    """What a forked child hears when it seals with each of them."""
    reading, writing = os.pipe()
    child = fork()
    if not child:
        for channel, kind in channels:
            try:
                channel.seal(kind, 1, 99, b"from the child", NOW_NS)
                os.write(writing, b"sealed\n")
            except UsageError as error:
                os.write(writing, f"{error}\n".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        heard = said.read().splitlines()
    assert os.waitpid(child, 0) == (child, 0)
    return heard


def test_a_child_seals_nothing_and_its_parent_goes_on() -> None:
    """In each state of both ends: before, within and after the handshake."""
    ends, waiting, fresh = Ends(), Ends(), Ends()
    caller, answerer = ends.open()
    connect = waiting.connect()
    answer = waiting.answer(connect)
    data, connects, accepts = Kind.DATA, Kind.CONNECT, Kind.ACCEPT
    heard = in_child(
        (caller, data), (answerer, data), (waiting.caller, connects), (sure(answer.channel), accepts),
        (fresh.caller, connects),
    )  # fmt: skip
    said = "DATA", "DATA", "CONNECT 99", "ACCEPT 99", "CONNECT 99"
    assert heard == [f"seal {it}: the session is that of the parent process" for it in said]
    assert take(answerer, ends.seal("a", caller)) == b"data"
    assert take(waiting.caller, waiting.accept(answer, connect)) == b"hello yourself"


def test_a_child_opens_nothing_either() -> None:
    """An accept that both open would give both the same keys."""
    ends = Ends()
    accept = ends.shake().accept
    child = fork()
    if not child:
        try:
            take(ends.caller, accept)
        except ProtocolError as error:
            os._exit(7 if error.reason == "unexpected-accept" else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert take(ends.caller, accept) == b"hello yourself"


def test_nodes_that_are_gone_are_not_kept() -> None:
    """Only what is alive ends in a child; the channels of a node end with it."""
    ends, alive = Ends(), vars(warm_channels)["_alive"]
    before = len(alive)
    extra = [node((A_KEY,), (B,)) for _ in range(5)]
    channels = [ends.a.dial("b", "udp") for _ in range(5)]
    assert len(alive) == before + len(extra)
    extra.clear()
    assert channels
    assert len(alive) == before


# A datagram is opened exactly as it was sealed, or not at all; a conversation gets its channel when it begins.

CHANNEL: Channel = InsecureChannel()
CHANNELS: Channels = InsecureChannels()
SAMPLE = CHANNEL.seal(Kind.DATA, 0x0123456789ABCDEF, 7, b"payload", 0)


def unseal(datagram: bytes) -> bytes:
    return CHANNEL.open(datagram, Header(Kind.DATA, 0, 0), 0)


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("payload", [b"", b"x", bytes(1200), bytes(65_000)])
def test_round_trip(kind: Kind, payload: bytes) -> None:
    datagram = CHANNEL.seal(kind, 2**64 - 1, 0, payload, 0)
    assert len(datagram) == len(payload) + CHANNEL.overhead_bytes == len(payload) + 36
    assert (read_header(datagram), unseal(datagram)) == (Header(kind, 2**64 - 1, 0), payload)


def test_every_bit_counts() -> None:
    for damaged in flips(SAMPLE):
        with pytest.raises(ProtocolError):
            unseal(damaged)


# No counter is taken twice, and none of the last 8,192 is refused unless it has come.


def taken(*counters: int) -> ReplayWindow:
    window = ReplayWindow()
    for counter in counters:
        assert not window.has(counter)
        window.take(counter)
    return window


def test_it_is_as_long_as_promised() -> None:
    """8,192 counters up to the newest can be told apart; before that, everything counts as seen."""
    window = taken(0, WINDOW)
    assert WINDOW == 8_192
    assert [counter for counter in range(WINDOW + 2) if window.has(counter)] == [0, WINDOW]
    window.take(1)
    assert (window.has(1), window.newest) == (True, WINDOW)


@pytest.mark.parametrize("start", [0, 1, WINDOW - 1, WINDOW, 5 * WINDOW + 17, 2**63])
@pytest.mark.parametrize("jump", [1, 2, 100, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW, 2**40])
def test_what_a_jump_skips_may_still_come(start: int, jump: int) -> None:
    full = range(max(0, start - WINDOW + 1), start + 1)
    window = taken(*full)
    window.take(start + jump)
    for counter in range(max(0, start + jump - WINDOW + 1), start + jump):
        assert window.has(counter) == (counter in full)
    assert window.has(start + jump - WINDOW)


@given(st.lists(st.integers(0, 3 * WINDOW), max_size=60))
def test_it_agrees_with_a_set(counters: list[int]) -> None:
    window, seen = ReplayWindow(), set[int]()
    for counter in counters:
        too_old = bool(seen) and max(seen) - counter >= WINDOW
        assert window.has(counter) == (counter in seen or too_old)
        if not window.has(counter):
            window.take(counter)
            seen.add(counter)
