"""A datagram is opened exactly as it was sealed, or not at all."""

import pytest

from triack.base.datagram import HEADER, OVERHEAD_BYTES, Datagram, Kind, open_datagram, seal
from triack.base.errors import ProtocolError
from triack.transport.insecure import InsecureChannel

CHANNEL = InsecureChannel()
ID_MAX = 2**64 - 1
SAMPLE = seal(CHANNEL, Kind.DATA, 0x0123456789ABCDEF, 7, b"payload")


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("payload", [b"", b"x", bytes(1200), bytes(65_000)])
def test_round_trip(kind: Kind, payload: bytes) -> None:
    """What was sealed comes out, and costs 36 bytes."""
    datagram = seal(CHANNEL, kind, ID_MAX, 0, payload)
    assert len(datagram) == len(payload) + OVERHEAD_BYTES == len(payload) + 36
    assert open_datagram(CHANNEL, datagram) == Datagram(kind, ID_MAX, 0, payload)


def test_every_bit_counts() -> None:
    """No flipped bit goes unnoticed."""
    for bit in range(len(SAMPLE) * 8):
        damaged = bytearray(SAMPLE)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ProtocolError):
            open_datagram(CHANNEL, bytes(damaged))


def test_every_byte_counts() -> None:
    """Neither a cut nor an extended datagram is opened."""
    for length in range(len(SAMPLE)):
        with pytest.raises(ProtocolError):
            open_datagram(CHANNEL, SAMPLE[:length])
    with pytest.raises(ProtocolError):
        open_datagram(CHANNEL, SAMPLE + b"\0")


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (HEADER.pack(3, 2, 0, 1, 1), "bad-version"),
        (HEADER.pack(9, 1, 0, 1, 1), "unknown-kind"),
        (HEADER.pack(3, 1, 1, 1, 1), "bad-header"),
    ],
)
def test_reasons(header: bytes, reason: str) -> None:
    """A well sealed datagram that no correct node sends is refused by name."""
    with pytest.raises(ProtocolError) as caught:
        open_datagram(CHANNEL, CHANNEL.seal(header, b""))
    assert caught.value.reason == reason


def test_damage_and_shortness_have_reasons() -> None:
    """A wrong tag and a stub are told apart."""
    with pytest.raises(ProtocolError, match="bad-tag"):
        open_datagram(CHANNEL, SAMPLE[:-1] + b"\0")
    with pytest.raises(ProtocolError, match="too-short"):
        open_datagram(CHANNEL, SAMPLE[: OVERHEAD_BYTES - 1])
