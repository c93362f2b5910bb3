"""Lengths of MQTT."""

HAS_MORE, LOW_BITS = 0x80, 0x7F
"""Of a byte of a length: whether another follows, and its part of the number."""


def packed_length(size: int) -> bytes:
    """A length, as packets and properties have it: seven bits in a byte, the lowest first."""
    found = bytearray()
    while size > LOW_BITS:
        found.append(size & LOW_BITS | HAS_MORE)
        size >>= 7
    found.append(size)
    return bytes(found)
