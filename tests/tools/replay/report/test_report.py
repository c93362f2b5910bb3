"""The page of a replay: its text, plots and charts."""

import hashlib
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.tools.replay.builder import ALPHA, BETA, healthy
from tests.tools.replay.faults import faulty
from tests.tools.replay.report.browser import CHROMIUM, Page, opened
from triack.base.errors import ReplayError
from triack.base.units import MS, SECOND
from triack.tools.chaos.run import run_seed
from triack.tools.replay.checks.findings import Output
from triack.tools.replay.log.schema import SessionLine, StartLine, Timeline, Verdict, Violation
from triack.tools.replay.log.series import DELAY_BUCKETS_PER_DECADE, latency_bucket
from triack.tools.replay.report import report
from triack.tools.replay.report.outages import Outage, outages_of, sessions_of
from triack.tools.replay.report.page_tables import ROWS_MAX
from triack.tools.replay.report.plots import BINS, LINES_MAX, PAIRS_MAX, draw
from triack.tools.replay.report.readable import clock, duration, moment, number, shown, size
from triack.tools.replay.report.report import write_report
from triack.tools.replay.report.report_charts import TIERS, Charts, tier_of
from triack.tools.replay.run import replay

EVIL = "<script>alert('$1$')</script>"
PAGE_BYTES_MAX = 1_500_000
"""What a page may have: it is sent by mail, and opened on phones."""
FOLDER = Path(report.__file__).parent
SEEDS = (3, 1_000_003)
"""Of the simulated world: restarts and a clock that is set; relays, kills and failed sessions."""


def page_of(tmp_path: Path, verdict: Verdict, timeline: Timeline) -> str:
    write_report(tmp_path / "page.html", verdict, timeline)
    return (tmp_path / "page.html").read_text()


def markup(page: str) -> str:
    """A page without its scripts and styles."""
    return re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)


