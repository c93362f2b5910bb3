"""Nonces: each use of one twice is seen, and nothing else is."""

from triack.tools.sim.nonces import Nonces
from triack.transport.noise import next_key

KEY, OTHER = bytes(32), bytes(31) + b"k"


def test_a_nonce_is_one_only_with_its_key() -> None:
    """The same number under another key is another; opening uses up nothing."""
    nonces = Nonces()
    suite = nonces.suite
    cipher, other = suite.aead(KEY), suite.aead(OTHER)
    sealed = [cipher.encrypt(suite.nonce(number), b"x", b"") for number in range(3)]
    other.encrypt(suite.nonce(1), b"x", b"")
    for _ in range(2):
        assert cipher.decrypt(suite.nonce(1), sealed[1], b"") == b"x"
    assert nonces.repeated == 0
    suite.aead(KEY).encrypt(suite.nonce(1), b"y", b"")
    assert nonces.repeated == 1


def test_both_ends_may_go_on_to_the_next_key() -> None:
    """They make it with the same nonce, of the same zeros."""
    nonces = Nonces()
    assert next_key(nonces.suite, KEY) == next_key(nonces.suite, KEY)
    assert nonces.repeated == 0
