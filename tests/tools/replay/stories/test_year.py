"""A year of logs, in virtual time: pruned to a month they prove what they proved before."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import triack
from tests.tools.replay.cutting import told
from triack.base.log_lines import LineReader
from triack.testing import World
from triack.tools.replay.engines.prune import prune
from triack.tools.replay.log.listing import SUMMARY
from triack.tools.replay.run import replay

HOUR_S = 3_600
DAY_NS = 24 * HOUR_S * 10**9
DAYS = 365
EVERY_S = 12 * HOUR_S
"""Between two messages; a session ends as idle meanwhile."""
STARTS = 12
"""How often each node starts in that year."""
MESSAGES = DAYS * 24 * HOUR_S // EVERY_S // STARTS * STARTS


async def send_some(count: int) -> None:
    async with triack.open("a", data="a", listen="udp://127.0.0.1:7801", peers={"b": "udp://b:7802"}) as node:
        for _ in range(count):
            await node.send("b/orders", b"order")
            await asyncio.sleep(EVERY_S)


async def read_all() -> None:
    async with (
        triack.open("b", data="b", listen="udp://127.0.0.1:7802", queues=["orders"]) as node,
        node.receive("orders") as consumer,
    ):
        async for message in consumer:
            message.ack()


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of two nodes over a year."""
    folder = tmp_path_factory.mktemp("year")
    with World(1, max_events=10_000_000) as world:

        async def run() -> None:
            a, b = world.machine("a"), world.machine("b")
            b.start(read_all)
            for start in range(STARTS):
                await a.run(send_some(MESSAGES // STARTS))
                if start % 3 == 1:
                    b.crash()
                    b.restart()
            await b.stop()

        world.run(run())
        world.write_logs(folder)
    return folder


def last_ns(folder: Path) -> int:
    """The time of the first record of the youngest segment."""
    return max(int(json.loads(path.read_text().partition("\n")[0])["wall_ns"]) for path in folder.glob("*.jsonl"))


def change(path: Path, event: str, field: str) -> None:
    """Raise a number of the last record of an event by 1, as a liar would."""
    reader = LineReader()
    records: list[dict[str, Any]] = [reader.read(json.loads(line)) for line in path.read_text().splitlines()]
    next(record for record in reversed(records) if record["event"] == event)[field] += 1
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.slow
def test_a_year_pruned_to_a_month_is_a_pass_and_one_changed_record_a_fail(year: Path) -> None:
    whole = replay([year], engine="local")
    assert (whole.verdict, whole.sent, whole.delivered) == ("pass", MESSAGES, MESSAGES)
    before = sum(path.stat().st_size for path in year.iterdir())
    done = prune(year, last_ns(year) - 30 * DAY_NS)
    rest = replay([year], engine="local")
    assert told(rest) == told(whole)
    assert done.bytes > before * 10 / 12.5
    assert (year / SUMMARY).stat().st_size < done.bytes / 10
    change(max(year.glob("*-b-*.jsonl")), "committed", "count")
    assert replay([year], engine="local").verdict == "fail"
