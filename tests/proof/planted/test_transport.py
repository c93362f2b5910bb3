"""The channel's bugs: a nonce that repeats, and a datagram that may come again."""

import pytest

from proof.planted.bug import Bug
from proof.planted.catalogue import bug_named
from proof.planted.transport import BUGS, EVERY
from tests.proof.planted.changes import changes_of
from triack.base.datagram import Kind, read_header
from triack.transport.data_keys import SealingKeys
from triack.transport.noise import AESGCM_SHA256


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_still_changes_something(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a name that is there, and with what can be called as the right one is."""
    assert len(changes_of(bug, monkeypatch)) == 1


def test_two_datagrams_have_one_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then, under one key."""
    changes_of(bug_named("a nonce is used twice"), monkeypatch)
    keys = SealingKeys(AESGCM_SHA256, bytes(32), 0)
    sealed = [keys.seal(Kind.DATA, 1, counter, [b"x"], 0)[0] for counter in range(EVERY - 2, EVERY + 2)]
    assert [read_header(datagram).counter for datagram in sealed] == [EVERY - 2, EVERY - 1, EVERY - 1, EVERY + 1]
