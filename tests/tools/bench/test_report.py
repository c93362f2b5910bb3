"""The page: the table, the notes, and the plots if they can be drawn."""

import importlib.util
from pathlib import Path

import pytest

from triack.base.errors import TriackError
from triack.tools.bench.figures import Result
from triack.tools.bench.report import NO_PLOTS, write_report
from triack.tools.bench.rows import ROWS


def measured() -> Result:
    result = Result.of(ROWS["T4"])
    result.verified = True
    result.figures["p50"].values = [0.9]
    result.histograms = {"triack": {0.5: 3}}
    result.note("<script> is text")
    return result


@pytest.mark.slow
def test_a_page_has_the_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "deep" / "page.html"
    write_report(page, [measured()])
    text = page.read_text()
    assert "<td>0.9 ms</td>" in text
    assert '<tr class="floor">' in text
    assert "&lt;script&gt; is text" in text
    assert "<svg" in text


def test_without_matplotlib_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name))
    write_report(tmp_path / "page.html", [measured()])
    text = (tmp_path / "page.html").read_text()
    assert NO_PLOTS.replace("'", "&#39;") in text
    assert "<svg" not in text


@pytest.mark.slow
@pytest.mark.gate
def test_a_report_that_cannot_be_written_raises(tmp_path: Path) -> None:
    with pytest.raises(TriackError, match=f"cannot write the report {tmp_path}"):
        write_report(tmp_path, [measured()])
