"""Watches all that is sealed in a simulated world: no key is ever used with one nonce twice (promise X7)."""

from triack.transport.noise import AESGCM_SHA256, NONCE_MAX, Aead, Suite

_NEXT_KEY = AESGCM_SHA256.nonce(NONCE_MAX)
"""That of the next key (Noise, section 4.2): both ends seal the same zeros with it, which reveals nothing."""


class Nonces:
    """All that is sealed in its suite."""

    def __init__(self) -> None:
        self.suite: Suite = AESGCM_SHA256._replace(aead=lambda key: _Watched(self, key))
        self.repeated = 0
        self._used: set[bytes] = set()

    def note(self, key: bytes, nonce: bytes) -> None:
        """Something is sealed."""
        used = key + nonce
        self.repeated += used in self._used and nonce != _NEXT_KEY
        self._used.add(used)


class _Watched:
    """A cipher that reports what it seals with."""

    __slots__ = ("_aead", "_key", "_nonces", "decrypt")

    def __init__(self, nonces: Nonces, key: bytes) -> None:
        self._nonces = nonces
        self._key = key
        self._aead: Aead = AESGCM_SHA256.aead(key)
        self.decrypt = self._aead.decrypt

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Seal."""
        self._nonces.note(self._key, nonce)
        return self._aead.encrypt(nonce, data, associated_data)
