"""T11 and its growth: how fast a replay on Spark judges the logs of a run, and of many like it.

A run writes logs. Copies in which every node and every session has another id are the logs of further pairs of nodes;
the same records repeated are those of one giant session. A replay of few logs and one of many show the cost of one more
record, without the start of Spark.
"""

import asyncio
import json
import re
import sys
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from triack.base.errors import TriackError
from triack.tools.bench.figures import Result
from triack.tools.bench.options import Meter, Options
from triack.tools.bench.process import peak_bytes, processor_s
from triack.tools.bench.rows import GIANT, GROWN, LOSSY, MIB, PARQUET, PLAIN, Row, growth_figure
from triack.tools.bench.run import Between, Outcome, run_once
from triack.tools.bench.splicing import lengthen
from triack.tools.bench.systems.catalogue import system_of
from triack.tools.bench.work import Work
from triack.tools.demo.child import Report
from triack.tools.demo.relay import Relay, rough
from triack.tools.replay.log.compact import compact
from triack.tools.replay.log.files import Record, find_logs, read_records

MASTER = "local[2]"
RECORDS = 5_000_000
"""One for each packet, see ``count_packets``: the row asks for this many, or more."""
QUICK_RUNS = 2
LOSS = 0.1
LOSSY_SHARE = 4
"""A lossy run lasts this many times as long, or has one in this many messages, as it makes less log in a time."""
REPLAY_S = 1_800.0
LOOK_S = 0.1
_IDS = re.compile(rb'"([0-9a-f]{32}|[0-9a-f]{16})"')
"""Nodes and sessions, wherever a record has them."""


