"""Packets in what a broker of MQTT sends, however it comes apart."""

from random import Random

import pytest

from triack.bridges.framing import BEGINNING_BYTES, Packet, PacketReader, packed_length

MOST = 20_000
SIZES = [0, 1, 127, 128, 16_383, 16_384, MOST, MOST + 1, BEGINNING_BYTES + 5_000, 2]


@pytest.mark.parametrize("step", [7, 1_000, 65_536, 1_000_000])
def test_packets_are_whole_and_a_large_one_has_its_beginning(step: int) -> None:
    chance = Random(step)
    sent = [(first, chance.randbytes(size)) for first, size in enumerate(SIZES)]
    data = b"".join(bytes((first,)) + packed_length(len(content)) + content for first, content in sent)
    reader = PacketReader(MOST)
    found = [packet for at in range(0, len(data), step) for packet in reader.feed(data[at : at + step])]
    assert [(it.first, it.too_large or len(it.content)) for it in found] == list(enumerate(SIZES))
    for packet, (first, content) in zip(found, sent, strict=True):
        if len(content) <= MOST:
            assert packet == Packet(first, content)
        else:
            assert content.startswith(packet.content)
            assert len(packet.content) >= min(len(content), BEGINNING_BYTES), "its topic is there"
            assert len(packet.content) < BEGINNING_BYTES + step, "and no more"


def test_what_is_no_length_is_refused() -> None:
    with pytest.raises(ValueError, match="no length"):
        PacketReader(MOST).feed(b"\x30\xff\xff\xff\xff")
