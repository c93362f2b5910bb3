"""Small runs of the systems that are compared: counted, and in order."""

from pathlib import Path

import pytest

from triack.base.errors import TriackError
from triack.tools.bench.run import Outcome, run_once
from triack.tools.bench.servers import running
from triack.tools.bench.systems.catalogue import PEERS, SYSTEMS
from triack.tools.bench.work import Work

pytestmark = pytest.mark.slow

SYNCED = {"redis": ["synced once"], "outbox": ["synced at both ends"]}
"""What is said of the systems that write to the disk."""


async def ran(name: str, folder: Path, work: Work) -> Outcome:
    """Run a peer; skip the test, with what to install, if that is not there."""
    try:
        SYSTEMS[name].check()
    except TriackError as error:
        pytest.skip(str(error))
    async with running(name, folder / "server") as server:
        return await run_once(SYSTEMS[name], work, folder, server, lambda _progress: None)


async def whole_run(name: str, folder: Path, messages: int = 3_000) -> Outcome:
    """A run in which everything came, once and in order."""
    found = await ran(name, folder, Work(messages=messages))
    assert (found.sent, found.delivered, found.flaw) == (messages, messages, "")
    return found


@pytest.mark.parametrize("system", PEERS)
async def test_a_stream_arrives(system: str, tmp_path: Path) -> None:
    """And no more is said of it than what was seen."""
    found = await whole_run(system, tmp_path)
    assert found.guarantee == ["every message once, in order", *SYNCED.get(system, [])]


@pytest.mark.parametrize("mode", ["paced", "single"])
@pytest.mark.parametrize("system", PEERS)
async def test_other_rows_can_be_compared(system: str, mode: str, tmp_path: Path) -> None:
    found = await ran(system, tmp_path, Work(messages=50, mode=mode, rate=200))  # type: ignore[arg-type]
    assert (found.delivered, found.flaw) == (50, "")
    assert bool(found.latencies) == (mode == "paced")
