"""The node of a directory that no process runs, and the session log that it goes on with."""

import json
import shutil
from pathlib import Path

import pytest

import triack
from tests.node.nodes import WAIT, make, quick
from triack.node.at_rest import open_at_rest
from triack.tools.replay.run import replay


async def run_once(data: Path, log: Path | None) -> None:
    """A node keeps two messages."""
    async with make("plant", data, log=log, settings=quick(close_timeout_s=0.0)) as node:
        await (await node.send_many("orders", [b"1", b"2"])).ordered(WAIT)


def starts_in(log: Path) -> list[tuple[int, str]]:
    """Which starts have records there, in files called after whom."""
    files = sorted(log.iterdir())
    return [(json.loads(file.read_text().splitlines()[0])["incarnation"], file.name.split("-")[0]) for file in files]


async def test_what_is_looked_at_is_missing_in_no_replay(tmp_path: Path) -> None:
    """Nobody says where the log is; what was purged meanwhile is accounted for."""
    data, log = tmp_path / "data", tmp_path / "log"
    await run_once(data, log)
    async with open_at_rest(data) as rest:
        assert rest.queue_lengths()["orders"] == 2
        assert await rest.purge("orders") == 2
    await run_once(data, log)
    assert starts_in(log) == [(1, "plant"), (2, "plant"), (3, "plant")]
    verdict = replay(log)
    assert (verdict.verdict, verdict.missing) == ("pass", [])


@pytest.mark.slow
@pytest.mark.gate
async def test_what_recorded_nothing_goes_on_with_nothing(tmp_path: Path) -> None:
    """The last start was without a log, or its log has been removed: no folder is made for a look."""
    data, log = tmp_path / "data", tmp_path / "log"
    await run_once(data, log)
    await run_once(data, None)
    async with open_at_rest(data):
        pass
    assert starts_in(log) == [(1, "plant")]
    await run_once(data, log)
    shutil.rmtree(log)
    async with open_at_rest(data):
        pass
    assert not log.exists()


async def test_a_copy_leaves_the_log_of_the_original_alone(tmp_path: Path) -> None:
    """Its starts are others with the same numbers."""
    data, log = tmp_path / "data", tmp_path / "log"
    await run_once(data, log)
    shutil.copytree(data, tmp_path / "copy")
    async with open_at_rest(tmp_path / "copy") as rest:
        assert rest.queue_lengths()["orders"] == 2
    assert starts_in(log) == [(1, "plant")]


async def test_a_log_that_cannot_be_written_keeps_nobody_from_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log may be another user's. A node that is started with that log raises, and does not open it."""
    data, log = tmp_path / "data", tmp_path / "log"
    await run_once(data, log)

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("triack.node.files.log_file.LogFile._open_next", refuse)
    async with open_at_rest(data) as rest:
        assert rest.queue_lengths()["orders"] == 2
    assert f"open session log in {log}: Permission denied; what is done now is not in it" in caplog.text
    with pytest.raises(triack.StoreError, match="open session log in"):
        await run_once(data, log)
