"""T12: a million messages for a node that is away: their memory, and how fast they leave when it is back.

    python -m triack.tools.bench.backlog OPTIONS

is the sending node, of both its lives.
"""

import asyncio
import time
from dataclasses import replace

from triack.node.control.tasks import first_of
from triack.tools.bench.application import Source
from triack.tools.bench.figures import Result
from triack.tools.bench.options import Meter, Options
from triack.tools.bench.process import resident_bytes
from triack.tools.bench.rows import MIB, Row
from triack.tools.bench.run import CHILD, Progress, follow, judge
from triack.tools.bench.systems.own import OwnOutlet
from triack.tools.bench.work import Work
from triack.tools.demo.child import Report, run_child, tell, tell_regularly
from triack.tools.demo.run import Child, make_key
from triack.tools.ports import free_port

FULL = 1_000_000
"""The row's number; fewer by default, as a million need a minute at each run."""
_MODULE = "triack.tools.bench.backlog"
REST_S = 1.0


async def _fill(options: Report, stopping: asyncio.Event) -> None:
    async with OwnOutlet(options) as outlet:
        source = Source(Work(**options["work"]), outlet)
        idle_bytes = resident_bytes()

        async def fill() -> None:
            await source.run()
            await outlet.flush()
            await asyncio.sleep(REST_S)
            tell({**source.progress(), "sender_facts": {"idle": idle_bytes, "full": resident_bytes()}, "done": True})
            await asyncio.Event().wait()

        await first_of(fill(), tell_regularly(source.progress), stopping.wait())


async def _drain(options: Report, stopping: asyncio.Event) -> None:
    """The second life: it is opened with all of them, and sends them when the other node comes."""
    began = time.monotonic()
    async with OwnOutlet(options) as outlet:
        opened_s = time.monotonic() - began
        await asyncio.sleep(REST_S)
        facts = {"opened_s": opened_s, "opened": resident_bytes()}
        tell({"first_ns": time.monotonic_ns(), "sender_facts": facts, "done": True})
        cpu_ns = time.process_time_ns()
        await stopping.wait()
        cpu_s = (time.process_time_ns() - cpu_ns) / 1e9
        tell({"sender_cpu_s": cpu_s, "sender_facts": {**facts, **outlet.facts(), "drained": resident_bytes()}})


async def _work(options: Report, stopping: asyncio.Event) -> None:
    await (_fill if options["role"] == "fill" else _drain)(options, stopping)


async def measure_backlog(row: Row, options: Options, meter: Meter, result: Result) -> None:
    """Fill, open again, let the other node start."""
    shaped = options.shaped(row.work)
    messages = shaped.messages or 0
    work = replace(shaped, in_flight_bytes=2 * shaped.size * messages, complete=False, seconds=0)
    if messages != FULL:
        result.note(f"{messages:,} messages; the row asks for {FULL:,} (--messages {FULL}), which take minutes")
    for number in range(options.runs):
        name = f"{row.name} {number + 1}/{options.runs}"
        meter.begin(name, work)
        progress, idle_bytes, full_bytes = await _one(work, options, number, meter)
        outcome = judge(replace(work, complete=True), progress)
        result.handle(outcome)
        facts = progress.sender_facts
        drained = (progress.last_ns - progress.began_ns) / 1e9
        values = {
            "memory above idle": (max(full_bytes, facts["opened"]) - idle_bytes) / MIB,
            "drained": progress.delivered / drained if drained else 0.0,
            "opened again": facts["opened_s"],
        }
        for figure, value in values.items():
            result.figures[figure].values.append(value)
        meter.say(f"{name}: {', '.join(f'{figure} {value:,.1f}' for figure, value in values.items())}; {outcome.flaw}")


async def _one(work: Work, options: Options, number: int, meter: Meter) -> tuple[Progress, int, int]:
    folder = options.folder / f"backlog-{number}"
    address = f"udp://127.0.0.1:{free_port()}"
    keys = {name: "" if work.insecure else make_key(folder / name) for name in ("sender", "receiver")}
    found = {"address": address, "key": keys["receiver"]}
    shared: Report = {"system": "triack", "work": work.to_json(), "log": str(folder / "logs"), "found": found}
    shared |= {"data": str(folder / "sender")}
    filled = Progress()
    meter.watch(filled)
    async with Child.running("sender", {**shared, "role": "fill"}, _MODULE) as child:
        await follow((child,), work, filled)
        await child.finish(filled.handle)
    progress = Progress()
    meter.watch(progress)
    async with Child.running("sender", {**shared, "role": "drain"}, _MODULE) as sender:
        while not progress.done:
            progress.handle(await sender.next_report())
        progress.sent = filled.sent
        port = int(address.rpartition(":")[2])
        receiving = {**shared, "role": "receiver", "data": str(folder / "receiver"), "sender_key": keys["sender"]}
        async with Child.running("receiver", {**receiving, "port": port}, CHILD) as receiver:
            await follow((sender, receiver), replace(work, complete=True), progress)
            for end in (receiver, sender):
                await end.finish(progress.handle)
    return progress, filled.sender_facts["idle"], filled.sender_facts["full"]


if __name__ == "__main__":
    run_child(_work)
