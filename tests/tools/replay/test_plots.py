"""The plots: drawn from anything that an engine gathers, also from nothing; as many lines as can be told apart."""

import pytest

from triack.tools.replay.schema import SessionLine, Timeline

pytest.importorskip("matplotlib")

from triack.tools.replay.plots import draw_plots

SECOND = 1_000_000_000
TITLES = ["Throughput", "Unacknowledged packets", "Sessions", "Resends and duplicates", "Latency"]


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    """Something in every plot; session 13 has the most packets in flight, the last life is one too many."""
    timeline = Timeline(start_ns=SECOND, bucket_ns=SECOND // 10)
    timeline.committed = {0: 10, 4: 5000}
    timeline.resends = {1: 1000, 2: 200, 3: 0}
    timeline.duplicates = {2: 34}
    timeline.unacked = {("node-a-long", f"a-long-sess{number:02}"): {0: number, 1: number} for number in range(14)}
    reasons = ["path-lost", "drained", "drained"] + [""] * 38
    timeline.sessions = [
        SessionLine("node", f"life{at:02}", SECOND + at, 2 * SECOND if reason else 0, reason)
        for at, reason in enumerate(reasons)
    ]
    timeline.latency = {0: 10, 24: 90}
    return {title: svg for title, _, svg in draw_plots(timeline)}


def test_nothing_can_be_drawn() -> None:
    """Logs of nothing but a start have a report, too."""
    plots = draw_plots(Timeline())
    assert [title for title, _, _ in plots] == TITLES
    assert all(text and svg.startswith("<svg") and svg.endswith("</svg>\n") for _, text, svg in plots)
    assert "resends: 0" in plots[3][2]


def test_the_busiest_sessions_have_a_line(drawn: dict[str, str]) -> None:
    """Twelve of them, each named by the ends of its ids."""
    shown = [number for number in range(14) if f"node-a sess{number:02}" in drawn["Unacknowledged packets"]]
    assert shown == list(range(2, 14))


def test_a_life_shows_how_it_ended(drawn: dict[str, str]) -> None:
    """A failure is red, an end in good order blue, and what was open at the end of the record grey."""
    svg = drawn["Sessions"]
    colours = ("#dc2626", "#2563eb", "#94a3b8")
    assert [svg.count(f"stroke: {colour}; stroke-width: 4") for colour in colours] == [1, 2, 37]
    assert (svg.count(">path-lost<"), svg.count(">drained<")) == (1, 2)


def test_the_first_forty_lives_are_shown(drawn: dict[str, str]) -> None:
    assert [f"life{at:02}" in drawn["Sessions"] for at in (0, 39, 40)] == [True, True, False]


def test_trouble_is_summed_up(drawn: dict[str, str]) -> None:
    svg = drawn["Resends and duplicates"]
    assert ("resends: 1,200" in svg, "duplicates: 34" in svg) == (True, True)


def test_rates_and_times_have_the_units_of_their_axes(drawn: dict[str, str]) -> None:
    """5,000 messages in a tenth of a second are 50,000 a second; 24 buckets of eight a decade are a millisecond."""
    assert ">50,000<" in drawn["Throughput"]
    assert ">1<" in drawn["Latency"]
    assert ">100<" not in drawn["Latency"]


def test_a_plot_does_not_say_when_it_was_drawn(drawn: dict[str, str]) -> None:
    assert not any("<dc:date>" in svg or "<dc:creator>" in svg for svg in drawn.values())
