"""T11: how fast a replay on Spark judges the logs of a run, and of many like it.

A run writes logs; copies of them, in which every node and every session has another id, are the logs of further pairs
of nodes. A replay of few and one of many tell what a record more costs, and the start of Spark is told apart.
"""

import asyncio
import json
import re
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from triack.base.errors import TriackError
from triack.tools.bench.figures import Result
from triack.tools.bench.options import Meter, Options
from triack.tools.bench.rows import Row
from triack.tools.bench.run import Between, Outcome, run_once
from triack.tools.bench.systems.catalogue import system_of
from triack.tools.bench.work import Work
from triack.tools.demo.child import Report
from triack.tools.demo.relay import Relay, rough
from triack.tools.replay.files import find_logs, read_records
from triack.tools.replay.run import require_spark
from triack.tools.replay.version1 import count_records

__all__ = ["copy_logs", "measure_replay"]

MASTER = "local[2]"
"""As the row has it."""
FEW, MANY = 1, 8
"""Pairs of nodes in the two replays."""
KINDS = {"clean": 0.0, "10 % loss": 0.1}
"""What was on the way of the run whose logs are read: the share of datagrams that is lost each way."""
REPLAY_S = 1_800.0
"""For one replay."""
_IDS = re.compile(rb'"([0-9a-f]{32}|[0-9a-f]{16})"')
"""Nodes and sessions, wherever a record has them."""


async def measure_replay(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """Make logs, then replay few and many of them."""
    try:
        require_spark()
    except TriackError as error:
        result.note(f"not run: {error}")
        return
    work = options.shaped(row.work)
    result.note(f"records as version 1 wrote them, of {FEW} and of {MANY} pairs of nodes; 5 million up are asked for")
    for kind, loss in list(KINDS.items())[: 1 if options.quick else None]:
        folder = options.folder / f"replay-{loss:g}"
        name = f"{row.name} {kind}"
        meter.begin(f"{name}: a run to be replayed", work)
        outcome = await _run(work, folder, loss, meter)
        result.handle(outcome)
        for copy in range(1, MANY):
            copy_logs(folder / "logs", folder / f"logs-{copy}", copy)
        logs = [folder / "logs", *(folder / f"logs-{copy}" for copy in range(1, MANY))]
        packets = sum(count_records(record) for log in find_logs([logs[0]]) for record in read_records(log))
        for number in range(options.runs):
            meter.begin(f"{name} {number + 1}/{options.runs}", work)
            few, many = [await _replay(logs[:count]) for count in (FEW, MANY)]
            records, seconds = packets * (MANY - FEW), many["took_s"] - few["took_s"]
            passed = few["verdict"] == many["verdict"] == "pass"
            result.verified = result.verified and passed
            total = packets * MANY / many["took_s"]
            rate = records / seconds if seconds > 0 else total
            result.figures[kind].values.append(rate)
            result.details |= {f"{kind} records": packets * MANY, f"{kind} total records/s": round(total)}
            meter.say(
                f"{name}: {rate:,.0f} records/s beyond the first {packets * FEW:,}; {packets * MANY:,} in "
                f"{many['took_s']:.1f} s with the start, {total:,.0f}/s; verdict: {many['verdict']}"
            )


async def _run(work: Work, folder: Path, loss: float, meter: Meter) -> Outcome:
    relays: list[Relay] = []

    async def between(found: Report) -> Report:
        relay = Relay(target=found["address"], faults=rough(loss=loss), seed=1)
        relays.append(relay)
        await relay.start()
        return {**found, "address": relay.address}

    way: Between | None = between if loss else None
    try:
        return await run_once(system_of("triack"), replace(work, log=True), folder, {}, meter.watch, between=way)
    finally:
        for relay in relays:
            await relay.close()


def copy_logs(logs: Path, to: Path, number: int) -> None:
    """Write logs again as those of other nodes.

    Args:
        logs: the folder that is read.
        to: the folder that is made.
        number: of the copy: another one gives other ids.
    """
    known: dict[bytes, bytes] = {}

    def other(found: re.Match[bytes]) -> bytes:
        name = found.group(1)
        if name not in known:
            known[name] = sha256(b"%d " % number + name).hexdigest()[: len(name)].encode()
        return b'"' + known[name] + b'"'

    to.mkdir(parents=True)
    for file in sorted(logs.iterdir()):
        (to / f"copy{number}-{file.name}").write_bytes(_IDS.sub(other, file.read_bytes()))


async def _replay(logs: list[Path]) -> Report:
    command = [
        sys.executable,
        "-m",
        "triack",
        "replay",
        *map(str, logs),
        "--engine",
        "spark",
        "--master",
        MASTER,
        "--json",
    ]
    loop = asyncio.get_running_loop()
    began = loop.time()
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(REPLAY_S):
            said, complaint = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = said.decode().strip().splitlines()
    if not lines:
        raise TriackError(f"bench: the replay gave no verdict: {complaint.decode().strip()}")
    found: Report = json.loads(lines[-1])
    return {**found, "took_s": loop.time() - began}
