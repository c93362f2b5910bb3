"""Noise handshakes, as in the Noise Protocol Framework, revision 34 (noiseprotocol.org): IK, IKpsk2, XX and X.

A handshake is two or three messages. The sides write and read them in turn. Afterwards both have the same hash of all
messages and two keys, one for each direction, that no third party can know. X is a single message: it carries its
payload to a side that has not spoken. ``Seals`` uses it to seal messages end to end.

Pure: the ephemeral keys are arguments. An unreadable message changes nothing, and raises a ``ProtocolError`` for each
cause: a tag, a point of low order (the shared secret would be zero, RFC 7748 section 6.1), or a static key that the
caller does not admit.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable
from copy import copy
from enum import Enum
from typing import Any, Literal, NamedTuple, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from triack.base.errors import ProtocolError
from triack.base.peers import NO_PSK
from triack.base.reasons import DropReason

KEY_BYTES = 32
"""Of X25519 (RFC 7748), of both ciphers (section 12 of the specification), and of a psk (section 9)."""
TAG_BYTES = 16
"""Added by sealing, with both ciphers (section 12)."""
NONCE_BEGIN = bytes(4)
"""The bytes of a nonce before its number, with both ciphers (section 12)."""
NONCE_MAX = 2**64 - 1
"""No message has it: it makes the next key (section 4.2, REKEY)."""

_SEAL, _MAC = b"triack seal 1", b"triack seal mac 1"
"""Separates the keys of sealed messages, and of proofs about them, from all other uses of the same private keys."""
MAC_KEYS_MAX = 4_096
"""Cached keys of proofs, one for each pair of nodes: a shared secret costs as much as 30 proofs."""


class Aead(Protocol):
    """The protocol of both ciphers."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Seal."""

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Open, or raise InvalidTag."""


class Suite(NamedTuple):
    """A cipher and a hash; the curve is always X25519. Both hashes have 32 bytes.

    Attributes:
        hash: its name in ``hashlib``.
        byte_order: of the number in a nonce (section 12).
    """

    name: str
    aead: Callable[[bytes], Aead]
    hash: str
    byte_order: Literal["big", "little"]

    def nonce(self, number: int) -> bytes:
        """The cipher's nonce of a number."""
        return NONCE_BEGIN + number.to_bytes(8, self.byte_order)

    def digest(self, data: bytes) -> bytes:
        """The hash of data."""
        return hashlib.new(self.hash, data).digest()

    def hkdf(self, salt: bytes, material: bytes, outputs: int) -> list[bytes]:
        """Derive that many keys from two (section 4.3)."""
        secret = hmac.digest(salt, material, self.hash)
        keys = [b""]
        for number in range(1, outputs + 1):
            keys.append(hmac.digest(secret, keys[-1] + bytes([number]), self.hash))
        return keys[1:]


AESGCM_SHA256 = Suite("25519_AESGCM_SHA256", AESGCM, "sha256", "big")
CHACHAPOLY_BLAKE2S = Suite("25519_ChaChaPoly_BLAKE2s", ChaCha20Poly1305, "blake2s", "little")


def next_key(suite: Suite, key: bytes) -> bytes:
    """The key that follows this one; this one cannot be found from it (section 4.2, REKEY)."""
    return suite.aead(key).encrypt(suite.nonce(NONCE_MAX), bytes(KEY_BYTES), b"")[:KEY_BYTES]


class KeyPair(NamedTuple):
    """A private key, and its public key as bytes."""

    private: X25519PrivateKey
    public: bytes

    @classmethod
    def of(cls, private: bytes) -> "KeyPair":
        """The pair of a private key of 32 bytes; any will do (RFC 7748, section 5)."""
        key = X25519PrivateKey.from_private_bytes(private)
        return cls(key, key.public_key().public_bytes_raw())

    def exchange(self, public: bytes) -> bytes:
        """The shared secret. Raises ValueError for a point that would make it zero."""
        return self.private.exchange(X25519PublicKey.from_public_bytes(public))


class Pattern(Enum):
    """The order of keys in the messages (sections 7.4, 7.5, and 9.4 for the psk).

    In IK and X the initiator knows the other's key. The value is the name, the words (the specification's tokens) of
    each message, and whether there is a psk.
    """

    IK = "IK", ("e es s ss", "e ee se"), False
    IKPSK2 = "IKpsk2", ("e es s ss", "e ee se psk"), True
    XX = "XX", ("e", "e ee s es", "s se"), False
    X = "X", ("e es s ss",), False

    def __init__(self, title: str, messages: tuple[str, ...], psk: bool) -> None:
        self.title = title
        self.messages = tuple(words.split() for words in messages)
        self.has_psk = psk


