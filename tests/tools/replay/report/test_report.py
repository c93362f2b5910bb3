"""The page, and the data beside it."""

import json
import re
from pathlib import Path

import pytest

from tests.tools.replay.builder import ALPHA, BETA, healthy
from tests.tools.replay.faults import FAULTS, ready
from triack.base.errors import ReplayError
from triack.tools.replay.log.schema import Timeline, Verdict, Violation
from triack.tools.replay.report.report import write_report
from triack.tools.replay.run import replay

EVIL = "<script>alert('$1$')</script>"


def page_of(tmp_path: Path, verdict: Verdict, timeline: Timeline) -> str:
    write_report(tmp_path / "page.html", verdict, timeline)
    return (tmp_path / "page.html").read_text()


@pytest.fixture(scope="module")
def empty_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a replay of nothing: its plots are drawn once."""
    return page_of(tmp_path_factory.mktemp("empty"), Verdict(), Timeline())


@pytest.mark.slow
def test_the_report_is_one_page_with_its_data_beside(tmp_path: Path) -> None:
    """The page needs nothing from elsewhere, says how it was made, and tells the verdict before all else."""
    pytest.importorskip("matplotlib")
    world = ready()
    FAULTS["window_exceeded"](world)
    page = tmp_path / "out" / "report.html"
    logs = world.save(tmp_path / "logs")
    verdict = replay(logs, engine="local", report=page)
    text = page.read_text()
    assert verdict.report == str(page)
    order = [text.index(part) for part in ("FAIL", "Ran from 2", "Violations", "Numbers", "Queues", "Links", "Plots")]
    assert order == sorted(order)
    given = " ".join(map(str, logs))
    assert f"<code>triack replay {given} --engine local --report {page}</code>" in text
    assert not re.search(r'src=|@import|url\((?!#)|href="(?!#)', text.replace("xlink:href", "href"))
    assert "number 65" in text
    assert len((page.parent / "violations.jsonl").read_text().splitlines()) == len(verdict.findings)


@pytest.mark.slow
def test_no_text_of_a_log_is_markup(tmp_path: Path) -> None:
    """Names of nodes and queues, ids, reasons and evidence stand there as they are; a control character does not."""
    pytest.importorskip("matplotlib")
    world = ready()
    FAULTS["window_exceeded"](world)
    for record in [record for log in world.logs for record in log.records]:
        record.update({name: EVIL for name in ("session", "queue", "name", "peer_name") if name in record})
    replay(world.save(tmp_path / "logs"), engine="local", report=tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert text.count("<script") == 1
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(&#39;$1$&#39;)&lt;/script&gt;" in text
    odd = Timeline(
        names={"a": "be\x00ll\ud800"}, links={("a", EVIL): {"sent": 1}}, queues={(EVIL, EVIL): {"handed": 1}}
    )
    assert "<script>alert" not in page_of(tmp_path, Verdict(missing=[EVIL]), odd)


def test_a_report_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Its directory's name is taken by a file."""
    (tmp_path / "out").write_text("")
    with pytest.raises(ReplayError) as refused:
        replay(healthy().save(tmp_path / "logs"), engine="local", report=tmp_path / "out" / "page.html")
    assert str(refused.value) == f"cannot write the report {tmp_path}/out/page.html: File exists"


def test_a_page_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    """Whoever judged for an hour wants to see more than that; what stands there is not touched."""
    with pytest.raises(ReplayError, match=r"^cannot write the report .*: Is a directory$"):
        replay(tmp_path / "no logs here", engine="local", report=tmp_path)
    new, old = tmp_path / "out" / "page.html", tmp_path / "old.html"
    old.write_text("kept")
    for page in (new, old):
        with pytest.raises(ReplayError, match="no such directory"):
            replay(tmp_path / "no logs here", engine="local", report=page)
    assert (new.exists(), old.read_text()) == (False, "kept")


