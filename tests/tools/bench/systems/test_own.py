"""Triack as it is measured: through its public interface, with the settings of the row, and counted."""

from pathlib import Path

import pytest

import triack
from tests.tools.bench.measuring import measured
from triack.node.shell.platform import PLATFORM
from triack.tools.bench.systems.own import Counting, settings_of
from triack.tools.bench.work import Work, make_ring, noise_of


def test_settings_are_defaults_but_for_what_the_row_says() -> None:
    udp = settings_of(Work(window=9, datagram_bytes=1_000))
    session = triack.SessionSettings(max_unacked_packet=9, max_datagram_bytes=1_000)
    assert udp == triack.NodeSettings(session=session)
    tcp = settings_of(Work(window=9, transport="tcp", datagram_bytes=60_000))
    assert tcp == triack.NodeSettings(
        session=triack.SessionSettings(max_unacked_packet=9), stream_datagram_bytes=60_000
    )


@pytest.mark.parametrize("data", ["on-disk", None])
async def test_commits_and_datagrams_are_counted(tmp_path: Path, data: str | None) -> None:
    """A store in memory is not said to be synced, and a body in the clear is seen."""
    platform = Counting(noise_of(100))
    async with triack.open("b", data=None, listen="udp://127.0.0.1:0", insecure=True, queues=["q"]) as receiver:
        token = PLATFORM.set(platform)
        sender = triack.open("a", data=tmp_path / data if data else None, insecure=True)
        PLATFORM.reset(token)
        async with sender:
            receipt = await sender.send(f"{receiver.address}/q", make_ring(100)[0])
            await receipt.ordered(10)
            found = platform.facts()
    assert found["commits"] > 0
    assert found["synced"] == (data is not None)
    assert found["datagrams"] >= 2
    assert found["wire_bytes"] > 100
    assert found["looked"] > 0


@pytest.mark.slow
async def test_a_sender_reads_two_answers_to_each_message(tmp_path: Path) -> None:
    """T15 with few messages, beside a plain run."""
    result = await measured("T15", tmp_path, 2_000)
    assert result.verified, result.notes
    assert result.figures["of plain"].values[0] > 0
