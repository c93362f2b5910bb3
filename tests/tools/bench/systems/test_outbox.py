"""An outbox as it is measured: what did not leave, leaves."""

import asyncio
from pathlib import Path

import pytest

from triack.tools.bench.systems.outbox import OutboxInlet, OutboxOutlet, _Table
from triack.tools.bench.work import Work

pytestmark = pytest.mark.slow


async def test_after_a_break_it_goes_on_where_it_was(tmp_path: Path) -> None:
    """Committed messages without an ack leave again, and messages that came are not handed out again."""
    options = {"work": Work().to_json(), "data": str(tmp_path)}
    for numbers in (range(3), range(3, 5)):
        sink = Taken()
        async with OutboxInlet(options) as inlet:
            reading = asyncio.create_task(inlet.run(sink))  # type: ignore[arg-type]
            async with OutboxOutlet({**options, "found": inlet.found()}) as outlet:
                await outlet.put([b"%d" % number for number in numbers])
                await outlet.settle()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        assert sink.bodies == [b"%d" % number for number in numbers]


async def test_what_did_not_leave_is_sent_at_the_next_start(tmp_path: Path) -> None:
    options = {"work": Work().to_json(), "data": str(tmp_path)}
    table = _Table(tmp_path / "outbox.db")
    await table.commit(1, [b"a", b"b"], 0)
    table.close()
    sink = Taken()
    async with OutboxInlet(options) as inlet:
        reading = asyncio.create_task(inlet.run(sink))  # type: ignore[arg-type]
        async with OutboxOutlet({**options, "found": inlet.found()}) as outlet:
            await outlet.settle()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    assert sink.bodies == [b"a", b"b"]


class Taken:
    """What was handed out."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def take(self, bodies: list[bytes]) -> None:
        self.bodies += bodies
