"""The channel of nodes that run without keys, on loopback: it finds damage and keeps no secret."""

from hashlib import blake2b

from triack.base.datagram import HEADER_BYTES, TAG_BYTES
from triack.base.errors import ProtocolError
from triack.base.reasons import DropReason

__all__ = ["InsecureChannel"]


class InsecureChannel:
    """Finds damage, but neither hides nor authenticates anything: anyone can make its tag."""

    __slots__ = ()

    def seal(self, header: bytes, payload: bytes) -> bytes:
        """Return header, payload and their BLAKE2b digest (RFC 7693)."""
        digest = blake2b(header, digest_size=TAG_BYTES)
        digest.update(payload)
        return b"".join((header, payload, digest.digest()))

    def open(self, datagram: bytes) -> bytes:
        """Return the payload.

        Raises:
            ProtocolError: ``bad-tag``, when the digest does not fit.
        """
        if blake2b(memoryview(datagram)[:-TAG_BYTES], digest_size=TAG_BYTES).digest() != datagram[-TAG_BYTES:]:
            raise ProtocolError(DropReason.BAD_TAG)
        return datagram[HEADER_BYTES:-TAG_BYTES]
