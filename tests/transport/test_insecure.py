"""A datagram is opened exactly as it was sealed, or not at all; a conversation gets its channel when it begins."""

import pytest

from triack.base.datagram import HEADER_BYTES, Channel, Channels, Header, Kind, read_header
from triack.base.errors import ProtocolError
from triack.transport.insecure import InsecureChannel, InsecureChannels

CHANNEL: Channel = InsecureChannel()
CHANNELS: Channels = InsecureChannels()
ID_MAX = 2**64 - 1
SAMPLE = CHANNEL.seal(Kind.DATA, 0x0123456789ABCDEF, 7, b"payload", 0)


def unseal(datagram: bytes) -> bytes:
    return CHANNEL.open(datagram, Header(Kind.DATA, 0, 0), 0)


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("payload", [b"", b"x", bytes(1200), bytes(65_000)])
def test_round_trip(kind: Kind, payload: bytes) -> None:
    """The sealed payload comes out, and costs 36 bytes."""
    datagram = CHANNEL.seal(kind, ID_MAX, 0, payload, 0)
    assert len(datagram) == len(payload) + CHANNEL.overhead_bytes == len(payload) + 36
    assert read_header(datagram) == Header(kind, ID_MAX, 0)
    assert unseal(datagram) == payload


def test_every_bit_counts() -> None:
    """No flipped bit goes unnoticed, those of the header included."""
    for bit in range(len(SAMPLE) * 8):
        damaged = bytearray(SAMPLE)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ProtocolError):
            unseal(bytes(damaged))


def test_every_byte_counts() -> None:
    """Neither a cut nor an extended datagram is opened."""
    for length in range(len(SAMPLE)):
        with pytest.raises(ProtocolError):
            unseal(SAMPLE[:length])
    with pytest.raises(ProtocolError):
        unseal(SAMPLE + b"\0")


def test_damage_and_shortness_have_reasons() -> None:
    """A wrong digest and a stub have different reasons."""
    with pytest.raises(ProtocolError, match="bad-tag"):
        unseal(SAMPLE[:-1] + bytes([SAMPLE[-1] ^ 1]))
    with pytest.raises(ProtocolError, match="too-short"):
        unseal(SAMPLE[: HEADER_BYTES + 15])


def answer(connect: bytes) -> tuple[Channel, bytes]:
    channel, payload, _ = CHANNELS.answer(connect, read_header(connect), "udp://127.0.0.1:1", 0)
    assert channel is not None
    return channel, payload


def test_the_one_who_calls_and_the_one_who_answers_understand_each_other() -> None:
    """The connect's payload comes out with the channel that seals the accept; both state what they cost."""
    caller = CHANNELS.dial("b", "udp")
    answerer, payload = answer(caller.seal(Kind.CONNECT, 5, 1, b"hello", 0))
    assert payload == b"hello"
    assert unseal(answerer.seal(Kind.ACCEPT, 5, 1, b"hello yourself", 0)) == b"hello yourself"
    assert caller.overhead_bytes == answerer.overhead_bytes == CHANNELS.overhead_bytes
    assert (caller.peer, caller.peer_key, answerer.peer) == ("", b"", "")


def test_a_damaged_connect_is_not_answered() -> None:
    """There is no channel for it."""
    connect = CHANNELS.dial("b", "udp").seal(Kind.CONNECT, 5, 1, b"hello", 0)
    with pytest.raises(ProtocolError, match="bad-tag"):
        answer(connect[:-1] + b"\0")
