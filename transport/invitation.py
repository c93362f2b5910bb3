"""Invitations to enrol, and the one-time codes that people carry from one node to the other.

A code is 128 random bits, written as eight groups of four letters and digits: base32 (RFC 4648) with a checksum, so
that a typo is noticed where it is made. It is good for one enrolment, within an hour.
"""

from base64 import b32decode, b32encode
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import Self

from triack.base.errors import UsageError
from triack.base.units import SECOND
from triack.transport.cookies import Entropy

SECRET_BYTES = 16
"""128 bits: infeasible to guess, even with a recorded enrolment and unlimited time."""
LIFE_NS = 3_600 * SECOND
"""Long enough to walk over to the other machine, short enough that a forgotten code opens nothing tomorrow."""
_CHECKSUM_BYTES = 4
"""One typo in four thousand million passes; and 20 bytes are base32 without padding."""
_CODE_LETTERS = (SECRET_BYTES + _CHECKSUM_BYTES) * 8 // 5
"""Five bits each."""
_GROUP_LETTERS = 4
"""As much as people read out in one breath."""


@dataclass(frozen=True, slots=True)
class Invitation:
    """Lets one node that knows its secret enrol.

    Attributes:
        secret: 16 random bytes; no text made of an invitation shows them, except ``code``.
        expires_at_ns: when it ends, by the monotonic clock.
    """

    secret: bytes = field(repr=False)
    expires_at_ns: int

    @classmethod
    def make(cls, entropy: Entropy, now_ns: int) -> Self:
        """A new one, good for an hour."""
        return cls(entropy(SECRET_BYTES), now_ns + LIFE_NS)

    @property
    def code(self) -> str:
        """The text to give to the other node."""
        letters = b32encode(self.secret + _checksum(self.secret)).decode().lower()
        return "-".join(letters[at : at + _GROUP_LETTERS] for at in range(0, _CODE_LETTERS, _GROUP_LETTERS))


def decode_code(text: object) -> bytes:
    """Return the secret of a code; capitals, spaces and hyphens do not count.

    Raises UsageError, which names the fault without repeating any of the text.
    """
    if not isinstance(text, str):
        raise UsageError("read a code: it is text")
    letters = "".join(text.upper().replace("-", " ").split())
    try:
        raw = b32decode(letters) if len(letters) == _CODE_LETTERS else b""
    except ValueError:  # also for text that is not ASCII
        raw = b""
    if not raw:
        raise UsageError(f"read a code: it has {_CODE_LETTERS} letters a-z and digits 2-7")
    secret = raw[:SECRET_BYTES]
    if raw[SECRET_BYTES:] != _checksum(secret):
        raise UsageError("read a code: the checksum does not fit, it was mistyped")
    return secret


def _checksum(secret: bytes) -> bytes:
    return blake2s(secret, digest_size=_CHECKSUM_BYTES, person=b"code").digest()
