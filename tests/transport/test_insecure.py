"""The channel without keys: it finds damage, hides nothing, and trusts everybody."""

from hashlib import blake2b

import pytest

from triack.base.errors import ProtocolError
from triack.transport.insecure import InsecureChannel

HEADER = bytes(range(20))


def test_the_tag_is_the_digest_of_all_before_it() -> None:
    """BLAKE2b with 16 bytes (RFC 7693); the payload is in the clear."""
    datagram = InsecureChannel().seal(HEADER, b"payload")
    assert datagram[:-16] == HEADER + b"payload"
    assert datagram[-16:] == blake2b(HEADER + b"payload", digest_size=16).digest()
    assert InsecureChannel().open(datagram) == b"payload"


@pytest.mark.parametrize("place", [0, 19, 20, 26, 27, 42])
def test_damage_anywhere_is_found(place: int) -> None:
    """In header, payload and tag."""
    damaged = bytearray(InsecureChannel().seal(HEADER, b"payload"))
    damaged[place] ^= 1
    with pytest.raises(ProtocolError, match="bad-tag"):
        InsecureChannel().open(bytes(damaged))
