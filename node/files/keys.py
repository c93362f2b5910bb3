"""The keys of nodes as text, and the file with a node's own.

A key is written as ``triack-public-`` or the like, and 56 letters and digits: its 32 bytes and a checksum in base32
(RFC 4648). The checksum covers the kind of key, so that neither a typo nor a key of another kind passes.

The file ``identity`` in a data directory holds a node's private keys, one a line. The node connects with the first key,
and accepts connections with each of them. So keys change without a gap: add one, let every peer trust it, put it first,
remove the old one.
"""

import re
from base64 import b32decode, b32encode
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2s
from typing import Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from triack.base.errors import IdentityError, KeyUnreadable
from triack.node.files.private_files import FILE_BYTES_MAX, Files

IDENTITY_FILE = "identity"
"""Backups must not spread it."""
KEY_BYTES = 32
"""RFC 7748, section 5."""
CHECKSUM_BYTES = 3
"""One typo in 16 million passes; and 35 bytes are base32 without padding."""
TEXT_LETTERS = (KEY_BYTES + CHECKSUM_BYTES) * 8 // 5
"""Five bits each."""
OWN_KEYS_MAX = 8
"""Each is tried on every connection attempt of a stranger; to change keys, two are enough."""
PUBLIC_KEYS_KEPT = FILE_BYTES_MAX // TEXT_LETTERS
"""Cached checks of public keys, more than any list of peers has. The list is read as a whole after each change, in the
same order: with one key more than the cache holds, none would be found again."""

_HEADING = b"""\
# The private keys of a Triack node: with them, anyone can speak in its name.
# It calls with the first one, and answers with each. `triack keygen` changes them.
"""
"""For people who find the file."""
_LETTERS = re.compile(r"[a-z2-7]*")
_ANY_PRIVATE_KEY = X25519PrivateKey.from_private_bytes(bytes(range(KEY_BYTES)))


class KeyKind(StrEnum):
    """The purpose of a key, as in its text."""

    PUBLIC = "public"
    """Identifies a node; it is no secret."""
    PRIVATE = "private"
    """Proves that identity; it is the node's secret."""
    SHARED = "shared"
    """A secret that two peers have agreed on besides their keys (the psk of Noise, revision 34, section 9)."""


def encode_key(kind: KeyKind, key: bytes) -> str:
    """A key as text."""
    letters = b32encode(key + _checksum(kind, key)).decode().lower()
    return f"{_prefix(kind)}{letters}"


def decode_key(kind: KeyKind, text: object) -> bytes:
    """Read a key of that kind. Raises KeyUnreadable, which names the mistake without repeating any of the text."""
    if not isinstance(text, str):
        raise KeyUnreadable(f"a {kind} key is text")
    text = text.strip().lower()
    for other in KeyKind:
        if other is not kind and text.startswith(_prefix(other)):
            raise KeyUnreadable(f"a {kind} key is wanted, and this is a {other} one")
    letters = text.removeprefix(_prefix(kind))
    if letters == text:
        raise KeyUnreadable(f"a {kind} key begins with {_prefix(kind)}")
    if len(letters) != TEXT_LETTERS or not _LETTERS.fullmatch(letters):
        raise KeyUnreadable(f"after {_prefix(kind)} come {TEXT_LETTERS} letters a-z and digits 2-7")
    raw = b32decode(letters.upper())
    key = raw[:KEY_BYTES]
    if raw[KEY_BYTES:] != _checksum(kind, key):
        raise KeyUnreadable("the checksum does not fit: it was mistyped")
    if kind is KeyKind.PUBLIC and _is_of_low_order(key):
        raise KeyUnreadable("no private key belongs to it")
    return key


def _prefix(kind: KeyKind) -> str:
    return f"triack-{kind}-"


def _checksum(kind: KeyKind, key: bytes) -> bytes:
    return blake2s(key, digest_size=CHECKSUM_BYTES, person=kind.encode()).digest()


@lru_cache(maxsize=PUBLIC_KEYS_KEPT)
def _is_of_low_order(key: bytes) -> bool:
    """Whether it makes the same secret with every private key (RFC 7748, section 6.1)."""
    try:
        _ANY_PRIVATE_KEY.exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError:
        return True
    return False


class Identity:
    """A node's own keys. Nothing that prints or logs it shows them."""

    __slots__ = ("keys", "public")

    def __init__(self, keys: tuple[X25519PrivateKey, ...]) -> None:
        self.keys = keys
        self.public = tuple(key.public_key().public_bytes_raw() for key in keys)

    @classmethod
    def make(cls, entropy: Callable[[int], bytes]) -> Self:
        """An identity with a new key; ``entropy`` must be unpredictable."""
        return cls((X25519PrivateKey.from_private_bytes(entropy(KEY_BYTES)),))

    @classmethod
    def decode(cls, content: bytes, where: str) -> Self:
        """Read the content of a file.

        Raises IdentityError, with the file, the line, and the mistake; never with the content of the line.
        """
        keys: list[X25519PrivateKey] = []
        for number, line in enumerate(content.split(b"\n"), 1):
            if line.strip() and not line.startswith(b"#"):
                try:
                    raw = decode_key(KeyKind.PRIVATE, line.decode("ascii", "replace"))
                except KeyUnreadable as error:
                    raise IdentityError(f"read {where}, line {number}: {error}") from None
                keys.append(X25519PrivateKey.from_private_bytes(raw))
        found = cls(tuple(keys))
        if not keys:
            raise IdentityError(f"read {where}: there is no key in it")
        if len(set(found.public)) < len(keys):
            raise IdentityError(f"read {where}: a key is in it twice")
        if len(keys) > OWN_KEYS_MAX:
            raise IdentityError(f"read {where}: {len(keys)} keys are in it, over {OWN_KEYS_MAX}")
        return found

    def encode(self) -> bytes:
        """The content of a file."""
        lines = [encode_key(KeyKind.PRIVATE, key.private_bytes_raw()).encode() + b"\n" for key in self.keys]
        return _HEADING + b"".join(lines)

    # ---- changing keys

    def with_new(self, entropy: Callable[[int], bytes]) -> Self:
        """The same with a new key at the end."""
        return type(self)((*self.keys, *self.make(entropy).keys))

    def with_first(self, public: bytes) -> Self:
        """The same, with another one of its keys first. Raises IdentityError if it has no such key."""
        chosen = self._index(public)
        others = tuple(key for index, key in enumerate(self.keys) if index != chosen)
        return type(self)((self.keys[chosen], *others))

    def without(self, public: bytes) -> Self:
        """The same without one of its keys. Raises IdentityError if it has no such key, or no other."""
        gone = self._index(public)
        if len(self.keys) == 1:
            raise IdentityError("remove a key of this node: it has no other")
        return type(self)(tuple(key for index, key in enumerate(self.keys) if index != gone))

    def _index(self, public: bytes) -> int:
        if public not in self.public:
            raise IdentityError(f"{encode_key(KeyKind.PUBLIC, public)} is no key of this node")
        return self.public.index(public)

    def __repr__(self) -> str:
        return f"<Identity {' '.join(encode_key(KeyKind.PUBLIC, key) for key in self.public)}>"


def open_identity(files: Files, entropy: Callable[[int], bytes]) -> Identity:
    """The identity of a node; if it has none yet, make one durably.

    Raises IdentityError: the file is damaged, not private to its owner, or cannot be read or written.
    """
    where = files.where(IDENTITY_FILE)
    found = files.read(IDENTITY_FILE)
    if found is None:
        found = files.change(IDENTITY_FILE, lambda now: Identity.make(entropy).encode() if now is None else now)
    return Identity.decode(found, where)