@pytest.mark.slow
def test_a_page_shows_the_first_findings_of_each_check(tmp_path: Path) -> None:
    """All are in the data beside it; who is missing is said, and what must be zero and is not stands out."""
    verdict = Verdict(lost=3, missing=[f"node {BETA}", f"start 1 of node {ALPHA}"])
    many = [Violation("window", number=number, evidence=f"window {number} & more") for number in range(21)]
    verdict.findings = [Violation("lost", stream=1, evidence="gone"), *many]
    verdict.violations = {"lost": 1, "window": 21}
    text = page_of(tmp_path, verdict, Timeline(names={BETA: "beta"}))
    assert "22 violations were found." in text
    assert f"No log of <code>node {BETA}, which is called beta</code>" in text
    assert f"No log of <code>start 1 of node {ALPHA}</code>" in text
    assert '<td class="n bad">3</td>' in text
    assert text.count("&amp; more") == 20
    assert "window 20 " not in text
    assert "<td>stream 1</td>\n<td>gone</td>" in text
    data = [json.loads(line) for line in (tmp_path / "violations.jsonl").read_text().splitlines()]
    assert [it["evidence"] for it in data] == ["gone", *(f"window {number} & more" for number in range(21))]


@pytest.mark.slow
def test_the_page_says_which_policy_was_in_force(tmp_path: Path, empty_page: str) -> None:
    """Solace's, of two sessions, and one of bytes; logs of older nodes do not say how long an end bears a silence."""
    second = 1_000_000_000
    solace = (50, 16, 0, second, 16, 0, second, 2 * second, 120 * second)
    timeline = Timeline(names={ALPHA: "alpha", BETA: "beta"})
    timeline.policies = {(ALPHA, BETA): {solace: 2}, (BETA, ALPHA): {(64, 32, 9_000, second // 2, 0, 0, 0, 0, 0): 1}}
    text = page_of(tmp_path, Verdict(), timeline)
    for said in ("alpha, beta", ">50<", ">16 packets or 1 s<", ">2 s to 120 s<", ">not known<"):
        assert said in text
    assert ">32 packets or 9,000 bytes or 0.5 s<" in text
    assert "<h2>Policies in force</h2>" not in empty_page


@pytest.mark.slow
def test_a_violation_leads_to_its_place(tmp_path: Path) -> None:
    """It has names, its time, file and line; its mark in the plots leads back. One without a time has no mark."""
    pytest.importorskip("matplotlib")
    placed = Violation("lost", ALPHA, number=3, last=5, wall_ns=1_500_000_000, file="a.jsonl", line=7, evidence="gone")
    verdict = Verdict(findings=[placed, Violation("window")], violations={"lost": 1, "window": 1})
    text = page_of(tmp_path, verdict, Timeline(start_ns=1_000_000_000, names={ALPHA: "alpha"}))
    assert '<tr id="v-1">' in text
    assert '<a href="#at-v-1">0.500 s, 00:00:01.500 UTC</a>' in text
    assert text.count('id="at-v-1"') == 1
    assert 'xlink:href="#v-1"' in text
    assert f'node <span title="{ALPHA}">alpha</span>, number 3 to 5' in text
    assert "a.jsonl, line 7" in text
    assert "at-v-2" not in text


@pytest.mark.slow
def test_a_page_of_kept_promises_lists_no_violations(tmp_path: Path) -> None:
    """Nodes and queues have their names, and a message counts on each hop."""
    replay(healthy().save(tmp_path / "logs"), engine="local", report=tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "Every promise was kept." in text
    assert '<h2 id="violations">' not in text
    assert f'<span title="{ALPHA} to {BETA}">alpha to beta</span>' in text
    assert "A message that was forwarded counts once on every hop." in text
    assert (tmp_path / "violations.jsonl").read_text() == ""


@pytest.mark.slow
def test_the_page_goes_with_the_dark_and_with_a_narrow_screen(empty_page: str) -> None:
    """Every colour of the plots has a value in both; on a narrow screen rows become cards, and plots scroll."""
    light, _, dark = empty_page.partition("@media (prefers-color-scheme: dark)")
    for name in set(re.findall(r"var\(--(\w+)\)", empty_page)):
        assert f"--{name}: #" in light
        assert f"--{name}: #" in dark
    narrow = empty_page.partition("@media (max-width: 600px)")[2].partition("</style>")[0]
    assert ".stack td { display: block;" in narrow
    assert re.search(r"\.card \{[^}]*overflow-x: auto", empty_page)
    assert re.search(r"\.plot svg \{[^}]*min-width: 640px", empty_page)
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in empty_page
