"""A batch goes on with what the one before it knew, and comes to what one batch over everything knows."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.tools.replay.judging import plant

pytest.importorskip("pyspark")

Rows = list[dict[str, Any]]
KINDS = ("segment", "session", "stream")
ORDER = ("kind", "unit", "node", "incarnation", "n", "place")


def batch(sizes: dict[Path, int], known: Rows) -> Rows:
    """What is known after a batch: the same steps as on Spark, in this process."""
    from triack.tools.replay.engines.spark_batch import go_on
    from triack.tools.replay.engines.spark_engine import DEALT, STATE

    names = [column.split()[0] for column in DEALT.split(", ")]
    news = [
        dict(zip(names, ("segment", str(path), "", 0, size, 0, str(path).encode()), strict=True))
        for path, size in sizes.items()
    ]
    for kind in KINDS:
        units = {row["unit"] for row in news if row["kind"] == kind}
        states = [row for row in known if row["kind"] == kind and row["place"] == STATE and row["unit"] in units]
        mine = [row for row in news if row["kind"] == kind] + states
        mine.sort(key=lambda row: tuple(row[name] for name in ORDER))
        news += [dict(zip(names, row, strict=True)) for row in go_on(iter(mine), forgets=True)]
    kept = [row for row in news if row["kind"] == "found" or row["place"] == STATE]
    touched = {f"{row['kind']}/{row['unit']}" for row in kept if row["place"] == STATE}
    return kept + [
        row
        for row in known
        if (row["node"] if row["kind"] == "found" else f"{row['kind']}/{row['unit']}") not in touched
    ]


def found(known: Rows) -> list[tuple[str, int, list[bytes]]]:
    """All that was found, with numbers added up."""
    rows = sorted((row for row in known if row["kind"] == "found"), key=lambda row: (row["unit"], row["data"]))
    told = []
    for unit, mine in groupby(rows, key=lambda row: row["unit"]):
        parts = list(mine)
        numbers = [row["n"] for row in parts]
        told.append((unit, sum(numbers), sorted({row["data"] for row in parts})))
    return told


@pytest.mark.parametrize("name", ["order_ack_too_early", "lost_transactional", "handed_twice"])
def test_two_batches_know_what_one_knows(tmp_path: Path, name: str) -> None:
    """The first one ends in the middle of lines."""
    plant(name)[0].save(tmp_path, number=False)
    whole = {path: path.stat().st_size for path in tmp_path.rglob("*.jsonl*") if path.stat().st_size}
    once = batch(whole, [])
    first = {path: size // 2 for path, size in whole.items() if "-000001-000001." in path.name}
    halves = batch(first, [])
    assert any(json.loads(row["data"])[2] for row in halves if row["unit"] == "file")
    assert found(batch(whole, halves)) == found(once)
    assert any(row["unit"] == "finding" for row in once)
