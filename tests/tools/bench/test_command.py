"""``triack bench`` as a user types it."""

import csv
import json
from pathlib import Path

import pytest

from tests.tools.processes import message_of, triack
from triack.tools.bench.systems.catalogue import SYSTEMS

SMALL = ("--runs", "1", "--messages", "300")


@pytest.mark.slow
def test_the_last_line_is_one_object() -> None:
    ended = triack("bench", "T1", *SMALL, "--versus", "tcp", "--json")
    found = json.loads(ended.stdout.splitlines()[-1])
    assert ended.returncode == 0
    assert {"goal", "floor", "median", "min", "max", "runs", "versus_median", "ratio"} <= set(found)
    assert (found["row"], found["versus"], found["verified"]) == ("T1", "tcp", True)
    assert b"T1 triack 1/1: " in ended.stderr


@pytest.mark.slow
def test_several_rows_are_a_list_a_page_and_a_table(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.html"
    data = tmp_path / "data"
    ended = triack("bench", "T1", "T5", "--runs", "1", "--messages", "20", "--data", data, "--report", page)
    assert ended.returncode == 0
    assert b"T5" in ended.stdout
    assert "<td>T5</td>" in page.read_text()
    assert list(data.iterdir()) == []
    ended = triack("bench", "T5", "--runs", "1", "--messages", "20", "--csv")
    assert [row["row"] for row in csv.DictReader(ended.stdout.decode().splitlines())] == ["T5"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("T99",), "bench: no row T99"),
        (("T1", "--csv", "--json"), "bench: --csv, --markdown and --json exclude each other"),
        (("--versus", "kafka"), "'kafka' is not one of"),
        (("--window", "wide"), "'wide' is not a valid window"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[str, ...], said: str) -> None:
    ended = triack("bench", *arguments)
    assert ended.returncode == 2
    assert said in message_of(ended)


def test_a_place_that_cannot_be_written_is_reported_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    ended = triack("bench", "--report", tmp_path / "taken" / "page.html")
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert "cannot write the report" in message_of(ended)
    ended = triack("bench", "--data", tmp_path / "taken" / "data")
    assert f"bench: cannot work in {tmp_path}/taken/data: Not a directory" in message_of(ended)


def test_a_peer_that_is_not_installed_is_reported_with_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = triack("bench", "T1", "--versus", "nats")
    assert ended.returncode == 1
    assert f"apt-get install {SYSTEMS['nats'].package}" in message_of(ended)
