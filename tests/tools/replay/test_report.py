"""The page, and the data beside it."""

import json
from pathlib import Path

import pytest

from tests.tools.replay.builder import BETA, healthy
from tests.tools.replay.faults import FAULTS, ready
from triack.base.errors import ReplayError
from triack.tools.replay.run import replay
from triack.tools.replay.schema import Timeline, Verdict, Violation


def test_the_report_is_one_page_with_its_data_beside(tmp_path: Path) -> None:
    """The page needs nothing else, and shows the violations without letting their text be markup."""
    pytest.importorskip("matplotlib")
    world = ready()
    FAULTS["window_exceeded"](world)
    for record in (*world.alpha.records, *world.beta.records):
        record.update({"session": "<script>"} if "session" in record else {})
    page = tmp_path / "out" / "report.html"
    verdict = replay(world.save(tmp_path / "logs"), engine="local", report=page)
    text = page.read_text()
    assert verdict.report == str(page)
    assert "FAIL" in text
    assert text.count("<svg") == 5
    assert "<script" not in text
    assert "src=" not in text
    assert "number 65" in text
    assert len((page.parent / "violations.jsonl").read_text().splitlines()) == len(verdict.findings)


def test_a_report_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Its directory's name is taken by a file."""
    pytest.importorskip("matplotlib")
    (tmp_path / "out").write_text("")
    with pytest.raises(ReplayError) as refused:
        replay(healthy().save(tmp_path / "logs"), engine="local", report=tmp_path / "out" / "page.html")
    assert str(refused.value) == f"cannot write the report {tmp_path}/out/page.html: File exists"


def test_a_page_shows_the_first_findings_of_each_check(tmp_path: Path) -> None:
    """All are in the data beside it; who is missing is said, and what must be zero and is not stands out."""
    pytest.importorskip("matplotlib")
    from triack.tools.replay.report import write_report

    verdict = Verdict(lost=3, missing=[BETA])
    many = [Violation("window", number=number, evidence=f"window {number} & more") for number in range(21)]
    verdict.findings = [Violation("lost", lane=1, evidence="gone"), *many]
    verdict.violations = {"lost": 1, "window": 21}
    write_report(tmp_path / "page.html", verdict, Timeline())
    text = (tmp_path / "page.html").read_text()
    assert "22 violations were found." in text
    assert f"No log of <code>{BETA}</code>" in text
    assert '<td class="n bad">3</td>' in text
    assert text.count("&amp; more") == 20
    assert "window 20 " not in text
    assert "<code>lane 1</code></td><td>gone</td>" in text
    data = [json.loads(line) for line in (tmp_path / "violations.jsonl").read_text().splitlines()]
    assert [it["evidence"] for it in data] == ["gone", *(f"window {number} & more" for number in range(21))]


def test_a_page_of_kept_promises_lists_no_violations(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    replay(healthy().save(tmp_path / "logs"), engine="local", report=tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "Every promise was kept." in text
    assert "<h2>Violations</h2>" not in text
    assert "bad" not in text.partition("<body>")[2]
    assert (tmp_path / "violations.jsonl").read_text() == ""
