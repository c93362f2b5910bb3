"""``triack log``."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.tools.replay.builder import healthy
from tests.tools.replay.judging import plant
from triack.tools.commands.log import Age, log
from triack.tools.replay.run import replay

pytest.importorskip("pyarrow")


@pytest.mark.slow
@pytest.mark.gate
def test_compact_says_what_it_did_and_where_it_went(tmp_path: Path) -> None:
    healthy().save(tmp_path / "logs")
    result = CliRunner().invoke(log, ["compact", str(tmp_path / "logs")])
    assert result.exit_code == 0
    assert result.output.startswith("8 segments, 8 of them new or grown: ")
    assert len(list((tmp_path / "logs-compact").rglob("*.parquet"))) == 1


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(log, ["compact", str(tmp_path / "nowhere")])
    assert (result.exit_code, result.output) == (
        2, f"triack log compact: no such directory: {tmp_path / 'nowhere'}\n",
    )  # fmt: skip


def saved(folder: Path) -> Path:
    healthy().save(folder / "logs")
    return folder / "logs"


def prune(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(log, ["prune", *map(str, arguments)])
    return result.exit_code, result.output


def test_prune_says_what_it_removed(tmp_path: Path) -> None:
    logs = saved(tmp_path)
    before = len(list(logs.rglob("*.jsonl*")))
    assert prune(logs, "--keep", "0s", "--dry-run")[1].startswith("6 segments would be removed: ")
    assert len(list(logs.rglob("*.jsonl*"))) == before
    code, output = prune(logs, "--keep", "0s")
    assert (code, output.startswith("6 segments removed: ")) == (0, True)
    assert prune(logs, "--keep", "0s") == (0, "0 segments removed: 0 records, 0 bytes\n")
    assert replay([logs], engine="local").verdict == "pass"


def test_prune_tells_programs_everything(tmp_path: Path) -> None:
    told = json.loads(prune(saved(tmp_path), "--keep", "0", "--json")[1])
    assert (len(told["removed"]), told["verdict"]["verdict"], told["refused"]) == (6, "pass", False)
    assert Path(told["summary"]).stat().st_size == told["summary_bytes"]


def test_logs_that_break_a_promise_are_not_pruned(tmp_path: Path) -> None:
    plant("handed_twice")[0].save(tmp_path / "logs", number=False)
    code, output = prune(tmp_path / "logs", "--keep", "0s")
    assert code == 1
    assert "the logs break promises, and are the evidence: nothing was removed" in output
    assert prune(tmp_path / "logs", "--keep", "0s", "--accept-broken")[0] == 0
    assert replay([tmp_path / "logs"], engine="local").verdict == "fail"


@pytest.mark.parametrize("age", ["x", "30", "-1d", "3w", "1e9", ""])
def test_an_age_is_a_number_and_a_unit(tmp_path: Path, age: str) -> None:
    code, output = prune(tmp_path, "--keep", age)
    assert (code, "is no age, such as 30d, 12h, 90m or 30s" in output) == (2, age != "30")


@pytest.mark.parametrize(("age", "seconds"), [("90m", 5_400), ("1.5h", 5_400), ("2d", 172_800), ("7", 7), ("7s", 7)])
def test_ages(age: str, seconds: float) -> None:
    assert Age().convert(age, None, None) == seconds
