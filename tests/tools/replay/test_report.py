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