class _Transcript:
    """The state that both sides share so far: the specification's SymmetricState and its CipherState (section 5)."""

    __slots__ = ("_chain", "_cipher", "_nonce", "_suite", "hash")

    def __init__(self, suite: Suite, name: str) -> None:
        self._suite = suite
        # A name that is no longer than a hash is itself the first one (section 5.2).
        encoded = name.encode()
        self.hash = encoded.ljust(KEY_BYTES, b"\0") if len(encoded) <= KEY_BYTES else suite.digest(encoded)
        self._chain = self.hash
        self._cipher: Aead | None = None
        self._nonce = 0

    def mix_hash(self, data: bytes) -> None:
        self.hash = self._suite.digest(self.hash + data)

    def mix_key(self, material: bytes) -> None:
        self._chain, key = self._suite.hkdf(self._chain, material, 2)
        self._use(key)

    def mix_psk(self, psk: bytes) -> None:
        self._chain, said, key = self._suite.hkdf(self._chain, psk, 3)
        self.mix_hash(said)
        self._use(key)

    def seal(self, text: bytes) -> bytes:
        sealed = text if self._cipher is None else self._cipher.encrypt(self._next(), text, self.hash)
        self.mix_hash(sealed)
        return sealed

    def open(self, sealed: bytes) -> bytes:
        text = sealed if self._cipher is None else self._cipher.decrypt(self._next(), sealed, self.hash)
        self.mix_hash(sealed)
        return text

    def split(self) -> tuple[bytes, bytes]:
        of_initiator, of_responder = self._suite.hkdf(self._chain, b"", 2)
        return of_initiator, of_responder

    @property
    def tag_bytes(self) -> int:
        """How many bytes sealing adds now."""
        return 0 if self._cipher is None else TAG_BYTES

    def _use(self, key: bytes) -> None:
        self._cipher, self._nonce = self._suite.aead(key), 0

    def _next(self) -> bytes:
        self._nonce += 1
        return self._suite.nonce(self._nonce - 1)


class Handshake:
    """One side of a handshake: the specification's HandshakeState (section 5.3).

    Args:
        pattern: of its messages.
        suite: cipher and hash; the same on both sides.
        initiator: whether this side writes the first message.
        prologue: bytes on which both sides must agree without sending them.
        static: this side's static key.
        remote_static: the other's, if known beforehand: the responder's, in IK and X.
        psk: 32 bytes that both sides know, in IKpsk2.

    Attributes:
        remote_static: the other side's lasting public key, empty until known. Once the message that carried it has been
            read, the other side has proved that it owns the key.
        psk: may be set later: a responder knows which one when it has read the caller's key.
    """

    __slots__ = (
        "_ephemeral",
        "_initiator",
        "_messages",
        "_pattern",
        "_remote_ephemeral",
        "_static",
        "_transcript",
        "psk",
        "remote_static",
    )

    def __init__(
        self,
        pattern: Pattern,
        suite: Suite,
        *,
        initiator: bool,
        prologue: bytes,
        static: KeyPair,
        remote_static: bytes = b"",
        psk: bytes = NO_PSK,
    ) -> None:
        self._pattern = pattern
        self._messages = 0
        self._initiator = initiator
        self._static = static
        self._ephemeral = static  # until the first message is written
        self._remote_ephemeral = b""
        self.remote_static = remote_static
        self.psk = psk
        self._transcript = _Transcript(suite, f"Noise_{pattern.title}_{suite.name}")
        self._transcript.mix_hash(prologue)
        if pattern is not Pattern.XX:
            self._transcript.mix_hash(remote_static if initiator else static.public)

    @property
    def is_finished(self) -> bool:
        """Whether all messages have been written and read."""
        return self._messages == len(self._pattern.messages)

    @property
    def hash(self) -> bytes:
        """The hash of all messages; once finished, the same at both sides and nowhere else (section 11.2)."""
        return self._transcript.hash

    def write(self, payload: bytes, ephemeral: bytes = b"") -> bytes:
        """Return the next message.

        ``ephemeral`` is 32 random bytes, used nowhere else, for a message that begins a side's part. Raises
        ProtocolError ``bad-tag``: the other side's ephemeral key is of low order; nothing has changed then.
        """
        return self._attempt(self._write, payload, ephemeral)

    def read(self, message: bytes, admit: Callable[[bytes], None] | None = None) -> bytes:
        """Return the payload of the next message.

        ``admit`` is called with the other's static key once it can be read, before it is used; it may raise. Raises
        ProtocolError: ``too-short`` or ``bad-tag``, or the error of ``admit``; nothing has changed then.
        """
        return self._attempt(self._read, message, admit)

    def split(self) -> tuple[bytes, bytes]:
        """The two keys, once finished: the initiator seals with the first, the responder with the second."""
        assert self.is_finished
        return self._transcript.split()

    def _attempt(self, step: Callable[[bytes, Any], bytes], data: bytes, more: object) -> bytes:
        before = self._messages, copy(self._transcript), self._ephemeral, self._remote_ephemeral, self.remote_static
        try:
            return step(data, more)
        except (InvalidTag, ValueError, ProtocolError) as error:
            self._messages, self._transcript, self._ephemeral, self._remote_ephemeral, self.remote_static = before
            if isinstance(error, ProtocolError):
                raise
            raise ProtocolError(DropReason.BAD_TAG, "handshake") from error

    def _write(self, payload: bytes, ephemeral: bytes) -> bytes:
        transcript, parts = self._transcript, []
        for word in self._take_turn(own=True):
            if word == "e":
                self._ephemeral = KeyPair.of(ephemeral)
                parts.append(self._ephemeral.public)
                self._mix_ephemeral(self._ephemeral.public)
            elif word == "s":
                parts.append(transcript.seal(self._static.public))
            else:
                self._mix(word)
        return b"".join((*parts, transcript.seal(payload)))

    def _read(self, message: bytes, admit: Callable[[bytes], None] | None) -> bytes:
        transcript, rest = self._transcript, message
        for word in self._take_turn(own=False):
            if word == "e":
                self._remote_ephemeral, rest = _cut(rest, KEY_BYTES)
                self._mix_ephemeral(self._remote_ephemeral)
            elif word == "s":
                sealed, rest = _cut(rest, KEY_BYTES + transcript.tag_bytes)
                self.remote_static = transcript.open(sealed)
                if admit is not None:
                    admit(self.remote_static)
            else:
                self._mix(word)
        return transcript.open(rest)

    def _take_turn(self, *, own: bool) -> list[str]:
        assert own is (self._initiator is (self._messages % 2 == 0)), "not this side's turn"
        words = self._pattern.messages[self._messages]
        self._messages += 1
        return words

    def _mix_ephemeral(self, public: bytes) -> None:
        self._transcript.mix_hash(public)
        if self._pattern.has_psk:
            self._transcript.mix_key(public)  # section 9.2

    def _mix(self, word: str) -> None:
        """Mix in the psk, or a shared secret: the word names the initiator's key, then the responder's."""
        if word == "psk":
            self._transcript.mix_psk(self.psk)
            return
        own, remote = list(word if self._initiator else word[::-1])
        pair = self._ephemeral if own == "e" else self._static
        self._transcript.mix_key(pair.exchange(self._remote_ephemeral if remote == "e" else self.remote_static))


