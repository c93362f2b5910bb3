"""The table, in the forms in which it is printed."""

import csv
from io import StringIO

from triack.tools.bench.figures import Result
from triack.tools.bench.rows import ROWS
from triack.tools.bench.table import HEADINGS, as_csv, as_markdown, cells, number


def measured() -> Result:
    result = Result.of(ROWS["T4"])
    result.versus, result.versus_verified, result.verified, result.guarantee = "redis", True, True, ["in order"]
    for name, values in {"p50": [0.5, 0.7, 0.6], "p99": [1.0, 3.0, 2.0]}.items():
        result.figures[name].values = values
        result.figures[name].versus_values = [2 * value for value in values]
    result.note("what a reader has to know")
    return result


def test_numbers_have_three_digits() -> None:
    assert [number(value) for value in (None, 0.123456, 12.345, 1234.5, 0.0)] == ["-", "0.123", "12.3", "1,234", "0"]


def test_each_figure_is_a_line() -> None:
    first, second = (line for _, line in cells(measured()))
    assert first[0] == "T4"
    assert first[1].endswith("; p50")
    assert first[2:] == ("at most 0.8", "at most 1", "0.6 ms", "0.5 to 0.7", "3", "redis 1.2", "2.00", "in order")
    assert (second[0], second[1], second[-1]) == ("", "p99", "")


def test_what_was_not_run_has_no_figures() -> None:
    ((_, line),) = cells(Result.of(ROWS["T1"]))
    assert line[4:] == ("-", "-", "0", "-", "-", "not run")


def test_markdown_has_the_machine_the_table_and_the_notes() -> None:
    lines = as_markdown([measured()]).splitlines()
    assert "cores" in lines[0]
    assert lines[2] == f"| {' | '.join(HEADINGS)} |"
    assert {line.count("|") for line in lines[2:6]} == {len(HEADINGS) + 1}
    assert lines[-1] == "- T4: what a reader has to know"


def test_csv_has_a_line_for_each_run() -> None:
    rows = list(csv.DictReader(StringIO(as_csv([measured()]))))
    assert len(rows) == 12
    assert {(row["system"], row["figure"]) for row in rows} == {
        (s, f) for s in ("triack", "redis") for f in ("p50", "p99")
    }
    assert [row["value"] for row in rows[:3]] == ["0.5", "0.7", "0.6"]
