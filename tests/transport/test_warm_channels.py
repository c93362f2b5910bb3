"""Of many channels only a few have ciphers, which makes no visible difference."""

from weakref import WeakSet

import pytest

from tests.transport.ends import NOW_NS, Ends, take
from triack.base.datagram import Channel
from triack.base.units import SECOND
from triack.transport.noise import AESGCM_SHA256, Aead
from triack.transport.warm_channels import WARM_MAX, WarmChannels

ALIVE: WeakSet["Counted"] = WeakSet()
"""Ciphers."""


class Counted:
    """A cipher that is counted as long as it lives."""

    def __init__(self, key: bytes) -> None:
        aead: Aead = AESGCM_SHA256.aead(key)
        self.encrypt, self.decrypt = aead.encrypt, aead.decrypt
        ALIVE.add(self)


@pytest.mark.slow
@pytest.mark.gate
def test_many_connections_have_few_ciphers() -> None:
    """Twice as many as may keep theirs, each in turn, several times."""
    suite = AESGCM_SHA256._replace(aead=Counted)
    ends, pairs, now_ns = Ends(suites=(suite, suite)), list[tuple[Channel, Channel]](), NOW_NS
    for _ in range(2 * WARM_MAX):
        now_ns += SECOND  # nobody takes all of these connects at once
        ends.caller = ends.a.dial("b", "udp")
        connect = ends.connect(now_ns=now_ns)
        answer = ends.answer(connect, now_ns)
        assert answer.channel is not None
        assert take(ends.caller, ends.accept(answer, connect, now_ns=now_ns), now_ns) == b"hello yourself"
        pairs.append((ends.caller, answer.channel))
    for _ in range(3):
        for caller, answerer in pairs:
            assert take(answerer, ends.seal("a", caller, now_ns=now_ns), now_ns) == b"data"
            assert take(caller, ends.seal("b", answerer, now_ns=now_ns), now_ns) == b"data"
        assert len(ALIVE) <= 2 * 2 * WARM_MAX  # both ends are here, and a channel has two


def test_a_channel_that_talks_keeps_its_ciphers() -> None:
    """They are not made for each datagram."""
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
    """It is not kept, and its turn to be cooled goes to no other."""

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


def test_none_is_warm_in_another_process() -> None:
    """What ``test_forking`` shows with real children."""

    class Cooled:
        is_warm = True

        def cool(self) -> None:
            self.is_warm = False

    warm, one = WarmChannels(), Cooled()
    assert warm.admit(one)
    warm.end()
    assert not one.is_warm
    assert not warm.admit(one)
