"""What both directions of a bridge do; packets of MQTT, however they come apart; and bridges of simulated nodes."""

from random import Random

import pytest

import triack
from proof.planted.bridged import run_bridge
from triack import Limits, NodeSettings, Quota, WaitTimeout
from triack.base.reasons import BridgeReason
from triack.bridges import BridgeTable
from triack.bridges.framing import BEGINNING_BYTES, Packet, PacketReader, packed_length
from triack.bridges.part import refuse
from triack.queues.messages import MAX_BODY_BYTES
from triack.tools.replay.engines.local_engine import verdict_on
from triack.tools.replay.log.files import parse_records


@pytest.mark.parametrize("size", [1, MAX_BODY_BYTES + 1])
async def test_a_refused_message_does_not_wait_for_room_in_silence(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large it is; there is room again when the queue was read."""
    monkeypatch.setattr("triack.bridges.part.ROOM_S", 0.2)
    monkeypatch.setattr("triack.bridges.part.LARGE_ROOM_S", 0.2)
    table, why = BridgeTable("b", mqtt="mqtt://127.0.0.1", take=["a -> a"]), (BridgeReason.UNFIT, "it does not fit")
    settings = NodeSettings(limits=Limits(quota=Quota(messages=1)))
    async with triack.open("gate", data=None, insecure=True, settings=settings) as node:
        await node.send("b.refused", b"first")
        async with node.transaction() as tx:
            with pytest.raises(WaitTimeout):
                await refuse(tx, table, bytes(size), {}, why)
            async with node.receive("b.refused") as letters:
                (await letters.get()).ack()
            monkeypatch.undo()
            await refuse(tx, table, bytes(size), {}, why)
            await tx.commit()
        async with node.receive("b.refused") as letters:
            found = await letters.get()
            assert found.headers == {"mqtt-reason": "unfit", "mqtt-refused": "it does not fit"}


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


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_gives_the_same_run(seed: int) -> None:
    assert run_bridge(seed) == run_bridge(seed)


@pytest.mark.gate
@pytest.mark.parametrize("first", range(0, 30, 10))
def test_whatever_dies_each_message_passes_and_the_logs_show_it(first: int) -> None:
    for seed in range(first, first + 10):
        logs = run_bridge(seed)
        timeline = verdict_on(record for data in logs.values() for record in parse_records(data)).timeline
        assert timeline is not None
        (counts,) = timeline.bridges.values()
        # A crash may take the record of what it took; then that comes again, and is known.
        assert min(counts["taken"] + counts.get("known", 0), counts["given"], counts["acked"]) >= 60
