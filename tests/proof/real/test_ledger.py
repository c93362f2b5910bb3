"""The writer whose disk is made to fail: what it says of itself when nothing fails."""

from pathlib import Path
from typing import Any

import triack
from proof.real.ledger import QUEUE, TAKE_BEHIND, write
from proof.real.nodes import queue_numbers


async def test_a_series_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    """It says how far it is with the time before each line; the store has what was said, less what was taken."""
    said: list[str] = []
    options: dict[str, Any] = {"data": tmp_path / "ledger", "count": 5, "size_bytes": 50, "traced": False}
    for _ in range(2):
        await write(options, said.append)
    lines = [line.partition(" ")[2] for line in said]
    first = ["opened 0", *(f"committed {number}" for number in range(1, 6))]
    assert lines == [*first, "opened 5", *(f"committed {number}" for number in range(6, 11))]
    times = [float(line.partition(" ")[0]) for line in said]
    assert times == sorted(times)
    async with triack.open("ledger", data=options["data"], insecure=True) as node:
        assert await queue_numbers(node, QUEUE, 50) == list(range(10 - TAKE_BEHIND, 10))