class Seals:
    """Seals messages end to end: each is a separate handshake of the pattern X, so that no state is kept."""

    __slots__ = ("_entropy", "_mac_keys", "_own", "_suite")

    def __init__(self, entropy: Callable[[int], bytes], suite: Suite, own: Iterable[KeyPair] = ()) -> None:
        self._entropy = entropy
        self._suite = suite
        self.use_keys(own)

    def use_keys(self, own: Iterable[KeyPair]) -> None:
        """Have these keys from now on."""
        self._own = list(own)
        self._mac_keys: dict[tuple[bytes, bytes], bytes] = {}

    def seal(self, to: bytes, text: bytes, bound: bytes) -> bytes:
        """Seal a text for the owner of a public key, who can also tell who sealed it.

        With another value of ``bound`` the other end can open nothing. Raises ProtocolError ``bad-tag``: the key can
        share no secret.
        """
        prologue = _SEAL + bound
        sealing = Handshake(
            Pattern.X, self._suite, initiator=True, prologue=prologue, static=self._own[0], remote_static=to
        )
        return sealing.write(text, self._entropy(KEY_BYTES))

    def open(self, sealed: bytes, bound: bytes) -> tuple[bytes, bytes]:
        """Open a text that was sealed for one of this node's keys. Returns the public key of its sealer, and the text.

        Raises ProtocolError ``too-short`` or ``bad-tag``: it was sealed for another node, or has changed on its way.
        """
        error = ProtocolError(DropReason.BAD_TAG, "no key opens it")
        for pair in self._own:
            opening = Handshake(Pattern.X, self._suite, initiator=False, prologue=_SEAL + bound, static=pair)
            try:
                text = opening.read(sealed)
            except ProtocolError as cause:
                error = cause
                continue
            return opening.remote_static, text
        raise error

    def mac(self, peer: bytes, said: bytes) -> bytes:
        """A proof, for the owner of another key, that the owner of this node's first key says that."""
        return self._mac(self._own[0], peer, said)

    def fits(self, peers: Iterable[bytes], said: bytes, mac: bytes) -> bool:
        """Whether the owner of one of these public keys made a proof for one of this node's keys."""
        for peer in peers:
            for pair in self._own:
                try:
                    if hmac.compare_digest(self._mac(pair, peer, said), mac):
                        return True
                except ProtocolError:
                    continue  # a key that shares no secrets proves nothing
        return False

    def _mac(self, pair: KeyPair, peer: bytes, said: bytes) -> bytes:
        key = self._mac_keys.get((pair.public, peer))
        if key is None:
            if len(self._mac_keys) >= MAC_KEYS_MAX:
                self._mac_keys.clear()
            try:
                shared = pair.exchange(peer)
            except ValueError as cause:
                raise ProtocolError(DropReason.BAD_TAG, "no secret is shared with that key") from cause
            key = self._mac_keys[pair.public, peer] = self._suite.hkdf(_MAC, shared, 1)[0]
        return hmac.digest(key, said, self._suite.hash)[:TAG_BYTES]


def _cut(message: bytes, length: int) -> tuple[bytes, bytes]:
    if len(message) < length:
        raise ProtocolError(DropReason.TOO_SHORT, f"a message that ends {length - len(message)} bytes early")
    return message[:length], message[length:]
