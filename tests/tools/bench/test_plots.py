"""The plots of a measurement, drawn from the results that there are."""

import re
from types import ModuleType

import pytest

from triack.tools.bench.figures import Result
from triack.tools.bench.rows import CURVES, GROWTH, ROWS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plots() -> ModuleType:
    """Loaded where they are drawn: matplotlib takes half a second."""
    pytest.importorskip("matplotlib")
    from triack.tools.bench import plots

    return plots


def test_rows_without_curves_and_rows_that_did_not_run_have_no_plot(plots: ModuleType) -> None:
    rate = Result.of(ROWS["T1"])
    rate.figures[""].values = [1.0]
    assert plots.draw([rate, Result.of(ROWS["T8"]), Result.of(CURVES["SIZES"])]) == []


def test_curves_losses_and_latencies_are_drawn(plots: ModuleType) -> None:
    sizes, link, delays = Result.of(CURVES["SIZES"]), Result.of(ROWS["T8"]), Result.of(ROWS["T4"])
    sizes.versus = "redis"
    for figure in sizes.figures.values():
        figure.values, figure.versus_values = [5.0], [4.0]
    link.figures["1 % loss"].values = [90.0]
    delays.figures["p50"].values = [1.0]
    delays.histograms = {"triack": {0.5: 3, 0.7: 9}}
    drawn = plots.draw([sizes, link, delays])
    assert [title.partition(":")[0] for title, _ in drawn] == ["SIZES", "T8", "T4"]
    assert all(plot.startswith("<svg") and ">triack<" in plot for _, plot in drawn)
    assert ">redis<" in drawn[0][1]


def test_the_growth_of_a_replay_is_drawn(plots: ModuleType) -> None:
    """A line for each form of logs that was replayed, over the records that there were."""
    growth = Result.of(GROWTH)
    for millions in (5, 10):
        growth.figures[f"clean, {millions} million"].values = [millions + 12.0]
        growth.details[f"clean, {millions} million records"] = millions * 1_000_000
        growth.details[f"clean, {millions} million a processor s"] = 100_000 * millions
    growth.details["clean, 10 million more a processor s"] = 2_000_000
    (title, plot), (rates, rate_plot) = plots.draw([growth])
    assert title.startswith("GROWTH: how long")
    assert ">clean<" in plot
    assert ">one giant session<" not in plot
    assert rates.startswith("GROWTH: records that a processor judges")
    assert ">clean: one more<" in rate_plot
    assert ">clean: all<" in rate_plot


def test_colours_are_left_to_the_page_and_no_plot_says_when_it_was_drawn(plots: ModuleType) -> None:
    """So that they change in the dark, and the same results are the same page."""
    delays = Result.of(ROWS["T4"])
    delays.figures["p50"].values = [1.0]
    delays.histograms = {"triack": {0.5: 3, 0.7: 9}}
    (_, plot), *_ = plots.draw([delays])
    assert set(re.findall(r"#[0-9a-f]{6}", plot)) == set()
    assert "<dc:date>" not in plot
    assert plots.draw([delays])[0][1] == plot
