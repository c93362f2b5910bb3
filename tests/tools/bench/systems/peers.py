"""A run of a peer, for the tests of each."""

from pathlib import Path

import pytest

from triack.base.errors import TriackError
from triack.tools.bench.run import Outcome, run_once
from triack.tools.bench.servers import running
from triack.tools.bench.systems.catalogue import SYSTEMS
from triack.tools.bench.work import Work


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
