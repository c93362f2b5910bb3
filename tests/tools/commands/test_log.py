"""``triack log``."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.tools.replay.builder import healthy
from triack.tools.commands.log import log

pytest.importorskip("pyarrow")


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
