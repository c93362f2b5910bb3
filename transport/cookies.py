"""Proofs in a datagram that are checked before a shared secret is computed.

They show that its sender knows a public key, and that it receives at its address: WireGuard's mac1 and mac2 (sections
5.3 and 5.4.4 of its paper; RFC 9147, section 5.1).

A mac is keyed BLAKE2s (RFC 7693). The key of a first mac is derived from the receiver's public key. The key of a second
one is a cookie: a mac of the sender's address, under a secret that changes. So nothing is kept for a stranger, and its
datagram costs a hash.

Pure: clock and randomness are arguments.
"""

from collections.abc import Callable
from hashlib import blake2s
from hmac import compare_digest

from triack.base.units import SECOND

Entropy = Callable[[int], bytes]
"""Gives that many random bytes: ``os.urandom``, or the generator of a simulated world."""

MAC_BYTES = 16
"""As long as the tag of a cipher (RFC 5116, section 5.1)."""
COOKIE_LIFE_NS = 120 * SECOND
"""How long a secret is the newest one, and how long its cookies are sent back (section 5.4.7)."""
_SECRET_BYTES = 32
"""The longest key of BLAKE2s (RFC 7693, section 2.1)."""


def mac_key(label: bytes, public: bytes) -> bytes:
    """The key of macs for one purpose and for the owner of that public key."""
    return blake2s(label + public).digest()


def mac(key: bytes, data: bytes) -> bytes:
    """The mac of data: its maker knew the key."""
    return blake2s(data, key=key, digest_size=MAC_BYTES).digest()


def mac_fits(key: bytes, data: bytes, shown: bytes) -> bool:
    """Whether that is the mac; in constant time."""
    return compare_digest(mac(key, data), shown)


class Cookies:
    """Makes cookies, and recognises them for one to two lives of a secret."""

    __slots__ = ("_entropy", "_previous", "_secret", "_since_ns")

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._secret = self._previous = b""
        self._since_ns: int | None = None

    def make(self, address: str, now_ns: int) -> bytes:
        """The cookie for that address."""
        self._turn(now_ns)
        return mac(self._secret, address.encode())

    def fits(self, address: str, data: bytes, shown: bytes, now_ns: int) -> bool:
        """Whether that is the mac of the data under a cookie that was sent to the address."""
        self._turn(now_ns)
        told = address.encode()
        return any(mac_fits(mac(secret, told), data, shown) for secret in (self._secret, self._previous))

    def _turn(self, now_ns: int) -> None:
        """Change the secret when its time has ended. One that was not used in time does not become the previous one."""
        age_ns = 2 * COOKIE_LIFE_NS if self._since_ns is None else now_ns - self._since_ns
        if age_ns >= COOKIE_LIFE_NS:
            self._previous = self._secret if age_ns < 2 * COOKIE_LIFE_NS else self._entropy(_SECRET_BYTES)
            self._secret, self._since_ns = self._entropy(_SECRET_BYTES), now_ns