@pytest.fixture(scope="module")
def empty_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a replay of nothing."""
    return page_of(tmp_path_factory.mktemp("empty"), Verdict(), Timeline())


@pytest.fixture(scope="module", params=SEEDS)
def chaos(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run in the simulated world; one of its logs ends in its middle."""
    folder = tmp_path_factory.mktemp("chaos")
    logs = folder / "logs"
    logs.mkdir()
    for name, content in run_seed(request.param).logs.items():
        (logs / name).write_bytes(content)
    cut = max(logs.iterdir())
    lines = cut.read_bytes().splitlines(keepends=True)
    cut.write_bytes(b"".join(lines[: len(lines) // 2]))
    replay(logs, engine="local", report=folder / "page.html")
    return folder / "page.html"


class Shown(HTMLParser):
    """What a page shows: the cells of its tables by table and row, and all other text but descriptions.

    Attributes:
        rows: (table, cells of one of its rows, each as (label, text, whether it is a number)).
        text: the rest.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[tuple[str, list[tuple[str, str, bool]]]] = []
        self.text: list[str] = []
        self._table = ""
        self._cell: list[str] | None = None
        self._of = ("", False)
        self._silent = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        kinds = (known.get("class") or "").split()
        described = tag in ("p", "td") and {"dim", "lead"} & {*kinds} and "says" not in kinds
        if not self._silent and (tag in ("script", "style", "code", "noscript", "title", "th") or described):
            self._silent = tag
        elif tag == "table":
            self._table = known.get("data-table") or ""
        elif tag == "tr":
            self.rows.append((self._table, []))
        elif tag == "td" and self._table:
            self._cell, self._of = [], (known.get("data-of") or "", "n" in kinds)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._silent:
            self._silent = ""
        elif tag == "td" and self._cell is not None:
            self.rows[-1][1].append((self._of[0], "".join(self._cell).strip(), self._of[1]))
            self._cell = None
        elif tag == "table":
            self._table = ""

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)
        elif not self._silent:
            self.text.append(data)


def numbers_in(data: Any) -> set[float]:
    """Every number of JSON data."""
    if isinstance(data, dict):
        return {found for value in data.values() for found in numbers_in(value)} | {len(data)}
    if isinstance(data, list):
        return {found for value in data for found in numbers_in(value)} | {len(data)}
    return {data} if isinstance(data, int | float) and not isinstance(data, bool) else set()


def spellings(value: float) -> set[str]:
    """How a page may write a number."""
    if isinstance(value, float):
        return {number(value), duration(round(value * 1e9))}
    return {number(value), str(value), duration(value), size(value), *([moment(value)] if value < 1 << 62 else [])}


@pytest.mark.slow
def test_every_number_of_the_page_is_in_its_data(chaos: Path) -> None:
    """A cell has a number of the same row of the same table; every other number is one of the verdict or of a sum."""
    data = json.loads((chaos.parent / "tables.json").read_text())
    shown = Shown(chaos.read_text())
    counts: dict[str, int] = {}
    seen = 0
    for table, cells in shown.rows:
        if not table or not cells:
            continue
        at = counts.get(table, 0)
        counts[table] = at + 1
        rows = [*data["tables"][table]["rows"], data["tables"][table]["sums"]]
        allowed = {said for value in numbers_in(rows[at]) for said in spellings(value)} | {""}
        for label, text, is_number in cells:
            if is_number:
                assert text in allowed, (table, at, label, text)
                seen += bool(text)
    assert {table: counts[table] for table in counts} == {
        # One row stands for all that are left out.
        table: min(len(told["rows"]), ROWS_MAX + 1) + bool(told["sums"])
        for table, told in data["tables"].items()
        if told["rows"]
    }
    assert [html.unescape(it) for it in re.findall(r'<p class="lead">(.*?)</p>', chaos.read_text())] == data["first"]
    lengths = {len(table["rows"]) for table in data["tables"].values()}
    sums = [table["sums"] for table in data["tables"].values()]
    known = {said for value in numbers_in([data["verdict"], sums]) | lengths for said in spellings(value)}
    words = {digits for said in known for digits in re.findall(r"\d[\d,]*(?:\.\d+)?", said)}
    for digits in re.findall(r"(?<![\w-])\d[\d,]*(?:\.\d+)?(?![\w-])", " ".join(shown.text)):
        assert digits.rstrip(",") in words, digits
        seen += 1
    assert seen > 200


def test_a_number_that_is_nowhere_would_be_found() -> None:
    """The test above sees a number, in a cell and in the text, and passes over descriptions."""
    page = (
        '<p>Read 7 files</p><p class="dim">up to 9 %</p><table data-table="links"><tr><td class="n" data-of="sent">8'
        "</td></tr></table>"
    )
    shown = Shown(page)
    assert shown.rows == [("links", [("sent", "8", True)])]
    assert "".join(shown.text) == "Read 7 files"
    assert "8" not in {said for value in numbers_in({"sent": 80, "rows": [1]}) for said in spellings(value)}


@pytest.mark.slow
def test_the_report_is_one_page_with_its_data_beside(tmp_path: Path) -> None:
    """The page says how it was made, and tells the verdict and what was read before all else."""
    world = faulty("window_exceeded")
    page = tmp_path / "out" / "report.html"
    logs = world.save(tmp_path / "logs")
    verdict = replay(logs, engine="local", report=page)
    text = markup(page.read_text())
    assert verdict.report == str(page)
    first = "1 violation of 1 promise. The first of a session, number 65, at "
    titles = [f">{it}</h2>" for it in ("Violations", "Numbers", "Queues", "Plots", "Streams", "Links")]
    parts = ("FAIL", first, "Read: ", "The logs go from 2", 'aria-label="Contents"', *titles)
    order = [text.index(part) for part in parts]
    assert order == sorted(order)
    given = " ".join(map(str, logs))
    assert f"<code>triack replay {given} --engine local --report {page}</code>" in text
    assert "number 65" in text
    assert len((page.parent / "violations.jsonl").read_text().splitlines()) == len(verdict.findings)
    data = json.loads((page.parent / "tables.json").read_text())
    assert data["verdict"]["violations"] == verdict.violations


@pytest.mark.slow
def test_nothing_of_the_page_is_elsewhere_and_it_is_small(chaos: Path) -> None:
    """Its policy lets a browser load nothing, whatever the scripts in it would ask for."""
    page = chaos.read_text()
    assert not re.search(r'src=|@import|url\(|href="(?!#)', markup(page))
    assert "default-src 'none'" in page
    assert len(page.encode()) < PAGE_BYTES_MAX


@pytest.mark.slow
def test_the_largest_page_is_small_enough(tmp_path: Path) -> None:
    """With more nodes, queues, sessions and outages than it shows, and all plots full."""
    ids = [f"{at:032x}" for at in range(60)]
    full = dict.fromkeys(range(512), 12345)
    timeline = Timeline(start_ns=SECOND, bucket_ns=SECOND, names={it: f"plant-{int(it, 16):03}" for it in ids})
    series = ["committed", "resends", "round_trip", "resend_wait", "ack_timeout least", "ack_timeout longest"]
    series += [*(f"acks trigger-{at}" for at in range(9)), *(f"tiers {tier}" for tier in TIERS)]
    series += [*(f"causes cause-{at}" for at in range(3)), *(f"latency {at}" for at in range(40))]
    timeline.series = dict.fromkeys([*series, *(f"unacked {it} {it}" for it in ids)], full)
    timeline.sessions = [
        SessionLine(it, f"{it}-{at}", at * SECOND, (at + 1) * SECOND, "ack-timeout", ids[0])
        for it in ids
        for at in range(20)
    ]
    for at, it in enumerate(ids):
        stream = it, 1
        timeline.streams[stream] = f"plant-b/orders-{at}"
        timeline.flows.counts[stream] = {"sent": 123_456, "delivered": 120_000, "since_ns": SECOND, "class": 2}
        timeline.flows.delays[stream] = full
        timeline.links[(it, ids[0])] = {"sent": 123_456, "ack gap": 12_345}
        timeline.starts.append(StartLine(it, 1, 0, 600 * SECOND, stopped=True, records=123_456))
        timeline.ways[stream] = [(it, ids[1]), (ids[1], ids[2])]
        timeline.dwell[(*stream, ids[1])] = {3: 9}
        timeline.policies[(it, ids[0])] = {(50, 16, 0, SECOND, 16, 0, SECOND, SECOND, 2 * SECOND): 20}
    names = [f"/var/log/triack/plant-{at:04}-000001-000001.jsonl" for at in range(900)]
    findings = [Violation("window", ALPHA, "5e" * 16, evidence="x" * 100, file=names[0], wall_ns=SECOND)] * 200
    verdict = Verdict(files=dict.fromkeys(names, 12_345), findings=findings, violations={"window": 200})
    assert len(page_of(tmp_path, verdict, timeline).encode()) < PAGE_BYTES_MAX


def test_the_library_is_the_published_one() -> None:
    """Its origin, licence and digest are beside it, in the wheel, too."""
    origin = (FOLDER / "echarts" / "ORIGIN.md").read_text()
    digest = hashlib.sha256((FOLDER / "echarts" / "echarts.common.min.js").read_bytes()).hexdigest()
    assert f"`{digest}`" in origin
    for name in ("LICENSE", "NOTICE", "LICENSE-d3", "LICENSE-zrender"):
        assert (FOLDER / "echarts" / name).stat().st_size > 100


@pytest.mark.slow
def test_no_text_of_a_log_is_markup(tmp_path: Path) -> None:
    """Names of nodes and queues, ids, reasons and evidence stand there as they are; a control character does not."""
    world = faulty("window_exceeded")
    for scripts, evil in ((3, ("queue", "name", "peer_name")), (0, ("session",))):
        for record in [record for log in world.logs for record in log.records]:
            record.update({name: EVIL for name in evil if name in record})
        replay(world.save(tmp_path / f"{scripts}"), engine="local", report=tmp_path / "page.html")
        text = (tmp_path / "page.html").read_text()
        assert text.count("<script") == scripts
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(&#39;$1$&#39;)&lt;/script&gt;" in text
        assert ("\\u003cscript>alert" in text) == bool(scripts)
    odd = Timeline(
        names={"a": "be\x00ll\ud800"}, links={("a", EVIL): {"sent": 1}}, queues={(EVIL, EVIL): {"handed": 1}}
    )
    assert "<script>alert" not in page_of(tmp_path, Verdict(missing=[EVIL]), odd)


def test_a_report_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(ReplayError) as refused:
        replay(healthy().save(tmp_path / "logs"), engine="local", report=tmp_path / "out" / "page.html")
    assert str(refused.value) == f"cannot write the report {tmp_path}/out/page.html: File exists"


def test_a_page_that_cannot_be_written_is_reported_before_the_work(tmp_path: Path) -> None:
    """A user who judged for an hour wants to see more than that; what stands there is not touched."""
    with pytest.raises(ReplayError, match=r"^cannot write the report .*: Is a directory$"):
        replay(tmp_path / "no logs here", engine="local", report=tmp_path)
    new, old = tmp_path / "out" / "page.html", tmp_path / "old.html"
    old.write_text("kept")
    for page in (new, old):
        with pytest.raises(ReplayError, match="no such directory"):
            replay(tmp_path / "no logs here", engine="local", report=page)
    assert (new.exists(), old.read_text()) == (False, "kept")


def test_a_page_shows_the_first_findings_of_each_check(tmp_path: Path) -> None:
    """All are in the data beside it; missing nodes are listed, and what must be zero and is not stands out."""
    verdict = Verdict(lost=3, missing=[f"node {BETA}", f"start 1 of node {ALPHA}"])
    many = [Violation("window", number=number, evidence=f"window {number} & more") for number in range(21)]
    verdict.findings = [Violation("lost", stream=1, evidence="gone"), *many]
    verdict.violations = {"lost": 1, "window": 21}
    text = page_of(tmp_path, verdict, Timeline(names={BETA: "beta"}))
    for said in (
        "22 violations of 2 promises.", f"No log of <code>node {BETA}, which is called beta</code>",
        f"No log of <code>start 1 of node {ALPHA}</code>", '<td class="n bad">3</td>', "stream 1</span>",
    ):  # fmt: skip
        assert said in text
    assert "Nothing that looks like a log was left out" not in text
    assert (text.count("&amp; more"), text.count("window 20 ")) == (20, 0)
    data = [json.loads(line)["evidence"] for line in (tmp_path / "violations.jsonl").read_text().splitlines()]
    assert data == ["gone", *(f"window {number} & more" for number in range(21))]


def test_the_page_says_which_policy_was_in_force(tmp_path: Path) -> None:
    """Solace's, of two sessions, and one of bytes; logs of older nodes do not say how long an end bears a silence."""
    solace = (50, 16, 0, SECOND, 16, 0, SECOND, 2 * SECOND, 120 * SECOND)
    timeline = Timeline(names={ALPHA: "alpha", BETA: "beta"})
    timeline.policies = {(ALPHA, BETA): {solace: 2}, (BETA, ALPHA): {(64, 32, 9_000, SECOND // 2, 0, 0, 0, 0, 0): 1}}
    text = page_of(tmp_path, Verdict(), timeline)
    said = (">alpha<", ">50<", ">16 packets or 1 s<", ">2 s to 2 min<", ">not known<", ">32 packets or 9 kB or 500 ms<")
    assert [it for it in said if it not in text] == []


def test_a_violation_leads_to_its_place(tmp_path: Path) -> None:
    """It has names, its time, file and line; its mark in the plots leads back. One without a time has no mark."""
    placed = Violation(
        "lost", ALPHA, number=3, last=5, wall_ns=3 * SECOND // 2, file="a.jsonl", line=7, evidence="gone"
    )
    verdict = Verdict(findings=[placed, Violation("window")], violations={"lost": 1, "window": 1})
    timeline = Timeline(start_ns=SECOND, bucket_ns=SECOND, names={ALPHA: "alpha"}, series={"committed": {0: 1}})
    text = page_of(tmp_path, verdict, timeline)
    assert '<tr id="v-1">' in text
    assert '<a href="#at-v-1">00:00:01.500</a>' in text
    assert f'node <span title="{ALPHA}">alpha</span>, number 3 to 5' in text
    assert "a.jsonl, line 7" in text
    assert "at-v-2" not in text
    found = re.search(r'id="plots">(.*?)</script>', text)
    assert found is not None
    assert json.loads(found[1])["marks"] == [["v-1", 1500.0]]


@pytest.mark.slow
def test_a_page_of_kept_promises_lists_no_violations(tmp_path: Path) -> None:
    """Nodes, queues and sessions have their names; nothing is red."""
    replay(healthy().save(tmp_path / "logs"), engine="local", report=tmp_path / "page.html")
    text = markup((tmp_path / "page.html").read_text())
    assert "Every promise was kept" in text
    assert '<h2 id="violations">' not in text
    assert f'<span title="{ALPHA}">alpha</span>' in text
    assert "alpha and beta, session 2" in text
    assert "a message that is passed on counts on every hop" in text
    assert "bad" not in {kind for kinds in re.findall(r'class="([^"]*)"', text) for kind in kinds.split()}
    assert (tmp_path / "violations.jsonl").read_text() == ""


def test_a_page_of_nothing_has_no_empty_plot(empty_page: str) -> None:
    assert not [it for it in ("<script", "Plots", "Policies in force") if it in empty_page]


@pytest.mark.slow
def test_the_page_goes_with_the_dark_and_with_a_narrow_screen(chaos: Path) -> None:
    """Every colour has a value in both; on a narrow screen rows become cards."""
    page = chaos.read_text()
    light, _, dark = page.partition("@media (prefers-color-scheme: dark)")
    colours = set(re.findall(r"var\(--(\w+)\)|colour\(\"(\w+)\"\)|\"colour\":\"(\w+)\"", page))
    for name in {name for names in colours for name in names if name}:
        assert f"--{name}: #" in light
        assert f"--{name}: #" in dark
    narrow = page.partition("@media (max-width: 600px)")[2].partition("</style>")[0]
    assert ".stack thead { display: none; }" in narrow
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    with opened(tmp_path_factory.mktemp("browser")) as page:
        yield page


OPENED = "for (const it of document.querySelectorAll('details')) it.open = true"


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_a_browser_shows_all_of_it(browser: Page, chaos: Path, width: int, dark: bool) -> None:
    """Few screens are enough; nothing is wider than one, every plot is drawn, nothing fails, and nothing is loaded."""
    browser.show(chaos, width=width, dark=dark)
    assert browser.run("document.documentElement.scrollWidth") <= width
    wide = "[...document.querySelectorAll('.chart')].filter(it => it.getBoundingClientRect().right > innerWidth).length"
    assert browser.run(wide) == 0
    assert browser.run("document.documentElement.scrollHeight") < 6_000
    browser.run(OPENED)
    assert browser.run("document.documentElement.scrollWidth") <= width
    plots = browser.run("JSON.parse(document.getElementById('plots').textContent).plots.length")
    browser.wait(f"document.querySelectorAll('.chart canvas').length === {plots}")
    assert browser.run(wide) == 0
    assert plots > 5
    assert browser.asked_for == [chaos.as_uri()]
    assert browser.complaints == []


@pytest.mark.slow
def test_hovering_tells_of_a_time_and_zooming_goes_for_all_plots(browser: Page, chaos: Path) -> None:
    browser.show(chaos, width=1280)
    browser.run(OPENED)
    browser.wait("document.querySelector('#plot-acks canvas')")
    browser.run("document.getElementById('plot-acks').scrollIntoView({block: 'center'})")
    x, y = browser.run(
        "(it => [it.x + it.width / 2, it.y + it.height / 2])"
        "(document.getElementById('plot-acks').getBoundingClientRect())"
    )
    for move in (0, 3):
        browser.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x + move, y=y)
    assert "UTC" in browser.wait("document.getElementById('plot-acks').textContent")
    chart = "echarts.getInstanceByDom(document.getElementById('plot-{}'))".format
    browser.run(f"{chart('acks')}.dispatchAction({{type: 'dataZoom', start: 40, end: 60}})")
    assert browser.wait(f"{chart('sessions')}.getOption().dataZoom[0].start") == pytest.approx(40)


@pytest.mark.slow
def test_the_time_of_a_violation_leads_to_its_place_in_the_plots(browser: Page, tmp_path: Path) -> None:
    verdict = Verdict(findings=[Violation("lost", ALPHA, wall_ns=50 * SECOND)], violations={"lost": 1})
    timeline = Timeline(start_ns=SECOND, bucket_ns=SECOND, series={"committed": {0: 1, 98: 1}})
    page_of(tmp_path, verdict, timeline)
    browser.show(tmp_path / "page.html", width=420)
    browser.run("document.querySelector('a[href=\"#at-v-1\"]').click()")
    zoom = "echarts.getInstanceByDom(document.getElementById('plot-throughput')).getOption().dataZoom[0]"
    assert browser.wait(f"{zoom}.start") == pytest.approx(44, abs=1)
    assert browser.run(f"{zoom}.end") == pytest.approx(54, abs=1)


@pytest.mark.parametrize(
    ("value_ns", "said"),
    [
        (0, "0 s"),
        (850, "850 ns"),
        (6_300, "6.3 µs"),
        (178_236_000, "178 ms"),
        (999_700_000, "1 s"),
        (15_596_507_000, "15.6 s"),
        (119 * SECOND, "119 s"),
        (125 * SECOND, "2 min 5 s"),
        (3_840 * SECOND, "1 h 4 min"),
        (7_200 * SECOND, "2 h"),
        (400 * 86_400 * SECOND, "400 d"),
        (-5 * SECOND, "-5 s"),
    ],
)
def test_a_duration_has_three_digits_or_two_units(value_ns: int, said: str) -> None:
    assert duration(value_ns) == said


def test_numbers_sizes_and_times_for_people() -> None:
    """Times are UTC; what is not known is empty."""
    assert [number(it) for it in (0, 1_234_567, 1.5, 10999.64)] == ["0", "1,234,567", "1.5", "11,000"]
    assert [size(it) for it in (12, 70_234, 5_300_000)] == ["12 B", "70.2 kB", "5.3 MB"]
    assert (moment(1_500_000_000), clock(1_500_000_000)) == ("1970-01-01 00:00:01.500", "00:00:01.500")
    assert [shown(kind, None) for kind in ("count", "ns", "text")] == ["", "", ""]
    assert [shown(kind, 2_147_483_649) for kind in ("count", "number")] == ["2,147,483,649", "2147483649"]


# The plots as data: gaps stay gaps, nothing empty is drawn, what a page shows is bounded, red is for violations.


def drawn(timeline: Timeline, marks: Any = ()) -> dict[str, Any]:
    sessions = sessions_of(timeline)
    return draw(timeline, sessions, outages_of(timeline, sessions), marks)


def plot_of(name: str, timeline: Timeline) -> dict[str, Any]:
    (found,) = [plot for plot in drawn(timeline)["plots"] if plot["name"] == name]
    return dict(found)


def buckets(series: dict[str, dict[int, int]], **more: Any) -> Timeline:
    return Timeline(start_ns=SECOND, bucket_ns=SECOND, names={"a": "alpha", "b": "beta"}, series=series, **more)


def test_what_would_be_empty_is_left_out() -> None:
    assert drawn(Timeline()) == {"plots": [], "outages": [], "gaps": [], "marks": [], "begin": 0, "end": 0}
    assert [plot["name"] for plot in drawn(buckets({"resends": {3: 0}, "acks gap": {1: 2}}))["plots"]] == ["acks"]


def test_bins_are_as_wide_as_the_time_of_the_data_asks_for() -> None:
    """From the first value on; counts of one bin are added, of what is the longest the longest is taken."""
    long = buckets({"committed": {4: 10, 5: 5, 4 + 10 * BINS - 1: 20}, "round_trip": {4: 5_000_000, 5: 7_000_000}})
    (line,) = plot_of("throughput", long)["series"]
    assert line["points"][0] == [5000, 1.5]
    assert line["points"][1] == [15_000, 0]
    assert line["points"][-1][0] == 5000 + 10_000 * BINS
    assert plot_of("round-trips", long)["series"][0]["points"] == [[5000, 0.007]]


def test_the_axis_goes_from_the_first_value_to_the_last() -> None:
    """And no further, or a part of it would be empty; a violation is on it."""
    timeline = buckets({"acks gap": {2: 1, 7: 1}})
    assert [drawn(timeline)[name] for name in ("begin", "end")] == [3000, 8000]
    assert drawn(timeline, [("v-1", 9 * SECOND)])["end"] == 9000


def test_packets_in_flight_are_those_of_links_by_name() -> None:
    """The sessions of a link are one line; the window is one, too, which is hidden if it is far above."""
    sessions = [SessionLine("a", name, SECOND, 0, "", "b") for name in ("s1", "s2")]
    series = {"unacked a s1": {0: 3}, "unacked a s2": {0: 2, 1: 4}, "window": {0: 16}}
    timeline = buckets(series, sessions=sessions)
    line, window = plot_of("in-flight", timeline)["series"]
    assert (line["name"], line["points"]) == ("alpha to beta", [[1000, 3], [2000, 4]])
    assert (window["points"], window["hidden"]) == ([[1000, 16], [2000, 16]], False)
    timeline.series["window"] = {0: 17}
    assert plot_of("in-flight", timeline)["series"][1]["hidden"]


def test_no_more_lines_than_can_be_told_apart() -> None:
    """Those of the busiest links; the note says how many others there are."""
    many = {f"unacked n{at:02} s": {0: at + 1} for at in range(LINES_MAX + 2)}
    plot = plot_of("in-flight", buckets(many))
    assert len(plot["series"]) == LINES_MAX
    assert "The 2 quietest links are left out." in plot["note"]


def test_only_violations_are_red() -> None:
    """A session that failed is amber, one that a restart ended is teal, and its ends say so."""
    ends = [("s1", "ack-timeout"), ("s2", "drained"), ("s3", "")]
    sessions = [SessionLine("a", name, SECOND, 2 * SECOND if why else 0, why, "b") for name, why in ends]
    plot = plot_of("sessions", buckets({}, sessions=sessions, starts=[StartLine("a", 1, 0, 3 * SECOND, True, 9)]))
    assert plot["rows"] == ["alpha and beta"]
    assert [(it["name"], it["colour"], it["points"][0][2]) for it in plot["series"]] == [
        (f"{end}: 1", colour, f"alpha and beta, session {number}: {end}{why}")
        for end, colour, number, why in (
            ("in order", "blue", 2, " (drained)"), ("failed", "amber", 1, " (ack-timeout)"), ("open", "grey", 3, ""),
        )
    ]  # fmt: skip
    series = {name: {0: 1} for name in ("committed", "acks gap", "resends", "latency 3")}
    full = buckets(series, sessions=sessions)
    assert "red" not in {it["colour"] for plot in drawn(full)["plots"] for it in plot["series"]}


def test_pairs_of_nodes_with_failures_have_rows_first() -> None:
    lines = [SessionLine(f"n{at:02}", f"s{at}", SECOND, 2 * SECOND, "idle", "z") for at in range(PAIRS_MAX + 5)]
    lines[-1].reason = "path-lost"
    plot = plot_of("sessions", buckets({}, sessions=lines))
    assert (len(plot["rows"]), plot["rows"][-1]) == (PAIRS_MAX, f"n{PAIRS_MAX + 4:02} and z")
    assert "are left out" in plot["note"]


@pytest.mark.parametrize(
    ("name", "series", "lines"),
    [
        # No line leads from before an outage to its end.
        ("round-trips", {"round_trip": {0: 5_000_000, 1: 6_000_000, 9: 7_000_000}},
         {"": [[1000, 0.005], [2000, 0.006], [3000, None], [10000, 0.007]]}),
        # Where nothing came the throughput is zero: the axis has two points for that, however long it was.
        ("throughput", {"committed": {0: 10, 99: 20}},
         {"": [[1000, 10], [2000, 0], [99_000, 0], [100_000, 20], [101_000, 0]]}),
        # Bars say their sums, and have all buckets, as one stands on the other and all are as wide.
        ("acks", {"acks gap": {0: 2}, "acks delay": {4: 1_000}},
         {"delay: 1,000": [[1000, 0], [2000, 0], [3000, 0], [4000, 0], [5000, 1000]],
          "gap: 2": [[1000, 2], [2000, 0], [3000, 0], [4000, 0], [5000, 0]]}),
        ("histogram", {"latency 0": {0: 5}, "latency 2": {1: 7}},
         {"": [[1000, 1334, 5], [1334, 1778, 0], [1778, 2371, 7]]}),
    ],
    ids=["a gap is a gap", "no throughput is zero", "bars stand on each other", "a histogram is whole"],
)  # fmt: skip
def test_the_points_of_a_plot(name: str, series: Any, lines: dict[str, list[list[float]]]) -> None:
    found = plot_of(name, buckets(series))["series"]
    assert [it["points"] for it in found] == [*lines.values()]
    assert "" in lines or [it["name"] for it in found] == [*lines]


def test_outages_that_overlap_are_one_gap() -> None:
    found = [Outage("a", "", 0, 4_000_000, True, "x"), Outage("b", "", 3_000_000, 5_000_000, True, "y")]
    told = draw(Timeline(), [], [*found, Outage("a", "b", 8_000_000, 9_000_000, True, "z")])
    assert told["gaps"] == [[0, 5, "a"], [8, 9, "a and b"]]
    assert [8, 9, "a and b", "z"] in told["outages"]


def charted(*records: dict[str, object]) -> Output:
    out = Output()
    charts = Charts(out)
    for at, record in enumerate(records):
        charts.see({"node": "a", "session": "s", "at_ns": at * MS, "wall_ns": 1 + at * MS, **record})
    return out


def sent(packet: int, *, resend: bool = False) -> dict[str, object]:
    return {"event": "packet_sent", "packet": packet, "packets": 1, "resend": resend, "size": 10, "counts": [[1, 3]]}


def acked(*ranges: list[int]) -> dict[str, object]:
    return {"event": "ack_received", "ranges": list(ranges)}


@pytest.mark.parametrize(("attempt", "tier"), [(1, 1), (3, 1), (4, 2), (6, 2), (7, 3), (9, 3), (10, 4), (99, 4)])
def test_attempts_belong_to_tiers(attempt: int, tier: int) -> None:
    assert tier_of(attempt) == TIERS[tier]


def test_a_round_trip_ends_at_the_ack_of_its_packet() -> None:
    """An ack answers the last packet that it covers: 1 ms after packet 3."""
    out = charted(sent(1), sent(2), sent(3), acked([1, 3]))
    assert out.numbers[f"link\ta\ts\ttrip {latency_bucket(MS, DELAY_BUCKETS_PER_DECADE)}"] == 1
    assert out.numbers["link\ta\ts\tmessages"] == 9


def test_a_packet_that_left_twice_measures_nothing() -> None:
    """Nobody knows which of the two the ack is for. Nor does an ack of what nobody sent, however much it says."""
    out = charted(sent(1), sent(1, resend=True), acked([1, 1]), sent(2), acked([3, 10**15]))
    assert not [name for name in out.numbers if "trip" in name]
    assert out.numbers["link\ta\ts\tsent"] == 3
    assert out.numbers["link\ta\ts\tmessages"] == 6


def test_resends_and_duplicates_say_why() -> None:
    out = charted(
        {"event": "resend_scheduled", "attempt": 4, "first": 1, "last": 5, "interval_ns": 7},
        {"event": "packet_received", "packets": 1, "duplicate": True},
        {"event": "packet_received", "packets": 2, "duplicate": False},
        {"event": "rejected", "reason": "duplicate"},
        {"event": "rejected", "reason": "queue-full"},
        {"event": "ack_sent", "trigger": "gap"},
    )
    sums = {name: sum(series.buckets.values()) for name, series in out.series.items()}
    causes = {"causes known to the session": 1, "causes duplicate": 1}
    assert sums == {"tiers tier 4-6": 5, "resend_wait": 7, "acks gap": 1, **causes}


def test_queues_count_what_was_handed_out_and_streams_have_their_queue() -> None:
    what = {"class": "recoverable", "origin": "a", "stream": 1, "queue": "q"}
    out = charted(
        {"event": "queued", "peer_name": "b", **what, "count": 4},
        {"event": "queued", "peer_name": "b", **what, "count": 4, "recovered": True},
        {"event": "committed", **what, "count": 4},
        {"event": "handed", **what, "place": 0, "counts": [[1, 4]], "redelivered": True},
    )
    assert out.numbers == {
        "queue\thanded again 3\ta\tq": 4,
        "stream\ta\t1\tq": 3,
        "priority\ta\t1\t3": 3,
    }


def test_a_subscription_counts_what_it_was_handed() -> None:
    handed = {"event": "handed", "topic": "t", "subscription": "audit", "ranges": [[1, 4], [6, 6]]}
    out = charted({**handed, "redelivered": False}, {**handed, "ranges": [[6, 6]], "redelivered": True})
    assert out.numbers == {"hand\ta\tt\taudit\thanded": 5, "hand\ta\tt\taudit\thanded again": 1}


def test_the_limits_of_the_ack_timeout_are_charted_when_a_session_opens() -> None:
    """An older log gives none."""
    opened = {"event": "session_opened", "peer": "b", "peer_name": "b", "window": 64}
    out = charted(opened, {**opened, "ack_timeout_min_ns": 2, "ack_timeout_max_ns": 120})
    told = {name: list(it.buckets.values()) for name, it in out.series.items() if name.startswith("ack_timeout")}
    assert told == {"ack_timeout least": [2], "ack_timeout longest": [120]}


def test_numbers_of_a_session_whose_peer_is_known_are_those_of_the_two_nodes() -> None:
    """So that there are no more of them with each session."""
    opened = {"event": "session_opened", "peer": "b", "peer_name": "b", "window": 64}
    out = charted(opened, sent(1), {**opened, "session": "t"}, {**sent(1), "session": "t"})
    assert out.numbers["between\ta\tb\tsent"] == 2
    assert not [name for name in out.numbers if name.startswith("link")]


def test_of_a_session_that_failed_it_is_told_when_the_peer_was_heard_last() -> None:
    """An outage begins there, and not when a timeout tells of it."""
    heard = {"event": "packet_received", "packets": 1, "duplicate": False}
    out = charted(sent(1), heard, sent(2), {"event": "session_closed", "reason": "ack-timeout"})
    assert out.numbers["heard\ta\ts"] == 1 + MS
    out = charted(heard, {"event": "session_closed", "reason": "idle"})
    assert "heard\ta\ts" not in out.numbers
