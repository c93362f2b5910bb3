"""A small run of each row of two processes: counts and guarantees, never times."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.bench.measuring import measured
from triack.tools.bench.figures import Result
from triack.tools.bench.rows import CURVES

pytestmark = pytest.mark.slow

ALL = ["every message once, in order", "synced at both ends", "encrypted", "recorded"]


@pytest.mark.parametrize(
    ("row", "messages", "guarantee"),
    [
        ("T2", 500, ALL),
        ("T3", 500, ALL),
        ("T4", 200, ALL),
        ("T5", 20, ALL),
        ("T6", 500, [ALL[0], ALL[2], ALL[3]]),
        ("T7", 1_000, ALL),
    ],
)
async def test_a_row_does_what_it_says(tmp_path: Path, row: str, messages: int, guarantee: list[str]) -> None:
    """Express messages are on no disk, and so not said to be synced."""
    assert_whole(await measured(row, tmp_path, messages), messages, guarantee)


def assert_whole(result: Result, messages: int, guarantee: list[str]) -> None:
    """All came, and each figure was measured once."""
    assert result.verified, result.notes
    assert result.guarantee == guarantee
    assert result.details["messages"] == messages
    assert all(len(figure.values) == 1 for figure in result.figures.values())


async def test_a_peer_runs_in_turns(tmp_path: Path) -> None:
    result = await measured("T1", tmp_path, 500, versus="outbox")
    assert_whole(result, 500, ALL)
    found = result.to_json()
    assert (found["versus"], found["versus_verified"]) == ("outbox", True)
    assert found["ratio"] == found["median"] / found["versus_median"] > 0


async def test_a_row_without_a_peer_says_why(tmp_path: Path) -> None:
    result = await measured("T10", tmp_path, 500, versus="outbox")
    assert_whole(result, 500, ALL)
    assert result.notes == ["no outbox beside it: no peer has a session log"]


async def test_a_curve_has_every_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them: each is a run of its own."""
    row = CURVES["WINDOWS"]
    assert [goal.name for goal in row.goals] == list(row.points)
    monkeypatch.setitem(CURVES, "WINDOWS", replace(row, goals=row.goals[:2], points=dict([*row.points.items()][:2])))
    result = await measured("WINDOWS", tmp_path, 60)
    assert result.verified, result.notes
    assert [len(figure.values) for figure in result.figures.values()] == [1, 1]
    assert all(figure.values[0] > 0 for figure in result.figures.values())
