"""The joint result of several runs."""

import pytest

from triack.tools.bench.figures import Figure, Result
from triack.tools.bench.rows import ROWS, Goal
from triack.tools.bench.run import Outcome

RATE = Goal("", "msg/s", 100, 50)
DELAY = Goal("", "ms", 1, 2, is_cost=True)


def outcome(*guarantee: str, flaw: str = "") -> Outcome:
    return Outcome(
        1, 1, 1.0, 1.0, 100.0, not flaw, list(guarantee), flaw, {"sender": 0.5}, {"sender": {"commits": 3}}, {}
    )


@pytest.mark.parametrize(
    ("goal", "value", "standing"),
    [
        (RATE, 100, "goal"),
        (RATE, 99, "floor"),
        (RATE, 49, "below"),
        (DELAY, 1, "goal"),
        (DELAY, 2, "floor"),
        (DELAY, 3, "below"),
    ],
)
def test_a_figure_stands_where_its_median_is(goal: Goal, value: float, standing: str) -> None:
    assert Figure(goal, [value]).standing == standing
    assert Figure(goal, [value, 0.0, 1e9]).standing == standing


def test_a_ratio_is_that_of_neighbours() -> None:
    """The machine became ten times slower in the middle: that says nothing of either."""
    assert Figure(RATE, [100, 10, 10], [50, 5, 5]).ratio == 2
    assert Figure(DELAY, [1, 1], [4, 4]).ratio == 4
    assert Figure(RATE, [100]).ratio is None


def test_a_row_is_verified_if_every_run_was() -> None:
    """And has done what every run was seen to do, no more."""
    result = Result.of(ROWS["T1"])
    assert not result.verified
    result.handle(outcome("in order", "synced"))
    result.handle(outcome("in order"))
    assert (result.verified, result.guarantee) == (True, ["in order"])
    result.handle(outcome(flaw="did not come: 2 messages"))
    result.handle(outcome("in order"))
    assert (result.verified, result.notes) == (False, ["did not come: 2 messages"])


def test_one_object_has_what_is_promised() -> None:
    result = Result.of(ROWS["T1"])
    result.figures[""].values = [3.0, 1.0, 2.0]
    found = result.to_json()
    assert {
        "row",
        "goal",
        "floor",
        "median",
        "min",
        "max",
        "runs",
        "versus",
        "versus_median",
        "ratio",
        "verified",
    } <= set(found)
    assert (found["median"], found["min"], found["max"], found["runs"]) == (2.0, 1.0, 3.0, [3.0, 1.0, 2.0])


def test_a_row_of_several_figures_has_all_of_them() -> None:
    found = Result.of(ROWS["T4"]).to_json()
    assert [figure["figure"] for figure in found["figures"]] == ["p50", "p99"]