@dataclass(frozen=True, slots=True)
class Made:
    """The logs of a run, from which the logs of many runs are made."""

    logs: Path
    records: int

    def times(self, records: int) -> int:
        """The number of runs whose logs have that many records, or more."""
        return max(QUICK_RUNS, -(-records // self.records))


async def measure_replay(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """Make logs, then replay few and many of them, in each form."""
    plain = await _make(row, PLAIN, options, meter, result)
    times = QUICK_RUNS if options.quick else plain.times(RECORDS)
    forms = {PLAIN: (plain, _pairs, times)}
    if not options.quick:
        lossy = await _make(row, LOSSY, options, meter, result)
        forms |= {PARQUET: (plain, _columns, times), GIANT: (plain, _giant, times)}
        forms |= {LOSSY: (lossy, _pairs, lossy.times(RECORDS))}
    result.note("one record for each packet; what one more costs, beside it what all cost with Spark's start")
    for number in range(options.runs):
        for form, (made, many, count) in forms.items():
            name = f"{row.name} {form} {number + 1}/{options.runs}"
            meter.begin(name, row.work)
            rate = await _rate(name, made, [many(made, 1), many(made, count)], count, meter, result)
            if form == GIANT:
                rate /= result.figures[PLAIN].values[-1]
            result.figures[form].values.append(rate)


async def _rate(name: str, made: Made, logs: list[list[Path]], times: int, meter: Meter, result: Result) -> float:
    """Replay few and many logs; return how many records more are judged in a second."""
    few, many = [await _replay(some) for some in logs]
    result.verified = result.verified and few["verdict"] == many["verdict"] == "pass"
    records, seconds = made.records * times, many["took_s"] - few["took_s"]
    total: float = records / many["took_s"]
    rate: float = made.records * (times - 1) / seconds if seconds > 0 else total
    drivers = " and ".join(f"{told['driver_bytes'] / MIB:,.0f}" for told in (few, many))
    form = name.rpartition(" ")[0]
    result.details |= {f"{form} records": records, f"{form} total records/s": round(total)}
    result.details |= {f"{form} driver MiB": round(many["driver_bytes"] / MIB)}
    meter.say(
        f"{name}: {rate:,.0f} records/s beyond the first {made.records:,}; {records:,} in {many['took_s']:.1f} s "
        f"with the start, {total:,.0f}/s; driver {drivers} MiB; verdict: {many['verdict']}"
    )
    return rate


async def measure_growth(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """Replay logs of more and more records, and tell how long each replay takes."""
    plain = await _make(row, PLAIN, options, meter, result)
    lossy = plain if options.quick else await _make(row, LOSSY, options, meter, result)
    for form, made, many in ((PLAIN, plain, _pairs), (GIANT, plain, _giant), (LOSSY, lossy, _pairs)):
        first: Report | None = None
        for millions in GROWN:
            times = QUICK_RUNS if options.quick else made.times(millions * 1_000_000)
            name = growth_figure(form, millions)
            meter.begin(f"{row.name} {name}", row.work)
            told = await _replay(many(made, times))
            told["all"] = made.records * times
            result.verified = result.verified and told["verdict"] == "pass"
            result.figures[name].values.append(told["took_s"])
            first = _tell_growth(f"{row.name} {name}", name, told, first, meter, result)


def _tell_growth(what: str, name: str, told: Report, first: Report | None, meter: Meter, result: Result) -> Report:
    """Report a replay's rates: of all its records, and of those beyond the first replay's, which is returned."""
    records, took_s, busy_s = told["all"], told["took_s"], told["processor_s"]
    driver_mib = round(told["driver_bytes"] / MIB)
    result.details |= {f"{name} records": records, f"{name} driver MiB": driver_mib}
    result.details |= {f"{name} processor s": round(busy_s, 1), f"{name} a processor s": round(records / (busy_s or 1))}
    beyond = ""
    if first is not None and busy_s > first["processor_s"] and took_s > first["took_s"]:
        more = records - first["all"]
        rate = more / (busy_s - first["processor_s"])
        result.details[f"{name} more a processor s"] = round(rate)
        beyond = f"; {more:,} more at {more / (took_s - first['took_s']):,.0f}/s, {rate:,.0f} a processor second"
    meter.say(
        f"{what}: {records:,} records in {took_s:.1f} s, {records / took_s:,.0f}/s, processors {busy_s:.1f} s, "
        f"{records / (busy_s or 1):,.0f} a processor second{beyond}; driver {driver_mib:,} MiB; "
        f"verdict: {told['verdict']}"
    )
    return first or told


async def _make(row: Row, form: str, options: Options, meter: Meter, result: Result) -> Made:
    work, folder = options.shaped(row.work), options.folder / form.replace(" ", "-").replace("%", "percent")
    if form == LOSSY:
        messages = None if work.messages is None else max(1, work.messages // LOSSY_SHARE)
        work = replace(work, messages=messages, seconds=work.seconds * LOSSY_SHARE)
    meter.begin(f"{row.name} {form}: a run to be replayed", work)
    result.handle(await _run(work, folder, LOSS if form == LOSSY else 0.0, meter))
    logs = folder / "logs"
    return Made(logs, sum(count_packets(record) for log in find_logs([logs]) for record in read_records(log)))


def count_packets(record: Record) -> int:
    """Return how many packets a record is about; 1 for a record of something else.

    How many packets a record of a burst has depends on the machine. Counted by packets, the records of one run are as
    many on each machine.
    """
    if record["event"] == "handed" and "counts" in record:
        return sum(packets for packets, _ in record["counts"])
    packets: int = record.get("packets", 1)
    return packets


def _pairs(made: Made, times: int) -> list[Path]:
    copies = [(number, made.logs.parent / f"logs-{number}") for number in range(1, times)]
    for number, folder in copies:
        if not folder.exists():
            copy_logs(made.logs, folder, number)
    return [made.logs, *(folder for _, folder in copies)]


def _columns(made: Made, times: int) -> list[Path]:
    folders = [(logs, logs.with_name(f"{logs.name}-parquet")) for logs in _pairs(made, times)]
    for logs, folder in folders:
        if not folder.exists():
            compact(logs, folder)
    return [folder for _, folder in folders]


def _giant(made: Made, times: int) -> list[Path]:
    folder = made.logs.parent / f"giant-{times}"
    if not folder.exists():
        lengthen(made.logs, folder, times)
    return [folder]


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
    """Write logs again as those of other nodes."""
    to.mkdir(parents=True)
    for file in sorted(logs.iterdir()):
        content = file.read_bytes()
        # An id is in few lines, as later lines refer to the first.
        for name in set(_IDS.findall(content)):
            other = sha256(b"%d " % number + name).hexdigest()[: len(name)].encode()
            content = content.replace(b'"%b"' % name, b'"%b"' % other)
        (to / f"copy{number}-{file.name}").write_bytes(content)


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
    seen = {"driver_bytes": 0.0, "processor_s": 0.0}
    watch = asyncio.create_task(_watch(process.pid, seen))
    try:
        async with asyncio.timeout(REPLAY_S):
            said, complaint = await process.communicate()
    finally:
        watch.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = said.decode().strip().splitlines()
    if not lines:
        raise TriackError(f"bench: the replay gave no verdict: {complaint.decode().strip()}")
    found: Report = json.loads(lines[-1])
    return {**found, "took_s": loop.time() - began, **seen}


async def _watch(pid: int, seen: dict[str, float]) -> None:
    while True:
        seen["driver_bytes"] = peak_bytes(pid) or seen["driver_bytes"]
        seen["processor_s"] = max(seen["processor_s"], processor_s(pid))
        await asyncio.sleep(LOOK_S)
