"""Finding logs, and reading lines that are whole."""

import json
from pathlib import Path

import pytest

from tests.tools.replay.builder import ALPHA, healthy
from triack.base.errors import ReplayError
from triack.tools.replay.files import find_damage, find_logs, parse_records, read_records, torn_record
from triack.tools.replay.run import replay


def test_a_torn_last_line_is_skipped(tmp_path: Path) -> None:
    """A crash in the middle of a write loses that record and nothing else."""
    directories = healthy().save(tmp_path)
    with (tmp_path / "beta" / "beta-000002-000002.jsonl.open").open("a") as file:
        file.write('{"v": 1, "event": "pack')
    verdict = replay(directories, engine="local")
    assert (verdict.verdict, verdict.torn_lines) == ("pass", 1)


def test_a_damaged_line_names_its_file_and_number(tmp_path: Path) -> None:
    """Damage in the middle ends the replay: a verdict over half a record would prove nothing."""
    directories = healthy().save(tmp_path)
    damage(tmp_path / "alpha" / "alpha-000001-000001.jsonl", 3, '{"v": 1, "ev\n')
    with pytest.raises(ReplayError, match=r"alpha-000001-000001\.jsonl line 3 is damaged"):
        replay(directories, engine="local")


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    """A log of a later schema is not guessed at."""
    world = healthy()
    world.beta.records[5]["v"] = 2
    with pytest.raises(ReplayError, match="has schema version 2"):
        verdict_of(world, tmp_path)


@pytest.mark.parametrize(("name", "said"), [("empty", "no session log"), ("nowhere", "no such directory")])
def test_no_logs_is_an_error(tmp_path: Path, name: str, said: str) -> None:
    """Nothing to read is no pass."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(ReplayError, match=said):
        replay([tmp_path / name], engine="local")


def test_no_path_is_an_error() -> None:
    """A library user may have found nothing to give."""
    with pytest.raises(ReplayError, match=r"^no directory with session logs was given$"):
        replay([], engine="local")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"v": 1, "event": "node_started", "node": 7}', "field 'node' is missing or of the wrong type"),
        ('{"v": 1, "ev', "Invalid control character at: line 1 column 13 (char 12)"),
    ],
)
def test_a_first_line_that_does_not_fit_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """It says where the segment belongs, so both engines look at it before they start."""
    directories = healthy().save(tmp_path)
    file = tmp_path / "alpha" / "alpha-000001-000001.jsonl"
    damage(file, 1, f"{text}\n")
    with pytest.raises(ReplayError) as refused:
        replay(directories, engine="local")
    assert str(refused.value) == f"{file} line 1 is damaged: {reason}"


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Here it is a directory that is called like a log."""
    directories = healthy().save(tmp_path)
    (tmp_path / "alpha" / "alpha-000009-000001.jsonl").mkdir()
    with pytest.raises(ReplayError) as refused:
        replay(directories, engine="local")
    assert str(refused.value) == f"cannot read {tmp_path}/alpha/alpha-000009-000001.jsonl: Is a directory"


def damage(file: Path, line: int, text: str) -> None:
    lines = file.read_text().splitlines(keepends=True)
    lines[line - 1] = text
    file.write_text("".join(lines))
