"""The plots: drawn from anything that an engine gathers, also from nothing; as many lines as can be told apart."""

import re
from dataclasses import replace
from types import ModuleType

import pytest

from triack.tools.replay.log.schema import SessionLine, Timeline

pytestmark = pytest.mark.slow

SECOND = 1_000_000_000
TITLES = [
    "Throughput",
    "Window occupancy",
    "Session acks by trigger",
    "Round trip, latency, waits and timeouts in force",
    "Resends by tier",
    "Duplicates by cause",
]


@pytest.fixture(scope="module")
def timeline() -> Timeline:
    """Something in every plot; session 13 has the most packets in flight, the last lives are too many, one failed."""
    timeline = Timeline(start_ns=SECOND, bucket_ns=SECOND // 10, names={"node-a-long": "al$pha$"})
    timeline.committed = {0: 10, 4: 5000}
    timeline.resends = {1: 1000, 2: 200, 3: 0}
    timeline.tiers = {"tier 1-3": {1: 1000}, "in session": {2: 200}}
    timeline.causes = {"known to the session": {2: 34}}
    timeline.acks = {"delay": {1: 7}, "gap": {1: 2}}
    timeline.round_trip = {1: 5_000_000}
    timeline.resend_wait = {2: 40_000_000}
    timeline.ack_timeout = {"least": {0: 2 * SECOND}, "longest": {0: 120 * SECOND}}
    timeline.window = {0: 64}
    timeline.unacked = {("node-a-long", f"a-long-sess{number:02}"): {0: number, 1: number} for number in range(14)}
    reasons = ["drained", "drained"] + [""] * 38 + ["path-lost"]
    timeline.sessions = [
        SessionLine("node", f"life{at:02}", SECOND + at, 2 * SECOND if reason else 0, reason, "node-a-long")
        for at, reason in enumerate(reasons)
    ]
    timeline.latency = {0: {0: 10}, 24: {4: 90}}
    return timeline


@pytest.fixture(scope="module")
def plots() -> ModuleType:
    """Loaded where they are drawn: matplotlib takes half a second."""
    pytest.importorskip("matplotlib")
    from triack.tools.replay.report import plots

    return plots


@pytest.fixture(scope="module")
def drawn(plots: ModuleType, timeline: Timeline) -> str:
    return str(plots.draw_times(timeline, [("v-1", 3 * SECOND // 2), ("v-2", 2 * SECOND)]))


def test_nothing_can_be_drawn(plots: ModuleType) -> None:
    """Logs of nothing but a start have a report, too."""
    for svg in (plots.draw_times(Timeline()), plots.draw_latency(Timeline())):
        assert (svg[:4], svg[-7:]) == ("<svg", "</svg>\n")


def test_each_plot_has_its_title(drawn: str) -> None:
    assert [title for title in TITLES if f">{title}<" in drawn] == TITLES


def test_the_busiest_sessions_have_a_line(drawn: str) -> None:
    """Ten of them, named by their ends; a name with dollar signs is no formula."""
    shown = [number for number in range(14) if f">al$pha$ to , sess{number:02}<" in drawn]
    assert shown == list(range(4, 14))
    assert ">largest window: 64<" in drawn


def test_a_failed_session_has_a_line_however_quiet_it_was(plots: ModuleType, timeline: Timeline) -> None:
    """It takes the place of the least busy of the others, and says how it ended."""
    failed = SessionLine("node-a-long", "a-long-sess00", SECOND, 2 * SECOND, "ack-timeout")
    svg = plots.draw_times(replace(timeline, sessions=[*timeline.sessions, failed]))
    shown = [number for number in range(14) if f"sess{number:02}<" in svg or f"sess{number:02}, ack-timeout<" in svg]
    assert shown == [0, *range(5, 14)]
    assert "sess00, ack-timeout<" in svg


def test_timeouts_in_force_are_drawn(drawn: str) -> None:
    assert [f">ack timeout, {which}<" in drawn for which in ("least", "longest")] == [True, True]


def test_a_life_shows_how_it_ended(drawn: str) -> None:
    """A failure is red, an end in good order blue, and what was open at the end of the record grey."""
    colours = ("red", "blue", "grey")
    assert [drawn.count(f"stroke: var(--{colour}); stroke-width: 4") for colour in colours] == [1, 2, 37]
    assert (drawn.count(">path-lost<"), drawn.count(">drained<")) == (1, 2)


def test_failed_sessions_are_always_drawn(plots: ModuleType, drawn: str) -> None:
    """The last of 41 lives failed; the last of those that did not is the one that is left out."""
    assert ["life" + at in drawn for at in ("00", "38", "39", "40")] == [True, True, False, True]
    assert "Sessions: 40 of 41, every failed one among them" in drawn
    failed = [SessionLine("node", f"gone{at:02}", SECOND, 2 * SECOND, "ack-timeout") for at in range(50)]
    assert plots.draw_times(Timeline(start_ns=SECOND, sessions=failed)).count(">ack-timeout<") == 50


def test_trouble_is_summed_up(drawn: str) -> None:
    for said in ("tier 1-3: 1,000", "in session: 200", "known to the session: 34", "delay: 7", "gap: 2"):
        assert f">{said}<" in drawn


def test_a_mark_stands_at_one_place_in_every_plot(drawn: str) -> None:
    """It has the name that the page links to, and leads back; the axis of all plots is the same."""
    assert re.findall(r'id="(at-[^"]*)"', drawn) == ["at-v-1", "at-v-2"]
    assert "_blank" not in drawn
    places = re.findall(r'href="#v-1">\s*<path d="M ([\d.]+)', drawn)
    assert (len(places), len(set(places))) == (len(TITLES) + 1, 1)


def test_colours_are_left_to_the_page(drawn: str) -> None:
    """So that they change in the dark."""
    assert set(re.findall(r"#[0-9a-f]{6}", drawn)) == set()


def test_rates_and_times_have_the_units_of_their_axes(plots: ModuleType, drawn: str, timeline: Timeline) -> None:
    """5,000 messages in a tenth of a second are 50,000 a second; 24 buckets of eight a decade are a millisecond."""
    assert ">40,000<" in drawn
    histogram = plots.draw_latency(timeline)
    assert ">1<" in histogram
    assert ">100<" not in histogram


def test_a_plot_does_not_say_when_it_was_drawn(plots: ModuleType, drawn: str, timeline: Timeline) -> None:
    histogram = plots.draw_latency(timeline)
    assert not any("<dc:date>" in svg or "<dc:creator>" in svg for svg in (drawn, histogram))
    assert plots.draw_latency(timeline) == histogram
