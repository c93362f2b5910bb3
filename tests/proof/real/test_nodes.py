"""Real processes in the proof: what they are started with, what they leave, what restarts do."""

import json
from pathlib import Path
from typing import Any

import pytest

import triack
from proof.real.ledger import QUEUE, TAKE_BEHIND, write
from proof.real.nodes import body, number_of, queue_numbers, quick
from proof.real.restart import restart
from proof.real.run import run
from tests.machine import PATIENCE_S

# Bodies that say which message they are, and a queue's numbers.


@pytest.mark.parametrize("size_bytes", [0, 1, 7, 1_000])
def test_a_body_is_that_of_its_number_alone(size_bytes: int) -> None:
    """And no other message's; large ones are filled, so that a piece of another one shows."""
    bodies = [body(number, size_bytes) for number in range(120)]
    assert len(set(bodies)) == len(bodies)
    assert min(map(len, bodies)) >= size_bytes
    assert [number_of(one, size_bytes) for one in bodies] == list(range(120))


async def test_a_queue_tells_its_numbers_in_order() -> None:
    async with triack.open("a", data=None, insecure=True, settings=quick()) as node:
        for sent in (body(3), body(1), b"stray"):
            await (await node.send("orders", sent)).queued(timeout=PATIENCE_S)
        assert await queue_numbers(node, "orders") == [3, 1, -1]
        assert await queue_numbers(node, "orders") == []


@pytest.mark.slow
def test_a_run_of_some_parts_counts_and_says_what_it_does() -> None:
    said: list[str] = []
    result = run(kills=3, parts=["kills", "restarts"], messages=2_000, say=said.append)
    assert result.violations == []
    assert result.kills >= 3
    assert [found["messages"] >= 2_000 for found in result.restarts] == [True, True]
    assert sum(line.startswith("pass") for line in said) == 3
    assert json.loads(json.dumps(result.to_json()))["kills"] == result.kills


def test_a_part_that_does_not_exist() -> None:
    with pytest.raises(triack.UsageError, match="there is no part storms; there are crossings, outages"):
        run(parts=["storms"])


# The writer whose disk is made to fail: what it says of itself when nothing fails.


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


@pytest.mark.slow
def test_a_large_store_whose_recovery_is_killed_again_and_again(tmp_path: Path) -> None:
    found = restart(tmp_path, messages=50_000, size_bytes=100, kill_after_s=0.003)
    assert found.violations == []
    assert found.messages >= 50_000
    assert found.nested >= 1
    assert found.ready_seconds < 30
