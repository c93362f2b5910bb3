"""The plots as data: gaps stay gaps, nothing empty is drawn, what a page shows is bounded, red is for violations."""

from typing import Any

from triack.tools.replay.log.schema import SessionLine, StartLine, Timeline
from triack.tools.replay.report.outages import Outage, outages_of, sessions_of
from triack.tools.replay.report.plots import LINES_MAX, PAIRS_MAX, draw

SECOND = 1_000_000_000


def drawn(timeline: Timeline, marks: Any = ()) -> dict[str, Any]:
    sessions = sessions_of(timeline)
    return draw(timeline, sessions, outages_of(timeline, sessions), marks)


def plot_of(name: str, timeline: Timeline) -> dict[str, Any]:
    (found,) = [plot for plot in drawn(timeline)["plots"] if plot["name"] == name]
    return dict(found)


def buckets(**series: Any) -> Timeline:
    return Timeline(start_ns=SECOND, bucket_ns=SECOND, names={"a": "alpha", "b": "beta"}, **series)


def test_what_would_be_empty_is_left_out() -> None:
    assert drawn(Timeline()) == {"plots": [], "outages": [], "gaps": [], "marks": [], "begin": 0, "end": 0}
    assert [plot["name"] for plot in drawn(buckets(resends={3: 0}, acks={"gap": {1: 2}}))["plots"]] == ["acks"]


def test_a_line_has_a_gap_where_nothing_was_measured() -> None:
    """No line leads from before an outage to its end."""
    (line,) = plot_of("round-trips", buckets(round_trip={0: 5_000_000, 1: 6_000_000, 9: 7_000_000}))["series"]
    assert line["points"] == [[1000, 5], [2000, 6], [3000, None], [10000, 7]]


def test_where_nothing_came_the_throughput_is_zero() -> None:
    """However long that was: the axis has two points for it."""
    (line,) = plot_of("throughput", buckets(committed={0: 10, 10**9: 20}))["series"]
    far = 1000 * (10**9 + 1)
    assert line["points"] == [[1000, 10], [2000, 0], [far - 1000, 0], [far, 20], [far + 1000, 0]]


def test_the_axis_goes_from_the_first_value_to_the_last() -> None:
    """And no further, or a part of it would be empty; a violation is on it."""
    timeline = buckets(acks={"gap": {2: 1, 7: 1}})
    assert [drawn(timeline)[name] for name in ("begin", "end")] == [3000, 8000]
    assert drawn(timeline, [("v-1", 9 * SECOND)])["end"] == 9000


def test_packets_in_flight_are_those_of_links_by_name() -> None:
    """The sessions of a link are one line; the window is one, too, which is hidden if it is far above."""
    sessions = [SessionLine("a", name, SECOND, 0, "", "b") for name in ("s1", "s2")]
    timeline = buckets(unacked={("a", "s1"): {0: 3}, ("a", "s2"): {0: 2, 1: 4}}, window={0: 16}, sessions=sessions)
    line, window = plot_of("in-flight", timeline)["series"]
    assert (line["name"], line["points"]) == ("alpha to beta", [[1000, 3], [2000, 4]])
    assert (window["points"], window["hidden"]) == ([[1000, 16], [2000, 16]], False)
    timeline.window = {0: 17}
    assert plot_of("in-flight", timeline)["series"][1]["hidden"]


def test_no_more_lines_than_can_be_told_apart() -> None:
    """Those of the busiest links; the note says how many others there are."""
    many = {(f"n{at:02}", "s"): {0: at + 1} for at in range(LINES_MAX + 2)}
    plot = plot_of("in-flight", buckets(unacked=many))
    assert len(plot["series"]) == LINES_MAX
    assert "The 2 quietest links are left out." in plot["note"]


def test_only_violations_are_red() -> None:
    """A session that failed is amber, one that a restart ended is teal, and its ends say so."""
    ends = [("s1", "ack-timeout"), ("s2", "drained"), ("s3", "")]
    sessions = [SessionLine("a", name, SECOND, 2 * SECOND if why else 0, why, "b") for name, why in ends]
    plot = plot_of("sessions", buckets(sessions=sessions, starts=[StartLine("a", 1, 0, 3 * SECOND, True, 9)]))
    assert plot["rows"] == ["alpha and beta"]
    told = {it["name"]: (it["colour"], it["points"][0][2]) for it in plot["series"]}
    assert told == {
        "in order: 1": ("blue", "alpha and beta, session 2: in order (drained)"),
        "failed: 1": ("amber", "alpha and beta, session 1: failed (ack-timeout)"),
        "open: 1": ("grey", "alpha and beta, session 3: open"),
    }
    full = buckets(sessions=sessions, committed={0: 1}, acks={"gap": {0: 1}}, resends={0: 1}, latency={3: {0: 1}})
    assert "red" not in {it["colour"] for plot in drawn(full)["plots"] for it in plot["series"]}


def test_pairs_of_nodes_with_failures_have_rows_first() -> None:
    lines = [SessionLine(f"n{at:02}", f"s{at}", SECOND, 2 * SECOND, "idle", "z") for at in range(PAIRS_MAX + 5)]
    lines[-1].reason = "path-lost"
    plot = plot_of("sessions", buckets(sessions=lines))
    assert len(plot["rows"]) == PAIRS_MAX
    assert plot["rows"][-1] == f"n{PAIRS_MAX + 4:02} and z"
    assert "are left out" in plot["note"]


def test_bars_say_their_sums() -> None:
    """And each has all buckets, as one stands on the other."""
    first, second = plot_of("acks", buckets(acks={"gap": {0: 2}, "delay": {4: 1_000}}))["series"]
    assert (first["name"], second["name"]) == ("delay: 1,000", "gap: 2")
    assert (first["points"], second["points"]) == ([[1000, 0], [5000, 1000]], [[1000, 2], [5000, 0]])


def test_outages_that_overlap_are_one_gap() -> None:
    found = [Outage("a", "", 0, 4_000_000, True, "x"), Outage("b", "", 3_000_000, 5_000_000, True, "y")]
    told = draw(Timeline(), [], [*found, Outage("a", "b", 8_000_000, 9_000_000, True, "z")])
    assert told["gaps"] == [[0, 5], [8, 9]]
    assert [8, 9, "a and b", "z"] in told["outages"]


def test_the_histogram_has_all_buckets_between_the_first_and_the_last() -> None:
    (bars,) = plot_of("histogram", buckets(latency={0: {0: 5}, 2: {1: 7}}))["series"]
    assert bars["points"] == [[1000, 1334, 5], [1334, 1778, 0], [1778, 2371, 7]]
